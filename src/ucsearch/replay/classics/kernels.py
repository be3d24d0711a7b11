"""Compiled loops of the lost-sales model. Import inside functions: this module pulls in Numba.

A state is x = (x_0, …, x_{L-1}): stock on hand and the orders that arrive in 1, …, L-1 periods. States with
the same pipeline (x_1, …, x_{L-1}) lie next to each other in order of x_0, so every successor set is a
stretch of the value array: from (x, z) and demand d the next state has on-hand stock x_1 + (x_0 - d)+ and
pipeline (x_2, …, z). A pipeline's code has x_1 as its lowest digit; `offsets[code]` is its first state, -1 if
the code is not in use.

Costs and weights of a period are those of `ucsearch.replay.classics.lost_sales.Period`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.replay.classics.lost_sales import Period

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TIE = 1e-12  # an order must be better by this much to replace a smaller one


@compiled
def build_space(lead_time: int, levels: Ints, radix: int, offsets: Ints, states: Ints) -> int:
    """Number of states with v_l <= levels[l]; fills `offsets`, and `states` too if it has rows."""
    count = 0
    digits = np.zeros(max(lead_time - 1, 1), np.int64)
    for code in range(offsets.size):
        rest = code
        for k in range(lead_time - 1):
            digits[k] = rest % radix
            rest //= radix
        partial = 0
        inside = True
        for k in range(lead_time - 2, -1, -1):
            partial += digits[k]
            inside = inside and partial <= levels[k + 1]
        room = levels[0] - partial
        if not inside or room < 0:
            offsets[code] = -1
            continue
        offsets[code] = count
        if states.shape[0] > 0:
            for x in range(room + 1):
                states[count + x, 0] = x
                for k in range(lead_time - 1):
                    states[count + x, k + 1] = digits[k]
        count += room + 1
    return count


@compiled
def locate(lead_time: int, levels: Ints, radix: int, offsets: Ints, states: Ints, index: Ints) -> None:
    """Index of each row of `states` in the space, -1 for a row outside it."""
    for i in range(states.shape[0]):
        code = 0
        power = 1
        total = 0
        inside = states[i, 0] >= 0
        for k in range(1, lead_time):
            x = states[i, k]
            inside = inside and 0 <= x < radix
            code += x * power
            power *= radix
            total += x
        if not inside or offsets[code] < 0 or total + states[i, 0] > levels[0]:
            index[i] = -1
        else:
            index[i] = offsets[code] + states[i, 0]


@compiled
def successors(lead_time: int, levels: Ints, radix: int, offsets: Ints, states: Ints, orders: Ints, base: Ints) -> int:
    """`base[i]`: next state if all stock is sold. Returns the first state with an impossible order, or -1."""
    top = radix ** max(lead_time - 2, 0)
    for i in range(states.shape[0]):
        z = orders[i]
        if z < 0 or z >= radix:
            return i
        if lead_time == 1:
            if states[i, 0] + z > levels[0]:
                return i
            base[i] = z
            continue
        code = z * top
        power = 1
        total = z
        for k in range(2, lead_time):
            code += states[i, k] * power
            power *= radix
            total += states[i, k]
        if offsets[code] < 0 or states[i, 0] + states[i, 1] + total > levels[0]:
            return i
        base[i] = offsets[code] + states[i, 1]
    return -1


@compiled
def reachable(base: Ints, on_hand: Ints, start: int) -> Ints:
    """Sorted indices of the states that can follow `start`, itself included."""
    seen = np.zeros(base.size, np.bool_)
    stack = np.empty(base.size, np.int64)
    seen[start] = True
    stack[0] = start
    size = 1
    count = 0
    while size > 0:
        size -= 1
        i = stack[size]
        count += 1
        for j in range(base[i], base[i] + on_hand[i] + 1):
            if not seen[j]:
                seen[j] = True
                stack[size] = j
                size += 1
    listed = np.empty(count, np.int64)
    k = 0
    for i in range(base.size):
        if seen[i]:
            listed[k] = i
            k += 1
    return listed


@compiled
def _expectation(weights: Floats, first: Ints, x: int, values: Floats, base: int) -> float:
    """Σ_j weights[x, j] values[base + j], in four running sums to hide the latency of the additions."""
    a = weights[x, 0] * values[base]
    b = 0.0
    c = 0.0
    d = 0.0
    j = first[x]
    while j + 3 <= x:
        a += weights[x, j] * values[base + j]
        b += weights[x, j + 1] * values[base + j + 1]
        c += weights[x, j + 2] * values[base + j + 2]
        d += weights[x, j + 3] * values[base + j + 3]
        j += 4
    while j <= x:
        a += weights[x, j] * values[base + j]
        j += 1
    return float((a + b) + (c + d))


@compiled
def cost_bounds(
    listed: Ints,
    base: Ints,
    on_hand: Ints,
    period: Period,
    values: Floats,
    scratch: Floats,
    damping: float,
    tolerance: float,
    abandon_above: float,
    sweeps: int,
) -> tuple[float, float, int]:
    """Bounds on the average cost of a stationary policy by value iteration.

    For any function V on a closed set of states, min (TV - V) <= average cost <= max (TV - V). Stops when the
    bounds are within `tolerance`, when the lower one exceeds `abandon_above`, or after `sweeps` sweeps.
    `values` holds the start and, at the end, the relative values.
    """
    stage, weights, first = period
    lower = -np.inf
    upper = np.inf
    shift = 0.0
    done = 0
    while done < sweeps:
        done += 1
        low = np.inf
        high = -np.inf
        for n in range(listed.size):
            i = listed[n]
            x = on_hand[i]
            change = stage[x] + _expectation(weights, first, x, values, base[i]) - values[i]
            low = min(low, change)
            high = max(high, change)
            scratch[i] = values[i] + damping * (change - shift)
        for n in range(listed.size):
            values[listed[n]] = scratch[listed[n]]
        shift = 0.5 * (low + high)
        lower = max(lower, low)
        upper = min(upper, high)
        if upper - lower <= tolerance or lower > abandon_above:
            break
    return lower, upper, done


@compiled
def improve(
    lead_time: int,
    levels: Ints,
    radix: int,
    offsets: Ints,
    period: Period,
    values: Floats,
    out: Floats,
    orders: Ints,
    base: Ints,
) -> tuple[float, float]:
    """One full sweep over all orders with v_l + z <= levels[l]: bounds, best orders and their successors."""
    stage, weights, first = period
    digits = np.zeros(max(lead_time - 1, 1), np.int64)
    top = radix ** max(lead_time - 2, 0)
    low = np.inf
    high = -np.inf
    for code in range(offsets.size):
        if offsets[code] < 0:
            continue
        rest = code
        for k in range(lead_time - 1):
            digits[k] = rest % radix
            rest //= radix
        most = levels[lead_time]
        partial = 0
        for k in range(lead_time - 2, -1, -1):
            partial += digits[k]
            most = min(most, levels[k + 1] - partial)
        room = levels[0] - partial
        for x in range(room + 1):
            i = offsets[code] + x
            best = np.inf
            best_order = 0
            best_base = 0
            for z in range(min(most, room - x) + 1):
                b = z if lead_time == 1 else offsets[code // radix + z * top] + digits[0]
                value = _expectation(weights, first, x, values, b)
                if value < best - _TIE:
                    best = value
                    best_order = z
                    best_base = b
            change = stage[x] + best - values[i]
            low = min(low, change)
            high = max(high, change)
            out[i] = values[i] + change
            orders[i] = best_order
            base[i] = best_base
    return low, high


@compiled
def _arrival_stock(lead_time: int, state: Ints, weights: Floats, first: Ints, here: Floats, there: Floats) -> int:
    """Distribution in `here[0..top]` of the stock just before an order placed now arrives; returns top."""
    top = state[0]
    here[: top + 1] = 0.0
    here[top] = 1.0
    for k in range(lead_time):
        there[: top + 1] = 0.0
        for x in range(top + 1):
            mass = here[x]
            if mass > 0.0:
                there[0] += mass * weights[x, 0]
                for j in range(first[x], x + 1):
                    there[j] += mass * weights[x, j]
        arrival = state[k + 1] if k + 1 < lead_time else 0
        for j in range(arrival):
            here[j] = 0.0
        for j in range(top + 1):
            here[j + arrival] = there[j]
        top += arrival
    return int(top)


@compiled
def _most(lead_time: int, levels: Ints, state: Ints) -> int:
    """Largest order z >= 0 with v_l + z <= levels[l] for every l."""
    most = levels[lead_time]
    partial = 0
    for k in range(lead_time - 1, -1, -1):
        partial += state[k]
        most = min(most, levels[k] - partial)
    return int(most)


@compiled
def myopic_one(
    lead_time: int,
    levels: Ints,
    states: Ints,
    period: Period,
    orders: Ints,
    costs: Floats,
) -> None:
    """Order that minimises the expected cost of the period it arrives in, and that cost."""
    stage, weights, first = period
    here = np.zeros(levels[0] + 1)
    there = np.zeros(levels[0] + 1)
    for i in range(states.shape[0]):
        top = _arrival_stock(lead_time, states[i], weights, first, here, there)
        best = np.inf
        best_order = 0
        for z in range(_most(lead_time, levels, states[i]) + 1):
            cost = 0.0
            for y in range(top + 1):
                cost += here[y] * stage[y + z]
            if cost < best - _TIE:
                best = cost
                best_order = z
        orders[i] = best_order
        costs[i] = best


@compiled
def myopic_two(
    lead_time: int,
    levels: Ints,
    radix: int,
    offsets: Ints,
    states: Ints,
    period: Period,
    later: Floats,
    orders: Ints,
) -> None:
    """Order that minimises the expected cost of its arrival period and of the next, the next order being
    myopic.

    `later` holds the costs found by `myopic_one`, on the same states.
    """
    stage, weights, first = period
    here = np.zeros(levels[0] + 1)
    there = np.zeros(levels[0] + 1)
    top_digit = radix ** max(lead_time - 2, 0)
    for i in range(states.shape[0]):
        state = states[i]
        top = _arrival_stock(lead_time, state, weights, first, here, there)
        shifted = 0
        power = 1
        for k in range(2, lead_time):
            shifted += state[k] * power
            power *= radix
        best = np.inf
        best_order = 0
        for z in range(_most(lead_time, levels, state) + 1):
            cost = 0.0
            for y in range(top + 1):
                cost += here[y] * stage[y + z]
            b = z if lead_time == 1 else offsets[shifted + z * top_digit] + state[1]
            cost += _expectation(weights, first, state[0], later, b)
            if cost < best - _TIE:
                best = cost
                best_order = z
        orders[i] = best_order


@compiled
def capped_walk(pmf: Floats, survival: Floats, step: int, most: int) -> Floats:
    """Stationary distribution of I' = min((I + step - D)+, most) on 0..most.

    Elimination from the top without subtractions (Grassmann, Taksar and Heyman 1985), so no digits are lost;
    a step up is at most `step`, hence few entries change per elimination.
    """
    p = np.zeros((most + 1, most + 1))
    for i in range(most + 1):
        for d in range(pmf.size):
            j = i + step - d
            if j <= 0:
                p[i, 0] += survival[d]
                break
            p[i, min(j, most)] += pmf[d]
    for n in range(most, 0, -1):
        leaving = 0.0
        for j in range(n):
            leaving += p[n, j]
        for i in range(max(0, n - step), n):
            p[i, n] /= leaving
            for j in range(n):
                p[i, j] += p[i, n] * p[n, j]
    stationary = np.zeros(most + 1)
    stationary[0] = 1.0
    total = 1.0
    for n in range(1, most + 1):
        for i in range(max(0, n - step), n):
            stationary[n] += stationary[i] * p[i, n]
        total += stationary[n]
    return stationary / total
