"""Compiled loops of the lost-sales suite. Import inside functions: this module pulls in Numba.

States and their order are those of `ucsearch.replay.classics.lost_sales`: states that differ in stock on hand only lie
next to each other, so what may follow an order is a stretch of the value array that begins where all stock is sold.
Costs and weights of a period are those of `ucsearch.replay.classics.lost_sales.Period`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.replay.classics.lost_sales import Period

__all__ = ["continued", "first_orders", "push"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def _after(lead_time: int, radix: int, offsets: Ints, states: Ints, i: int, order: int) -> int:
    """Index of the state that follows state i and this order if all stock is sold."""
    if lead_time == 1:
        return order
    code = order * radix ** (lead_time - 2)
    power = 1
    for k in range(2, lead_time):
        code += states[i, k] * power
        power *= radix
    return int(offsets[code] + states[i, 1])


@compiled
def _expected(weights: Floats, first: Ints, x: int, values: Floats, base: int) -> float:
    total = weights[x, 0] * values[base]
    for j in range(first[x], x + 1):
        total += weights[x, j] * values[base + j]
    return float(total)


@compiled
def continued(
    lead_time: int,
    radix: int,
    offsets: Ints,
    states: Ints,
    period: Period,
    level: int,
    cap: int,
    periods: int,
    values: Floats,
    scratch: Floats,
    base: Ints,
) -> None:
    """`values`: expected cost of `periods` periods from each state under the capped base-stock policy."""
    stage, weights, first = period
    count = states.shape[0]
    for i in range(count):
        position = 0
        for k in range(lead_time):
            position += states[i, k]
        order = max(0, min(level - position, cap, radix - 1))
        base[i] = _after(lead_time, radix, offsets, states, i, order)
        values[i] = 0.0
    for _ in range(periods):
        for i in range(count):
            x = states[i, 0]
            scratch[i] = stage[x] + _expected(weights, first, x, values, base[i])
        for i in range(count):
            values[i] = scratch[i]


@compiled
def first_orders(
    lead_time: int,
    radix: int,
    offsets: Ints,
    states: Ints,
    rows: Ints,
    most: Ints,
    period: Period,
    values: Floats,
    best: Floats,
) -> None:
    """Lower `best[n, z]` to the cost of ordering z in state rows[n], 0 <= z <= most[n], and `values` from then on."""
    stage, weights, first = period
    for n in range(rows.size):
        i = rows[n]
        x = states[i, 0]
        for z in range(most[n] + 1):
            cost = stage[x] + _expected(weights, first, x, values, _after(lead_time, radix, offsets, states, i, z))
            best[n, z] = min(best[n, z], cost)


@compiled
def push(base: Ints, on_hand: Ints, weights: Floats, first: Ints, mass: Floats, out: Floats) -> float:
    """One period of the chain: `out` is the distribution after `mass`. Returns the sum of absolute changes."""
    for i in range(out.size):
        out[i] = 0.0
    for i in range(mass.size):
        share = mass[i]
        if share > 0.0:
            x = on_hand[i]
            out[base[i]] += share * weights[x, 0]
            for j in range(first[x], x + 1):
                out[base[i] + j] += share * weights[x, j]
    change = 0.0
    for i in range(out.size):
        change += abs(out[i] - mass[i])
    return float(change)
