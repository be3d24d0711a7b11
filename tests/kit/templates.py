"""Eleven small tasks. All variation is in parameters, states, traces and settings, so that few kernels are compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import ucsearch as uc

# ---------------------------------------------------------------- battery: two floats, asymmetric reward


class Charge(NamedTuple):
    charge: float
    last: float


class BatteryParams(NamedTuple):
    capacity: float
    ramp: float
    efficiency: float


def battery_feasible(s, a, p):
    return 0.0 <= s.charge + a <= p.capacity and abs(a - s.last) <= p.ramp


def battery_step(s, a, price, p):
    return Charge(s.charge + a, a)


def battery_reward(s, a, price, p):
    return -price * a / p.efficiency if a > 0 else -price * a * p.efficiency


def nothing(s, p):
    return 0.0


battery = uc.Task(
    name="battery", state=Charge, actions=[-2.0, -1.0, 0.0, 1.0, 2.0], params=BatteryParams(8.0, 2.0, 0.95),
    feasible=battery_feasible, step=battery_step, reward=battery_reward, fallback=nothing,
)  # fmt: skip

# ---------------------------------------------------------------- lost sales: a pipeline, dead ends, a bound


class Stock(NamedTuple):
    on_hand: float
    pipeline: tuple[float, ...]
    last: float


class StockParams(NamedTuple):
    capacity: float
    ramp: float
    holding: float
    shortage: float
    unit: float


def stock_position(s):
    total = s.on_hand
    for x in s.pipeline:
        total += x
    return total


def stock_feasible(s, a, p):
    return stock_position(s) + a <= p.capacity and abs(a - s.last) <= p.ramp


def stock_step(s, a, demand, p):
    left = max(s.on_hand + s.pipeline[0] - demand, 0.0)
    return Stock(left, s.pipeline[1:] + (a,), a)


def stock_reward(s, a, demand, p):
    available = s.on_hand + s.pipeline[0]
    return -p.unit * a - p.holding * max(available - demand, 0.0) - p.shortage * max(demand - available, 0.0)


def stock_prepare(outcomes, p):
    return np.zeros(outcomes.shape[0] + 1)


def stock_bound(s, h, table, p):
    return table[h]  # rewards are never positive


stock = uc.Task(
    name="stock", state=Stock, actions=[0.0, 2.0, 4.0, 6.0], params=StockParams(16.0, 4.0, 1.0, 4.0, 0.25),
    feasible=stock_feasible, step=stock_step, reward=stock_reward, fallback=nothing, prepare=stock_prepare,
    bound=stock_bound,
)  # fmt: skip

# ---------------------------------------------------------------- direction: scores, transitions ignore outcomes


class Position(NamedTuple):
    held: float
    age: float


class PositionParams(NamedTuple):
    longest: float


def position_feasible(s, a, p):
    return a == 0.0 or a != s.held or s.age < p.longest


def position_step(s, a, y, p):
    return Position(a, s.age + 1.0 if a == s.held else 0.0)


def position_reward(s, a, y, p):
    return a * y - 0.1 * abs(a - s.held)


position = uc.Task(
    name="position", state=Position, actions=[-1.0, 0.0, 1.0], params=PositionParams(2.0), feasible=position_feasible,
    step=position_step, reward=position_reward, fallback=nothing,
)  # fmt: skip

# ---------------------------------------------------------------- two-field outcomes, terminal value, discount


class Tank(NamedTuple):
    level: float


class TankParams(NamedTuple):
    size: float
    worth: float


class Weather(NamedTuple):
    price: float
    load: float


def tank_feasible(s, a, p):
    return 0.0 <= s.level + a <= p.size


def tank_step(s, a, y, p):
    return Tank(min(max(s.level + a - y.load, 0.0), p.size))


def tank_reward(s, a, y, p):
    missing = max(y.load - s.level - a, 0.0)
    return -a * y.price - 10.0 * missing


def tank_terminal(s, p):
    return p.worth * s.level


tank = uc.Task(
    name="tank", state=Tank, actions=[-1.0, 0.0, 1.0, 3.0], params=TankParams(6.0, 0.5), outcome=Weather,
    feasible=tank_feasible, step=tank_step, reward=tank_reward, fallback=nothing, terminal=tank_terminal,
)  # fmt: skip

# ---------------------------------------------------------------- ties everywhere, duplicate effects


class Pack(NamedTuple):
    stock: float


class PackParams(NamedTuple):
    size: float
    most: float


def packs(a, p):
    return math.floor((a + p.size - 1.0) / p.size) * p.size


def pack_feasible(s, a, p):
    return s.stock + packs(a, p) <= p.most


def pack_step(s, a, y, p):
    return Pack(max(s.stock + packs(a, p) - math.floor(y), 0.0))


def pack_reward(s, a, y, p):
    return -abs(s.stock + packs(a, p) - math.floor(y))


pack = uc.Task(
    name="pack", state=Pack, actions=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], params=PackParams(2.0, 8.0),
    feasible=pack_feasible, step=pack_step, reward=pack_reward, fallback=nothing,
)  # fmt: skip

# ---------------------------------------------------------------- maze: most moves end in a dead end


class Cell(NamedTuple):
    x: float
    y: float


class MazeParams(NamedTuple):
    wall: tuple[float, float, float, float]
    slope: float


def maze_feasible(s, a, p):
    for w in p.wall:
        if s.x + a == w and s.y >= 1.0:
            return False
    return -3.0 <= s.x + a <= 3.0 and s.y + abs(a) <= 6.0


def maze_step(s, a, y, p):
    return Cell(s.x + a, s.y + abs(a))


def maze_reward(s, a, y, p):
    return p.slope * (s.x + a) * y


maze = uc.Task(
    name="maze", state=Cell, actions=[-2.0, -1.0, 1.0, 2.0], params=MazeParams((0.0, 1.0, -2.0, 3.0), 1.0),
    feasible=maze_feasible, step=maze_step, reward=maze_reward, fallback=lambda s, p: 1.0,
)  # fmt: skip

# ---------------------------------------------------------------- myopic: transitions do not depend on actions


class Clock(NamedTuple):
    t: float


def clock_feasible(s, a, p):
    return True


def clock_step(s, a, y, p):
    return Clock(s.t + 1.0)


def clock_reward(s, a, y, p):
    return a * y - 0.05 * abs(a)


clock = uc.Task(
    name="clock", state=Clock, actions=[-1.0, 0.0, 1.0], feasible=clock_feasible, step=clock_step,
    reward=clock_reward, fallback=nothing,
)  # fmt: skip

# ---------------------------------------------------------------- faults: rewards that stop being finite


class Risky(NamedTuple):
    x: float


class RiskyParams(NamedTuple):
    pole: float


def risky_feasible(s, a, p):
    return s.x + a >= 0.0


def risky_step(s, a, y, p):
    return Risky(s.x + a)


def risky_reward(s, a, y, p):
    return y / (s.x + a - p.pole)


risky = uc.Task(
    name="risky", state=Risky, actions=[-1.0, 0.0, 1.0], params=RiskyParams(3.0), feasible=risky_feasible,
    step=risky_step, reward=risky_reward, fallback=nothing,
)  # fmt: skip

# ---------------------------------------------------------------- continuations: base-stock after the prefix


def stock_base(s, h, p, theta):
    room = p.capacity - stock_position(s)
    order = min(max(theta[0] - stock_position(s), 0.0), room)
    return min(max(order, max(s.last - p.ramp, 0.0)), s.last + p.ramp)


def stock_none(s, h, p):
    return max(s.last - p.ramp, 0.0)


followed = uc.Task(
    name="followed", state=Stock, actions=[0.0, 2.0, 4.0, 6.0], params=StockParams(16.0, 4.0, 1.0, 4.0, 0.25),
    feasible=stock_feasible, step=stock_step, reward=stock_reward, fallback=nothing,
    continuations=[uc.Continuation(stock_base, grid=((4.0,), (8.0,), (12.0,))), stock_none],
)  # fmt: skip

# ---------------------------------------------------------------- a tight, risk-aware bound


class Step(NamedTuple):
    x: float


def free_feasible(s, a, p):
    return True


def free_step(s, a, y, p):
    return Step(s.x + a)


def free_reward(s, a, y, p):
    return a * y


def free_prepare(outcomes, p, view):
    """Transitions never restrict, so the best of every step on its own is the exact value to go."""
    d = outcomes.shape[0]
    table = np.zeros(d + 1)
    for back in range(d):
        h = d - 1 - back
        best = -np.inf
        for a in (-1.0, 0.0, 0.5, 1.0):
            mean = 0.0
            for j in range(view.members.shape[0]):
                mean += view.weights[j] * a * view.members[j, h]
            total = 0.0
            for j in range(view.members.shape[0]):
                off = a * view.members[j, h] - mean
                if view.spread != 2 or off < 0.0:
                    total += view.weights[j] * off * off
            if view.spread != 0:
                total = math.sqrt(total)
            best = max(best, a * outcomes[h] - view.risk * total)
        table[h] = table[h + 1] + best + 1e-12
    return table


def free_bound(s, h, table, p):
    return table[h]


free = uc.Task(
    name="free", state=Step, actions=[-1.0, 0.0, 0.5, 1.0], feasible=free_feasible, step=free_step,
    reward=free_reward, fallback=nothing, prepare=free_prepare, bound=free_bound,
)  # fmt: skip


# ---------------------------------------------------------------- random windows


@dataclass(frozen=True)
class Template:
    """A task with a maker of random windows: (rng, W) -> states, params, actions or None."""

    task: uc.Task
    windows: Callable[[np.random.Generator, int], tuple[list[Any], Any]]
    outcomes: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    fields: int = 1


def _grid(rng: np.random.Generator, low: float, high: float, size: int, step: float = 0.5) -> np.ndarray:
    return low + step * rng.integers(0, int((high - low) / step) + 1, size)


def _stock_windows(rng: np.random.Generator, count: int) -> tuple[list[Any], Any]:
    states = [
        Stock(float(x), (float(y), float(z)), float(last))
        for x, y, z, last in zip(
            _grid(rng, 0, 8, count),
            2.0 * rng.integers(0, 3, count),
            2.0 * rng.integers(0, 3, count),
            2.0 * rng.integers(0, 4, count),
            strict=True,
        )
    ]
    params = StockParams(
        _grid(rng, 6, 20, count), 2.0 * rng.integers(1, 4, count), rng.choice([0.5, 1.0], count),
        rng.choice([1.0, 4.0, 9.0], count), rng.choice([0.0, 0.25], count),
    )  # fmt: skip
    return states, params


TEMPLATES: dict[str, Template] = {
    "battery": Template(
        battery,
        lambda rng, n: (
            [Charge(float(x), float(y)) for x, y in zip(_grid(rng, 0, 6, n), rng.integers(-2, 3, n), strict=True)],
            BatteryParams(_grid(rng, 2, 8, n), rng.choice([1.0, 2.0, 3.0], n), rng.choice([0.9, 1.0], n)),
        ),
        lambda rng, shape: np.round(rng.normal(20, 15, shape), 1),
    ),
    "stock": Template(stock, _stock_windows, lambda rng, shape: 0.5 * rng.integers(0, 13, shape)),
    "position": Template(
        position,
        lambda rng, n: (
            [Position(float(x), float(y)) for x, y in zip(rng.integers(-1, 2, n), rng.integers(0, 3, n), strict=True)],
            PositionParams(rng.choice([0.0, 1.0, 2.0], n)),
        ),
        lambda rng, shape: np.round(rng.normal(0, 1, shape), 1),
    ),
    "tank": Template(
        tank,
        lambda rng, n: (
            [Tank(float(x)) for x in _grid(rng, 0, 4, n)],
            TankParams(_grid(rng, 3, 7, n), rng.normal(0, 2, n)),
        ),
        lambda rng, shape: np.abs(np.round(rng.normal(2, 1, shape), 1)),
        fields=2,
    ),
    "pack": Template(
        pack,
        lambda rng, n: (
            [Pack(float(x)) for x in rng.integers(0, 5, n)],
            PackParams(rng.choice([1.0, 2.0, 3.0], n), rng.choice([3.0, 5.0, 8.0], n)),
        ),
        lambda rng, shape: rng.integers(0, 5, shape).astype(float),
    ),
    "maze": Template(
        maze,
        lambda rng, n: (
            [Cell(float(x), float(y)) for x, y in zip(rng.integers(-2, 3, n), rng.integers(0, 4, n), strict=True)],
            MazeParams(rng.integers(-3, 4, (n, 4)).astype(float), rng.choice([-1.0, 0.0, 1.0], n)),
        ),
        lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    ),
    "clock": Template(
        clock,
        lambda rng, n: ([Clock(float(x)) for x in rng.integers(0, 3, n)], None),
        lambda rng, shape: np.round(rng.normal(0, 1, shape), 1),
    ),
    "risky": Template(
        risky,
        lambda rng, n: ([Risky(float(x)) for x in rng.integers(0, 6, n)], RiskyParams(_grid(rng, 1, 6, n))),
        lambda rng, shape: rng.integers(0, 3, shape).astype(float),
    ),
    "followed": Template(followed, _stock_windows, lambda rng, shape: 0.5 * rng.integers(0, 13, shape)),
    "free": Template(
        free,
        lambda rng, n: ([Step(float(x)) for x in rng.integers(-2, 3, n)], None),
        lambda rng, shape: np.round(rng.normal(0, 1, shape), 1),
    ),
}  # fmt: skip
