"""Intervention: alarms or treatments that are few, need a pause in between, and work later.

A step runs: decide the dose (0: watch), then suffer the harm that doses given so far do not avert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import floor
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy import empty, zeros
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.task import Task
from ucsearch.tasks.base import ALLOWANCE, Changes, Fit, Limit, StablePlan, Words
from ucsearch.tasks.checks import NO_LIMIT, ascending, limit, number, share, whole
from ucsearch.tasks.shared_rules import ROUNDING, SAFETY, change, linear_spread, moments

__all__ = ["Intervention"]

Floats = NDArray[np.float64]


class State(NamedTuple):
    """At the start of a step, before the dose is decided."""

    budget: float  # doses left
    wait: float  # steps until the next dose is allowed
    given: tuple[float, ...]  # (max(1, lags - 1),) doses: [i] was given i + 1 steps ago
    planned: tuple[float, ...]  # doses of the previous plan from this step on
    planned_left: float  # how many of them are real
    allowance: float  # units of departure from it still allowed


class Params(NamedTuple):
    effect: tuple[float, ...]  # (lags,) share of harm that one dose averts 0, 1, ... steps after it is given
    cooldown: float  # steps without a dose after one
    cost: float  # currency per dose
    fixed_cost: float  # currency per step with a dose
    budget_value: float  # currency per dose left at the end
    stability_cost: float  # currency per unit of departure from the previous plan
    grid: tuple[float, ...]  # (m,) the actions


def averted(s: Any, a: float, p: Any) -> float:
    """Share of this step's harm that is averted."""
    share_of = a * p.effect[0]
    for i in range(1, len(p.effect)):
        share_of += p.effect[i] * s.given[i - 1]
    return float(min(share_of, 1.0))


def feasible(s: Any, a: float, p: Any) -> bool:
    if a > 0.0 and (s.wait > 0.0 or a > s.budget + ROUNDING):
        return False
    return bool(change(s, a) <= s.allowance)


