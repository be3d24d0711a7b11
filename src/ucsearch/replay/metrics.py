"""What a run is judged by, as plain functions of arrays. T steps, N values; rewards are per step, larger is better.

All of them refuse values that are not finite, and say what an empty input means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError

__all__ = [
    "coverage",
    "cvar",
    "cvar20",
    "fill_rate",
    "max_drawdown",
    "regret",
    "total_reward",
    "utility",
    "window_totals",
]

Floats = NDArray[np.float64]


def total_reward(rewards: ArrayLike) -> float:
    """Sum of the rewards (T,), correctly rounded; 0 without steps."""
    return math.fsum(_values(rewards, "rewards"))


def regret(reward: float, best: float) -> float:
    """`best - reward`: what the hindsight oracle got beyond the policy. Negative only if `best` is not a best."""
    for name, value in (("reward", reward), ("best", best)):
        if not math.isfinite(value):
            raise InputError(name, value, "a finite number")
    return best - reward


def max_drawdown(rewards: ArrayLike) -> float:
    """Largest fall of the cumulative reward G_t = r_1 + ... + r_t below its highest earlier level, G_0 = 0 included.

    `max_t (max_{s <= t} G_s - G_t)`, never negative: a loss in the first step is a fall from zero. 0 without steps.
    """
    level = peak = worst = 0.0
    for r in _values(rewards, "rewards"):
        level += r
        peak = max(peak, level)
        worst = max(worst, peak - level)
    return worst


def cvar(values: ArrayLike, share: float) -> float:
    """Mean of the worst (smallest) `share` of N values, the value on the edge counted in part.

    With `k = share * N`: the `floor(k)` smallest values and `k - floor(k)` of the next one, divided by k. So a single
    value is its own CVaR, and no rounding rule decides how many values are "20 %". There must be a value.
    """
    x = np.sort(_values(values, "values"))
    if not 0.0 < share <= 1.0:
        raise InputError("share", share, "more than 0 and at most 1")
    if x.size == 0:
        raise InputError("values", "none", "at least one value")
    k = share * x.size
    whole = int(k)
    edge = [(k - whole) * float(x[whole])] if whole < x.size else []
    return math.fsum([*x[:whole].tolist(), *edge]) / k


def cvar20(values: ArrayLike) -> float:
    """CVaR at 20 %: over steps if given rewards of steps, over windows if given `window_totals`."""
    return cvar(values, 0.2)


def window_totals(rewards: ArrayLike, length: int) -> Floats:
    """Sums (T // length,) of consecutive stretches of `length` steps; an unfinished last stretch is left out."""
    x = _values(rewards, "rewards")
    if length < 1:
        raise InputError("length", length, "at least 1")
    return np.array([math.fsum(x[i : i + length]) for i in range(0, x.size - length + 1, length)], np.float64)


def fill_rate(sold: ArrayLike, demand: ArrayLike) -> float:
    """Units sold over units wanted, summed over the steps (T,). 1 where nothing was wanted: nobody went without."""
    a, b = _values(sold, "sold"), _values(demand, "demand")
    if a.shape != b.shape:
        raise InputError("sold", f"{a.size} steps", f"{b.size}, as demand")
    if not (a >= 0).all() or not (b >= 0).all():
        raise InputError("sold, demand", "a negative number", "numbers from 0 up")
    wanted = math.fsum(b)
    return math.fsum(a) / wanted if wanted > 0.0 else 1.0


def coverage(low: ArrayLike, high: ArrayLike, outcomes: ArrayLike) -> float:
    """Share of outcomes (N,) within their closed intervals. There must be an outcome."""
    a, b, y = _values(low, "low"), _values(high, "high"), _values(outcomes, "outcomes")
    if not a.shape == b.shape == y.shape or y.size == 0:
        raise InputError("low, high, outcomes", f"{a.size}, {b.size}, {y.size} values", "equally many, at least one")
    if not (a <= b).all():
        raise InputError("low", "an interval that ends before it begins", "low <= high")
    return float(np.count_nonzero((a <= y) & (y <= b))) / y.size


def utility(figures: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """`sum_i weight_i * figure_i`, as a card declares it: for instance reward 1, drawdown -0.5."""
    if not weights:
        raise InputError("weights", "none", "at least one")
    for name in weights:
        if not math.isfinite(figures.get(name, math.nan)):
            raise InputError(f"figures.{name}", figures.get(name), "a finite number, since the utility counts it")
    return math.fsum(weights[name] * figures[name] for name in sorted(weights))


def _values(values: ArrayLike, field: str) -> Floats:
    x = np.asarray(values, np.float64)
    if x.ndim != 1:
        raise InputError(field, f"{x.ndim} dimensions", "one dimension")
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        raise InputError(field, x[bad[0]], "a finite number", index=int(bad[0]))
    return x
