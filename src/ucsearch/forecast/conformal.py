"""Intervals with a coverage guarantee, wrapped around any mean, interval or path forecast.

Split conformal (Papadopoulos et al. 2002; Lei et al. 2018; quantile form: Romano, Patterson and Candes 2019)
assumes that calibration and new errors are exchangeable. Adaptive conformal inference (Gibbs and Candes 2021;
Zaffran et al. 2022 for time series) does not: it moves the level after every hit or miss, and its long-run
coverage error is at most (1 + step) / (step * T).

N calibration forecasts, O new ones, H steps, T times in order. Half widths are infinite where the
calibration set is too small for the level: that is the honest answer, and it is visible.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast

__all__ = ["AdaptiveIntervals", "Intervals", "SplitConformal", "adaptive_conformal", "conformal_quantile"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Lower and upper ends (O, H) at one nominal level."""

    level: float  # nominal coverage, in (0, 1)
    lower: Floats  # (O, H) units of the series; -inf where the past is too short for the level
    upper: Floats  # (O, H)

    def coverage(self, y: Any) -> float:
        """Share of outcomes (O, H) inside, ends included."""
        actual = _finite(y, "y")
        if actual.shape != self.lower.shape:
            raise InputError("y", f"shape {actual.shape}", f"shape {self.lower.shape}")
        return float(((self.lower <= actual) & (actual <= self.upper)).mean())


def conformal_quantile(scores: Any, level: float) -> float:
    """The ceil((n + 1) level)-th smallest of n scores; infinite when there are too few.

    >>> conformal_quantile([3.0, 1.0, 2.0, 4.0], 0.8)
    4.0
    """
    _check_level(level)
    sorted_scores = np.sort(_finite(scores, "scores").ravel())
    # The small term keeps 0.9 * 10 from becoming 9.000000000000002 and then 10.
    rank = math.ceil((sorted_scores.size + 1) * level - 1e-9)
    return math.inf if rank > sorted_scores.size else float(sorted_scores[max(rank, 1) - 1])


