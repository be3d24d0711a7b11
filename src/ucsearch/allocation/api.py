"""`allocate`: decisions of many series under limits they share. The series' own proofs go in, one proof comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.allocation.cases import Case, case_of, cases_of, use_table
from ucsearch.allocation.later.paths import Draws, Later, beyond
from ucsearch.allocation.later.steps import check_steps, plan_steps, reach_steps
from ucsearch.allocation.problem import Missing, Problem, Resource, Shared
from ucsearch.allocation.result import Result, evaluate, proved
from ucsearch.decision.decision import Decision, DecisionPanel, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.errors import InputError
from ucsearch.formatting import make_frame

if TYPE_CHECKING:
    from ucsearch.report.picture import Picture

__all__ = [
    "Allocation",
    "Case",
    "Share",
    "Shared",
    "Terms",
    "allocate",
    "allocate_cases",
    "cases_of",
    "rebuilt_allocation",
]

Floats = NDArray[np.float64]
Serve = Literal["fallback", "best"]
PATHS = 24  # simulated where limits hold at later steps
LEAST_PATHS, MOST_PATHS = 20, 10_000  # fewer say little


@dataclass(frozen=True)
class Terms:
    """How good an allocation must be, what leaves when it is not, and how later steps are simulated."""

    gap_limit: float | None = None  # currency
    gap_share: float = 0.01  # of what the limits cost
    serve: Serve = "fallback"
    paths: int = PATHS
    draws: Draws = "independent"

    def __post_init__(self) -> None:
        if self.serve not in ("fallback", "best"):
            raise InputError("serve", repr(self.serve), "'fallback' or 'best'")
        if self.gap_limit is not None and not 0.0 <= self.gap_limit < math.inf:
            raise InputError("gap_limit", self.gap_limit, "a finite number of at least 0, or None")
        if not 0.0 <= self.gap_share < math.inf:
            raise InputError("gap_share", self.gap_share, "a finite number of at least 0")
        whole = isinstance(self.paths, int) and not isinstance(self.paths, bool)
        if not whole or not LEAST_PATHS <= self.paths <= MOST_PATHS:
            raise InputError("paths", repr(self.paths), f"a whole number from {LEAST_PATHS} to {MOST_PATHS}")
        if self.draws not in ("independent", "common"):
            raise InputError("draws", repr(self.draws), "'independent' or 'common'")


@dataclass(frozen=True)
class Share:
    """What one series gets and why."""

    series: str
    outcome: Outcome
    action: Any  # a number or a tuple; None for nothing
    label: str
    alone: Any  # what it would have done without the limits
    alone_label: str
    reason: Reason
    pass_kind: str  # "allocated" where the allocation decided, "" else
    loss: float  # currency given up so that the limits hold, at the prices; NaN for series that keep their action
    uses: tuple[float, ...]  # units, one per shared limit
    binding: str  # the limit that made it less, "" when none did
    price: float  # currency per unit of that limit


@dataclass(frozen=True, eq=False)
class Allocation:
    """What each series gets, what that is worth, and a bound on every other allocation."""

    cases: tuple[Case, ...]  # one per series, in the order given: its actions, their values and what they use
    shared: tuple[Shared, ...]  # the limits that series share
    free: NDArray[np.int64]  # numbers of the cases that take part
    result: Result | None  # None when no series takes part or a later limit cannot be kept
    missing: tuple[Missing, ...]  # limits that no choice of actions can keep
    passed: bool  # the proved gap is within `gap_limit` or `gap_share`
    served: bool  # whether the allocation leaves
    reason: Reason  # NONE when it leaves; else why not
    gap_limit: float | None  # currency
    gap_share: float  # of what the limits cost; the gap may be this large
    serve: Serve  # what leaves when it is not proved good enough
    record_id: str = ""  # of its record in the log; "" when there was none
    uses: tuple[Floats, ...] = field(default=(), repr=False)  # per shared limit (N, m), units
    later: Later | None = None  # limits of later steps; the result is then of the first step at their prices

    def __len__(self) -> int:
        return len(self.cases)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """One per series, in the order given."""
        place = {int(i): k for k, i in enumerate(self.free)}
        prices = {} if self.result is None else {p.resource: p.shadow_price for p in self.result.table()}
        return tuple(self._share(i, place.get(i), prices) for i in range(len(self.cases)))

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

    def _share(self, i: int, k: int | None, prices: Mapping[str, float]) -> Share:
        case, result = self.cases[i], self.result
        alone = case.action if case.outcome is Outcome.RELEASED else None
        outcome, action, reason, pass_kind = case.outcome, case.action, Reason.NONE, ""
        loss, binding, price = math.nan, "", 0.0
        if k is not None:
            if result is not None and self.served:
                action, pass_kind = case.actions[int(result.choice[k])], "allocated"
                outcome, loss, binding = Outcome.RELEASED, float(result.loss[k]), result.binding(k)
                price = prices.get(binding, 0.0)
            else:
                outcome, action, reason = self._instead(case)
        chosen = math.nan if action is None else action
        place = case.actions.index(chosen) if chosen in case.actions else None
        uses = tuple(math.nan if place is None else float(u[i, place]) for u in self.uses)
        label = case.label(action)
        return Share(
            case.series, outcome, action, label, alone, label if alone == action else case.label(alone), reason,
            pass_kind, loss, uses, binding, price,
        )  # fmt: skip

    def _instead(self, case: Case) -> tuple[Outcome, Any, Reason]:
        if self._fallbacks_fit and case.fallback is not None:
            return Outcome.FALLBACK, case.fallback, self.reason
        return Outcome.HOLD, None, self.reason

    @cached_property
    def _fallbacks_fit(self) -> bool:
        """Whether the fallbacks of all series together keep the limits; if not, nothing leaves."""
        places = []
        for case in self.cases:
            action = case.action if case.outcome is not Outcome.RELEASED else case.fallback
            places.append(case.actions.index(action) if action in case.actions else None)
        for shared, use in zip(self.shared, self.uses, strict=True):
            total: dict[str, list[float]] = {}
            for case, place, row in zip(self.cases, places, use, strict=True):
                group = shared.group(case.series)
                if group is not None and place is not None:
                    total.setdefault(group, []).append(float(row[place]))
            if any(not math.fsum(v) <= shared.at(g) for g, v in total.items()):
                return False
        return True

    @property
    def upper(self) -> float:
        """Currency: no allocation is worth more; with limits at later steps no joint policy is, on average."""
        if self.result is None:
            return -math.inf
        return self.result.upper + (0.0 if self.later is None else self.later.rent)

    @property
    def gap(self) -> float:
        """Currency by which something better could beat this at most; with limits at later steps with confidence
        97.5 %, of the rule that shares every later step as this one."""
        return math.inf if self.result is None else self.result.gap + self.result.later

    @property
    def cost_of_limits(self) -> float:
        """Currency: what the limits cost at least."""
        if self.result is None:
            return math.nan
        return self.result.cost_of_budget if self.later is None else self.later.free - self.upper

    def explain(self, most: int = 10, money: str = "") -> str:
        """What is shared, what it costs, and the series it hurt most, at `most` so many; `money` is the currency of
        rewards."""
        from ucsearch.allocation.show import explain_allocation

        return explain_allocation(self, most, money)

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

    def plot(self, shared: str | None = None) -> Picture:
        """Value against the size of one limit, as a proved band: notebooks show it, `save(path)` writes a page.
        `shared` is the limit's name, by default the first."""
        from ucsearch.allocation.show import plot_value

        return plot_value(self, shared)

    def __repr__(self) -> str:
        nothing = "; ".join(map(str, self.missing)) or "no series takes part"
        what = nothing if self.result is None else repr(self.result)
        return f"{what}, {'released' if self.served else self.reason.value}"

    def _repr_html_(self) -> str:
        from ucsearch.allocation.show import html_allocation

        return html_allocation(self)


