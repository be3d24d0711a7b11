"""The forecaster that a series' own past speaks for: the least CRPS walking forward, among a few."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, PathForecast
from ucsearch.forecast.bootstrap import MarkovBootstrap
from ucsearch.forecast.calibration import crps_ensemble
from ucsearch.forecast.naive import SeasonalNaive
from ucsearch.forecast.ridge import RidgePaths

__all__ = ["Auto"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Seasonal naive, ridge paths or the bootstrap for intermittent demand, chosen per series on its own past."""

    paths: int = 100  # J
    origins: int = 12  # past forecasts that each candidate is judged by
    floor: float = 0.0  # no path goes below

    def __post_init__(self) -> None:
        if not self.origins >= 1:
            raise InputError("origins", self.origins, "at least 1")
        self.candidates()

    @property
    def name(self) -> str:
        return "auto"

    def candidates(self) -> tuple[Forecaster, ...]:
        """What is chosen from; the bootstrap only where no path goes below 0."""
        floor = self.floor
        found: list[Any] = [SeasonalNaive(paths=self.paths, floor=floor), RidgePaths(paths=self.paths, floor=floor)]
        if floor >= 0.0:  # for counts only
            found.append(MarkovBootstrap(paths=self.paths, floor=floor))
        return tuple(found)

    def min_history(self, season: int) -> int:
        """Observations that the least demanding candidate needs."""
        return min(model.min_history(season) for model in self.candidates())

    def choose(self, y: Floats, cutoff: int, *, horizon: int, season: int, stream: np.uint64) -> Forecaster:
        """The candidate with the least CRPS over the last `origins` forecasts whose outcomes are known at `cutoff`,
        spread over some seasons; of equals the first. Without enough past: the first that can forecast at all."""
        y = np.asarray(y, dtype=np.float64)[: cutoff + 1]
        able = [m for m in self.candidates() if m.min_history(season) <= cutoff + 1]
        if not able:
            needed = self.min_history(season)
            raise InputError(
                "cutoffs", cutoff, f"at least {needed - 1}", hint=f"The model needs {needed} observations."
            )
        step = max(1, (2 * season + 1) // self.origins)
        last = cutoff - horizon
        marks = np.arange(last - (self.origins - 1) * step, last + 1, step, dtype=np.int64)
        best, least = able[0], math.inf
        for model in able:
            own = marks[marks + 1 >= model.min_history(season)]
            if own.size < min(4, self.origins):
                continue
            made = model.forecast(y, own, horizon=horizon, season=season, stream=stream)
            actual = made.actuals(y)
            score = float(np.mean([crps_ensemble(made.members[:, :, h], actual[:, h]).mean() for h in range(horizon)]))
            if score < least:
                best, least = model, score
        return best

    def forecast(self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64) -> PathForecast:
        """The choice is made at the first cutoff and kept, so that nothing later has a say in it."""
        marks = np.asarray(cutoffs)
        if marks.ndim != 1 or marks.size == 0:
            raise InputError("cutoffs", f"shape {marks.shape}", "a list of at least one index")
        chosen = self.choose(y, int(marks[0]), horizon=horizon, season=season, stream=stream)
        return chosen.forecast(y, cutoffs, horizon=horizon, season=season, stream=stream)
