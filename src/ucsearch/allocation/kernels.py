"""The loops over all series that decide how long an allocation takes, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.jit import compiled

__all__ = ["climb", "fill", "least_use", "movable", "respond"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@compiled
def least_use(values: Floats, use: Floats) -> Ints:
    """(N,) the best of the actions that use least, the first on ties. `values` is -inf outside the action set."""
    found = np.zeros(values.shape[0], np.int64)
    for i in range(values.shape[0]):
        least, best = np.inf, -np.inf
        for a in range(values.shape[1]):
            if not values[i, a] > -np.inf:
                continue
            if use[i, a] < least or (use[i, a] == least and values[i, a] > best):
                least, best, found[i] = use[i, a], values[i, a], a
    return found


@compiled
def climb(
    values: Floats, use: Floats, start: Ints, series: Ints, before: Ints, after: Ints, slope: Floats, more: Floats
) -> int:
    """Fill the steps of every series' upper hull from `start`, largest gain per use first, the smallest step on ties.
    `values` is -inf outside the action set. Returns their number, at most N (m - 1)."""
    count = 0
    for i in range(values.shape[0]):
        at = start[i]
        while True:
            best, to = 0.0, -1
            for a in range(values.shape[1]):
                extra = use[i, a] - use[i, at]
                gain = values[i, a] - values[i, at]
                if extra > 0.0 and gain > 0.0:
                    rate = gain / extra
                    if rate > best or (rate == best and to >= 0 and use[i, a] < use[i, to]):
                        best, to = rate, a
            if to < 0:
                break
            series[count], before[count], after[count] = i, at, to
            slope[count], more[count] = best, use[i, to] - use[i, at]
            count += 1
            at = to
    return count


@compiled
def respond(values: Floats, uses: Floats, price: Floats, choice: Ints) -> float:
    """Every series' best action at prices (K, N) of its uses (K, N, m), the smaller on ties; returns their total."""
    total = 0.0
    for i in range(values.shape[0]):
        best = -np.inf
        for a in range(values.shape[1]):
            value = values[i, a]
            for k in range(uses.shape[0]):
                value -= price[k, i] * uses[k, i, a]
            if value > best:
                best, choice[i] = value, a
        total += best
    return total


@compiled
def movable(lower: Floats, uses: Floats, group: Ints, room: Floats, choice: Ints, price: Floats, rate: Floats) -> None:
    """Fill `rate` (N,): the least loss at `price` (K, N) per change of what is paid, over a series' single moves that
    gain and fit `room` (K, G). NaN where no move does, infinite where none of them changes what is paid."""
    resources = uses.shape[0]
    for i in range(lower.shape[0]):
        rate[i], at = np.nan, choice[i]
        for a in range(lower.shape[1]):
            gain = lower[i, a] - lower[i, at]
            if not gain > 0.0:
                continue
            paid, before, fits = 0.0, 0.0, True
            for k in range(resources):
                extra = uses[k, i, a] - uses[k, i, at]
                if group[k, i] >= 0 and extra > 0.0 and not extra <= room[k, group[k, i]]:
                    fits = False
                    break
                paid += price[k, i] * uses[k, i, a]
                before += price[k, i] * uses[k, i, at]
            if fits:
                change = abs(paid - before)
                loss = (lower[i, at] - before) - (lower[i, a] - paid)
                each = loss / change if change > 0.0 else np.inf
                if not rate[i] <= each:
                    rate[i] = each


@compiled
def fill(lower: Floats, uses: Floats, group: Ints, slack: Floats, choice: Ints, most: int) -> None:
    """Single moves that gain and fit `slack` (K, G), one at a time: the largest gain per share of what is left of each
    resource (Toyoda 1975), the first such on ties. `uses` (K, N, m), `group` (K, N) with -1 where nothing is shared."""
    resources = uses.shape[0]
    for _ in range(most):
        best, row, to = 0.0, -1, -1
        for i in range(lower.shape[0]):
            for a in range(lower.shape[1]):
                gain = lower[i, a] - lower[i, choice[i]]
                if not gain > 0.0:
                    continue
                share, fits = 0.0, True
                for k in range(resources):
                    g = group[k, i]
                    if g < 0:
                        continue
                    extra = uses[k, i, a] - uses[k, i, choice[i]]
                    if extra > 0.0 and extra > slack[k, g]:
                        fits = False
                        break
                    if extra > 0.0:
                        share += extra / slack[k, g]
                if not fits:
                    continue
                rate = gain / share if share > 0.0 else np.inf
                if rate > best:
                    best, row, to = rate, i, a
        if row < 0:
            return
        for k in range(resources):
            if group[k, row] >= 0:
                slack[k, group[k, row]] -= uses[k, row, to] - uses[k, row, choice[row]]
        choice[row] = to
