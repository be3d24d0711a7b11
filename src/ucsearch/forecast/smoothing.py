"""Exponential smoothing of a level and the phases of a season, with its own one-step errors resampled into paths.

The simplest forecast that is right where there is nothing but a level, a season and noise: an autoregression fits
noise there, and its paths are too wide. Among a few gains the one with the least squared errors so far is used; until a
gain has enough past it is the running mean. Along a path the level moves by the same gain, so that a level that is
not well known, or that wanders, makes paths hang together as it should.
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
from ucsearch.forecast.streams import derive_stream, index_below, uniform

__all__ = ["Smoothing"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GAINS = (0.01, 0.05, 0.15, 0.4)  # share of an error by which the level moves
LEAST_HISTORY = 8
_WARMUP = 3  # observations before the first error counts
_PHASE_WEIGHT = 3.0  # seasons of "no effect" that each phase's own is mixed with
_PHASE_DISCOUNT = 0.97  # weight of a season relative to the next newer one
_ERROR_DISCOUNT = 0.995  # weight of a squared error relative to the next newer one
_BETTER = 0.99  # a quicker gain is used where its squared errors are so much smaller
_LEAST_SCALE = 0.2  # of the long-run mean, below which the spread of counts shrinks no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """Joint sample paths around a smoothed level and season. With a floor of 0 or more (counts) errors grow with the
    square root of the mean."""

    paths: int = 100  # J
    residuals: int = 200  # the latest one-step errors that are resampled
    floor: float = -math.inf  # no path goes below, for instance 0 for demand

    def __post_init__(self) -> None:
        check_paths(self.paths, self.floor)
        if not self.residuals >= LEAST_HISTORY:
            raise InputError("residuals", self.residuals, f"at least {LEAST_HISTORY}")

    @property
    def name(self) -> str:
        return "smoothing"

    def min_history(self, season: int) -> int:
        """A season and a half dozen errors."""
        return max(LEAST_HISTORY, season + _WARMUP)

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Paths at every cutoff."""
        refuse_known(self.name, known)
        if not season >= 1:
            raise InputError("season", season, "at least 1")
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        members, mean, std = room_for(marks.size, self.paths, horizon)
        smoothed_paths(
            seen, marks, season, np.array(GAINS), self.residuals, float(self.floor), stream, members, mean, std
        )
        return PathForecast(members, mean, std, marks, self.name, "joint")


@compiled
def error_scale(mean: float, usual: float, floor: float) -> float:
    """What an error is measured in: that of counts grows with the square root of their mean."""
    if floor < 0.0 or not usual > 0.0:
        return 1.0
    return float(np.sqrt(max(mean, _LEAST_SCALE * usual)))


@compiled
def smoothed_paths(
    y: Floats, cutoffs: Ints, season: int, gains: Floats, keep: int, floor: float, stream: np.uint64,
    members: Floats, mean: Floats, std: Floats,
) -> None:  # fmt: skip
    """Walk forward through y once; at each cutoff simulate members (O, J, H). Cutoffs rise."""
    count, steps, kinds = members.shape[1], members.shape[2], gains.size
    level = np.zeros(kinds)
    error = np.zeros(kinds)  # squared, discounted
    effect = np.zeros((kinds, season))
    total = np.zeros(kinds)  # of the effects
    away = np.zeros((kinds, season))  # sums of what a phase was off the level
    weight = np.zeros(season)
    ring, centres = np.zeros((kinds, keep)), np.zeros((kinds, keep))  # latest errors, and around what
    known, usual, n = 0, 0.0, 0  # n: values that are known
    levels = np.empty(count)
    order = np.empty(count, np.int64)
    pool = np.empty(keep)
    paths = np.empty((steps, count))
    o = 0
    for t in range(cutoffs[cutoffs.size - 1] + 1):
        phase = t % season
        value = y[t]
        gap = np.isnan(value)
        if not gap:
            weight[phase] = _PHASE_DISCOUNT * weight[phase] + 1.0
        for g in range(0 if gap else kinds):
            shift = effect[g, phase] - total[g] / season
            centre = max(level[g] + shift, floor)
            off = value - centre
            if n >= _WARMUP:
                ring[g, known % keep] = off
                centres[g, known % keep] = centre
                error[g] = _ERROR_DISCOUNT * error[g] + off * off
            away[g, phase] = _PHASE_DISCOUNT * away[g, phase] + (value - level[g] if n > 0 else 0.0)
            fresh = away[g, phase] / (weight[phase] + _PHASE_WEIGHT)
            if season > 1:
                total[g] += fresh - effect[g, phase]
                effect[g, phase] = fresh
            level[g] += max(gains[g], 1.0 / (n + 1.0)) * (value - shift - level[g])
        if not gap:
            if n >= _WARMUP:
                known += 1
            usual += (abs(value) - usual) / (n + 1.0)
            n += 1
        while o < cutoffs.size and cutoffs[o] == t:
            best = 0
            for g in range(1, kinds):
                if error[g] < _BETTER * error[best]:
                    best = g
            size = min(known, keep)
            for i in range(size):
                pool[i] = ring[best, i] / error_scale(centres[best, i], usual, floor)
            pool[:size].sort()
            own = derive_stream(stream, t)
            for j in range(count):
                levels[j] = level[best]
            for h in range(steps):
                base = h * 2 * count
                ahead = (t + 1 + h) % season
                shift = effect[best, ahead] - total[best] / season
                gain = max(gains[best], 1.0 / (n + 1.0 + h))
                for j in range(count):
                    order[j] = j
                for j in range(count - 1, 0, -1):
                    other = index_below(own, base + j, j + 1)
                    order[j], order[other] = order[other], order[j]
                for j in range(count):
                    at = int((order[j] + uniform(own, base + count + j)) / count * size)
                    centre = max(levels[j] + shift, floor)
                    off = pool[min(at, size - 1)] * error_scale(centre, usual, floor)
                    paths[h, j] = max(centre + off, floor)
                    levels[j] += gain * off
            path_moments(paths, members[o], mean[o], std[o])
            o += 1
