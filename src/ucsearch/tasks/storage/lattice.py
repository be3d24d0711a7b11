"""Storage by periods of any length, on a lattice of levels, with a level to be reached by a deadline.

The rules of `storage`, and: power is in MW and a period lasts `hours`, so energy is power times hours; the level is
rounded down to whole multiples of `level_step`, so that a day ahead has a few thousand states and not millions (energy
is given away by it, never invented); at the end of the period in which `due` runs out the level is at least `target`.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy import zeros
from numpy.typing import NDArray

from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.tasks.shared_rules import ROUNDING, SAFETY, change, linear_spread, moments

__all__ = [
    "MOST_PARTS",
    "Params",
    "State",
    "bound",
    "fallback",
    "feasible",
    "floored",
    "invariant",
    "lattice_powers",
    "prepare",
    "reward",
    "step",
    "terminal",
]

Floats = NDArray[np.float64]
_NEARLY = 0.98  # a power this near to full power stands for it
_DUST = 1e-6  # share of a lattice step below which a missing bit is a rounding error


class State(NamedTuple):
    level: float  # MWh in store
    last: float  # MW of the period before; 0 where no ramp asks for it
    discharge_left: float  # MWh that may still be drawn from the store: what is left of the cycle budget
    due: float  # periods until the level must be at least the target; 0: no target
    planned: tuple[float, ...]  # powers of the previous plan from this period on
    planned_left: float  # how many of them are real
    allowance: float  # MW of departure from it still allowed


class Params(NamedTuple):
    capacity: float  # MWh
    charging: float  # MWh stored per MWh bought
    discharging: float  # MWh sold per MWh drawn
    keep: float  # share of the level that is left after a period
    ramp: float  # MW by which power may differ from the period before; widened by rounding
    fee: float  # currency per MWh traded
    wear: float  # currency per MWh drawn from the store
    end_value: float  # currency per MWh in store at the end
    stability_cost: float  # currency per MW of departure from the previous plan
    hours: float  # of a period
    level_step: float  # MWh; 0: levels are not rounded
    target: float  # MWh in store when `due` runs out
    prices: float  # how many prices of a cycle the bound tries; 1 without a cycle budget
    grid: tuple[float, ...]  # (m,) the actions, MW


def lattice_powers(power: float, charging: float, discharging: float, hours: float, level_step: float) -> list[float]:
    """Powers up to `power` both ways that move the level by whole steps; with full power where none of them is it."""
    up = [
        k * level_step / (charging * hours) for k in range(1, floor(power * charging * hours / level_step + _DUST) + 1)
    ]
    most = power * hours / discharging
    down = [k * level_step * discharging / hours for k in range(1, floor(most / level_step + _DUST) + 1)]
    for side in (up, down):
        if not side or side[-1] < power * _NEARLY:
            side.append(power)
        side[-1] = min(side[-1], power)
    return [-x for x in reversed(down)] + [0.0] + up


def floored(level: float, p: Any) -> float:
    """The level on the lattice, rounded down, within the store's limits."""
    inside = min(max(level, 0.0), p.capacity)
    if p.level_step <= 0.0:
        return float(inside)
    return float(min(floor(inside / p.level_step + _DUST) * p.level_step, p.capacity))


def drawn(a: float, p: Any) -> float:
    """Energy taken out of the store by power `a`."""
    return float(-a * p.hours / p.discharging) if a < 0.0 else 0.0


def gained(a: float, p: Any) -> float:
    """Change of the level by power `a`, leak left out."""
    return float(a * p.hours * p.charging) if a > 0.0 else -drawn(a, p)


def slack_of(p: Any) -> float:
    return float(ROUNDING * (1.0 + p.capacity) + _DUST * p.level_step)


def in_time(level: float, periods: float, p: Any) -> bool:
    """Whether full charging from `level` on reaches the target in so many periods."""
    gain = max(gained(p.grid[-1], p), 0.0)
    for _ in range(floor(periods + 0.5)):
        if level >= p.target - slack_of(p):
            break
        more = floored(p.keep * level + gain, p)
        if not more > level:
            return False
        level = more
    return bool(level >= p.target - slack_of(p))


def feasible(s: Any, a: float, p: Any) -> bool:
    slack = slack_of(p)
    after = p.keep * s.level + gained(a, p)
    if not -slack <= after <= p.capacity + slack:
        return False
    if abs(a - s.last) > p.ramp or drawn(a, p) > s.discharge_left + slack:
        return False
    if s.due > 0.0 and not in_time(floored(after, p), s.due - 1.0, p):
        return False
    return bool(change(s, a) <= s.allowance)


