"""CapacityPlan: units that are started ahead of demand, and once in service stay for a while.

A step runs: decide how many units to start or stop, stop at once, put units into service that were started
`startup_delay` steps ago, serve demand, pay. Units are counted, so all unit counts are whole numbers.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
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
from ucsearch.tasks.base import ALLOWANCE, SERVICE, Fit, Limit, StablePlan, Words
from ucsearch.tasks.checks import ascending, choice, fractile, limit, number, whole
from ucsearch.tasks.shared_rules import SAFETY, change, linear_spread, moments
from ucsearch.trace import Trace

__all__ = ["CapacityPlan"]

Floats = NDArray[np.float64]


class State(NamedTuple):
    """At the start of a step, before units are started or stopped."""

    online: float  # units in service
    starting: tuple[float, ...]  # (max(1, start-up delay),) units; [0] enters service in this step. Delay 0: unused
    young: tuple[float, ...]  # (max(1, minimum up-time - 1),) units in service; [i] must stay for i + 1 more steps
    planned: tuple[float, ...]  # units: changes of the previous plan from this step on
    planned_left: float  # how many of them are real
    allowance: float  # units of departure from it still allowed


class Params(NamedTuple):
    delay: float  # steps from start to service
    minimum_up: float  # steps in service before a unit may stop
    output: float  # demand served by one unit in one step
    smallest: float  # units that stay in service
    largest: float  # units in service and starting
    ramp: float  # units started or stopped in one step
    shortage: float  # currency per unit of demand not served
    idle: float  # currency per unit of demand that could have been served besides
    running: float  # currency per unit in service and step
    start_cost: float  # currency per unit started
    stability_cost: float  # currency per unit of departure from the previous plan
    grid: tuple[float, ...]  # (m,) the actions


# The same with what is needed, for a fallback that looks; tasks that do not ask for it keep their parameters.
NeedParams: Any = namedtuple("NeedParams", (*Params._fields, "need"))  # type: ignore[misc]


def total_of(items: tuple[float, ...]) -> float:
    total = 0.0
    for x in items:
        total += x
    return total


def entering(s: Any, a: float, p: Any) -> float:
    """Units that enter service in this step."""
    return float(s.starting[0] if p.delay > 0.0 else max(a, 0.0))


def in_service(s: Any, a: float, p: Any) -> float:
    """Units that serve this step's demand."""
    return float(s.online + entering(s, a, p) + min(a, 0.0))


def serving(units: float, y: float, p: Any) -> float:
    """What a step earns with `units` in service, starts left out."""
    gap = max(y, 0.0) - units * p.output
    cost = p.shortage * gap if gap > 0.0 else -p.idle * gap
    return float(-cost - p.running * units)


def feasible(s: Any, a: float, p: Any) -> bool:
    if abs(a) > p.ramp or change(s, a) > s.allowance:
        return False
    if a > 0.0:
        return bool(s.online + total_of(s.starting) + a <= p.largest)
    if a < 0.0:
        return bool(-a <= s.online - total_of(s.young) and s.online + a >= p.smallest)
    return True


def step(s: Any, a: float, y: float, p: Any) -> State:
    return State(
        in_service(s, a, p),
        s.starting[1:] + (max(a, 0.0) if p.delay > 0.0 else 0.0,),
        s.young[1:] + (entering(s, a, p) if p.minimum_up > 1.0 else 0.0,),
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return float(serving(in_service(s, a, p), y, p) - p.start_cost * max(a, 0.0) - p.stability_cost * change(s, a))


def fallback(s: Any, p: Any) -> float:
    """The feasible change nearest to the previous plan while it lasts, else to none; the smaller on ties."""
    target = s.planned[0] if s.planned_left > 0.0 else 0.0
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def fallback_need(s: Any, p: Any) -> float:
    """The feasible change that brings units in service and starting nearest to `need`, the larger on ties; without a
    need (below 0), nearest to none."""
    target = 0.0
    if p.need >= 0.0:
        target = p.need - s.online - total_of(s.starting)
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) <= nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def invariant(s: Any, p: Any) -> bool:
    """Whole units, never more than there are, and none counted young that is not in service."""
    for x in s.starting + s.young:
        if not x >= 0.0 or x != floor(x):
            return False
    if s.online != floor(s.online) or not total_of(s.young) <= s.online:
        return False
    return bool(s.online + total_of(s.starting) <= p.largest and s.planned_left >= 0.0 and s.allowance >= 0.0)


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d, 2 (n + 1)): the best value of a step with at most i units in service, then with at least i."""
    depth, count, members = outcomes.shape[0], floor(p.largest) + 1, view.weights.shape[0]
    table = zeros((depth, 2 * count))
    rewards = empty(members)
    for k in range(depth):
        for i in range(count):
            value = serving(float(i), outcomes[k], p)
            size = abs(value)
            if view.risk > 0.0:
                for j in range(members):
                    rewards[j] = serving(float(i), view.members[j, k], p)
                    size = max(size, view.risk * abs(rewards[j]))
                variance, below, above = moments(rewards, view.weights)
                value -= view.risk * linear_spread(1.0, variance, below, above, view.spread)
            value += SAFETY * (1.0 + size)
            table[k, count + i] = value
            table[k, i] = value if i == 0 else max(value, table[k, i - 1])
        for i in range(count - 2, -1, -1):
            table[k, count + i] = max(table[k, count + i], table[k, count + i + 1])
    return table


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """Every step's best number of units between the fewest and the most that can be in service then."""
    depth, count = table.shape[0], table.shape[1] // 2
    rise, fall = min(max(p.grid[-1], 0.0), p.ramp), min(max(-p.grid[0], 0.0), p.ramp)
    floor_level = min(s.online, p.smallest)
    known, young, total = s.online, total_of(s.young), 0.0
    for k in range(h, depth):
        i = k - h
        if i < len(s.starting):
            known += s.starting[i]
        if 0 < i <= len(s.young):
            young -= s.young[i - 1]
        started = rise * max(i + 1.0 - p.delay, 0.0)
        most = min(floor(min(known + started, p.largest)), count - 1)
        fewest = min(max(floor(max(known - fall * (i + 1.0), floor_level, young)), 0), count - 1)
        total += min(table[k, most], table[k, count + fewest])
    return float(total + SAFETY * (1.0 + abs(total)))


