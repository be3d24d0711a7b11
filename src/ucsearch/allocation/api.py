"""`allocate`: decisions of many series under limits they share. The series' own proofs go in, one proof comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.allocation.problem import Missing, Problem, Resource
from ucsearch.allocation.result import Result, evaluate
from ucsearch.dispatch.decision import Decision, DecisionPanel, Outcome
from ucsearch.dispatch.gate import Reason
from ucsearch.errors import InputError
from ucsearch.frames import make_frame

__all__ = ["Allocation", "Case", "Share", "Shared", "allocate", "allocate_cases"]

Floats = NDArray[np.float64]
Serve = Literal["fallback", "best"]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One limit over many series' first actions."""

    name: str  # what is shared, such as "truck volume"
    limit: float | Mapping[str, float]  # units of the resource; with `per` one for each group
    use: str | Callable[..., float]  # name of one of the task's `uses`, or a function (s, a, p) -> units
    times: float | Mapping[str, float] = 1.0  # use is multiplied by this, by series, such as litres of one unit
    per: Mapping[str, str] | None = None  # group of each series (its truck, its warehouse); None: one limit for all

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("shared.name", repr(self.name), "a non-empty text")
        if isinstance(self.limit, Mapping) != (self.per is not None):
            raise InputError(f"limit of {self.name}", repr(self.limit), "one number, or with `per` one for each group")
        limits = self.limit.values() if isinstance(self.limit, Mapping) else (self.limit,)
        for limit in limits:
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0.0 <= limit < math.inf:
                raise InputError(f"limit of {self.name}", repr(limit), "a finite number of at least 0")


@dataclass(frozen=True, eq=False)
class Case:
    """One series' decision as an allocation sees it."""

    series: str
    task: Any
    state: Any
    params: Any
    actions: tuple[float, ...]  # (m,) NaN where unavailable
    lower: Floats  # (m,) value of the best path found, NaN where none is known
    upper: Floats  # (m,) no path is worth more; NaN outside the action set
    proved: bool  # every action of the set has such a bound
    basis: tuple[Any, ...]  # mode, spread, risk, law: alike for all, or scores cannot be added up
    outcome: Outcome
    action: float | None  # what it would do alone
    fallback: float | None  # None where the task's fallback is not allowed
    record: str = ""  # id of the decision's record


@dataclass(frozen=True)
class Share:
    """What one series gets and why."""

    series: str
    outcome: Outcome
    action: float | None
    label: str
    alone: float | None  # what it would have done without the limits
    alone_label: str
    reason: Reason
    pass_kind: str  # "allocated" where the allocation decided, "" else
    loss: float  # currency given up so that the limits hold, at the prices; NaN for series that keep their action
    uses: tuple[float, ...]  # units, one per shared limit
    binding: str  # the limit that made it less, "" when none did
    price: float  # currency per unit of that limit


