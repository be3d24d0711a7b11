"""Decisions as an allocation sees them: values of every first action, and what each uses of what is shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.shared import Shared
from ucsearch.certificate.claims import LEAST, shares
from ucsearch.decision.decision import Decision, DecisionPanel, Outcome
from ucsearch.engine.arrays import Inputs, Outputs
from ucsearch.engine.plan import Plan
from ucsearch.errors import InputError
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout, own_row
from ucsearch.policies import MODES, Settings

__all__ = ["Case", "Source", "case_of", "cases_of", "law_kind", "source_of", "use_table"]

Floats = NDArray[np.float64]


class Source(NamedTuple):
    """What was searched, to be valued again at prices. Windows of one panel share `inputs`."""

    layout: Layout
    settings: Settings
    inputs: Inputs
    window: int
    counts: NDArray[np.int64]  # (3,) states, edges, transitions
    compiled: bool


@dataclass(frozen=True, eq=False)
class Case:
    """One series' decision as an allocation sees it."""

    series: str
    task: Any
    state: Any
    params: Any
    actions: tuple[Any, ...]  # (m,) numbers or tuples, NaN where unavailable
    lower: Floats  # (m,) value of the best path found, NaN where none is known
    upper: Floats  # (m,) no path is worth more; NaN outside the action set
    proved: bool  # every action of the set has such a bound
    basis: tuple[Any, ...]  # mode, spread, risk, kind of law: alike for all, or scores cannot be added up
    outcome: Outcome
    action: Any  # what it would do alone, None for nothing
    fallback: Any  # None where the task's fallback is not allowed
    record: str = ""  # id of the decision's record
    size: float = 0.0  # the most that was added up for one of its values, in absolute terms
    eps: float = LEAST  # share of it that may be rounding
    source: Source | None = None  # what was searched, where limits of later steps need it

    def label(self, action: Any) -> str:
        """An action as the task calls it."""
        if action is None:
            return "nothing"
        place = self.actions.index(action) if action in self.actions else -1
        return str(self.task.label(place, action)) if place >= 0 else action_figure(action)


def cases_of(panel: DecisionPanel, series: Sequence[str]) -> list[Case]:
    """A panel's decisions as cases, without making them one by one."""
    plan, e = panel.certified.plan, panel.certified.evidence
    task, inputs = plan.task, plan.inputs
    lower = np.where(e.actions, e.lower, np.nan)
    # Found and proved values of one path may differ by rounding.
    upper = np.where(e.actions, np.fmax(e.upper, lower), np.nan)
    proved: NDArray[np.bool_] = np.asarray((~e.actions | ~np.isnan(e.upper)).all(axis=1))
    sizes = np.where(e.actions, np.fmax(e.lower_size, e.upper_size), 0.0)
    size = np.fmax.reduce(np.where(np.isnan(sizes), 0.0, sizes), axis=1, initial=0.0)
    basis = _basis(plan.settings, plan.trace.coupling)
    counts = searched_counts(plan.outputs)
    compiled = plan.engine == "compiled"
    cases = []
    for w, name in enumerate(series):
        start = plan.start(w)
        cases.append(
            Case(
                series=name,
                task=task,
                state=start.state,
                params=start.params,
                actions=tuple(start.actions),
                lower=lower[w],
                upper=upper[w],
                proved=bool(proved[w]),
                basis=basis,
                outcome=Outcome(str(panel.outcome[w])),
                action=None if math.isnan(panel.action[w]) else task.action_of(float(panel.action[w])),
                fallback=task.action_of(float(panel.fallback[w])) if panel.fallback_feasible[w] else None,
                record=panel.records[w] if panel.records else "",
                size=float(size[w]),
                eps=float(e.share[w]),
                source=Source(plan.layout, plan.settings, inputs, w, counts[w], compiled),
            )
        )
    return cases


def source_of(plan: Plan) -> Source:
    """What a single search read and counted."""
    counts = searched_counts(plan.outputs)[plan.window]
    return Source(plan.layout, plan.settings, plan.inputs, plan.window, counts, plan.engine == "compiled")


def searched_counts(outputs: Outputs) -> NDArray[np.int64]:
    """(W, 3) states, edges and transitions of closed-loop searches."""
    return outputs.out_i[:, [4, 3, 2]]


def _basis(settings: Settings, coupling: str) -> tuple[Any, ...]:
    return (settings.mode, settings.spread if settings.risk else None, settings.risk, law_kind(settings.mode, coupling))


def law_kind(mode: int, coupling: str) -> str | None:
    """What values rest on besides mode and risk: in closed mode the kind of law."""
    return coupling if mode == MODES["closed"] else None


def case_of(decision: Decision, series: str, index: int) -> Case:
    """A decision as a case; one without inputs (a refused trace) cannot take part."""
    c = decision.certificate
    if c is None:
        raise InputError("decisions", "a refused trace", "decisions with a certificate", index=index)
    plan = c.plan
    task, inputs, w = plan.task, plan.inputs, plan.window
    params = None
    if task.params_layout is not None:
        params = task.params_layout.build(own_row(inputs.params, w).tolist())
    lower, upper = np.full(len(plan.actions), np.nan), np.full(len(plan.actions), np.nan)
    for rival in c.rivals:
        lower[rival.index] = rival.score
        # Found and proved values of one path may differ by rounding.
        upper[rival.index] = rival.upper if math.isnan(rival.score) else max(rival.upper, rival.score)
    sizes = [x for r in c.rivals for x in (r.size, r.upper_size) if not math.isnan(x)]
    return Case(
        series=series,
        task=task,
        state=plan.layout.build(inputs.states[w].tolist()),
        params=params,
        actions=tuple(plan.actions),
        lower=lower,
        upper=upper,
        proved=c.proved,
        basis=_basis(plan.settings, plan.trace.coupling),
        outcome=decision.outcome,
        action=decision.action,
        fallback=decision.fallback_action if decision.fallback_feasible else None,
        record=decision.record_id,
        size=max(sizes, default=0.0),
        eps=float(own_row(shares(plan.settings, inputs), w)),
        source=source_of(plan),
    )


def use_table(cases: Sequence[Case], shared: Shared) -> Floats:
    """(N, m) units used by every available first action of every series; 0 where an action is unavailable."""
    table = np.zeros((len(cases), max((len(c.actions) for c in cases), default=0)))
    for i, case in enumerate(cases):
        function = shared.use
        if isinstance(function, str):
            known = case.task.uses
            if function not in known:
                raise InputError(
                    f"use of {shared.name}", repr(function), f"one of {sorted(known)} of {case.task.name!r}"
                )
            function = known[function]
        times = shared.factor(case.series)
        for a, action in enumerate(case.actions):
            if action != action:
                continue
            try:
                amount = float(function(case.state, action, case.params)) * times
            except Exception as error:
                seen = f"{type(error).__name__}: {error}"
                raise InputError(f"use of {shared.name}", seen, "a number", index=(case.series, action)) from None
            if not 0.0 <= amount < math.inf:
                raise InputError(
                    f"use of {shared.name}", amount, "a finite number of at least 0", index=(case.series, action)
                )
            table[i, a] = amount
    return table
