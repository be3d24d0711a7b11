"""A bootstrap for intermittent demand: whether anything is asked for follows a Markov chain, how much is resampled.

After Willemain, Smart and Schwarz (2004, International Journal of Forecasting 20), with the chance of demand also bent
by the phase of the season (weekday) and draws stratified over the paths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast, check_history, check_paths, refuse_known, room_for
from ucsearch.forecast.kernels import path_moments
from ucsearch.forecast.streams import derive_stream, index_below, normal, uniform

__all__ = ["MarkovBootstrap"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_HISTORY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovBootstrap:
    """Joint sample paths of counts with many zeros. Sizes of demand are past ones, jittered, never below 0."""

    paths: int = 100  # J
    window: int = 364  # the latest periods that are learnt from
    jitter: bool = True  # sizes that have not been seen may come: a past one plus noise of its square root
    phase_weight: float = 8.0  # periods of the pooled chance that each phase's own is mixed with
    floor: float = 0.0  # no path goes below

    def __post_init__(self) -> None:
        check_paths(self.paths, self.floor)
        if not self.window >= LEAST_HISTORY:
            raise InputError("window", self.window, f"at least {LEAST_HISTORY}")
        if not 0.0 < self.phase_weight < math.inf:
            raise InputError("phase_weight", self.phase_weight, "a positive number")

    @property
    def name(self) -> str:
        return "markov-bootstrap"

    def min_history(self, season: int) -> int:
        """10 observations, or one season."""
        return max(LEAST_HISTORY, season)

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Paths at every cutoff; whole numbers where the series has nothing else."""
        refuse_known(self.name, known)
        if not season >= 1:
            raise InputError("season", season, "at least 1")
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        members, mean, std = room_for(marks.size, self.paths, horizon)
        whole = bool(((seen == np.floor(seen)) | np.isnan(seen)).all())
        markov_paths(
            seen, marks, season, self.window, self.jitter, whole, float(self.phase_weight), float(self.floor), stream,
            members, mean, std,
        )  # fmt: skip
        return PathForecast(members, mean, std, marks, self.name, "joint")


@compiled
def markov_paths(
    y: Floats, cutoffs: Ints, season: int, window: int, jitter: bool, whole: bool, phase_weight: float, floor: float,
    stream: np.uint64, members: Floats, mean: Floats, std: Floats,
) -> None:  # fmt: skip
    count, steps = members.shape[1], members.shape[2]
    sizes = np.empty(window)
    bent = np.empty(season)
    order = np.empty(count, np.int64)
    paths = np.empty((steps, count))
    for o in range(cutoffs.size):
        last = cutoffs[o]
        first = max(0, last + 1 - window)
        n = 0
        # How often demand follows no demand and demand, each mixed with one period of the overall share.
        known, after_none, none, after_some, some = 0, 0.0, 0.0, 0.0, 0.0
        for t in range(first, last + 1):
            if np.isnan(y[t]):
                continue
            n += 1
            if y[t] > 0.0:
                sizes[known] = y[t]
                known += 1
            if t > first and not np.isnan(y[t - 1]):
                if y[t - 1] > 0.0:
                    some += 1.0
                    after_some += 1.0 if y[t] > 0.0 else 0.0
                else:
                    none += 1.0
                    after_none += 1.0 if y[t] > 0.0 else 0.0
        share = known / max(n, 1)
        from_none, from_some = (after_none + share) / (none + 1.0), (after_some + share) / (some + 1.0)
        for phase in range(season):
            hits, seen = 0.0, 0.0
            t = last - phase
            while t >= first:
                if np.isnan(y[t]):
                    t -= season
                    continue
                seen += 1.0
                hits += 1.0 if y[t] > 0.0 else 0.0
                t -= season
            own = (hits + phase_weight * share) / (seen + phase_weight)
            bent[phase] = own / share if share > 0.0 else 1.0
        own_stream = derive_stream(stream, last)
        ordered = np.sort(sizes[:known])
        for h in range(steps):
            base = h * 8 * count
            back = (season - 1 - h % season) % season  # period last + 1 + h has the phase of last - back
            for j in range(count):
                order[j] = j
            for j in range(count - 1, 0, -1):
                other = index_below(own_stream, base + j, j + 1)
                order[j], order[other] = order[other], order[j]
            for j in range(count):
                before = y[last] if h == 0 else paths[h - 1, j]
                after = share if np.isnan(before) else from_some if before > 0.0 else from_none
                chance = min(after * bent[back], 1.0)
                # One stratified draw: below the chance there is demand, and its place below says how much.
                u = (order[j] + uniform(own_stream, base + count + j)) / count
                value = 0.0
                if known > 0 and u < chance:
                    value = ordered[min(int(u / chance * known), known - 1)]
                    if jitter:
                        moved = value + normal(own_stream, base // 2 + count + j) * np.sqrt(value)
                        if whole:
                            moved = np.floor(moved + 0.5)
                        value = moved if moved > 0.0 else value
                paths[h, j] = max(value, floor)
        path_moments(paths, members[o], mean[o], std[o])
