"""Storage: a battery or tank that buys, keeps and sells at prices it does not move.

A step runs: decide the power (above 0: charge, below 0: discharge, both as metered outside), trade at the price, leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import zeros
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.figures import figure
from ucsearch.task import Task
from ucsearch.tasks import storage_lattice as lattice
from ucsearch.tasks import uses
from ucsearch.tasks.binding import Fit
from ucsearch.tasks.checks import NO_LIMIT, ascending, choice, limit, number, share, whole
from ucsearch.tasks.exposure import ROUNDING, SAFETY, StablePlan, change, linear_spread, moments
from ucsearch.tasks.storage_end import DAY, end_values
from ucsearch.trace import Trace

__all__ = ["Storage"]

Floats = NDArray[np.float64]


class State(NamedTuple):
    level: float  # energy in store
    last: float  # power of the step before
    discharge_left: float  # energy that may still be drawn from the store: what is left of the cycle budget
    planned: tuple[float, ...]  # powers of the previous plan from this step on
    planned_left: float  # how many of them are real
    allowance: float  # units of departure from it still allowed


class Params(NamedTuple):
    capacity: float  # energy
    charging: float  # energy stored per unit bought
    discharging: float  # energy sold per unit drawn
    keep: float  # share of the level that is left after a step
    ramp: float  # units by which power may differ from the step before; widened by rounding
    fee: float  # currency per unit traded
    wear: float  # currency per unit drawn from the store
    end_value: float  # currency per unit in store at the end
    stability_cost: float  # currency per unit of departure from the previous plan
    grid: tuple[float, ...]  # (m,) the actions


def drawn(a: float, p: Any) -> float:
    """Energy taken out of the store by power `a`."""
    return float(-a / p.discharging) if a < 0.0 else 0.0


def gained(a: float, p: Any) -> float:
    """Change of the level by power `a`, leak left out."""
    return float(a * p.charging) if a > 0.0 else -drawn(a, p)


def feasible(s: Any, a: float, p: Any) -> bool:
    slack = ROUNDING * (1.0 + p.capacity)
    after = p.keep * s.level + gained(a, p)
    if not -slack <= after <= p.capacity + slack:
        return False
    if abs(a - s.last) > p.ramp or drawn(a, p) > s.discharge_left + slack:
        return False
    return bool(change(s, a) <= s.allowance)


def step(s: Any, a: float, y: float, p: Any) -> State:
    return State(
        min(max(p.keep * s.level + gained(a, p), 0.0), p.capacity),
        a,
        max(s.discharge_left - drawn(a, p), 0.0),
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return float(-a * y - p.fee * abs(a) - p.wear * drawn(a, p) - p.stability_cost * change(s, a))


def terminal(s: Any, p: Any) -> float:
    return float(p.end_value * s.level)


def fallback(s: Any, p: Any) -> float:
    """The feasible power nearest to the previous plan while it lasts, else to idle; the smaller on ties."""
    target = s.planned[0] if s.planned_left > 0.0 else 0.0
    best, nearest = 0.0, -1.0
    for a in p.grid:
        if feasible(s, a, p) and (nearest < 0.0 or abs(a - target) < nearest):
            best, nearest = a, abs(a - target)
    return float(best)


def invariant(s: Any, p: Any) -> bool:
    """The level keeps its limits and no budget is overdrawn."""
    if not 0.0 <= s.level <= p.capacity:
        return False
    return bool(s.discharge_left >= 0.0 and s.planned_left >= 0.0 and s.allowance >= 0.0)


# Row 0 of the table holds the energy values that are tried; from row 1 on, row 1 + k belongs to step k: what all steps
# from k on earn at most if energy is worth that much at the end; the share of a unit kept from k to the end; and what
# all steps from k on earn at most from each of the levels 0, capacity / _PARTS, ..., capacity.
_PARTS = 48


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d + 2, 2 d + 4 + _PARTS): the sums that `bound` reads, for 2 d + 2 values of energy and then by level."""
    depth, m = outcomes.shape[0], len(p.grid)
    count = 2 * depth + 2
    table = zeros((depth + 2, count + 2 + _PARTS))
    table[0, 0] = p.end_value
    table[depth + 1, count] = 1.0
    values = zeros((depth, m))
    for k in range(depth - 1, -1, -1):
        table[k + 1, count] = table[k + 2, count] * p.keep
        variance, below, above = moments(view.members[:, k], view.weights)
        for n in range(m):
            a = p.grid[n]
            values[k, n] = -a * outcomes[k] - p.fee * abs(a) - p.wear * drawn(a, p)
            if view.risk > 0.0:
                values[k, n] -= view.risk * linear_spread(-a, variance, below, above, view.spread)
        # The best value of energy is where some step is torn between idling and full power one way or the other.
        kept = table[k + 2, count]
        if kept > 0.0:
            if p.grid[0] < 0.0:
                table[0, 2 * k + 2] = max(values[k, 0] / (drawn(p.grid[0], p) * kept), 0.0)
            if p.grid[-1] > 0.0:
                table[0, 2 * k + 3] = max(-values[k, m - 1] / (gained(p.grid[-1], p) * kept), 0.0)
    for i in range(count):
        worth, size = table[0, i], 0.0
        # A level at its limit may have been moved there by a rounding error.
        total = worth * ROUNDING * (1.0 + p.capacity) * depth
        if worth < p.end_value:
            total += (p.end_value - worth) * p.capacity
        for k in range(depth, -1, -1):
            if k < depth:
                best = -1e300
                for n in range(m):
                    value = values[k, n] + worth * table[k + 2, count] * gained(p.grid[n], p)
                    best = max(best, value)
                    size += abs(value)
                total += best
            table[k + 1, i] = total + SAFETY * (1.0 + abs(total) + size)
    fill_levels(table, values, depth, count + 1, p)
    return table


