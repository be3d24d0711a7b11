"""Seasonal naive: the value one season ago, with the spread of its own past errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast, check_history, check_paths, room_for
from ucsearch.forecast.kernels import kept_residuals, latin_paths, path_moments
from ucsearch.forecast.streams import derive_stream
from ucsearch.jit import compiled

__all__ = ["SeasonalNaive"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_ERRORS = 4


@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """Paths that repeat the last season and add resampled seasonal differences.

    Beyond one season the errors add up along a path, so the spread grows as it should.
    """

    paths: int = 100  # J
    residuals: int = 200  # the latest seasonal differences that are resampled
    floor: float = -math.inf  # no path goes below, for instance 0 for demand
    latin: bool = True  # stratified draws (see `kernels.latin_paths`); False: independent ones

    def __post_init__(self) -> None:
        check_paths(self.paths, self.floor)
        if not self.residuals >= LEAST_ERRORS:
            raise InputError("residuals", self.residuals, f"at least {LEAST_ERRORS}")

    @property
    def name(self) -> str:
        return "seasonal-naive"

    def min_history(self, season: int) -> int:
        """One season, and 4 differences to resample."""
        return season + LEAST_ERRORS

    def forecast(self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64) -> PathForecast:
        """Paths at every cutoff."""
        if not season >= 1:
            raise InputError("season", season, "at least 1")
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        members, mean, std = room_for(marks.size, self.paths, horizon)
        naive_paths(seen, marks, season, self.residuals, float(self.floor), self.latin, stream, members, mean, std)
        return PathForecast(members, mean, std, marks, self.name, "joint")


@compiled
def naive_paths(
    y: Floats, cutoffs: Ints, season: int, keep: int, floor: float, latin: bool, stream: np.uint64,
    members: Floats, mean: Floats, std: Floats,
) -> None:  # fmt: skip
    count, steps = members.shape[1], members.shape[2]
    lags = np.full(1, season)
    phi = np.ones((1, count))
    const = np.zeros(count)
    pool = np.empty(keep)
    errors = np.empty(keep)
    order = np.empty(count, np.int64)
    paths = np.empty((steps, count))
    for o in range(cutoffs.size):
        n = cutoffs[o] + 1
        size = min(keep, n - season)
        for i in range(size):
            errors[i] = y[n - 1 - i] - y[n - 1 - i - season]
        size = kept_residuals(errors[:size], size, pool)
        latin_paths(
            y,
            n,
            lags,
            phi,
            const,
            pool,
            size,
            floor,
            np.inf,
            latin,
            derive_stream(stream, cutoffs[o]),
            order,
            paths,
        )
        path_moments(paths, members[o], mean[o], std[o])