def allocate(
    decisions: DecisionPanel | Sequence[Decision | DecisionPanel],
    shared: Shared | Sequence[Shared],
    *,
    series: Sequence[str] | None = None,
    gap_limit: float | None = None,
    gap_share: float = 0.01,
    serve: Serve = "fallback",
    paths: int = PATHS,
    draws: Draws = "independent",
) -> Allocation:
    """Share limits among decisions that were made one by one.

    A series whose own outcome is FALLBACK or HOLD keeps that action, and its use comes off the limits first. Limits at
    later steps enter every series' own policy as prices; how far the rule is from the best joint policy is then an
    estimate over simulated paths.

    Args:
        decisions: a panel, or decisions and panels one after another.
        shared: the limits.
        series: names of the decisions, in order; by default their numbers.
        gap_limit: passed when the proved gap is at most this, in currency,
        gap_share: or at most this share of what the limits cost.
        serve: what is sent when it is not passed: "fallback" for every series' fallback, "best" for the allocation.
        paths: simulated where limits hold at later steps.
        draws: "independent" outcomes of the series on these paths, or "common" ones of the same rank, as where series
            share a market's price.

    Returns:
        An `Allocation`: a `Share` for each series, the value together, and a bound on any other allocation's value.

    Raises:
        InputError: a wrong argument; scores that cannot be added up; a use that fails or is negative.
    """
    terms = Terms(gap_limit, gap_share, serve, paths, draws)
    parts = list(decisions) if isinstance(decisions, Sequence) else [decisions]
    for i, part in enumerate(parts):
        if not isinstance(part, Decision | DecisionPanel):
            raise InputError("decisions", type(part).__name__, "a DecisionPanel, or decisions and panels", index=i)
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
    return allocate_cases(cases, shared, terms)


