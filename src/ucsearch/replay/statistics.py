"""Bounds on a mean from few values: Student-t, bootstrap-t, percentile bootstrap, cluster bootstrap.

Deterministic: draws come from Philox's raw stream under a key, which no version of NumPy changes, and sums run one
element after the other. Everything fails closed: too few values, or one that is not finite, gives minus infinity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import mean as exact_mean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.records.canonical import canonical
from ucsearch.student import student_quantile

__all__ = [
    "LEAST",
    "LEVEL",
    "RESAMPLES",
    "Bounds",
    "Interval",
    "bootstrap_key",
    "bounds",
    "by_series",
    "cluster_interval",
    "mean",
    "paired",
    "scale_free_delta",
]


Floats = NDArray[np.float64]

LEVEL = 0.975  # one-sided, of every bound
RESAMPLES = 9999  # one less than a round number: the rank of a 97.5 % quantile is whole
LEAST = 3
"""Fewer values than this have no bound."""
_FLAT = 1e-12  # a relative spread below this is rounding


class Bounds(NamedTuple):
    """Of a mean of n values. `lower` and `upper` are the outer ones of Student-t and bootstrap-t."""

    n: int
    mean: float
    student: float  # one-sided lower bounds
    bootstrap: float
    lower: float
    upper: float
    percentile: float  # a lower bound for comparison only: on few values it is too high


def mean(values: Sequence[float]) -> float:
    """Correctly rounded: order does not matter, and equal values are their own mean. NaN for none."""
    if len(values) < 2:
        return float(values[0]) if values else math.nan
    try:
        ratios = [value.as_integer_ratio() for value in values]
    except (AttributeError, OverflowError, ValueError):  # an infinity, NaN, a number of NumPy's
        return exact_mean(map(float, values))
    # A float's denominator is a power of two, and the quotient of two whole numbers is rounded once: the same as the
    # standard library's mean, in a fifth of its time, of which deriving a suite's tables spends much.
    over = max([below for _, below in ratios])
    return sum([above * (over // below) for above, below in ratios]) / (over * len(values))


def scale_free_delta(own: float, other: float, form: str) -> float:
    """How much better `own` is than `other`, from -1 to 1 whatever the unit; 0 if both are 0.

    Form cost: `(other - own) / (other + own)` of costs that are never negative. Form reward:
    `(own - other) / (|own| + |other|)`.
    """
    if not (math.isfinite(own) and math.isfinite(other)):
        return math.nan
    if form == "cost":
        if not (own >= 0.0 and other >= 0.0):
            raise InputError("cost", min(own, other), "a number from 0 up, since the suite compares costs")
        gain, size = other - own, other + own
    elif form == "reward":
        gain, size = own - other, abs(own) + abs(other)
    else:
        raise InputError("form", repr(form), "cost or reward")
    return gain / size if size > 0.0 else 0.0


# -------------------------------------------------------------------- bootstraps


def bootstrap_key(seed: int, *names: str) -> int:
    """A key of its own for every (suite, family, comparator): no bound depends on which others are computed."""
    return int.from_bytes(hashlib.sha256(canonical([seed, *names])).digest()[:16], "big")


def draws(key: int, count: int, resamples: int) -> NDArray[np.int64]:
    """Indices (count, resamples), each from 0 to count - 1."""
    raw = np.random.Philox(key=key).random_raw(count * resamples)
    # The upper 53 bits as a fraction: exact, and biased by less than count / 2**53.
    fraction = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return (fraction * count).astype(np.int64).reshape(count, resamples)


def bounds(values: Sequence[float], key: int, *, level: float = LEVEL, resamples: int = RESAMPLES) -> Bounds:
    """Bounds on the mean of the distribution the values came from."""
    return _bounds(tuple(map(float, values)), key, level, resamples)


# A run derives its bounds, then checks what it wrote.
@lru_cache(maxsize=1024)
def _bounds(values: tuple[float, ...], key: int, level: float, resamples: int) -> Bounds:
    x = np.asarray(values, np.float64)
    n = x.size
    if n == 0 or not np.isfinite(x).all():
        return Bounds(n, math.nan, -math.inf, -math.inf, -math.inf, math.inf, -math.inf)
    centre = mean(x.tolist())
    if n < LEAST:
        return Bounds(n, centre, -math.inf, -math.inf, -math.inf, math.inf, -math.inf)
    least, most = float(x.min()), float(x.max())
    if most - least <= _FLAT * (1.0 + abs(least)):
        # Equal values say nothing beyond their value, which passes only if it is positive itself.
        return Bounds(n, centre, least, least, least, most, least)
    error = math.sqrt(math.fsum((v - centre) * (v - centre) for v in x.tolist()) / (n - 1) / n)
    reach = student_quantile(level, n - 1) * error
    means, ratios = _studentised(x, centre, draws(key, n, resamples))
    top = min(math.ceil(level * (resamples + 1) - 1e-9), resamples) - 1
    ordered = np.sort(ratios)
    # A ratio above the mean stretches the lower bound, one below it the upper: t bounds are mirrored.
    low = centre - float(ordered[top]) * error
    high = centre - float(ordered[resamples - 1 - top]) * error
    student = centre - reach
    percentile = float(np.sort(means)[resamples - 1 - top])
    return Bounds(n, centre, student, low, min(student, low), max(centre + reach, high), percentile)


def _studentised(x: Floats, centre: float, index: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean of every resample, and its distance from `centre` in its own standard errors."""
    n, resamples = index.shape
    total = np.zeros(resamples)
    for line in index:
        total += x[line]
    means = total / n
    squares = np.zeros(resamples)
    for line in index:
        away = x[line] - means
        squares += away * away
    errors = np.sqrt(squares / (n - 1) / n)
    gap = means - centre
    # Drawing one value n times has no spread: infinitely far away on its side, and on the bad side if on none.
    flat = errors <= _FLAT * (1.0 + np.abs(means))
    ratios = np.divide(gap, errors, out=np.zeros(resamples), where=~flat)
    ratios[flat] = np.where(gap[flat] < 0.0, -math.inf, math.inf)
    return means, ratios