def step(s: Any, a: float, y: float, p: Any) -> State:
    return State(
        max(s.budget - a, 0.0),
        p.cooldown if a > 0.0 else max(s.wait - 1.0, 0.0),
        (a,) + s.given[:-1],
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def reward(s: Any, a: float, y: float, p: Any) -> float:
    cost = p.cost * a + (p.fixed_cost if a > 0.0 else 0.0)
    return float(-max(y, 0.0) * (1.0 - averted(s, a, p)) - cost - p.stability_cost * change(s, a))


def terminal(s: Any, p: Any) -> float:
    return float(p.budget_value * s.budget)


def fallback(s: Any, p: Any) -> float:
    """The feasible dose nearest to the previous plan while it lasts, else none; the smaller on ties."""
    target = s.planned[0] if s.planned_left > 0.0 else 0.0
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def invariant(s: Any, p: Any) -> bool:
    for x in s.given:
        if not x >= 0.0:
            return False
    return bool(s.budget >= 0.0 and s.wait >= 0.0 and s.planned_left >= 0.0 and s.allowance >= 0.0)


# Columns of the table; the last row is for the end of the horizon.
_MEAN, _VARIANCE, _BELOW, _ABOVE = 0, 1, 2, 3  # of the harm
_USES = 4  # most that doses from this step on can add, if there are always enough of them
_DOSE = 5  # most that one dose from this step on can add
_RISK, _KIND, _SIZE, _WIDTH = 6, 7, 8, 9


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d + 1, 9): harm and its spreads by step, and what doses given from there on are worth at most."""
    depth, members = outcomes.shape[0], view.weights.shape[0]
    table = zeros((depth + 1, _WIDTH))
    harms = empty(members)
    top = p.grid[-1]
    for k in range(depth - 1, -1, -1):
        largest = max(outcomes[k], 0.0)
        for j in range(members):
            harms[j] = max(view.members[j, k], 0.0)
            largest = max(largest, harms[j])
        variance, below, above = moments(harms, view.weights)
        table[k, _MEAN] = max(outcomes[k], 0.0)
        table[k, _VARIANCE] = variance
        table[k, _BELOW] = below
        table[k, _ABOVE] = above
        table[k, _RISK] = view.risk
        table[k, _KIND] = view.spread
        table[k, _SIZE] = table[k + 1, _SIZE] + (1.0 + view.risk) * largest * (1.0 + view.risk * largest)
    for k in range(depth - 1, -1, -1):
        worth = -p.cost - p.budget_value
        for lag in range(min(len(p.effect), depth - k)):
            # The value of averting is concave, so no share is worth more than the first: the slope there.
            t = k + lag
            slope = linear_spread(-1.0, table[t, _VARIANCE], table[t, _BELOW], table[t, _ABOVE], view.spread)
            slope = view.risk * slope * (2.0 if view.spread == 0 else 1.0)
            worth += p.effect[lag] * (table[t, _MEAN] + slope)
        later = floor(min(k + 1 + p.cooldown, depth + 0.0))
        use = top * worth - p.fixed_cost
        table[k, _USES] = table[k + 1, _USES]
        table[k, _DOSE] = table[k + 1, _DOSE]
        if use > 0.0:
            table[k, _USES] = max(table[k, _USES], use + table[later, _USES])
            table[k, _DOSE] = max(table[k, _DOSE], use / top)
    return table


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """What doses given so far leave of the harm, exactly, plus the most that further doses can add."""
    depth = table.shape[0] - 1
    total = p.budget_value * (s.budget + ROUNDING)
    for k in range(h, depth):
        share_of = 0.0
        for lag in range(k - h + 1, len(p.effect)):
            share_of += p.effect[lag] * s.given[lag - 1 - (k - h)]
        left = 1.0 - min(share_of, 1.0)
        spread = linear_spread(-left, table[k, _VARIANCE], table[k, _BELOW], table[k, _ABOVE], table[k, _KIND])
        total -= left * table[k, _MEAN] + table[k, _RISK] * spread
    first = floor(min(h + s.wait, depth + 0.0))
    total += min(table[first, _USES], table[first, _DOSE] * (s.budget + ROUNDING * (depth - h)))
    return float(total + SAFETY * (1.0 + abs(total) + table[min(h, depth), _SIZE]))


@dataclass(frozen=True, kw_only=True)
class Intervention(StablePlan):
    """Alarms, inspections, maintenance or treatments under a forecast of harm. Outcomes are the harm of a step in
    currency if nothing is done (for an event: its probability times its damage); below 0 counts as none."""

    form: ClassVar[Literal["cost", "reward"]] = "cost"

    doses: Sequence[float] = (0.0, 1.0)  # 0 (watch) must be the first
    budget: float | None = None  # doses in all; None: no limit
    cooldown: int = 1  # steps without a dose after one, 0..1000
    delay: int = 1  # steps until a dose begins to work, 0..24
    effect: Sequence[float] = (0.8, 0.4)  # share of harm that one dose averts at the delay and 1, 2, ... steps later
    cost: float = 1.0  # currency per dose
    fixed_cost: float = 0.0  # currency per step with a dose
    budget_value: float = 0.0  # currency per dose left at the end of the horizon

    def __post_init__(self) -> None:
        object.__setattr__(self, "doses", ascending("doses", self.doses, 0.0))
        try:
            object.__setattr__(self, "effect", tuple(self.effect))
        except TypeError:
            raise InputError("effect", repr(self.effect), "a sequence of shares") from None
        self.check_plan_settings()
        self.params()

    def params(self) -> Params:
        """The parameters as the rules read them; also the base of per-window parameters."""
        grid = ascending("doses", self.doses, 0.0)
        if grid[0] != 0.0:
            raise InputError("doses", grid[0], "0: it must be possible to do nothing", index=0)
        if len(grid) == 1:
            raise InputError("doses", "only 0", "at least one dose above 0")
        if not 1 <= len(self.effect) <= 48:
            raise InputError("effect", f"{len(self.effect)} shares", "1 to 48")
        budget_value = number("budget_value", self.budget_value)
        if limit("budget", self.budget) == NO_LIMIT and budget_value > 0.0:
            raise InputError("budget_value", budget_value, "0 without a budget")
        return Params(
            effect=(0.0,) * whole("delay", self.delay, 0, 24)
            + tuple(share(f"effect[{i}]", x) for i, x in enumerate(self.effect)),
            cooldown=float(whole("cooldown", self.cooldown, 0, 1000)),
            cost=number("cost", self.cost),
            fixed_cost=number("fixed_cost", self.fixed_cost),
            budget_value=budget_value,
            stability_cost=number("stability_cost", self.stability_cost),
            grid=grid,
        )

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self,
        budget: float | None = None,
        wait: int = 0,
        given: Sequence[float] = (),
        planned: Sequence[float] | None = None,
        allowance: float | None = None,
    ) -> State:
        """The starting state. `budget` is what is left of it (by default all); `wait` steps remain of the cooldown;
        `given[i]` was the dose i + 1 steps ago (missing ones are 0; older than the effect lasts: left out);
        `planned` are the previous plan's doses from this step on."""
        length = max(1, len(self.effect) + self.delay - 1)
        past = tuple(number(f"given[{i}]", x) for i, x in enumerate(given))[:length]
        return State(
            limit("budget", self.budget if budget is None else budget),
            float(whole("wait", wait, 0, 1000)),
            past + (0.0,) * (length - len(past)),
            *self.plan_fields(planned, allowance),
        )

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """Harm suffered, what doses cost and harm averted (currency each), and doses given."""
        harm, avoided = max(float(y), 0.0), averted(s, a, p)
        return {
            "harm": harm * (1.0 - avoided),
            "dosing": p.cost * a + (p.fixed_cost if a > 0.0 else 0.0),
            "averted": harm * avoided,
            "doses": a,
        }

    def words(self, units: str = "", currency: str = "") -> Words:
        """What outcomes, actions, state fields and parts are called."""
        return Words(
            "harm", currency, "dose", "",
            {"budget": ("doses left", ""), "wait": ("periods to wait", ""), "given": ("given before", "")},
            {"averted": ("averted", currency), "doses": ("doses", "")}, {},
            {"harm": "harm", "dosing": "cost of doses"},
        )  # fmt: skip

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return (
            Limit("budget", "budget", 1, in_state=True),
            Limit("wait", "wait", -1, in_state=True, whole=True),
            ALLOWANCE,
        )

    def candidates(self, settings: Any) -> list[tuple[str, Changes]]:
        """Other values of the doses that are left besides."""
        first, *others = super().candidates(settings)
        return [first, *self._other_ends(), *others]

    def refinements(self, settings: Any, changed: Changes) -> list[tuple[str, Changes]]:
        """Other values of what is left, if none was chosen."""
        plans = super().refinements(settings, changed)
        return plans if "budget_value" in changed.get("task", {}) else [*plans, *self._other_ends()]

    def _other_ends(self) -> list[tuple[str, Changes]]:
        if not self.budget_value > 0.0:
            return []
        return [
            (f"{times:g} times the end value", {"task": {"budget_value": times * self.budget_value}})
            for times in (0.5, 2.0)
        ]

    def fit(self) -> Fit:
        """The mean harm of a step becomes what a dose costs; the whole budget is there at first."""
        return Fit("relative", self.cost or 1.0, 0.0, {})

    @classmethod
    def instances(cls) -> dict[str, Intervention]:
        """Named instances, for tests, documents and benchmarks."""
        return {
            "alarm": cls(effect=(0.9,), cooldown=2, budget=3.0),
            "treatment": cls(
                doses=(0.0, 1.0, 2.0), delay=2, effect=(0.3, 0.4, 0.2), cooldown=1, budget=4.0, budget_value=0.5
            ),
            "repair": cls(delay=0, effect=(0.5, 0.5, 0.5, 0.5), cooldown=0, cost=2.0, fixed_cost=1.0),
            "steady": cls(budget=4.0, stability_cost=0.3, change_budget=2.0),
        }


def label(action: float) -> str:
    return "watch" if action == 0.0 else f"dose {figure(action)}"


@lru_cache(maxsize=256)
def _task(config: Intervention) -> Task:
    params = config.params()
    return Task(
        config=config,
        name="intervention", state=State, actions=params.grid, params=params, feasible=feasible, step=step,
        reward=reward, fallback=fallback, invariant=invariant, terminal=terminal if params.budget_value > 0.0 else None,
        prepare=prepare, bound=bound, label_of=label, called="doses", limits=(0.0, params.grid[-1]),
    )  # fmt: skip