@dataclass(frozen=True, kw_only=True)
class CapacityPlan(StablePlan):
    """Servers, machines, crews or generators under a demand forecast. Outcomes are demand per step."""

    form: ClassVar[Literal["cost", "reward"]] = "cost"

    startup_delay: int = 1  # steps from start to service, 0..24
    minimum_up_time: int = 1  # steps in service before a unit may be stopped, 1..48
    changes: Sequence[float] = (-2.0, -1.0, 0.0, 1.0, 2.0)  # units started (above 0) or stopped; 0 must be among them
    unit_output: float = 1.0  # demand served by one unit in one step
    smallest: int = 0  # units that stay in service
    largest: int = 10  # units in service and starting together, at most 10,000
    ramp: float | None = None  # units started or stopped in one step
    shortage: float = 10.0  # currency per unit of demand not served
    idle: float = 1.0  # currency per unit of demand that could have been served besides
    running: float = 0.0  # currency per unit in service and step
    start_cost: float = 0.0  # currency per unit started
    fallback_rule: Literal["keep", "need"] = "keep"  # need: towards the units that the forecast's upper quantile needs

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", ascending("changes", self.changes))
        self.check_plan_settings()
        self.params()

    def params(self) -> Any:
        """The parameters as the rules read them; also the base of per-window parameters."""
        grid = ascending("changes", self.changes)
        rule = choice("fallback_rule", self.fallback_rule, ("keep", "need"))
        if 0.0 not in grid:
            raise InputError("changes", grid, "0 among them", hint="Changing nothing must be possible.")
        for i, x in enumerate(grid):
            if x != floor(x):
                raise InputError("changes", x, "a whole number of units", index=i)
        largest = whole("largest", self.largest, 0, 10_000)
        params = Params(
            delay=float(whole("startup_delay", self.startup_delay, 0, 24)),
            minimum_up=float(whole("minimum_up_time", self.minimum_up_time, 1, 48)),
            output=number("unit_output", self.unit_output),
            smallest=float(whole("smallest", self.smallest, 0, largest)),
            largest=float(largest),
            ramp=limit("ramp", self.ramp),
            shortage=number("shortage", self.shortage),
            idle=number("idle", self.idle),
            running=number("running", self.running),
            start_cost=number("start_cost", self.start_cost),
            stability_cost=number("stability_cost", self.stability_cost),
            grid=grid,
        )
        return NeedParams._make((*params, -1.0)) if rule == "need" else params

    def forecast_columns(self, trace: Trace, p: Any) -> dict[str, Floats]:
        """Per-window params of the fallback: units that serve the critical fractile of demand when a start made now is
        in service, the least number that reaches it."""
        if self.fallback_rule != "need" or self.is_planned or trace.is_scores:
            return {}
        demand = np.maximum(trace.members[:, :, min(self.startup_delay, trace.horizon - 1), 0], 0.0)
        output = np.asarray(p.output)
        over = np.asarray(p.idle) + np.divide(p.running, output, out=np.zeros(np.shape(output)), where=output > 0.0)
        both = np.asarray(p.shortage) + over
        ratio = np.divide(p.shortage, both, out=np.full(np.shape(both), 0.5), where=both > 0.0)
        level = fractile(demand, trace.weights, np.clip(ratio, 0.01, 0.999))
        units = np.ceil(np.divide(level, output, out=np.zeros(level.shape), where=output > 0.0) - 1e-9)
        return {"need": np.clip(units, p.smallest, p.largest)}

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self,
        online: int,
        starting: Sequence[int] = (),
        young: Sequence[int] = (),
        planned: Sequence[float] | None = None,
        allowance: float | None = None,
    ) -> State:
        """The starting state. `online` units are in service; `starting[i]` enter service i steps from now; `young[i]`
        of those in service must stay for i + 1 more steps (missing ones are 0); `planned` are the previous plan's
        changes from this step on."""
        lists = []
        for name, given, length in (
            ("starting", starting, self.startup_delay),
            ("young", young, self.minimum_up_time - 1),
        ):
            if len(given) > length:
                raise InputError(name, f"{len(given)} values", f"at most {length}")
            items = tuple(float(whole(f"{name}[{i}]", x, 0, self.largest)) for i, x in enumerate(given))
            lists.append(items + (0.0,) * (max(1, length) - len(items)))
        units = float(whole("online", online, 0, self.largest))
        start = State(units, lists[0], lists[1], *self.plan_fields(planned, allowance))
        if not invariant(start, self.params()):
            fleet = f"{online} with {tuple(starting)} starting and {tuple(young)} young"
            raise InputError("online", fleet, f"at least the young, and with starting ones at most {self.largest}")
        return start

    @property
    def effect_delay(self) -> int:
        return self.startup_delay

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """Demand is what the series says; below 0 counts as none."""
        return np.maximum(values, 0.0)

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """Currency: shortage, idle, running and start costs; demand not served, units started, units in service."""
        units = in_service(s, a, p)
        gap = max(float(y), 0.0) - units * p.output
        return {
            "shortage": p.shortage * max(gap, 0.0),
            "idle": p.idle * max(-gap, 0.0),
            "running": p.running * units,
            "starts": p.start_cost * max(a, 0.0),
            "unserved": max(gap, 0.0),
            "demand": max(float(y), 0.0),
            "served": min(max(float(y), 0.0), units * p.output),
            "in_full": float(gap <= 0.0),
            "started": max(a, 0.0),
            "online": units,
        }

    def words(self, units: str = "", currency: str = "") -> Words:
        """What outcomes, actions, state fields and parts are called."""
        return Words(
            "demand", units, "change", "",
            {"online": ("units in service", ""), "starting": ("starting", ""), "young": ("must stay", "")},
            {"unserved": ("not served", units), "started": ("started", "")}, {"online": ("mean units", "")},
            {"shortage": "shortage", "idle": "idle", "running": "running", "starts": "starts"}, SERVICE,
        )  # fmt: skip

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return Limit("largest", "largest", 1), Limit("smallest", "smallest", -1), Limit("ramp", "ramp", 1), ALLOWANCE

    @classmethod
    def defaults(cls, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The fallback goes towards the units that the forecast needs."""
        return {"task": {"fallback_rule": "need"}}

    def fit(self) -> Fit:
        """The mean of a series becomes what half of the units serve; half of them are in service at first."""
        half = self.largest // 2
        return Fit("relative", max(half, 1) * self.unit_output, 0.0, {"online": half})

    def lattice(self, trace: Trace, *, unit: float | None = None, points: int = 9) -> Lattice:
        """What closed mode needs: the trace on a lattice of `unit`, by default the output of one unit. Units are
        counted, so states repeat whatever the demand; and what a step earns bends only where demand meets the output
        of whole units, so that splitting demand onto these multiples changes no expected earning."""
        if trace.is_scores:
            raise InputError("trace", "a trace of action scores", "a trace of members")
        spacing = self.unit_output if unit is None else number("unit", unit, 0.0, np.inf)
        return Lattice(float(spacing), trace.on_lattice(float(spacing), points), self)

    @classmethod
    def instances(cls) -> dict[str, CapacityPlan]:
        """Named instances, for tests, documents and benchmarks."""
        return {
            "servers": cls(startup_delay=1, minimum_up_time=2, start_cost=0.5),
            "plant": cls(
                startup_delay=3, minimum_up_time=6, changes=(-1.0, 0.0, 1.0), unit_output=5.0, smallest=1, largest=8,
                running=2.0, start_cost=10.0,
            ),
            "on-demand": cls(startup_delay=0, ramp=2.0, largest=20),
            "steady": cls(startup_delay=2, minimum_up_time=2, stability_cost=0.5, change_budget=6.0),
        }  # fmt: skip


class Lattice(NamedTuple):
    """A capacity plan with the law of its demand."""

    unit: float  # demand between neighbouring points
    trace: Trace
    plan: CapacityPlan


def label(action: float) -> str:
    return "no change" if action == 0.0 else f"{'start' if action > 0.0 else 'stop'} {figure(abs(action))}"


@lru_cache(maxsize=256)
def _task(config: CapacityPlan) -> Task:
    params = config.params()
    return Task(
        config=config,
        name="capacity_plan", state=State, actions=params.grid, params=params, feasible=feasible, step=step,
        reward=reward, fallback=fallback_need if config.fallback_rule == "need" else fallback, invariant=invariant,
        prepare=prepare, bound=bound, by_rest=True, label_of=label, called="changes", counted=True,
    )  # fmt: skip