def fill_levels(table: Floats, values: Floats, depth: int, start: int, p: Any) -> None:
    """Best values by level, with every level rounded up and what does not fit let go: both can only help."""
    part, slack = p.capacity / _PARTS, ROUNDING * (1.0 + p.capacity)
    for i in range(_PARTS + 1):
        table[depth + 1, start + i] = p.end_value * (part * i + slack)
    for k in range(depth - 1, -1, -1):
        for i in range(_PARTS + 1):
            best = -1e300
            for n in range(len(p.grid)):
                after = p.keep * part * i + gained(p.grid[n], p)
                if after >= -2.0 * slack:  # the rules allow one; rounding errors of the way here are far smaller
                    best = max(best, values[k, n] + table[k + 2, start + part_above(after, p)])
            table[k + 1, start + i] = best + SAFETY * (1.0 + abs(best))


def part_above(level: float, p: Any) -> int:
    """The first tabulated level that is not below `level`; a rounding error below does not count."""
    if not p.capacity > 0.0:
        return 0
    at = ceil(level / p.capacity * _PARTS - SAFETY)
    return min(max(at, 0), _PARTS)


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """The least of the value of the level rounded up, and of the sums for all values of energy."""
    count = table.shape[1] - 2 - _PARTS
    level = s.level * table[h + 1, count]
    best = table[h + 1, count + 1 + part_above(s.level, p)]
    for i in range(count):
        best = min(best, table[h + 1, i] + table[0, i] * level)
    return float(best + SAFETY * (1.0 + abs(best)))


USUAL_STEPS = 20  # that full power charges in one period, unless level_step says
MOST_POWERS = 401  # that `power` may be split into
CYCLE_PRICES = 17.0  # that the bound tries where cycles are limited


