"""Seasonal naive: the value one season ago, with the spread of its own past errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast, check_history, check_paths, refuse_known, room_for
from ucsearch.forecast.kernels import kept_residuals, latin_paths, path_moments
from ucsearch.forecast.streams import derive_stream

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

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Paths at every cutoff."""
        refuse_known(self.name, known)
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
    added = np.empty((0, count))
    paths = np.empty((steps, count))
    seen = ~np.isnan(y)
    level, there = 0.0, 0
    for t in range(y.size):  # what is not known is as a season ago
        if seen[t]:
            level += y[t]
            there += 1
        elif t >= season:
            y[t] = y[t - season]
        else:
            y[t] = level / there
    for o in range(cutoffs.size):
        n = cutoffs[o] + 1
        size, i = 0, 0
        while size < keep and i < n - season:
            if seen[n - 1 - i] and seen[n - 1 - i - season]:
                errors[size] = y[n - 1 - i] - y[n - 1 - i - season]
                size += 1
            i += 1
        if size == 0:
            errors[0] = 0.0
            size = 1
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
            added,
            paths,
        )
        path_moments(paths, members[o], mean[o], std[o])