@dataclass(frozen=True, eq=False)
class Allocation:
    """Shares of all series, what they are worth, and a bound on what any other allocation could be worth."""

    cases: tuple[Case, ...]
    shared: tuple[Shared, ...]
    free: NDArray[np.int64]  # numbers of the cases that take part
    result: Result | None  # None when no series takes part
    missing: tuple[Missing, ...]
    passed: bool
    served: bool  # whether the allocation leaves
    reason: Reason
    gap_limit: float | None  # currency
    gap_share: float
    serve: Serve
    record_id: str = ""
    uses: tuple[Floats, ...] = field(default=(), repr=False)  # per shared limit (N, m), units

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """One per series, in the order given."""
        place = {int(i): k for k, i in enumerate(self.free)}
        return tuple(self._share(i, place.get(i)) for i in range(len(self.cases)))

    def __getitem__(self, series: int | str) -> Share:
        if isinstance(series, str):
            number = self._numbers.get(series)
            if number is None:
                raise InputError("series", repr(series), "one of the allocated series")
            return self.shares[number]
        return self.shares[series]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {case.series: i for i, case in enumerate(self.cases)}

    def _share(self, i: int, k: int | None) -> Share:
        case, result = self.cases[i], self.result
        alone = case.action if case.outcome is Outcome.RELEASED else None
        outcome, action, reason, kind = case.outcome, case.action, Reason.NONE, ""
        loss, binding, price = math.nan, "", 0.0
        if k is not None and result is not None:
            if self.served:
                action, kind = case.actions[int(result.choice[k])], "allocated"
                outcome, loss, binding = Outcome.RELEASED, float(result.loss[k]), result.binding(k)
                price = next((p.shadow_price for p in result.table() if p.resource == binding), 0.0)
            else:
                outcome, action, reason = self._instead(case)
        chosen = math.nan if action is None else action
        place = case.actions.index(chosen) if chosen in case.actions else None
        uses = tuple(math.nan if place is None else float(u[i, place]) for u in self.uses)
        return Share(
            case.series, outcome, action, _label(case, action), alone, _label(case, alone), reason, kind, loss, uses,
            binding, price,
        )  # fmt: skip

    def _instead(self, case: Case) -> tuple[Outcome, float | None, Reason]:
        if self._fallbacks_fit and case.fallback is not None:
            return Outcome.FALLBACK, case.fallback, self.reason
        return Outcome.HOLD, None, self.reason

    @cached_property
    def _fallbacks_fit(self) -> bool:
        """Whether the fallbacks of all series together keep the limits; if not, nothing leaves."""
        places = []
        for case in self.cases:
            own = case.action if case.outcome is not Outcome.RELEASED else case.fallback
            places.append(case.actions.index(own) if own in case.actions else None)
        for shared, use in zip(self.shared, self.uses, strict=True):
            total: dict[str, list[float]] = {}
            for case, place, row in zip(self.cases, places, use, strict=True):
                group = _group(shared, case.series)
                if group is not None and place is not None:
                    total.setdefault(group, []).append(float(row[place]))
            if any(not math.fsum(v) <= _limit(shared, g) for g, v in total.items()):
                return False
        return True

    def explain(self, most: int = 10) -> str:
        """What is shared, what it costs, and the series it hurt most."""
        from ucsearch.allocation.words import explain_allocation

        return explain_allocation(self, most)

    def frame(self, backend: str = "auto") -> Any:
        """One row per series."""
        rows = self.shares
        columns: dict[str, list[Any]] = {
            name: [getattr(s, name) for s in rows] for name in ("series", "action", "alone", "loss", "binding", "price")
        }
        columns["outcome"] = [s.outcome.value for s in rows]
        columns["reason"] = [s.reason.value for s in rows]
        for k, shared in enumerate(self.shared):
            columns[f"use of {shared.name}"] = [s.uses[k] for s in rows]
        return make_frame(columns, backend)

    def plot(self, shared: str | None = None, ax: Any = None) -> Any:
        """Value against the size of one limit, as a proved band; needs matplotlib. Returns the figure."""
        from ucsearch.allocation.plot import plot_value

        return plot_value(self, shared, ax)

    def __repr__(self) -> str:
        what = "no series takes part" if self.result is None else repr(self.result)
        return f"{what}, {'released' if self.served else self.reason.value}"


def allocate(
    decisions: DecisionPanel | Sequence[Decision | DecisionPanel],
    shared: Shared | Sequence[Shared],
    *,
    series: Sequence[str] | None = None,
    gap_limit: float | None = None,
    gap_share: float = 0.01,
    serve: Serve = "fallback",
) -> Allocation:
    """Share limits among decisions that were made one by one.

    Passed when the proved gap is at most `gap_limit` (currency) or `gap_share` of what the limits cost. If not, every
    series takes its fallback, or with `serve="best"` the allocation leaves with its gap. `series` names the decisions,
    in order; a series whose own outcome is FALLBACK or HOLD keeps that action, and its use comes off the limits first.
    """
    parts = [decisions] if isinstance(decisions, DecisionPanel) else list(decisions)
    count = sum(len(part) if isinstance(part, DecisionPanel) else 1 for part in parts)
    names = [str(i) for i in range(count)] if series is None else [str(s) for s in series]
    if len(names) != count:
        raise InputError("series", f"{len(names)} names", f"{count}, one per decision")
    cases: list[Case] = []
    for part in parts:
        here = len(cases)
        if isinstance(part, DecisionPanel):
            cases.extend(cases_of(part, names[here : here + len(part)]))
        else:
            cases.append(case_of(part, names[here], here))
    return allocate_cases(cases, shared, gap_limit=gap_limit, gap_share=gap_share, serve=serve)


