"""Which weights of members bound the score of every plan, and scores themselves; `members_dual` says why they do.

Import inside functions: pulls in Numba.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.spreads import NUMBERS

__all__ = [
    "Floats",
    "Measure",
    "admissible_weights",
    "constant_of",
    "rounding_is_small",
    "score_of",
]

Floats = NDArray[np.float64]
Measure = tuple[int, float]  # number of the spread (`ucsearch.spreads`) and the share of cvar

VARIANCE, STD, DOWNSIDE, CVAR = (NUMBERS[name] for name in ("variance", "std", "downside", "cvar"))
_NO_SPREAD = 1e-280  # squares below it have lost their digits
_ROUNDING = 1e-11  # relative rounding error of the penalties beyond which an iterate does not count as a bound


@compiled
def _moments(values: Floats, p: Floats, below: bool) -> tuple[float, float]:
    """Weighted mean and mean square deviation (`below`: of what lies below the mean), by the engines' operations."""
    shift = 0.0
    for j in range(1, p.size):
        shift += p[j] * (values[j] - values[0])
    total = 0.0
    for j in range(p.size):
        off = (values[j] - values[0]) - shift
        if not below or off < 0.0:
            total += p[j] * off * off
    return values[0] + shift, total


@compiled
def _threshold(values: Floats, p: Floats, tail: float) -> float:
    """The smallest value with at least this share at or below it; the largest value when none has."""
    low, high = -math.inf, float(values[0])
    for j in range(1, p.size):
        high = max(high, float(values[j]))
    while True:
        pivot = high
        for j in range(p.size):
            if low < values[j] < high:
                pivot = float(values[j])
                break
        if not pivot < high:
            return high
        mass = 0.0
        for j in range(p.size):
            if values[j] <= pivot:
                mass += p[j]
        if mass >= tail:
            high = pivot
        else:
            low = pivot


@compiled
def _tail_mean(values: Floats, p: Floats, tail: float) -> float:
    """Mean of the worst share, by the engines' operations."""
    high, total, below = _threshold(values, p, tail), 0.0, 0.0
    for j in range(p.size):
        if values[j] < high:
            total += p[j] * (values[j] - values[0])
            below += p[j]
    first = float(values[0])
    return first + (total + (tail - below) * (high - first)) / tail


@compiled
def _tail_weights(returns: Floats, p: Floats, lam: float, tail: float, w: Floats) -> None:
    """w_j = (1 - lam) + lam * xi_j, xi the worst share's own weights: at most 1 / tail each, sum_j p_j xi_j = 1."""
    high, below, there = _threshold(returns, p, tail), 0.0, 0.0
    for j in range(p.size):
        if returns[j] < high:
            below += p[j]
        elif returns[j] == high:
            there += p[j]
    rest = min(max(0.0, tail - below), there) / there
    total = 0.0
    for j in range(p.size):
        w[j] = 1.0 if returns[j] < high else rest if returns[j] == high else 0.0
        total += p[j] * w[j]
    for j in range(p.size):
        # Never above 1 / tail: where rounding leaves less than the share, the weights sum to a little less than 1,
        # and what is missing is spread over all, which lowers no bound.
        w[j] = (1.0 - lam) + lam * (w[j] / max(total, tail) + max(0.0, 1.0 - total / max(total, tail)))


@compiled
def score_of(returns: Floats, p: Floats, lam: float, spread: Measure) -> float:
    """S of a plan's member returns."""
    if spread[0] == CVAR:
        mean, _ = _moments(returns, p, False)
        return mean - lam * max(0.0, mean - _tail_mean(returns, p, spread[1]))
    mean, total = _moments(returns, p, spread[0] == DOWNSIDE)
    return mean - lam * (total if spread[0] == VARIANCE else math.sqrt(total))


@compiled
def constant_of(w: Floats, p: Floats, lam: float, spread: Measure) -> float:
    """c of admissible weights."""
    return _moments(w, p, False)[1] / (4.0 * lam) if spread[0] == VARIANCE and lam > 0.0 else 0.0


@compiled
def rounding_is_small(mass: float, terms: int, bound: float, room: float) -> bool:
    """Whether penalties of this absolute sum, added and taken away again, leave the bound its digits."""
    return mass * terms * 2.3e-16 <= _ROUNDING * (abs(bound) + 0.1 * room)


@compiled
def admissible_weights(returns: Floats, p: Floats, lam: float, spread: Measure, w: Floats) -> float:
    """The admissible weights that are tight at these returns (as far as w >= 0 allows) into `w`; returns c."""
    for j in range(p.size):
        w[j] = 1.0
    mean, square = _moments(returns, p, spread[0] == DOWNSIDE)
    if not (lam > 0.0 and square > _NO_SPREAD and square < np.inf):
        return 0.0
    if spread[0] == CVAR:
        _tail_weights(returns, p, lam, spread[1], w)
        return 0.0
    norm = math.sqrt(square)
    if spread[0] == DOWNSIDE:
        centre, square = 0.0, 0.0
        for j in range(p.size):
            w[j] = max(mean - returns[j], 0.0)
            centre += p[j] * w[j]
            square += p[j] * w[j] * w[j]
        # The norm of these very numbers: where returns differ by rounding alone, that of the spread may be too small.
        scale = lam / math.sqrt(square) if square > _NO_SPREAD else 0.0
        lowest = 0.0
        for j in range(p.size):
            w[j] = scale * (w[j] - centre)
            lowest = min(lowest, w[j])
        shorter = 1.0 if lowest >= -1.0 else -1.0 / lowest  # lam > 1 alone: a shorter xi is admissible too
        for j in range(p.size):
            w[j] = max(0.0, 1.0 + shorter * w[j])
        return 0.0
    # w = a - slope*r where that is positive, else 0. Who is at 0 is found by dropping members until none is negative;
    # should rounding spoil that, what follows still makes the weights admissible.
    for _ in range(p.size):
        share, centre, square = 0.0, 0.0, 0.0
        for j in range(p.size):
            if w[j] > 0.0:
                share += p[j]
                centre += p[j] * (returns[j] - mean)
        centre = centre / share
        for j in range(p.size):
            if w[j] > 0.0:
                off = (returns[j] - mean) - centre
                square += p[j] * off * off
        slope = 2.0 * lam
        if spread[0] == STD:  # std(w) = lam
            equal = square <= 1e-20 * norm * norm  # all that are left, but for rounding
            slope = 0.0 if equal else math.sqrt(max(lam * lam + 1.0 - 1.0 / share, 0.0) / square)
        dropped = False
        for j in range(p.size):
            if w[j] > 0.0:
                w[j] = max(0.0, 1.0 / share - slope * ((returns[j] - mean) - centre))
                dropped = dropped or w[j] == 0.0
        if not dropped:
            break
    total = 0.0
    for j in range(p.size):
        total += p[j] * w[j]
    for j in range(p.size):
        w[j] = w[j] / total if total > 0.5 else 1.0
    _, square = _moments(w, p, False)
    if spread[0] == STD and square > lam * lam:
        for j in range(p.size):
            w[j] = 1.0 + (w[j] - 1.0) * (lam / math.sqrt(square))
    return constant_of(w, p, lam, spread)
