"""DelayedExposure: a position whose submitted change executes some steps later.

A step runs: submit a change, execute the one submitted `delay` steps ago, earn exposure times return.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import zeros
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.task import Task
from ucsearch.tasks.base import ALLOWANCE, Fit, Limit, StablePlan
from ucsearch.tasks.checks import NO_LIMIT, ascending, choice, limit, number, whole
from ucsearch.tasks.shared_rules import ROUNDING, SAFETY, change, linear_spread, moments

__all__ = ["DelayedExposure"]

Floats = NDArray[np.float64]


class State(NamedTuple):
    """At the start of a step, before a change is submitted."""

    position: float  # units held
    pending: tuple[float, ...]  # (delay,) units; [0] executes in this step
    planned: tuple[float, ...]  # units: changes of the previous plan from this step on
    planned_left: float  # how many of them are real
    allowance: float  # units of departure from it still allowed


class Params(NamedTuple):
    cost: float  # currency per unit of executed change
    closing_cost: float  # currency per unit held or pending at the end
    lowest: float  # units; widened by rounding
    highest: float
    ramp: float  # units per submitted change
    stability_cost: float  # currency per unit
    grid: tuple[float, ...]  # (m,) the actions


def feasible(s: Any, a: float, p: Any) -> bool:
    after = s.position
    for x in s.pending:
        after += x
    after += a
    # Every pending change passed this test when submitted, so the position keeps its limits on the way too.
    return bool(p.lowest <= after <= p.highest and abs(a) <= p.ramp and change(s, a) <= s.allowance)


def step(s: Any, a: float, y: float, p: Any) -> State:
    return State(
        s.position + s.pending[0],
        s.pending[1:] + (a,),
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def reward(s: Any, a: float, y: float, p: Any) -> float:
    executed = s.pending[0]
    return float((s.position + executed) * y - p.cost * abs(executed) - p.stability_cost * change(s, a))


def terminal(s: Any, p: Any) -> float:
    """What it costs to close the position, changes still pending included."""
    total = s.position
    for x in s.pending:
        total += x
    return float(-p.closing_cost * abs(total))


def fallback(s: Any, p: Any) -> float:
    """The feasible change nearest to the previous plan while it lasts, else to none; the smaller on ties."""
    target = s.planned[0] if s.planned_left > 0.0 else 0.0
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def fallback_flat(s: Any, p: Any) -> float:
    """The feasible change that brings position and pending changes nearest to none, the smaller on ties."""
    target = -s.position
    for x in s.pending:
        target -= x
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def invariant(s: Any, p: Any) -> bool:
    """The position keeps its limits now and after every pending change."""
    total = s.position
    if not p.lowest <= total <= p.highest:
        return False
    for x in s.pending:
        total += x
        if not p.lowest <= total <= p.highest:
            return False
    return bool(s.planned_left >= 0.0 and s.allowance >= 0.0)


# Columns of the table; the last row is for the end of the horizon.
_MEAN, _VARIANCE, _BELOW, _ABOVE, _SIZE, _RISK, _KIND, _WIDTH = 0, 1, 2, 3, 4, 5, 6, 7


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d + 1, 8): mean return and its spreads by step, the largest return summed from there on, risk and kind."""
    depth = outcomes.shape[0]
    table = zeros((depth + 1, _WIDTH))
    for k in range(depth - 1, -1, -1):
        variance, below, above = moments(view.members[:, k], view.weights)
        largest = abs(outcomes[k])
        for j in range(view.weights.shape[0]):
            largest = max(largest, abs(view.members[j, k]))
        table[k, _MEAN] = outcomes[k]
        table[k, _VARIANCE] = variance
        table[k, _BELOW] = below
        table[k, _ABOVE] = above
        table[k, _SIZE] = table[k + 1, _SIZE] + (1.0 + view.risk) * largest
        table[k, _RISK] = view.risk
        table[k, _KIND] = view.spread
    return table


def value_at(x: float, table: Floats, k: int) -> float:
    """Return on `x` units minus risk times its spread."""
    spread = linear_spread(x, table[k, _VARIANCE], table[k, _BELOW], table[k, _ABOVE], table[k, _KIND])
    return float(x * table[k, _MEAN] - table[k, _RISK] * spread)


def best_value(table: Floats, k: int, low: float, high: float, home: float, toll: float) -> float:
    """Largest value_at(x) - toll * |x - home| for x from low to high: concave, with kinks at 0 and home."""
    best = max(value_at(low, table, k) - toll * abs(low - home), value_at(high, table, k) - toll * abs(high - home))
    if low < 0.0 < high:
        best = max(best, -toll * abs(home))
    if low < home < high:
        best = max(best, value_at(home, table, k))
    curve = 2.0 * table[k, _RISK] * table[k, _VARIANCE]
    if table[k, _KIND] == 0.0 and curve > 0.0:
        for slope in (table[k, _MEAN] - toll, table[k, _MEAN] + toll):
            if low * curve < slope < high * curve:
                x = slope / curve
                best = max(best, value_at(x, table, k) - toll * abs(x - home))
    return float(best)


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """Pending changes exactly; then every step's best position within reach, each paying its share of the way there."""
    depth = table.shape[0] - 1
    home, total = s.position, 0.0
    k = h
    for x in s.pending:
        if k < depth:
            home += x
            total += value_at(home, table, k) - p.cost * abs(x)
        k += 1
    size = abs(home)
    if k < depth:
        # All changes together are at least as long as the way from home to any one position, so to their average.
        toll = p.cost / (depth - k)
        rise, fall = min(p.grid[-1], p.ramp), min(-p.grid[0], p.ramp)
        low, high = home, home
        while k < depth:
            low, high = max(low - fall, p.lowest), min(high + rise, p.highest)
            total += best_value(table, k, low, high, home, toll)
            k += 1
        size = max(abs(low), abs(high), size)
    return float(total + SAFETY * (1.0 + abs(total) + size * table[min(h, depth), _SIZE]))