def cases_of(panel: DecisionPanel, series: Sequence[str]) -> list[Case]:
    """A panel's decisions as cases, without making them one by one."""
    plan, e = panel.certified.plan, panel.certified.evidence
    task, inputs, layout = plan.task, plan.inputs, plan.task.params_layout
    shared = None if layout is None else layout.build(inputs.params[0].tolist())
    lower = np.where(e.actions, e.lower, np.nan)
    # Found and proved values of one path may differ by rounding.
    upper = np.where(e.actions, np.fmax(e.upper, lower), np.nan)
    proved: NDArray[np.bool_] = np.asarray((~e.actions | ~np.isnan(e.upper)).all(axis=1))
    grid = inputs.actions.tolist()
    basis = _basis(plan.settings)
    cases = []
    for w, name in enumerate(series):
        own = layout.build(inputs.params[w].tolist()) if layout is not None and inputs.params.shape[0] > 1 else shared
        cases.append(
            Case(
                series=name,
                task=task,
                state=plan.layout.build(inputs.states[w].tolist()),
                params=own,
                actions=tuple(grid[w if len(grid) > 1 else 0]),
                lower=lower[w],
                upper=upper[w],
                proved=bool(proved[w]),
                basis=basis,
                outcome=Outcome(str(panel.outcome[w])),
                action=None if math.isnan(panel.action[w]) else float(panel.action[w]),
                fallback=float(panel.fallback[w]) if panel.fallback_feasible[w] else None,
                record=panel.records[w] if panel.records else "",
            )
        )
    return cases


def _basis(settings: Any) -> tuple[Any, ...]:
    return (settings.mode, settings.spread if settings.risk else None, settings.risk)


def case_of(decision: Decision, series: str, index: int) -> Case:
    """A decision as a case; one without inputs (a refused trace) cannot take part."""
    c = decision.certificate
    if c is None:
        raise InputError("decisions", "a refused trace", "decisions with a certificate", index=index)
    plan = c.plan
    task, inputs, w = plan.task, plan.inputs, plan.window
    params = None
    if task.params_layout is not None:
        params = task.params_layout.build(inputs.params[w if inputs.params.shape[0] > 1 else 0].tolist())
    lower, upper = np.full(len(plan.actions), np.nan), np.full(len(plan.actions), np.nan)
    for rival in c.rivals:
        lower[rival.index] = rival.score
        # Found and proved values of one path may differ by rounding.
        upper[rival.index] = rival.upper if math.isnan(rival.score) else max(rival.upper, rival.score)
    return Case(
        series=series,
        task=task,
        state=plan.layout.build(inputs.states[w].tolist()),
        params=params,
        actions=tuple(plan.actions),
        lower=lower,
        upper=upper,
        proved=c.proved,
        basis=_basis(plan.settings),
        outcome=decision.outcome,
        action=decision.action,
        fallback=decision.fallback_action if decision.fallback_feasible else None,
        record=decision.record_id,
    )


