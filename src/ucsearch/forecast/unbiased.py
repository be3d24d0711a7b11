"""Ridge paths without the mean error that they have made so far, by phase of the season.

Paths that are cut at a floor are too high on average, of slow items by a tenth, and a week's shape is never quite
right. Both are seen in the model's own past forecasts, which are made again walking forward; what is taken off at an
origin follows from outcomes before it (the bias of SPEC 12; the spread stays as it is).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucsearch.forecast.base import PathForecast, check_history
from ucsearch.forecast.recalibrate import CYCLES, Recalibration
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.forecast.walked import walk_recalibrated

__all__ = ["UnbiasedRidge"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbiasedRidge:
    """Joint sample paths of `RidgePaths`, less its own mean error by phase; without a season they are as they were."""

    paths: int = 100  # J
    floor: float = -math.inf  # no path goes below, for instance 0 for demand
    cycles: int = CYCLES  # seasons of past errors that are looked back on

    def __post_init__(self) -> None:
        Recalibration(cycles=self.cycles)
        self.model()

    @property
    def name(self) -> str:
        return "unbiased-ridge"

    def model(self) -> RidgePaths:
        """The forecaster whose errors are taken off."""
        return RidgePaths(paths=self.paths, floor=self.floor)

    def min_history(self, season: int) -> int:
        """As many observations as `RidgePaths` needs."""
        return self.model().min_history(season)

    def forecast(self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64) -> PathForecast:
        """Paths at every cutoff, less the mean error of the same phase so far."""
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        how = Recalibration("rolling", season, self.cycles, scale=False, floor=self.floor)
        model = self.model()
        if how.active:
            members = walk_recalibrated(model, seen, marks, how, horizon=horizon, season=season, stream=stream)
        else:
            members = model.forecast(seen, marks, horizon=horizon, season=season, stream=stream).members
        members = np.array(members)
        return PathForecast(members, members.mean(axis=1), members.std(axis=1), marks, self.name, "joint")