@dataclass(frozen=True, slots=True, eq=False)
class SplitConformal:
    """Quantiles of calibration scores per step. Fit on data that neither trained nor selected the model."""

    level: float  # nominal coverage, in (0, 1)
    quantile: Floats  # (H,) of |y - mean| / scale, or of the signed distance outside an interval
    kind: str  # "mean", "scaled" or "interval"
    count: int  # N

    @classmethod
    def from_mean(cls, mean: Any, y: Any, *, level: float, std: Any = None) -> SplitConformal:
        """Calibrate on mean forecasts (N, H) and outcomes; with `std` errors are measured in it."""
        centre, actual = _pair(mean, y, "mean")
        errors = np.abs(actual - centre)
        if std is not None:
            errors = errors / _positive(std, centre.shape)
        return cls._fit(errors, level, "mean" if std is None else "scaled")

    @classmethod
    def from_interval(cls, lower: Any, upper: Any, y: Any, *, level: float) -> SplitConformal:
        """Calibrate interval forecasts (N, H): all ends move by the same amount, out or in."""
        low, actual = _pair(lower, y, "lower")
        high, _ = _pair(upper, y, "upper")
        return cls._fit(np.maximum(low - actual, actual - high), level, "interval")

    @classmethod
    def _fit(cls, scores: Floats, level: float, kind: str) -> SplitConformal:
        quantile = np.array([conformal_quantile(scores[:, h], level) for h in range(scores.shape[1])])
        quantile.flags.writeable = False
        return cls(level, quantile, kind, scores.shape[0])

    def around_mean(self, mean: Any, std: Any = None) -> Intervals:
        """Intervals for new mean forecasts (O, H)."""
        centre = _finite(mean, "mean", 2)
        self._check(centre, "scaled" if std is not None else "mean")
        half = np.broadcast_to(self.quantile, centre.shape)
        if std is not None:
            half = half * _positive(std, centre.shape)
        return Intervals(self.level, centre - half, centre + half)

    def around_interval(self, lower: Any, upper: Any) -> Intervals:
        """Corrected intervals for new ones (O, H); an interval never turns inside out."""
        low, high = _finite(lower, "lower", 2), _finite(upper, "upper", 2)
        self._check(low, "interval")
        if high.shape != low.shape:
            raise InputError("upper", f"shape {high.shape}", f"shape {low.shape}")
        new_low, new_high = low - self.quantile, high + self.quantile
        middle = 0.5 * (low + high)
        return Intervals(self.level, np.minimum(new_low, middle), np.maximum(new_high, middle))

    def stretch(self, forecast: PathForecast) -> PathForecast:
        """Paths of `forecast` stretched around their mean until their central interval has the calibrated half width.

        Needs a calibration with `std`. Rank order and coupling of the paths stay; the spread becomes the
        one that the past supports.
        """
        self._check(forecast.mean, "scaled")
        if not np.isfinite(self.quantile).all():
            step = int(np.argmin(np.isfinite(self.quantile)))
            raise InputError(
                "quantile", "inf", "a finite number", index=step,
                hint=f"{self.count} calibration forecasts are too few for level {self.level:g}.",
            )  # fmt: skip
        off = forecast.members - forecast.mean[:, None, :]
        half = np.quantile(np.abs(off), self.level, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(half > 0.0, self.quantile * forecast.std / half, 1.0)
        return PathForecast(
            members=forecast.mean[:, None, :] + factor[:, None, :] * off,
            mean=forecast.mean,
            std=factor * forecast.std,
            cutoff=forecast.cutoff,
            model=f"{forecast.model}+conformal",
            coupling=forecast.coupling,
            weights=forecast.weights,
            member_std=None if forecast.member_std is None else factor[:, None, :] * forecast.member_std,
        )

    def _check(self, centre: Floats, kind: str) -> None:
        if kind != self.kind:
            raise InputError("kind", f"a call for {kind!r}", f"{self.kind!r}, as calibrated")
        if centre.ndim != 2 or centre.shape[1] != self.quantile.size:
            raise InputError("mean", f"shape {centre.shape}", f"shape (O, {self.quantile.size})")


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveIntervals:
    """What adaptive conformal inference did at each time (T,)."""

    level: float  # nominal coverage, in (0, 1)
    lower: Floats  # (T,) units of the series
    upper: Floats  # (T,)
    used_level: Floats  # (T,) the level asked of the score quantile; below 0: a point, 1 and above: infinite
    missed: NDArray[np.bool_]  # (T,) the outcome lay outside

    @property
    def coverage(self) -> float:
        return float(1.0 - self.missed.mean())


def adaptive_conformal(
    mean: Any, y: Any, *, level: float, step: float = 0.01, window: int = 200, delay: int = 1, std: Any = None
) -> AdaptiveIntervals:
    """Online intervals for forecasts (T,) in time order, from past scores only.

    After each outcome the target miss rate moves by `step` * (nominal - missed). The outcome of time t is
    known `delay` times later: use the steps ahead of the forecast. `window` limits the scores remembered.
    """
    _check_level(level)
    centre, actual = _pair(np.atleast_2d(_finite(mean, "mean", 1)), np.atleast_2d(_finite(y, "y", 1)), "mean")
    centre, actual = centre[0], actual[0]
    if not 0.0 < step < math.inf:
        raise InputError("step", step, "a positive number")
    for name, value in (("window", window), ("delay", delay)):
        if not value >= 1:
            raise InputError(name, value, "at least 1")
    scale = np.ones(centre.size) if std is None else _positive(std, centre.shape)
    times = centre.size
    lower, upper, used = np.empty(times), np.empty(times), np.empty(times)
    missed = np.zeros(times, dtype=bool)
    scores: deque[float] = deque(maxlen=window)
    miss_rate = 1.0 - level
    for t in range(times):
        known = t - delay
        if known >= 0:
            scores.append(abs(actual[known] - centre[known]) / scale[known])
            miss_rate += step * ((1.0 - level) - float(missed[known]))
        used[t] = 1.0 - miss_rate
        half = _half_width(scores, used[t]) * scale[t]
        lower[t], upper[t] = centre[t] - half, centre[t] + half
        missed[t] = not lower[t] <= actual[t] <= upper[t]
    for array in (lower, upper, used, missed):
        array.flags.writeable = False
    return AdaptiveIntervals(level, lower, upper, used, missed)


def _half_width(scores: deque[float], level: float) -> float:
    if level >= 1.0 or not scores:
        return math.inf
    if level <= 0.0:
        return 0.0
    return conformal_quantile(np.array(scores), level)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError("level", level, "a number in (0, 1)")


def _finite(values: Any, name: str, dimensions: int | None = None) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or (dimensions is not None and array.ndim != dimensions):
        expected = "at least one number" if dimensions is None else f"{dimensions} dimensions, none of them 0"
        raise InputError(name, f"shape {array.shape}", expected)
    good = np.isfinite(array)
    if not good.all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        raise InputError(name, array[index], "a finite number", index=index)
    return array


def _pair(centre: Any, y: Any, name: str) -> tuple[Floats, Floats]:
    one, two = _finite(centre, name, 2), _finite(y, "y", 2)
    if one.shape != two.shape:
        raise InputError("y", f"shape {two.shape}", f"shape {one.shape} as {name}")
    return one, two


def _positive(std: Any, shape: tuple[int, ...]) -> Floats:
    spread = _finite(std, "std")
    if spread.shape != shape:
        raise InputError("std", f"shape {spread.shape}", f"shape {shape}")
    if not (spread > 0.0).all():
        index = tuple(int(i) for i in np.argwhere(~(spread > 0.0))[0])
        raise InputError("std", spread[index], "a positive number", index=index)
    return spread
