"""Direction: short, flat or long for one step at a time, with the cost on exposure or on change.

With the cost on exposure, transitions do not depend on actions: every search then collapses to the best single step.
With the cost on change, yesterday's direction matters and looking ahead pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import zeros
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.task import Task
from ucsearch.tasks.base import ALLOWANCE, Fit, Limit, StablePlan
from ucsearch.tasks.checks import choice, number
from ucsearch.tasks.shared_rules import SAFETY, change, linear_spread, moments

__all__ = ["Direction"]

Floats = NDArray[np.float64]
_LABELS = {-1.0: "short", 0.0: "flat", 1.0: "long"}


class State(NamedTuple):
    direction: float  # -1, 0 or 1 held before this step; stays as it is when the cost is on exposure
    planned: tuple[float, ...]  # directions of the previous plan from this step on
    planned_left: float  # how many of them are real
    allowance: float  # units of departure from it still allowed


class Params(NamedTuple):
    cost: float  # currency per unit of exposure, or of change
    on_change: float  # 1: cost on change; 0: on exposure
    closing: float  # 1: the last direction is closed at the end, at cost
    stability_cost: float  # currency per unit of departure from the previous plan
    lowest: float  # -1, or 0 when short is not allowed


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(a >= p.lowest and change(s, a) <= s.allowance)


def step(s: Any, a: float, y: float, p: Any) -> State:
    return State(
        a if p.on_change != 0.0 else s.direction,
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def charged(direction: float, a: float, p: Any) -> float:
    """Units that the cost is on."""
    return abs(a - direction) if p.on_change != 0.0 else abs(a)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return float(a * y - p.cost * charged(s.direction, a, p) - p.stability_cost * change(s, a))


def terminal(s: Any, p: Any) -> float:
    return float(-p.cost * p.closing * abs(s.direction))


def fallback(s: Any, p: Any) -> float:
    """The feasible direction nearest to the previous plan while it lasts, else to flat (cost on exposure) or to the
    direction held (cost on change); the smaller on ties."""
    target = s.direction if p.on_change != 0.0 else 0.0
    if s.planned_left > 0.0:
        target = s.planned[0]
    best, nearest = 0.0, -1.0
    for a in (-1.0, 0.0, 1.0):
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return best


def invariant(s: Any, p: Any) -> bool:
    whole = s.direction == -1.0 or s.direction == 0.0 or s.direction == 1.0
    return bool(whole and s.planned_left >= 0.0 and s.allowance >= 0.0)


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d + 1, 3): the best value to go from short, flat and long, the previous plan left out."""
    depth = outcomes.shape[0]
    table = zeros((depth + 1, 3))
    for i in range(3):
        table[depth, i] = -p.cost * p.closing * abs(i - 1.0)
    size = 0.0
    for k in range(depth - 1, -1, -1):
        variance, below, above = moments(view.members[:, k], view.weights)
        size += abs(outcomes[k]) + 2.0 * p.cost
        for j in range(view.weights.shape[0]):
            size += view.risk * view.weights[j] * abs(view.members[j, k])
        for i in range(3):
            best = -1e300
            for n in range(3):
                a = n - 1.0
                if a >= p.lowest:
                    value = a * outcomes[k] - view.risk * linear_spread(a, variance, below, above, view.spread)
                    value -= p.cost * charged(i - 1.0, a, p)
                    best = max(best, value + table[k + 1, n if p.on_change != 0.0 else i])
            table[k, i] = best + SAFETY * (1.0 + size) / depth
    return table


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """Exact without a previous plan; a plan only adds cost and removes choices."""
    return float(table[h, floor(s.direction + 1.5)])


@dataclass(frozen=True, kw_only=True)
class Direction(StablePlan):
    """Short, flat or long against a forecast. Outcomes are returns of one unit held long for one step."""

    cost: float = 0.1  # currency per unit
    charge: Literal["exposure", "change"] = "change"  # what the cost is on
    short: bool = True  # whether short is allowed
    close_at_end: bool = False  # whether the last direction is closed at cost; needs charge="change"

    def __post_init__(self) -> None:
        self.check_plan_settings()
        self.params()

    def params(self) -> Params:
        """The parameters as the rules read them; also the base of per-window parameters."""
        on_change = choice("charge", self.charge, ("exposure", "change")) == "change"
        if self.close_at_end and not on_change:
            raise InputError("close_at_end", True, "False unless charge is 'change'")
        return Params(
            cost=number("cost", self.cost),
            on_change=float(on_change),
            closing=float(bool(self.close_at_end)),
            stability_cost=number("stability_cost", self.stability_cost),
            lowest=-1.0 if self.short else 0.0,
        )

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self, direction: float = 0.0, planned: Sequence[float] | None = None, allowance: float | None = None
    ) -> State:
        """The starting state: the `direction` held (-1, 0 or 1); `planned` are the previous plan's from now on."""
        if direction not in _LABELS:
            raise InputError("direction", repr(direction), "-1, 0 or 1")
        return State(float(direction), *self.plan_fields(planned, allowance))

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """The return of a step is the change of the series."""
        return np.diff(values, axis=-1, prepend=np.asarray(before)[..., None])

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Mean absolute exposure: the share of steps that were not flat."""
        return {"exposure": np.abs(actions).mean(axis=1)}

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return Limit("lowest", "the lowest direction", -1, least=-1.0), ALLOWANCE

    def fit(self) -> Fit:
        """Returns are scaled to a standard deviation of 1; flat at first."""
        return Fit("changes", 1.0, -np.inf, {})

    @classmethod
    def instances(cls) -> dict[str, Direction]:
        """Named instances, for tests, documents and benchmarks."""
        return {
            "synthetic": cls(charge="exposure"),
            "ett": cls(),
            "long-flat": cls(short=False, close_at_end=True),
            "steady": cls(stability_cost=0.05, change_budget=2.0),
        }


@lru_cache(maxsize=256)
def _task(config: Direction) -> Task:
    params = config.params()
    actions = (-1.0, 0.0, 1.0) if config.short else (0.0, 1.0)
    return Task(
        config=config,
        name="direction", state=State, actions=actions, labels=tuple(_LABELS[a] for a in actions), params=params,
        feasible=feasible, step=step, reward=reward, fallback=fallback, invariant=invariant,
        terminal=terminal if config.close_at_end else None, prepare=prepare, bound=bound,
        limits=(actions[0], actions[-1]), called="positions",
    )  # fmt: skip
