"""Student's t, central and not, and chi-square: what bounds on a mean and the power of a test need."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from ucsearch.errors import InputError

__all__ = ["chi_square_quantile", "noncentral_t_above", "student_cdf", "student_quantile"]

_PANELS = 400  # of Simpson's rule over the distribution of a standard deviation
_TAIL = 40.0  # standard deviations of a chi variable beyond which nothing is left


def student_cdf(t: float, df: float) -> float:
    """P(T <= t). For whole degrees of freedom by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4, else by
    the incomplete beta function."""
    if df != int(df):
        tail = 0.5 * _incomplete_beta(0.5 * df, 0.5, df / (df + t * t))
        return tail if t < 0.0 else 1.0 - tail
    whole = int(df)
    angle = math.atan(t / math.sqrt(whole))
    cosine, sine = math.cos(angle), math.sin(angle)
    term = cosine if whole % 2 else 1.0
    total = term if whole > 1 else 0.0
    for i in range(3 if whole % 2 else 2, whole, 2):
        term *= cosine * cosine * (i - 1) / i
        total += term
    inside = 2.0 / math.pi * (angle + sine * total) if whole % 2 else sine * total
    return 0.5 + 0.5 * inside


@lru_cache(maxsize=256)
def student_quantile(level: float, df: float) -> float:
    """The t below which a share `level` (0.5 to 1) of Student's distribution lies, by bisection to the last bit."""
    if not 0.5 <= level < 1.0:
        raise InputError("level", level, "from 0.5 to below 1")
    if not df >= 1:
        raise InputError("df", df, "at least 1")
    return _inverse(lambda t: student_cdf(t, df), level)


def noncentral_t_above(bound: float, df: float, shift: float) -> float:
    """P(T > bound) of the noncentral t distribution: (Z + `shift`) / sqrt(V / df) with V chi-square, which is the power
    of a one-sided t test whose mean lies `shift` standard errors above its limit.

    By Simpson's rule over sqrt(V): P(Z > bound * sqrt(V / df) - shift).
    """
    if not (df > 0.0 and math.isfinite(bound) and math.isfinite(shift)):
        raise InputError("df, bound, shift", (df, bound, shift), "finite numbers, df above 0")
    middle = math.sqrt(max(df - 1.0, 0.0))  # where the density of sqrt(V) is highest; its spread is below 1
    low, high = max(0.0, middle - _TAIL / 4.0), middle + _TAIL / 4.0
    log_scale = (1.0 - 0.5 * df) * math.log(2.0) - math.lgamma(0.5 * df)

    def weighted(x: float) -> float:
        if x <= 0.0:
            return 0.0 if df > 1.0 else math.exp(log_scale) * _normal_above(-shift) if df == 1.0 else 0.0
        density = math.exp(log_scale + (df - 1.0) * math.log(x) - 0.5 * x * x)
        return density * _normal_above(bound * x / math.sqrt(df) - shift)

    step = (high - low) / (2 * _PANELS)
    total = math.fsum((4.0 if k % 2 else 2.0) * weighted(low + k * step) for k in range(1, 2 * _PANELS))
    return min(1.0, max(0.0, (total + weighted(low) + weighted(high)) * step / 3.0))


@lru_cache(maxsize=256)
def chi_square_quantile(level: float, df: float) -> float:
    """The value below which a share `level` (0 to 1) of the chi-square distribution lies."""
    if not 0.0 < level < 1.0:
        raise InputError("level", level, "between 0 and 1")
    if not df > 0.0:
        raise InputError("df", df, "above 0")
    return _inverse(lambda x: _incomplete_gamma(0.5 * df, 0.5 * x), level)


def _inverse(cdf: Callable[[float], float], level: float) -> float:
    """By bisection to the last bit, from 0 on."""
    low, high = 0.0, 1.0
    while cdf(high) < level:
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high:
        if cdf(middle) < level:
            low = middle
        else:
            high = middle
    return high


def _normal_above(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _incomplete_gamma(a: float, x: float) -> float:
    """P(a, x), regularised: by its series below a + 1, else by its continued fraction (Abramowitz and Stegun 6.5)."""
    if x <= 0.0:
        return 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        n = a
        while abs(term) > 1e-17 * abs(total):
            n += 1.0
            term *= x / n
            total += term
        return front * total
    fraction = _continued(lambda i: (-i * (i - a), x + 2.0 * i + 1.0 - a), x + 1.0 - a)
    return 1.0 - front * fraction


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), regularised, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a

    def term(i: int) -> tuple[float, float]:
        m, odd = divmod(i, 2)
        if odd:
            return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)), 1.0
        return m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)), 1.0

    return front * _continued(term, 1.0)


def _continued(term: Callable[[int], tuple[float, float]], first: float) -> float:
    """1 / (first + n1 / (d1 + n2 / (d2 + ...))) with (n, d) = `term(i)`, by Lentz's method."""
    least = 1e-300
    d = 1.0 / (first or least)
    c, value = 1.0 / least, d
    for i in range(1, 10_000):
        numerator, denominator = term(i)
        d = 1.0 / (denominator + numerator * d or least)
        c = denominator + numerator / c or least
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value