def cluster_interval(
    families: Mapping[str, float], clusters: Mapping[str, str], key: int, *, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Equal-family mean and its 95 % percentile interval when whole clusters of families are drawn again.

    `families` holds each family's mean, `clusters` the data set each comes from. A description, not a test: with few
    clusters the interval is too short. Fewer than two clusters have none (NaN).
    """
    groups: dict[str, list[float]] = {}
    for family in sorted(families):
        groups.setdefault(clusters[family], []).append(families[family])
    centre = mean(list(families.values()))
    if len(groups) < 2 or not math.isfinite(centre):
        return centre, math.nan, math.nan
    sums = np.array([math.fsum(groups[name]) for name in sorted(groups)])
    sizes = np.array([float(len(groups[name])) for name in sorted(groups)])
    total, weight = np.zeros(resamples), np.zeros(resamples)
    for line in draws(key, len(groups), resamples):
        total += sums[line]
        weight += sizes[line]
    ordered = np.sort(total / weight)
    top = min(math.ceil(LEVEL * (resamples + 1) - 1e-9), resamples) - 1
    return centre, float(ordered[resamples - 1 - top]), float(ordered[top])


class Interval(NamedTuple):
    """Mean difference of a window's reward and its 95 % interval."""

    mean: float  # units of the reward; above 0: better than the reference
    low: float  # lower end of the interval
    high: float  # upper end

    @property
    def side(self) -> int:
        """1 when the policy is better than the reference, -1 when it is worse, 0 when that is open."""
        return int(self.low > 0.0) - int(self.high < 0.0)

    @property
    def is_known(self) -> bool:
        """Whether it has both ends: few or very unequal series leave one of them infinite, or both."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def by_series(values: Floats, series: Sequence[str]) -> Floats:
    """Windows (N,) averaged within their series, in order of first appearance: windows of a series are not
    independent."""
    names = list(dict.fromkeys(series))
    place = np.array([names.index(name) for name in series])
    return np.array([values[place == i].mean() for i in range(len(names))])


def paired(own: Floats, reference: Floats, series: Sequence[str], *, seed: int, name: str) -> Interval:
    """Interval of the mean of own - reference, paired by window; the outer one of bootstrap-t and Student-t.

    Each policy has its own draws, which follow from `seed` and its `name`, so that its interval does not depend on who
    else takes part.
    """
    interval = bounds(by_series(own - reference, series).tolist(), bootstrap_key(seed, "compare", name))
    return Interval(interval.mean, interval.lower, interval.upper)
