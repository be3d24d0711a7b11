"""Student's t for whole degrees of freedom, to the last bit."""

from __future__ import annotations

import math
from functools import lru_cache

from ucsearch.errors import InputError

__all__ = ["student_cdf", "student_quantile"]


def student_cdf(t: float, df: int) -> float:
    """P(T <= t) for whole degrees of freedom, by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = cosine if df % 2 else 1.0
    total = term if df > 1 else 0.0
    for i in range(3 if df % 2 else 2, df, 2):
        term *= cosine * cosine * (i - 1) / i
        total += term
    inside = 2.0 / math.pi * (angle + sine * total) if df % 2 else sine * total
    return 0.5 + 0.5 * inside


@lru_cache(maxsize=256)
def student_quantile(level: float, df: int) -> float:
    """The t below which a share `level` (0.5 to 1) of Student's distribution lies, by bisection to the last bit."""
    if not 0.5 <= level < 1.0:
        raise InputError("level", level, "from 0.5 to below 1")
    if df < 1:
        raise InputError("df", df, "at least 1")
    low, high = 0.0, 1.0
    while student_cdf(high, df) < level:
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high:
        if student_cdf(middle, df) < level:
            low = middle
        else:
            high = middle
    return high
