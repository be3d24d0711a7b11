"""What is proved about an allocation: value, bound, gap, prices, and what more of a limit is worth.

`root - lower = sum of losses + price x unused` for any prices of at least 0, so the figures below stand on themselves;
how the choice and the prices were found plays no part. `upper` is `root`, or less where choices were split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.branch import Tree, branch
from ucsearch.allocation.problem import Missing, Problem, Resource
from ucsearch.allocation.solve import hull_steps, solve
from ucsearch.errors import InputError

__all__ = ["Interval", "Price", "Result", "evaluate", "proved"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SMALL = 3_000  # series x actions up to which choices are split for a smaller bound
_SPLIT = 1e-4  # share of what the limits cost that is close enough without


class Price(NamedTuple):
    """One limit, what is used of it and what one more unit is worth at most."""

    resource: str
    limit: float  # units
    used: float  # units, of all series
    shadow_price: float  # currency per unit
    binds: bool


class Interval(NamedTuple):
    """A value that is proved to lie between the two."""

    low: float  # currency
    high: float


@dataclass(frozen=True, eq=False)
class Result:
    """An allocation with its proof. `choice` is -1 throughout when no choice that keeps the limits was found."""

    problem: Problem
    choice: Ints  # (N,) action index
    prices: tuple[Floats, ...]  # per resource (G,), currency per unit, at least 0
    lower: float  # value of the choice
    upper: float  # no allocation is worth more
    loss: Floats  # (N,) at least 0
    tau: Floats  # (N,) tolerance of each series' loss
    slack: tuple[Floats, ...]  # per resource (G,), what is left of it
    without: float  # sum of the best values of all series, as if nothing were shared
    missing: tuple[Missing, ...] = ()
    tree: Tree | None = None  # how the choices were split for a smaller bound; None: one part, at `prices`
    root: float = math.inf  # the bound at `prices`; above `upper` where choices were split
    later: float = 0.0  # currency that later steps may lose besides, where they have limits of their own

    @property
    def feasible(self) -> bool:
        return not self.missing and bool((self.choice >= 0).all())

    @property
    def gap(self) -> float:
        """Currency by which a better allocation could beat this one at most."""
        return self.upper - self.lower if self.feasible else math.inf

    @property
    def cost_of_budget(self) -> float:
        """What the limits cost at least: the value without them minus the bound with them."""
        return self.without - self.upper

    @property
    def rounding(self) -> float:
        """A gap this small may be rounding: a share of all that was added up."""
        rows = np.arange(self.choice.size)
        sizes = np.abs(self.problem.lower[rows, self.choice]) + np.abs(self.problem.ceiling.max(axis=1))
        return math.fsum(self.problem.tau(sizes).tolist())

    @property
    def priced_optimal(self) -> NDArray[np.bool_]:
        """(N,) series that take what is best for them at these prices."""
        return self.loss <= self.tau

    @property
    def adjusted(self) -> int:
        """Series that were moved off it so that the limits hold."""
        return int((~self.priced_optimal).sum())

    def passes(self, gap_limit: float | None = None, gap_share: float = 0.01, cost: float | None = None) -> bool:
        """Whether the gap is small enough, in currency or as a share of what the limits cost."""
        if not self.feasible:
            return False
        cost, gap = self.cost_of_budget if cost is None else cost, self.gap + self.later
        allowed = max(gap_share * cost, -math.inf if gap_limit is None else gap_limit)
        return gap <= allowed or gap <= self.rounding

    def table(self) -> tuple[Price, ...]:
        """Every limit with its use and price."""
        return self._table

    @cached_property
    def _table(self) -> tuple[Price, ...]:
        out = []
        for r, price in zip(self.problem.resources, self.prices, strict=True):
            for g in range(r.limits.size):
                # Not the limit less what is left: of a limit of 1e300 nothing would be used.
                used = math.fsum((*self._uses(r)[r.group == g].tolist(), *r.taken[g]))
                out.append(Price(r.label(g), float(r.limits[g]), used, float(price[g]), bool(price[g] > 0.0)))
        return tuple(out)

    def _uses(self, r: Resource) -> Floats:
        """(N,) what every series uses of it; nothing where nothing was allotted."""
        own = self.problem.picked(r.use, np.maximum(self.choice, 0))
        return np.where(self.choice >= 0, own, 0.0)

    @cached_property
    def unshared(self) -> Ints:
        """(N,) what each series would take if nothing were shared: highest lower bound, the smaller action on ties."""
        best: Ints = np.argmax(self.problem.floor, axis=1)
        return best

    def binding(self, i: int) -> str:
        """The limit that costs series `i` most, or "" when none has a price for it."""
        return self._binding[i]

    @cached_property
    def _binding(self) -> list[str]:
        """(N,) of all series."""
        n = self.choice.size
        best, rows, names = np.zeros(n), np.arange(n), [""] * n
        for r, price in zip(self.problem.resources, self.prices, strict=True):
            own = np.where(r.group >= 0, price[np.maximum(r.group, 0)], 0.0)
            cost = own * (r.use[rows, self.unshared] - r.use[rows, self.choice])
            labels = [r.label(g) for g in range(r.limits.size)]
            for i in np.flatnonzero(cost > best).tolist():
                names[i] = labels[r.group[i]]
            best = np.maximum(best, cost)
        return names

    def worth_of_more(self, resource: str, amount: float) -> Interval:
        """What `amount` more of one limit is worth: solved again, as a proved interval."""
        if not self.feasible:
            raise InputError("allocation", "no allocation", "one that keeps the limits")
        k, g = self._find(resource)
        limits = self.problem.resources[k].limits.copy()
        limits[g] += amount
        changed = list(self.problem.resources)
        changed[k] = replace(changed[k], limits=limits)
        other = evaluate(replace(self.problem, resources=tuple(changed)))
        # What later steps make of another first step was not simulated.
        low = other.lower - self.upper if other.feasible and self.later == 0.0 else -math.inf
        high = other.upper - self.lower + self.later
        # More of a limit never hurts, and never pays more than its price.
        price = float(self.prices[k][g])
        if amount >= 0.0:
            return Interval(max(low, 0.0), min(high, self.root + price * amount - self.lower + self.later))
        return Interval(low, min(high, 0.0))

    def next_in_line(self, resource: str, most: int = 20) -> list[tuple[str, float, float]]:
        """(series, currency per unit, units) in the order in which more of one limit would be used."""
        k, g = self._find(resource)
        r = self.problem.resources[k]
        others = [np.zeros_like(p) if j == k else p for j, p in enumerate(self.prices)]
        values = self.problem.floor - self.problem.charge(others)
        rows = np.flatnonzero((r.group == g) & (self.choice >= 0))
        steps = hull_steps(values[rows], r.use[rows], self.choice[rows])
        first = np.flatnonzero(np.diff(steps.series, prepend=-1) != 0)
        names = [self.problem.series[rows[i]] for i in steps.series[first]]
        line = sorted(
            zip(names, steps.slope[first].tolist(), steps.use[first].tolist(), strict=True), key=lambda x: (-x[1], x[0])
        )
        return line[:most]

    def _find(self, resource: str) -> tuple[int, int]:
        known = [(k, g, r.label(g)) for k, r in enumerate(self.problem.resources) for g in range(r.limits.size)]
        for k, g, label in known:
            if resource == label:
                return k, g
        raise InputError("resource", repr(resource), f"one of {', '.join(repr(x[2]) for x in known[:10])}")

    def __repr__(self) -> str:
        if not self.feasible:
            why = "; ".join(map(str, self.missing)) or "no choice keeps the limits"
            return f"Allocation({len(self.problem.series)} series: {why})"
        share = self.gap / self.cost_of_budget if self.cost_of_budget > 0.0 else 0.0
        return (
            f"Allocation({len(self.problem.series)} series, value {self.lower:.6g}, at most {self.upper:.6g}: "
            f"gap {self.gap:.3g}, {share:.2%} of what the limits cost, {self.adjusted} adjusted)"
        )


def evaluate(problem: Problem) -> Result:
    """Solve, then compute from choice and prices alone what is proved."""
    missing = problem.missing()
    if missing:
        return _unproved(problem, missing)
    choice, prices = solve(problem)
    if choice is None:
        return _unproved(problem, (), prices)
    result = proved(problem, choice, prices)
    enough = max(result.rounding, _SPLIT * result.cost_of_budget)
    if problem.lower.size > _SMALL or not result.gap > enough:
        return result
    choice, upper, tree = branch(problem, choice, prices, result.upper, enough)
    return replace(proved(problem, choice, prices), upper=upper, tree=tree)


def proved(problem: Problem, choice: Ints, prices: tuple[Floats, ...]) -> Result:
    """The figures of the proof, for any choice that keeps the limits and any prices of at least 0."""
    charge = problem.charge(prices)
    priced = problem.ceiling - charge
    top = priced.max(axis=1)
    rows = np.arange(choice.size)
    chosen = problem.lower[rows, choice] - charge[rows, choice]
    best = np.argmax(priced, axis=1)
    size = np.maximum(
        np.abs(problem.upper[rows, best]) + charge[rows, best],
        np.abs(problem.lower[rows, choice]) + charge[rows, choice],
    )
    tau = problem.tau(size)
    slack: list[Floats] = []
    rent: list[float] = []
    for r, price in zip(problem.resources, prices, strict=True):
        uses = problem.picked(r.use, choice)
        left = [
            math.fsum((float(r.limits[g]), *(-uses[r.group == g]).tolist(), *(-x for x in r.taken[g])))
            for g in range(r.limits.size)
        ]
        slack.append(np.array(left))
        rent.extend(float(p) * x for p, x in zip(price, r.left(), strict=True))
    return Result(
        problem=problem,
        choice=choice,
        prices=prices,
        lower=math.fsum(problem.lower[rows, choice].tolist()),
        upper=(upper := math.fsum((*top.tolist(), *rent))),
        root=upper,
        loss=np.maximum(top - chosen, 0.0),
        tau=tau,
        slack=tuple(slack),
        without=math.fsum(problem.ceiling.max(axis=1).tolist()),
    )


def _unproved(problem: Problem, missing: tuple[Missing, ...], prices: tuple[Floats, ...] = ()) -> Result:
    n = len(problem.series)
    nothing = tuple(np.zeros(r.limits.size) for r in problem.resources)
    best = problem.ceiling.max(axis=1)
    return Result(
        problem=problem,
        choice=np.full(n, -1, np.int64),
        prices=prices or nothing,
        lower=-math.inf,
        upper=math.fsum(best.tolist()),
        loss=np.full(n, np.nan),
        tau=np.zeros(n),
        slack=nothing,
        without=math.fsum(best.tolist()),
        missing=missing,
    )