def _steps_of(full: float, capacity: float) -> int:
    """How many steps a period at full power charges: about as many as usual, so that steps fill the store best."""
    if capacity <= 0.0:
        return USUAL_STEPS
    most = max(1, min(USUAL_STEPS, floor(lattice.MOST_PARTS * full / capacity)))
    counts = range(most, max(1, most - USUAL_STEPS // 4) - 1, -1)
    return max(counts, key=lambda n: (round(floor(capacity * n / full + 1e-9) * full / (capacity * n), 3), n))


@dataclass(frozen=True, kw_only=True)
class Storage(StablePlan):
    """A battery or tank under a price forecast. Outcomes are prices in currency per unit of energy; energy is power
    times the hours of a step."""

    capacity: float = 4.0  # energy
    powers: Sequence[float] = (-2.0, -1.0, 0.0, 1.0, 2.0)  # above 0 charges, below 0 discharges; 0 must be among them
    charge_efficiency: float = 0.95  # energy stored per unit bought, in (0, 1]
    discharge_efficiency: float = 0.95  # energy sold per unit drawn, in (0, 1]
    leak: float = 0.0  # share of the level lost in a step
    ramp: float | None = None  # units by which power may differ from the step before
    cycles: float | None = None  # full discharges allowed from the start on
    fee: float = 0.0  # currency per unit traded, bought or sold
    wear: float = 0.0  # currency per unit drawn from the store
    end_value: float = 0.0  # currency per unit in store at the end of the horizon
    power: float | None = None  # instead of powers: all powers up to it that move the level by whole level_steps
    level_step: float | None = None  # energy; levels are multiples of it. Left out beside power: a 20th of a charge
    hours: float = 1.0  # of a step
    target: float | None = None  # energy in store when the state's `due` runs out
    end_price: Literal["given", "forecast"] = "given"  # forecast: end_value from each forecast's last day

    def __post_init__(self) -> None:
        if self.power is not None:
            self._split_power(number("power", self.power))
        object.__setattr__(self, "powers", ascending("powers", self.powers))
        self.check_plan_settings()
        self.params()

    def _split_power(self, power: float) -> None:
        """Powers from `power` and `level_step`; without one, full power charges a number of whole steps."""
        shares = (
            share("charge_efficiency", self.charge_efficiency, zero=False),
            share("discharge_efficiency", self.discharge_efficiency, zero=False),
        )
        hours, capacity = number("hours", self.hours), number("capacity", self.capacity, 0.0, NO_LIMIT)
        if not power * hours > 0.0:
            raise InputError("power, hours", f"{power:g}, {hours:g}", "numbers above 0")
        full = power * hours * shares[0]
        if self.level_step is None:
            step = float(f"{full / _steps_of(full, capacity):.12g}")  # as a person would write it
            object.__setattr__(self, "level_step", min(step, capacity) or full)
        if not (self.level_step or 0.0) > 0.0:
            raise InputError("level_step", self.level_step, "a number above 0")
        size = number("level_step", self.level_step)
        if not 2.0 * power * hours / size <= MOST_POWERS:
            raise InputError(
                "level_step", size, f"at least {2.0 * power * hours / MOST_POWERS:g}",
                hint=f"Full power would move the level by {power * hours / size:g} steps in one period.",
            )  # fmt: skip
        object.__setattr__(self, "powers", tuple(lattice.lattice_powers(power, *shares, hours, size)))

    def shape(self) -> tuple[Any, ...]:
        """The powers, whether levels lie on a lattice, and whether energy left is worth something."""
        return (self.powers, self.on_lattice, self.has_terminal)

    @property
    def on_lattice(self) -> bool:
        """Whether the rules of `storage_lattice` are needed."""
        return bool(self.level_step or self.hours != 1.0 or self.target is not None)

    @property
    def has_terminal(self) -> bool:
        return self.end_value > 0.0 or self.end_price == "forecast"

    def params(self) -> Any:
        """The parameters as the rules read them; also the base of per-window parameters."""
        grid = ascending("powers", self.powers)
        if 0.0 not in grid:
            raise InputError("powers", grid, "0 among them", hint="The store must be able to stand idle.")
        limit("cycles", self.cycles)
        choice("end_price", self.end_price, ("given", "forecast"))
        capacity = number("capacity", self.capacity, 0.0, NO_LIMIT)
        plain: dict[str, Any] = dict(
            capacity=capacity,
            charging=share("charge_efficiency", self.charge_efficiency, zero=False),
            discharging=share("discharge_efficiency", self.discharge_efficiency, zero=False),
            keep=1.0 - share("leak", self.leak),
            ramp=limit("ramp", self.ramp) * (1.0 + ROUNDING),
            fee=number("fee", self.fee),
            wear=number("wear", self.wear),
            end_value=number("end_value", self.end_value),
            stability_cost=number("stability_cost", self.stability_cost),
            grid=grid,
        )
        if not self.on_lattice:
            return Params(**plain)
        hours = number("hours", self.hours)
        if not hours > 0.0:
            raise InputError("hours", hours, "a number above 0")
        return lattice.LatticeParams(
            **plain,
            hours=hours,
            level_step=0.0 if self.level_step is None else number("level_step", self.level_step, 0.0, capacity),
            target=0.0 if self.target is None else number("target", self.target, 0.0, capacity),
            prices=1.0 if self.cycles is None else CYCLE_PRICES,
        )

    def forecast_columns(self, trace: Trace, p: Any) -> dict[str, Floats]:
        """What energy is worth at the end, per window: what the upper half of the store would earn, per unit, in one
        more day like the last of the mean forecast (of fewer steps: like all of it)."""
        if self.end_price == "given":
            return {}
        up, down = max(self.powers[-1], 0.0) * self.hours, max(-self.powers[0], 0.0) * self.hours
        return {"end_value": end_values(trace.mean[:, :, 0], p, up, down, round(DAY / self.hours))}

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self,
        level: float,
        last: float = 0.0,
        cycles: float | None = None,
        planned: Sequence[float] | None = None,
        allowance: float | None = None,
        due: int = 0,
    ) -> Any:
        """The starting state. `level` is the energy in store; `last` the previous step's power; `cycles` what is left
        of the cycle budget (by default all of it); `planned` the previous plan's powers from this step on; `due` the
        steps in which the level must reach the target (0: no matter)."""
        left = limit("cycles", self.cycles if cycles is None else cycles)
        energy = number("level", level, 0.0, self.capacity)
        power = number("last", last, -NO_LIMIT)
        budget = left if left == NO_LIMIT else left * self.capacity
        rest = self.plan_fields(planned, allowance)
        wait = float(whole("due", due, 0, 100_000))
        if wait > 0.0 and self.target is None:
            raise InputError("due", due, "0 without a target")
        if not self.on_lattice:
            return State(energy, power, budget, *rest)
        p = self.params()
        if self.ramp is None:
            power = 0.0
        return lattice.LatticeState(lattice.floored(energy, p), power, budget, wait, *rest)

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """Reward of one step (currency); energy bought, energy sold, and the level after it."""
        energy = abs(a) * self.hours
        after = self.task().step(s, a, float(y), p)
        return {
            "reward": float(self.task().reward(s, a, y, p)),
            "bought": energy if a > 0.0 else 0.0,
            "sold": energy if a < 0.0 else 0.0,
            "level": float(after.level),
        }

    def fit(self) -> Fit:
        """The mean price becomes 10; the store is half full at first."""
        return Fit("relative", 10.0, -np.inf, {"level": self.capacity / 2.0})

    @classmethod
    def instances(cls) -> dict[str, Storage]:
        """Named instances, for tests, documents and benchmarks."""
        return {
            "battery": cls(cycles=2.0, wear=0.5),
            "ideal": cls(charge_efficiency=1.0, discharge_efficiency=1.0),
            "tank": cls(
                capacity=20.0, powers=(-4.0, -2.0, 0.0, 2.0, 4.0), leak=0.01, ramp=4.0, charge_efficiency=1.0,
                discharge_efficiency=1.0, end_value=10.0,
            ),
            "steady": cls(stability_cost=0.5, change_budget=6.0, ramp=2.0),
        }  # fmt: skip


def label(action: float) -> str:
    return "idle" if action == 0.0 else f"{'charge' if action > 0.0 else 'discharge'} {figure(abs(action))}"


@lru_cache(maxsize=256)
def _task(config: Storage) -> Task:
    params = config.params()
    rules: dict[str, Any] = dict(
        state=State, feasible=feasible, step=step, reward=reward, fallback=fallback, invariant=invariant,
        prepare=prepare, bound=bound,
    )  # fmt: skip
    if config.on_lattice:
        rules = dict(
            state=lattice.LatticeState, feasible=lattice.feasible, step=lattice.step, reward=lattice.reward,
            fallback=lattice.fallback, invariant=lattice.invariant, prepare=lattice.prepare, bound=lattice.bound,
        )  # fmt: skip
    return Task(
        name="storage",
        actions=params.grid,
        limits=(params.grid[0], params.grid[-1]),  # no battery has more power than its own
        params=params,
        terminal=(lattice.terminal if config.on_lattice else terminal) if config.has_terminal else None,
        label_of=label,
        called="powers",
        uses={"charging": uses.charging, "discharging": uses.discharging},
        **rules,
    )
