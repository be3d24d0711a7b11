"""Made-up demand with names: a week with a shape, and what fails now and then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ucsearch.lab.data.embedded import WEEK, Draws
from ucsearch.lab.data.records import Series, SeriesSet

__all__ = ["poisson", "weekly"]

DAYS = 140  # from the first Monday to the day before the sample's today
HORIZON = 14


def weekly(means: Mapping[str, float]) -> SeriesSet:
    """Whole units of each name, more towards Saturday and few on Sunday."""

    def one(mean: float, t: int, draws: Draws) -> float:
        return float(max(0, round(mean * WEEK[t % 7] + 1.5 * math.sqrt(mean) * draws.normal())))

    return _made(means, one)


def poisson(means: Mapping[str, float]) -> SeriesSet:
    """Independent Poisson counts of each name."""

    def one(mean: float, t: int, draws: Draws) -> float:
        share, count, chance = draws.uniform(), 0, math.exp(-mean)
        reached = chance
        while reached < share:
            count += 1
            chance *= mean / count
            reached += chance
        return float(count)

    return _made(means, one)


def _made(means: Mapping[str, float], one: Callable[[float, int, Draws], float]) -> SeriesSet:
    found = []
    for number, (name, mean) in enumerate(means.items()):
        draws = Draws(37, number)
        y = np.array([one(mean, t, draws) for t in range(DAYS + HORIZON)])
        found.append(Series(id=name, y=y, frequency="daily", seasonal_period=7, horizon=HORIZON, n_train=DAYS))
    return SeriesSet("sample", tuple(found))
