"""Decisions as an allocation sees them: values of every first action, and what each uses of what is shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.problem import Shared
from ucsearch.certificate.certificate import CertifiedPanel
from ucsearch.certificate.claims import LEAST
from ucsearch.decision.decision import Decision, DecisionPanel, Outcome
from ucsearch.engine.arrays import Inputs, Outputs
from ucsearch.engine.plan import Plan
from ucsearch.errors import InputError
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings

__all__ = ["Case", "SearchSource", "case_of", "cases_of", "law_kind", "source_of", "use_table"]

Floats = NDArray[np.float64]


class SearchSource(NamedTuple):
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
    source: SearchSource | None = None  # what was searched, where limits of later steps need it

    def label(self, action: Any) -> str:
        """An action as the task calls it."""
        if action is None:
            return "nothing"
        place = self.actions.index(action) if action in self.actions else -1
        return str(self.task.label(place, action)) if place >= 0 else action_figure(action)


class _Sent(NamedTuple):
    """What a decision alone sends."""

    series: str
    outcome: Outcome
    action: Any  # None for nothing
    fallback: Any  # None where it is not allowed
    record: str


def cases_of(panel: DecisionPanel, series: Sequence[str]) -> list[Case]:
    """A panel's decisions as cases, without making them one by one."""
    action_of = panel.certified.plan.task.action_of
    fallbacks, allowed = panel.fallback, panel.fallback_feasible
    sent = [
        _Sent(
            name,
            Outcome(str(panel.outcome[w])),
            None if math.isnan(panel.action[w]) else action_of(float(panel.action[w])),
            action_of(float(fallbacks[w])) if allowed[w] else None,
            panel.records[w] if panel.records else "",
        )
        for w, name in enumerate(series)
    ]
    return _cases(panel.certified, np.arange(len(panel)), sent)


def case_of(decision: Decision, series: str, index: int) -> Case:
    """A decision as a case; one without inputs (a refused trace) cannot take part."""
    certificate = decision.certificate
    if certificate is None:
        raise InputError("decisions", "a refused trace", "decisions with a certificate", index=index)
    fallback = decision.fallback_action if decision.fallback_feasible else None
    sent = _Sent(series, decision.outcome, decision.action, fallback, decision.record_id)
    (case,) = _cases(certificate.panel, np.array([certificate.plan.window]), [sent])
    return case


def _cases(certified: CertifiedPanel, windows: NDArray[np.int64], sent: Sequence[_Sent]) -> list[Case]:
    """Cases of these windows: what is proved of every first action, and what was searched."""
    plan = certified.plan
    evidence = certified.evidence.of(windows)
    allowed, sizes = evidence.actions, np.fmax(evidence.lower_size, evidence.upper_size)
    lower = np.where(allowed, evidence.lower, np.nan)
    # Found and proved values of one path may differ by rounding.
    upper = np.where(allowed, np.where(np.isnan(lower), evidence.upper, np.maximum(evidence.upper, lower)), np.nan)
    proved: NDArray[np.bool_] = np.asarray((~allowed | ~np.isnan(evidence.upper)).all(axis=1))
    size = np.fmax.reduce(np.where(allowed & ~np.isnan(sizes), sizes, 0.0), axis=1, initial=0.0)
    basis = _basis(plan.settings, plan.trace.coupling)
    counts = searched_counts(plan.outputs)
    cases = []
    for k, (w, alone) in enumerate(zip(windows.tolist(), sent, strict=True)):
        start = plan.start(w)
        cases.append(
            Case(
                series=alone.series,
                task=plan.task,
                state=start.state,
                params=start.params,
                actions=tuple(start.actions),
                lower=lower[k],
                upper=upper[k],
                proved=bool(proved[k]),
                basis=basis,
                outcome=alone.outcome,
                action=alone.action,
                fallback=alone.fallback,
                record=alone.record,
                size=float(size[k]),
                eps=float(evidence.share[k]),
                source=SearchSource(plan.layout, plan.settings, plan.inputs, w, counts[w], plan.engine == "compiled"),
            )
        )
    return cases


def source_of(plan: Plan) -> SearchSource:
    """What a single search read and counted."""
    counts = searched_counts(plan.outputs)[plan.window]
    return SearchSource(plan.layout, plan.settings, plan.inputs, plan.window, counts, plan.engine == "compiled")


def searched_counts(outputs: Outputs) -> NDArray[np.int64]:
    """(W, 3) states, edges and transitions of closed-loop searches."""
    return outputs.out_i[:, [4, 3, 2]]


def _basis(settings: Settings, coupling: str) -> tuple[Any, ...]:
    return (settings.mode, settings.spread if settings.risk else None, settings.risk, law_kind(settings.mode, coupling))


def law_kind(mode: int, coupling: str) -> str | None:
    """What values rest on besides mode and risk: in closed mode the kind of law."""
    return coupling if mode == MODES["closed"] else None


def use_table(cases: Sequence[Case], shared: Shared) -> Floats:
    """(N, m) units used by every available first action of every series; 0 where an action is unavailable."""
    table = np.zeros((len(cases), max((len(c.actions) for c in cases), default=0)))
    for i, case in enumerate(cases):
        function = shared.use
        if isinstance(function, str):
            uses = case.task.uses
            if function not in uses:
                expected = f"one of {sorted(uses)} of {case.task.name!r}"
                raise InputError(f"use of {shared.name}", repr(function), expected)
            function = uses[function]
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