def allocate_cases(
    cases: Sequence[Case],
    shared: Shared | Sequence[Shared],
    *,
    gap_limit: float | None = None,
    gap_share: float = 0.01,
    serve: Serve = "fallback",
) -> Allocation:
    """The same from cases, however they were come by."""
    limits = (shared,) if isinstance(shared, Shared) else tuple(shared)
    _check(cases, limits, gap_limit, gap_share, serve)
    uses = tuple(use_table(cases, s) for s in limits)
    # Without a bound on every action nothing could be proved; such a series keeps what it has.
    takes_part = [c.outcome is Outcome.RELEASED and c.proved and bool((~np.isnan(c.lower)).any()) for c in cases]
    free = np.flatnonzero(takes_part)
    resources = [_resource(s, use, cases, free) for s, use in zip(limits, uses, strict=True)]
    result, missing, passed = None, _overdrawn(resources), False
    if free.size:
        own = [cases[i] for i in free.tolist()]
        lower, upper = _table([c.lower for c in own]), _table([c.upper for c in own])
        result = evaluate(Problem.of([c.series for c in own], lower, upper, resources))
        missing = result.missing
        passed = result.passes(gap_limit, gap_share)
    reason = Reason.NONE
    if missing:
        reason = Reason.BUDGET_INFEASIBLE
    elif free.size and not passed:
        reason = Reason.ALLOCATION_GAP
    served = result is not None and result.feasible and (passed or serve == "best")
    return Allocation(
        tuple(cases), limits, free, result, missing, passed, served, reason, gap_limit, gap_share, serve, "", uses
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
        times = shared.times if not isinstance(shared.times, Mapping) else shared.times.get(case.series, math.nan)
        for a, action in enumerate(case.actions):
            if math.isnan(action):
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


def _check(
    cases: Sequence[Case], shared: tuple[Shared, ...], gap_limit: float | None, gap_share: float, serve: str
) -> None:
    if not cases:
        raise InputError("decisions", "none", "at least one decision")
    if not shared or not all(isinstance(s, Shared) for s in shared):
        raise InputError("shared", repr(shared), "at least one uc.Shared")
    if len({s.name for s in shared}) != len(shared):
        raise InputError("shared", [s.name for s in shared], "names that differ")
    if serve not in ("fallback", "best"):
        raise InputError("serve", repr(serve), "'fallback' or 'best'")
    if gap_limit is not None and not 0.0 <= gap_limit < math.inf:
        raise InputError("gap_limit", gap_limit, "a finite number of at least 0, or None")
    if not 0.0 <= gap_share < math.inf:
        raise InputError("gap_share", gap_share, "a finite number of at least 0")
    seen: set[str] = set()
    for i, case in enumerate(cases):
        if case.series in seen:
            raise InputError("series", repr(case.series), "every series once", index=i)
        seen.add(case.series)
        if case.basis != cases[0].basis:
            raise InputError(
                "decisions", f"mode, spread and risk {case.basis}", f"{cases[0].basis} as the first has", index=i,
                hint="Scores of different kinds cannot be added up.",
            )  # fmt: skip


def _group(shared: Shared, series: str) -> str | None:
    return "" if shared.per is None else shared.per.get(series)


def _limit(shared: Shared, group: str) -> float:
    return float(shared.limit[group] if isinstance(shared.limit, Mapping) else shared.limit)


def _resource(shared: Shared, use: Floats, cases: Sequence[Case], free: NDArray[np.int64]) -> Resource:
    groups = ("",) if not isinstance(shared.limit, Mapping) else tuple(sorted(shared.limit))
    number = {g: k for k, g in enumerate(groups)}
    taken: list[list[float]] = [[] for _ in groups]
    takes_part = set(free.tolist())
    group = np.full(len(cases), -1, np.int64)
    for i, case in enumerate(cases):
        own = _group(shared, case.series)
        if own is None:
            continue
        if own not in number:
            raise InputError(f"per of {shared.name}", repr(own), f"a group with a limit: {groups}", index=case.series)
        group[i] = number[own]
        if i not in takes_part and case.action is not None and case.action in case.actions:
            taken[number[own]].append(float(use[i, case.actions.index(case.action)]))
    limits = np.array([_limit(shared, g) for g in groups])
    return Resource(shared.name, use[free], limits, group[free], groups, tuple(map(tuple, taken)))


def _overdrawn(resources: Sequence[Resource]) -> tuple[Missing, ...]:
    """Limits that the series which cannot be moved overdraw by themselves."""
    return tuple(
        Missing(r.label(g), float(r.limits[g]), math.fsum(r.taken[g]))
        for r in resources
        for g in range(r.limits.size)
        if not math.fsum(r.taken[g]) <= r.limits[g]
    )


def _table(rows: Sequence[ArrayLike]) -> Floats:
    width = max(np.size(r) for r in rows)
    out = np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        out[i, : np.size(row)] = row
    return out


def _label(case: Case, action: float | None) -> str:
    if action is None:
        return "nothing"
    place = case.actions.index(action) if action in case.actions else -1
    return str(case.task.label(place, action)) if place >= 0 else f"{action:g}"
