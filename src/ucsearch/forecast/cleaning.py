"""Histories before a forecaster learns from them: outliers, and items that are sold no more."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError

__all__ = [
    "clip_outliers",
    "stopped_for",
]


Floats = NDArray[np.float64]

LEAST = 20  # earlier periods with demand before anything can be called far out
WINDOW = 200  # of them, the latest are compared with
FAR = 6.0  # quartile distances above the upper quartile
TIMES = 3.0  # and so many times the mean of all earlier demand


def clip_outliers(y: Floats, far: float = FAR) -> tuple[Floats, NDArray[np.int64]]:
    """`y` (T,) with what is beyond a fence cut back to it, and where. The fence lies `far` quartile distances above the
    upper quartile and at 3 times the mean, if that is more. It comes from earlier demand only (periods
    without any left out), so that walking forward sees no future; a new level that stays moves it."""
    if not far > 0.0:
        raise InputError("far", far, "a positive number")
    history = np.asarray(y, dtype=np.float64)
    out = history.copy()
    places = np.flatnonzero(history > 0.0)
    some = history[places]
    if some.size <= LEAST:
        return out, np.zeros(0, np.int64)
    mean = np.cumsum(some)[:-1] / np.arange(1, some.size)
    where: list[int] = []
    for k in np.flatnonzero(some[LEAST:] > TIMES * mean[LEAST - 1 :]) + LEAST:
        low, high = np.quantile(some[max(0, int(k) - WINDOW) : k], [0.25, 0.75])
        # Sizes that hardly vary have a distance too.
        fence = max(high + far * max(high - low, 0.25 * high), TIMES * mean[k - 1])
        if some[k] > fence:
            out[places[k]] = fence
            where.append(int(places[k]))
    return out, np.array(where, dtype=np.int64)


_FEWEST = 10  # periods
_SEASONS = 2  # a shop that is closed for a night or on Sundays has not stopped
_TIMES = 2  # longer than any pause before
_CHANCE = 1e-4  # of so many periods without demand, as demand was before


def stopped_for(y: Floats, season: int) -> int:
    """Periods without demand at the end of a series that has stopped; 0 for one that has not."""
    sold = np.flatnonzero(y != 0.0)
    if sold.size == 0:
        return 0
    run, before = len(y) - 1 - int(sold[-1]), int(sold[-1]) + 1
    if run < max(_FEWEST, _SEASONS * season):
        return 0
    pauses = np.diff(sold) - 1
    longest = int(pauses.max()) if pauses.size else 0
    share = (sold.size + 0.5) / (before - int(sold[0]) + 1.0)
    unlikely = share >= 1.0 or run * math.log1p(-share) < math.log(_CHANCE)
    return run if unlikely and run > _TIMES * longest else 0
