"""The rules of Storage: what power is allowed, what it does to the level, what it earns; and the bound."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy import zeros
from numpy.typing import NDArray

from ucsearch.tasks.shared_rules import ROUNDING, SAFETY, change, linear_spread, moments

__all__ = [
    "Params", "State", "bound", "charging", "discharging", "fallback", "feasible", "invariant", "prepare", "reward",
    "step", "terminal",
]  # fmt: skip

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


# -------------------------------------------------------------------- what power uses of things that stores share


def charging(s: Any, a: float, p: Any) -> float:
    """Power drawn from the grid, MW."""
    return max(a, 0.0)


def discharging(s: Any, a: float, p: Any) -> float:
    """Power fed into the grid, MW."""
    return max(-a, 0.0)