def step(s: Any, a: float, y: float, p: Any) -> State:
    left = s.discharge_left
    if left < NO_LIMIT:
        left = max(left - drawn(a, p), 0.0)
        if p.level_step > 0.0:
            left = floor(left / p.level_step + _DUST) * p.level_step
    return State(
        floored(p.keep * s.level + gained(a, p), p),
        a if p.ramp < NO_LIMIT else 0.0,
        left,
        max(s.due - 1.0, 0.0),
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a),
    )


def reward(s: Any, a: float, y: float, p: Any) -> float:
    traded = a * p.hours
    return float(-traded * y - p.fee * abs(traded) - p.wear * drawn(a, p) - p.stability_cost * change(s, a))


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
    return bool(s.discharge_left >= 0.0 and s.due >= 0.0 and s.planned_left >= 0.0 and s.allowance >= 0.0)


# The table: from each of the levels 0, part, ..., capacity at step k the most that is still to be had. A level between
# two of them counts as the higher one and what does not fit is let go: more energy never earns less when it can be let
# go. On a lattice of few enough levels the parts are its steps, and the table is the best value itself as long as no
# ramp, cycle budget, target or earlier plan binds; those only take plans away. With a cycle budget there is such a
# table for every price of energy drawn: at any price, what a plan earns after paying for what it draws, plus the price
# of all that may be drawn, is no less than what it earns. The last row holds the prices.
_LEAST_PARTS, MOST_PARTS = 48, 960


def parts_of(p: Any) -> int:
    if p.level_step > 0.0:
        count = ceil(p.capacity / p.level_step - _DUST)
        if count <= MOST_PARTS:
            return max(count, 1)
    return _LEAST_PARTS


def part_size(p: Any) -> float:
    if p.level_step > 0.0 and ceil(p.capacity / p.level_step - _DUST) <= MOST_PARTS:
        return float(p.level_step)
    return float(p.capacity / _LEAST_PARTS)


def part_above(level: float, parts: int, size: float) -> int:
    """The first tabulated level that is not below `level`; a rounding error below does not count."""
    if not size > 0.0:
        return 0
    return min(max(ceil(level / size - 2.0 * _DUST), 0), parts)


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """(d + 2, prices x (parts + 1)): the most that is to be had from every step and level on; then the prices."""
    depth, m, count = outcomes.shape[0], len(p.grid), floor(p.prices)
    parts, size, slack = parts_of(p), part_size(p), slack_of(p)
    table = zeros((depth + 2, count * (parts + 1)))
    values, out, after = zeros((depth, m)), zeros(m), zeros((parts + 1, m))
    low, high = outcomes[0], max(outcomes[0], 0.0)
    for n in range(m):
        out[n] = drawn(p.grid[n], p)
        for i in range(parts + 1):
            level = p.keep * min(size * i, p.capacity) + gained(p.grid[n], p)
            # The rules allow one slack; rounding errors of the way here are far smaller.
            after[i, n] = part_above(floored(level, p), parts, size) if level >= -2.0 * slack else -1.0
    for k in range(depth):
        low, high = min(low, outcomes[k]), max(high, outcomes[k])
        variance, below, above = moments(view.members[:, k], view.weights)
        for n in range(m):
            traded = p.grid[n] * p.hours
            values[k, n] = -traded * outcomes[k] - p.fee * abs(traded) - p.wear * out[n]
            if view.risk > 0.0:
                values[k, n] -= view.risk * linear_spread(-traded, variance, below, above, view.spread)
    for c in range(count):
        price = (high - low) * c / max(count - 1.0, 1.0)
        first = c * (parts + 1)
        table[depth + 1, first] = price
        for i in range(parts + 1):
            table[depth, first + i] = p.end_value * (min(size * i, p.capacity) + slack)
        for k in range(depth - 1, -1, -1):
            for i in range(parts + 1):
                best = -1e300
                for n in range(m):
                    if after[i, n] >= 0.0:
                        best = max(best, values[k, n] - price * out[n] + table[k + 1, first + floor(after[i, n])])
                table[k, first + i] = best + SAFETY * (1.0 + abs(best) + price * p.capacity)
    return table


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """The least over the prices of the value of the level, rounded up to the table's."""
    count, parts = floor(p.prices), parts_of(p)
    at = part_above(s.level, parts, part_size(p))
    best = table[h, at]
    if s.discharge_left < NO_LIMIT:
        slack = slack_of(p) * (table.shape[0] - 2.0)
        for c in range(1, count):
            first = floor(float(c) * (parts + 1.0))  # of floats: whole numbers could outgrow 64 bits
            price = table[table.shape[0] - 1, first]
            best = min(best, table[h, first + at] + price * (s.discharge_left + slack))
    return float(best + SAFETY * (1.0 + abs(best)))