def allocate_cases(cases: Sequence[Case], shared: Shared | Sequence[Shared], terms: Terms | None = None) -> Allocation:
    """The same from cases, however they were come by."""
    limits = (shared,) if isinstance(shared, Shared) else tuple(shared)
    terms = Terms() if terms is None else terms
    _check(cases, limits)
    uses = tuple(use_table(cases, s) for s in limits)
    free = _taking_part(cases)
    resources = [_resource(s, use, cases, free) for s, use in zip(limits, uses, strict=True)]
    result, later, missing, passed = None, None, _overdrawn(resources), False
    movable = [cases[i] for i in free.tolist()]
    if movable and not missing and any(s.horizon > 1 for s in limits):
        check_steps(movable, limits)
        reached = reach_steps(movable, limits, resources)
        missing = beyond(*reached)
        if not missing:
            planned = plan_steps(movable, *reached, resources)
            result = evaluate(planned.problem)
            if result.feasible:
                later = planned.follow(result, terms.paths, terms.draws)
                result = replace(result, later=later.bound)
    elif movable:
        result = evaluate(_problem(movable, resources))
    allocation = Allocation(
        tuple(cases), limits, free, result, missing if result is None else result.missing, False, False, Reason.NONE,
        terms.gap_limit, terms.gap_share, terms.serve, "", uses, later,
    )  # fmt: skip
    if result is not None:
        passed = result.passes(terms.gap_limit, terms.gap_share, allocation.cost_of_limits)
    reason = Reason.NONE
    if allocation.missing:
        reason = Reason.BUDGET_INFEASIBLE
    elif free.size and not passed:
        reason = Reason.ALLOCATION_GAP
    kept = result is not None and result.feasible and (later is None or later.kept)
    return replace(allocation, passed=passed, reason=reason, served=kept and (passed or terms.serve == "best"))


def rebuilt_allocation(
    cases: Sequence[Case], limits: Sequence[Shared], chosen: Mapping[str, Any], prices: tuple[Floats, ...],
    terms: Terms, *, passed: bool, served: bool, reason: Reason, record_id: str,
) -> Allocation:  # fmt: skip
    """A recorded allocation, from the actions `chosen` by series and the `prices` of every limit."""
    uses, free = tuple(use_table(cases, s) for s in limits), _taking_part(cases)
    movable = [cases[i] for i in free.tolist()]
    resources = [_resource(s, use, cases, free) for s, use in zip(limits, uses, strict=True)]
    result = None
    if movable and served:
        actions = [(case, chosen[case.series]) for case in movable]
        places = [-1 if action is None else case.actions.index(action) for case, action in actions]
        result = proved(_problem(movable, resources), np.array(places, np.int64), prices)
    missing = _overdrawn(resources) if result is None else ()
    return Allocation(
        tuple(cases), tuple(limits), free, result, missing, passed, served, reason, terms.gap_limit, terms.gap_share,
        terms.serve, record_id, uses,
    )  # fmt: skip


def _taking_part(cases: Sequence[Case]) -> NDArray[np.int64]:
    """Numbers of the cases that may be moved. Without a bound on every action nothing could be proved; such a series
    keeps what it has."""
    proven = [c.outcome is Outcome.RELEASED and c.proved and bool((~np.isnan(c.lower)).any()) for c in cases]
    return np.flatnonzero(proven)


def _problem(cases: Sequence[Case], resources: Sequence[Resource]) -> Problem:
    lower, upper = _table([c.lower for c in cases]), _table([c.upper for c in cases])
    sizes, eps = [c.size for c in cases], [c.eps for c in cases]
    return Problem.of([c.series for c in cases], lower, upper, resources, sizes, eps)


def _check(cases: Sequence[Case], shared: tuple[Shared, ...]) -> None:
    if not cases:
        raise InputError("decisions", "none", "at least one decision")
    if not shared or not all(isinstance(s, Shared) for s in shared):
        raise InputError("shared", repr(shared), "at least one uc.Shared")
    if len({s.name for s in shared}) != len(shared):
        raise InputError("shared", [s.name for s in shared], "names that differ")
    names: set[str] = set()
    for i, case in enumerate(cases):
        if case.series in names:
            raise InputError("series", repr(case.series), "every series once", index=i)
        names.add(case.series)
        if case.basis != cases[0].basis:
            raise InputError(
                "decisions", f"mode, spread and risk {case.basis}", f"{cases[0].basis} as the first has", index=i,
                hint="Scores of different kinds cannot be added up.",
            )  # fmt: skip


def _resource(shared: Shared, use: Floats, cases: Sequence[Case], free: NDArray[np.int64]) -> Resource:
    groups = shared.groups
    number = {g: k for k, g in enumerate(groups)}
    taken: list[list[float]] = [[] for _ in groups]
    takes_part = set(free.tolist())
    group = np.full(len(cases), -1, np.int64)
    for i, case in enumerate(cases):
        name = shared.group(case.series)
        if name is None:
            continue
        if name not in number:
            raise InputError(f"per of {shared.name}", repr(name), f"a group with a limit: {groups}", index=case.series)
        group[i] = number[name]
        if i not in takes_part and case.action is not None and case.action in case.actions:
            taken[number[name]].append(float(use[i, case.actions.index(case.action)]))
    limits = np.array([shared.at(g) for g in groups])
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
