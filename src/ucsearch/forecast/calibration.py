"""How honest a forecast's spread is: coverage, PIT, CRPS and sharpness, gathered as forecasts stream by.

N forecasts, J members, H steps, L levels, K bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast

__all__ = ["Calibration", "CalibrationReport", "calibration_report", "crps_ensemble"]

Floats = NDArray[np.float64]

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationReport:
    """Averages over all forecasts; `*_by_step` keep the step ahead. Values in the unit of the series."""

    model: str  # who made the forecasts
    count: int  # N
    levels: tuple[float, ...]  # (L,) nominal coverage of the central intervals
    coverage: Floats  # (L,) share of outcomes inside
    coverage_by_step: Floats  # (L, H)
    width: Floats  # (L,) mean interval width: sharpness
    width_by_step: Floats  # (L, H)
    crps: float  # mean continuous ranked probability score: smaller is better, 0 is a sure hit
    crps_by_step: Floats  # (H,)
    pit: Floats  # (K,) share of outcomes per bin of the probability integral transform; uniform is 1/K each

    @property
    def pit_distance(self) -> float:
        """Largest gap between the cumulated PIT shares and uniform ones; 0 is perfect."""
        steps = np.arange(1, self.pit.size + 1) / self.pit.size
        return float(np.abs(np.cumsum(self.pit) - steps).max())

    def rows(self) -> list[tuple[str, float | None, float]]:
        """(measure, nominal value or None, measured value), for tables."""
        out: list[tuple[str, float | None, float]] = []
        for at, level in enumerate(self.levels):
            out.append((f"coverage {level:g}", level, float(self.coverage[at])))
            out.append((f"width {level:g}", None, float(self.width[at])))
        out.append(("crps", None, self.crps))
        out.append(("pit distance", 0.0, self.pit_distance))
        return out


class Calibration:
    """Sums that grow with every forecast added, of `horizon` steps each. Keep memory small: nothing but sums is
    stored."""

    def __init__(self, horizon: int, *, levels: Sequence[float] = LEVELS, bins: int = 10, model: str = "") -> None:
        if not horizon >= 1:
            raise InputError("horizon", horizon, "at least 1")
        if not bins >= 2:
            raise InputError("bins", bins, "at least 2")
        for at, level in enumerate(levels):
            if not 0.0 < level < 1.0:
                raise InputError("levels", level, "a number in (0, 1)", index=at)
        self.model = model
        self.levels = tuple(float(level) for level in levels)
        self.count = 0
        self._known = np.zeros(horizon)  # outcomes that are known
        self._inside = np.zeros((len(self.levels), horizon))
        self._width = np.zeros((len(self.levels), horizon))
        self._crps = np.zeros(horizon)
        self._pit = np.zeros(bins)

    def add(self, members: Any, y: Any, *, weights: Any = None, scale: float = 1.0) -> None:
        """Add forecasts (N, J, H) and outcomes (N, H), NaN where one is not known; `scale` divides CRPS and widths of
        these forecasts.

        Give a scale per series (for instance its mean absolute change) to average over series of any size.
        """
        x = _finite(members, "members", 3)
        outcomes = np.asarray(y, dtype=np.float64)
        actual = _finite(np.where(np.isnan(outcomes), 0.0, outcomes), "y", 2)
        count, size, steps = x.shape
        if steps != self._crps.size:
            raise InputError("members", f"shape {x.shape}", f"{self._crps.size} steps")
        if actual.shape != (count, steps):
            raise InputError("y", f"shape {actual.shape}", f"shape {(count, steps)}")
        if not 0.0 < scale < np.inf:
            raise InputError("scale", scale, "a positive number")
        equal = weights is None
        w = np.full(size, 1.0 / size) if equal else _weights(weights, size)
        there = ~np.isnan(outcomes)
        _accumulate(
            x,
            np.where(there, actual, np.nan),
            w,
            equal,
            1.0 / scale,
            np.array(self.levels),
            self._inside,
            self._width,
            self._crps,
            self._pit,
        )
        self.count += count
        self._known += there.sum(axis=0)

    def add_forecast(self, forecast: PathForecast, y: Floats, *, scale: float = 1.0) -> None:
        """Add all cutoffs of a forecast of the series `y`, which must go on to the last step; `scale` as for `add`."""
        wide = forecast.expand(5)
        self.add(wide.members, forecast.actuals(y), weights=wide.weights, scale=scale)
        self.model = self.model or forecast.model

    @property
    def unknown(self) -> int:
        """Outcomes that were not known and so did not count."""
        return self.count * self._known.size - int(self._known.sum())

    def report(self) -> CalibrationReport:
        """Averages over what was added so far."""
        cells = int(self._known.sum())
        if cells == 0:
            raise InputError("calibration", "no forecasts", "at least one whose outcome is known")
        by_step = np.maximum(self._known, 1.0)
        arrays = {
            "coverage": self._inside.sum(axis=1) / cells,
            "coverage_by_step": self._inside / by_step,
            "width": self._width.sum(axis=1) / cells,
            "width_by_step": self._width / by_step,
            "crps_by_step": self._crps / by_step,
            "pit": self._pit / cells,
        }
        for array in arrays.values():
            array.flags.writeable = False
        crps = float(self._crps.sum() / cells)
        return CalibrationReport(model=self.model, count=self.count, levels=self.levels, crps=crps, **arrays)


def calibration_report(
    members: Any,
    y: Any,
    *,
    weights: Any = None,
    levels: Sequence[float] = LEVELS,
    bins: int = 10,
    model: str = "",
) -> CalibrationReport:
    """The report for forecasts (N, J, H) and outcomes (N, H) at hand."""
    x = _finite(members, "members", 3)
    gathered = Calibration(x.shape[2], levels=levels, bins=bins, model=model)
    gathered.add(x, y, weights=weights)
    return gathered.report()


def crps_ensemble(members: Any, y: Any, *, weights: Any = None) -> Floats:
    """Exact continuous ranked probability score of ensembles (N, J) at outcomes (N,).

    sum_i w_i |x_i - y| - 1/2 sum_ij w_i w_j |x_i - x_j| (Gneiting and Raftery 2007), by sorting.
    """
    x = _finite(members, "members", 2)
    actual = _finite(y, "y", 1)
    if actual.shape != x.shape[:1]:
        raise InputError("y", f"shape {actual.shape}", f"shape {x.shape[:1]}")
    w = np.full(x.shape[1], 1.0 / x.shape[1]) if weights is None else _weights(weights, x.shape[1])
    return _crps_rows(x, actual, w)


def _finite(values: Any, name: str, dimensions: int) -> Floats:
    array = np.ascontiguousarray(np.asarray(values, dtype=np.float64))
    if array.ndim != dimensions or array.size == 0:
        raise InputError(name, f"shape {array.shape}", f"{dimensions} dimensions, none of them 0")
    good = np.isfinite(array)
    if not good.all():
        index = tuple(int(i) for i in np.argwhere(~good)[0])
        raise InputError(name, array[index], "a finite number", index=index)
    return array


def _weights(weights: Any, size: int) -> Floats:
    w = _finite(weights, "weights", 1)
    if w.shape != (size,):
        raise InputError("weights", f"shape {w.shape}", f"shape ({size},)")
    if not ((w >= 0.0).all() and w.sum() > 0.0):
        raise InputError("weights", w.min(), "non-negative numbers, not all 0")
    return np.asarray(w / w.sum())


@compiled
def _crps_sorted(x: Floats, w: Floats, y: float) -> float:
    """CRPS of a sorted weighted sample."""
    near, pairs, below, below_sum = 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        # Measured from y: differences of large numbers would lose digits.
        off = x[i] - y
        near += w[i] * abs(off)
        pairs += w[i] * (off * below - below_sum)
        below += w[i]
        below_sum += w[i] * off
    return near - pairs


@compiled
def _crps_rows(x: Floats, y: Floats, w: Floats) -> Floats:
    out = np.empty(y.size)
    for n in range(y.size):
        order = np.argsort(x[n])
        out[n] = _crps_sorted(x[n][order], w[order], y[n])
    return out


@compiled
def _quantile(x: Floats, w: Floats, equal: bool, p: float) -> float:
    """Of a sorted sample: position p (J + 1) between order statistics with equal weights, else by the cdf.

    With this position (Weibull's, "type 6") the outcome counts as one more draw, so that honest members cover
    at the nominal level; the more usual type 7 would show 0.87 instead of 0.9 for 60 honest members.
    """
    if equal:
        place = min(max(p * (x.size + 1) - 1.0, 0.0), x.size - 1.0)
        at = int(place)
        after = min(at + 1, x.size - 1)
        return float(x[at] + (place - at) * (x[after] - x[at]))
    total = 0.0
    for i in range(x.size):
        total += w[i]
        if total >= p - 1e-12:
            return float(x[i])
    return float(x[x.size - 1])


@compiled
def _spread_pit(low: float, high: float, pit: Floats) -> None:
    """Put one unit of mass evenly on [low, high] into the bins."""
    bins = pit.size
    for k in range(bins):
        part = min(high, (k + 1) / bins) - max(low, k / bins)
        if part > 0.0:
            pit[k] += part / (high - low)


@compiled
def _accumulate(
    x: Floats, y: Floats, w: Floats, equal: bool, per_scale: float, levels: Floats, inside: Floats,
    width: Floats, crps: Floats, pit: Floats,
) -> None:  # fmt: skip
    count, size, steps = x.shape
    column, weight = np.empty(size), w
    for n in range(count):
        for h in range(steps):
            for j in range(size):
                column[j] = x[n, j, h]
            if equal:
                column.sort()
            else:
                order = np.argsort(column)
                weight = w[order]
                for j in range(size):  # not `column[:] = column[order]`, whose checks numba compiles for seconds
                    column[j] = x[n, order[j], h]
            actual = y[n, h]
            if np.isnan(actual):
                continue
            crps[h] += per_scale * _crps_sorted(column, weight, actual)
            for at in range(levels.size):
                low = _quantile(column, weight, equal, 0.5 * (1.0 - levels[at]))
                high = _quantile(column, weight, equal, 0.5 * (1.0 + levels[at]))
                if low <= actual <= high:
                    inside[at, h] += 1.0
                width[at, h] += per_scale * (high - low)
            # The outcome is one more draw among `size`: its rank leaves an interval, spread evenly.
            less, upto = 0.0, 0.0
            for j in range(size):
                if column[j] < actual:
                    less += weight[j]
                if column[j] <= actual:
                    upto += weight[j]
            share = 1.0 / size
            _spread_pit(less / (1.0 + share), (upto + share) / (1.0 + share), pit)
