"""Storage: a battery or tank that buys, keeps and sells at prices it does not move.

A step runs: decide the power (above 0: charge, below 0: discharge, both as metered outside), trade at the price, leak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import floor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.task import Task
from ucsearch.tasks.base import ALLOWANCE, Changes, Fit, Limit, StablePlan, Words, planning_modes, power_unit
from ucsearch.tasks.checks import NO_LIMIT, ascending, choice, limit, number, share, whole
from ucsearch.tasks.shared_rules import ROUNDING
from ucsearch.tasks.storage import lattice, rules
from ucsearch.trace import Trace

__all__ = [
    "DAY",
    "Storage",
    "end_values",
]


Floats = NDArray[np.float64]


PERIOD_HOURS = {"15min": 0.25, "30min": 0.5, "hour": 1.0, "day": 24.0}  # how long a period lasts
DAY = 24.0  # hours of forecast that say what energy is worth at the end
_LEVELS = 41  # of the store, for that
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
        """Whether the rules of `lattice` are needed."""
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
            return rules.Params(**plain)
        hours = number("hours", self.hours)
        if not hours > 0.0:
            raise InputError("hours", hours, "a number above 0")
        return lattice.Params(
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
        cycles_left = limit("cycles", self.cycles if cycles is None else cycles)
        energy = number("level", level, 0.0, self.capacity)
        power = number("last", last, -NO_LIMIT)
        budget = cycles_left if cycles_left == NO_LIMIT else cycles_left * self.capacity
        rest = self.plan_fields(planned, allowance)
        wait = float(whole("due", due, 0, 100_000))
        if wait > 0.0 and self.target is None:
            raise InputError("due", due, "0 without a target")
        if not self.on_lattice:
            return rules.State(energy, power, budget, *rest)
        p = self.params()
        if self.ramp is None:
            power = 0.0
        return lattice.State(lattice.floored(energy, p), power, budget, wait, *rest)

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """Currency: energy less what it was sold for, fees and wear; energy bought, energy sold, the level after it."""
        energy = abs(a) * self.hours
        after = self.task().step(s, a, float(y), p)
        drawn = energy / p.discharging if a < 0.0 else 0.0
        return {
            "energy": a * self.hours * float(y),
            "fees": p.fee * energy,
            "wear": p.wear * drawn,
            "bought": energy if a > 0.0 else 0.0,
            "sold": energy if a < 0.0 else 0.0,
            "level": float(after.level),
        }

    def words(self, units: str = "", currency: str = "") -> Words:
        """What outcomes, actions, state fields and parts are called."""
        power = power_unit(units)
        return Words(
            "price", f"{currency}/{units}" if currency else f"per {units}", "power", power,
            {
                "level": ("charge", units), "last": ("power before", power),
                "discharge_left": ("left to discharge", units), "due": ("periods until the target", ""),
            },
            {"bought": ("bought", units), "sold": ("sold", units)}, {"level": ("mean charge", units)},
            {"energy": "energy, net", "fees": "fees", "wear": "wear"},
        )  # fmt: skip

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return (
            Limit("capacity", "capacity", 1), Limit("ramp", "ramp", 1),
            Limit("discharge_left", "what is left of the cycles", 1, in_state=True), Limit("target", "target", -1),
            Limit("due", "due", 1, in_state=True, whole=True), ALLOWANCE,
        )  # fmt: skip

    @classmethod
    def defaults(cls, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """What is left at the end is worth what the forecast says. A store is planned for a day, because a shorter plan
        sees half of what prices do; a plan by days sees a week."""
        tables: dict[str, dict[str, Any]] = {
            "task": {} if "end_value" in content["task"] else {"end_price": "forecast"}
        }
        if (hours := PERIOD_HOURS.get(content.get("period", ""))) is not None:
            tables["task"]["hours"] = hours
            tables["policy"] = {"depth": round(24.0 / hours) if hours < 24.0 else 7}
        return tables

    def relaxed(self) -> Storage:
        """The same store without a lattice: any power between the smallest and the largest."""
        return replace(self, power=None, powers=(min(self.powers), 0.0, max(self.powers)), level_step=None)

    def candidates(self, settings: Any) -> list[tuple[str, Changes]]:
        """Prices earn in proportion, so a store is planned on the mean; and other values of what is left."""
        first, *others = planning_modes(settings, (("mean", 0.0), ("mean", 0.25), ("mean", 0.5)))
        return [first, self._other_end(), *others]

    def refinements(self, settings: Any, changed: Changes) -> list[tuple[str, Changes]]:
        """Finer levels of charge besides, and the other end value if it was not tried."""
        plans = super().refinements(settings, changed)
        if self.level_step is not None:
            finer = 0.5 * self.level_step
            nodes = 4 * settings.proof.node_budget
            change = {"task": {"level_step": finer}, "proof": {"node_budget": nodes}}
            plans.insert(3 if settings.season > 1 else 2, (f"levels of {finer:g}", change))
        return plans if "end_price" in changed.get("task", {}) else [*plans, self._other_end()]

    def _other_end(self) -> tuple[str, Changes]:
        if self.end_price == "forecast":
            return "no end value", {"task": {"end_price": "given", "end_value": 0.0}}
        return "end value from the forecast", {"task": {"end_price": "forecast", "end_value": None}}

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


def end_values(prices: Floats, p: Any, up: float, down: float, steps: int) -> Floats:
    """(W,) currency per unit: what the upper half of the store would earn on the last `steps` of `prices` (W, H), or on
    all of them where they are fewer. `up`, `down`: energy that full power buys and sells in a step. `p`: params of the
    storage, one for all windows or one each."""
    price = prices[:, prices.shape[1] - max(1, min(prices.shape[1], steps)) :]
    capacity, charging, discharging, fee, wear = (
        np.broadcast_to(np.asarray(x, np.float64), len(price))[:, None, None]
        for x in (p.capacity, p.charging, p.discharging, p.fee, p.wear)
    )
    share_of = np.linspace(0.0, 1.0, _LEVELS)
    move = capacity * (share_of[None, None, :] - share_of[None, :, None])  # (W, from, to)
    slack = ROUNDING * (1.0 + capacity)
    allowed = (move <= up * charging + slack) & (move >= -down / discharging - slack)
    bought, sold = np.maximum(move, 0.0) / charging, np.maximum(-move, 0.0)
    paid = -fee * (bought + sold * discharging) - wear * sold
    traded = sold * discharging - bought
    value = np.zeros((len(price), _LEVELS))
    for k in range(price.shape[1] - 1, -1, -1):
        earned = traded * price[:, k, None, None] + paid + value[:, None, :]
        value = np.where(allowed, earned, -np.inf).max(axis=2)
    half = np.maximum(capacity[:, 0, 0], ROUNDING) / 2.0
    return np.maximum((value[:, -1] - value[:, _LEVELS // 2]) / half, 0.0)


def label(action: float) -> str:
    return "idle" if action == 0.0 else f"{'charge' if action > 0.0 else 'discharge'} {figure(abs(action))}"


@lru_cache(maxsize=256)
def _task(config: Storage) -> Task:
    params = config.params()
    module: Any = lattice if config.on_lattice else rules
    return Task(
        config=config,
        name="storage",
        state=module.State,
        actions=params.grid,
        limits=(params.grid[0], params.grid[-1]),  # no battery has more power than its own
        params=params,
        feasible=module.feasible,
        step=module.step,
        reward=module.reward,
        fallback=module.fallback,
        invariant=module.invariant,
        terminal=module.terminal if config.has_terminal else None,
        prepare=module.prepare,
        bound=module.bound,
        label_of=label,
        called="powers",
        uses={"charging": rules.charging, "discharging": rules.discharging},
    )
