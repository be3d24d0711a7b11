"""Paired intervals: how much better than the reference a policy is, with the series as the unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.statistics import bootstrap_key, bounds

__all__ = ["Interval", "by_series", "paired"]

Floats = NDArray[np.float64]


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
    found = bounds(by_series(own - reference, series).tolist(), bootstrap_key(seed, "compare", name))
    return Interval(found.mean, found.lower, found.upper)
