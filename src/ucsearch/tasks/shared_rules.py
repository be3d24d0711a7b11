"""What the rules of several tasks share: the previous plan in the state, and the spread of a linear reward."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ROUNDING", "SAFETY", "change", "linear_spread", "moments"]

Floats = NDArray[np.float64]

ROUNDING = 1e-9  # relative; a limit met exactly in decimals must not be missed in binary
SAFETY = 1e-12  # relative; the sums of a bound run in another order than a path's


def change(s: Any, a: float) -> float:
    """Units by which action `a` departs from the previous plan; 0 beyond its end."""
    if s.planned_left <= 0.0:
        return 0.0
    return float(abs(a - s.planned[0]))


def moments(values: Floats, weights: Floats) -> tuple[float, float, float]:
    """Variance and the semideviations below and above the mean; all 0 for equal values."""
    centre = 0.0
    for j in range(values.shape[0]):
        centre += weights[j] * (values[j] - values[0])
    below, above = 0.0, 0.0
    for j in range(values.shape[0]):
        off = (values[j] - values[0]) - centre
        if off < 0.0:
            below += weights[j] * off * off
        else:
            above += weights[j] * off * off
    return below + above, sqrt(below), sqrt(above)


def linear_spread(factor: float, variance: float, below: float, above: float, kind: float) -> float:
    """Spread of factor * outcome; kind as in a view: 0 variance, 1 standard deviation, 2 downside."""
    if kind == 0.0:
        return factor * factor * variance
    if kind == 1.0:
        return abs(factor) * sqrt(variance)
    return factor * below if factor > 0.0 else -factor * above