@dataclass(frozen=True, kw_only=True)
class DelayedExposure(StablePlan):
    """A position in something with uncertain return, changed with delay. Outcomes are returns per unit and step."""

    delay: int = 1  # steps from submission to execution, 1..24
    changes: Sequence[float] = (-1.0, 0.0, 1.0)  # units; 0 must be among them
    capacity: float = 3.0  # units: largest position, long or short
    short: bool = True  # whether the position may be negative
    ramp: float | None = None  # units: largest change in one step
    cost: float = 0.1  # currency per unit of executed change
    closing_cost: float = 0.0  # currency per unit held or pending at the end of the horizon
    fallback_rule: Literal["hold", "flat"] = "hold"  # flat: towards no position

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", ascending("changes", self.changes))
        self.check_plan_settings()
        self.params()

    def params(self) -> Params:
        """The parameters as the rules read them; also the base of per-window parameters."""
        whole("delay", self.delay, 1, 24)
        choice("fallback_rule", self.fallback_rule, ("hold", "flat"))
        grid = ascending("changes", self.changes)
        if 0.0 not in grid:
            raise InputError("changes", grid, "0 among them", hint="Holding the position must be possible.")
        highest = number("capacity", self.capacity, 0.0, NO_LIMIT) * (1.0 + ROUNDING)
        return Params(
            cost=number("cost", self.cost),
            closing_cost=number("closing_cost", self.closing_cost),
            lowest=-highest if self.short else -ROUNDING * highest,
            highest=highest,
            ramp=limit("ramp", self.ramp) * (1.0 + ROUNDING),
            stability_cost=number("stability_cost", self.stability_cost),
            grid=grid,
        )

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self,
        position: float = 0.0,
        pending: Sequence[float] = (),
        planned: Sequence[float] | None = None,
        allowance: float | None = None,
    ) -> State:
        """The starting state. `position` units are held; `pending[i]` executes i steps from now (missing ones are 0);
        `planned` are the previous plan's changes from this step on."""
        if len(pending) > self.delay:
            raise InputError("pending", f"{len(pending)} changes", f"at most {self.delay}, the delay")
        waiting = tuple(number(f"pending[{i}]", x, -NO_LIMIT) for i, x in enumerate(pending))
        waiting += (0.0,) * (self.delay - len(waiting))
        start = State(number("position", position, -NO_LIMIT), waiting, *self.plan_fields(planned, allowance))
        if not invariant(start, self.params()):
            low = -self.capacity if self.short else 0.0
            raise InputError("position", f"{position:g} with {waiting} pending", f"{low:g} to {self.capacity:g} always")
        return start

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """The return of a step is the change of the series."""
        return np.diff(values, axis=-1, prepend=np.asarray(before)[..., None])

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Mean absolute exposure, and turnover."""
        exposure = np.abs(states[:, :, 0] + states[:, :, 1])
        return {"exposure": exposure.mean(axis=1), "turnover": np.abs(actions).sum(axis=1)}

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return (
            Limit("highest", "capacity", 1), Limit("lowest", "the lowest position", -1, least=-math.inf),
            Limit("ramp", "ramp", 1), ALLOWANCE,
        )  # fmt: skip

    @classmethod
    def defaults(cls, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The fallback goes towards no position."""
        return {"task": {"fallback_rule": "flat"}}

    def fit(self) -> Fit:
        """Returns are scaled to a standard deviation of 1; nothing is held at first."""
        return Fit("changes", 1.0, -np.inf, {})

    @classmethod
    def instances(cls) -> dict[str, DelayedExposure]:
        """Named instances, for tests, documents and benchmarks."""
        return {
            "paper": cls(),
            "slow": cls(delay=3, changes=(-2.0, -1.0, 0.0, 1.0, 2.0), capacity=4.0, cost=0.2),
            "long-only": cls(delay=2, short=False, capacity=2.0, closing_cost=0.1),
            "steady": cls(changes=(-2.0, -1.0, 0.0, 1.0, 2.0), stability_cost=0.05, change_budget=4.0),
        }


def label(action: float) -> str:
    return "hold" if action == 0.0 else f"change by {action:+g}"


@lru_cache(maxsize=256)
def _task(config: DelayedExposure) -> Task:
    params = config.params()
    return Task(
        config=config,
        name="delayed_exposure", state=State, actions=params.grid, params=params, feasible=feasible, step=step,
        reward=reward, fallback=fallback_flat if config.fallback_rule == "flat" else fallback, invariant=invariant,
        terminal=terminal if params.closing_cost > 0.0 else None,
        prepare=prepare, bound=bound, by_rest=True, label_of=label, called="changes",
    )  # fmt: skip
