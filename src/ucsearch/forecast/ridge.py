"""Walk-forward ridge autoregression: residual-bootstrap paths, and a bootstrap ensemble with a variance head.

The series is walked through once. Every observation is first forecast by a model fitted to what came before
it, which gives honest one-step errors, and then joins the fit. At a cutoff the model is fitted to everything
up to it; its latest errors are resampled into paths, or feed the variance head. What columns that are known ahead
(a promotion, a price) add is learned from the errors without them, taken off before the fit and put back on the paths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import PathForecast, check_history, known_ahead, room_for
from ucsearch.forecast.kernels import ridge_ensemble, ridge_paths
from ucsearch.forecast.recalibrate import CYCLES, Recalibration, walk_recalibrated

__all__ = [
    "RidgeEnsemble",
    "RidgePaths",
    "UnbiasedRidge",
    "default_lags",
]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WARMUP_ROWS = 3  # rows in the fit before its first error counts
LEAST_ERRORS = 4


def default_lags(season: int) -> tuple[int, ...]:
    """Lags 1 to 4 and, with a season s, s and s + 1 (with lag 1 these span a seasonal difference).

    >>> default_lags(12)
    (1, 2, 3, 4, 12, 13)
    """
    short = (1, 2, 3, 4)
    return short if season <= 1 else tuple(sorted({*short, season, season + 1}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeSettings:
    """The autoregression itself, shared by both forecasters.

    `y[t] - y[t-1]` is regressed on `y[t-lag] - y[t-1]` and on `running mean - y[t-1]`. Shrinking all
    coefficients to zero gives a random walk with drift; `pull` shrinks the last one more, because short
    series make the way back to the mean look quicker than it is.
    """

    takes_known: ClassVar[bool] = True

    lags: tuple[int, ...] | None = None  # rising, the first is 1; None: `default_lags` of the season
    # ridge, pull and discount, and `vary` below, were chosen on design data: studies/choose_ridge.py.
    ridge: float = 3.0  # penalty in observations: 3 weighs like three rows of "no effect"
    pull: float = 25.0  # times `ridge` for the regressor that pulls to the mean
    discount: float = 0.998  # weight of a row relative to the next newer one
    residuals: int = 200  # the latest one-step errors that are used
    widen: float = 1.0  # paths stay within the range seen, widened by this share on both sides
    floor: float = -math.inf  # no path goes below, for instance 0 for demand

    def __post_init__(self) -> None:
        if self.lags is not None:
            rising = all(a < b for a, b in zip(self.lags, self.lags[1:], strict=False))
            if not (self.lags and self.lags[0] == 1 and rising):
                raise InputError("lags", self.lags, "rising whole numbers that start with 1, e.g. (1, 2, 7)")
        for name, value, least in (
            ("ridge", self.ridge, 0.0),
            ("pull", self.pull, 0.0),
            ("widen", self.widen, 0.0),
            ("residuals", self.residuals, LEAST_ERRORS),
        ):
            if not least <= value < math.inf:
                raise InputError(name, value, f"a finite number of at least {least}")
        if not 0.0 < self.discount <= 1.0:
            raise InputError("discount", self.discount, "a number in (0, 1]")
        if not self.floor < math.inf:
            raise InputError("floor", self.floor, "a number below infinity")

    def lags_for(self, season: int) -> tuple[int, ...]:
        if not season >= 1:
            raise InputError("season", season, "at least 1")
        return default_lags(season) if self.lags is None else self.lags

    def min_history(self, season: int) -> int:
        """The longest lag, the rows before the first error, and the least number of errors."""
        return self.lags_for(season)[-1] + WARMUP_ROWS + LEAST_ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgePaths(RidgeSettings):
    """Joint sample paths: resampled one-step errors carried along the autoregression.

    With `vary` every path also draws its coefficients from the posterior of the fit, so that short series
    get the wider paths they deserve.
    """

    paths: int = 100  # J
    vary: bool = True  # draw every path's coefficients too
    latin: bool = True  # stratified draws (see `kernels.latin_paths`); False: independent ones

    def __post_init__(self) -> None:
        RidgeSettings.__post_init__(self)
        if not self.paths >= 1:
            raise InputError("paths", self.paths, "at least 1")

    @property
    def name(self) -> str:
        return "ridge-paths"

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Paths at every cutoff."""
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        lags = np.array(self.lags_for(season), dtype=np.int64)
        members, mean, std = room_for(marks.size, self.paths, horizon)
        ridge_paths(
            seen, known_ahead(known, marks, horizon), marks, lags,
            float(self.ridge), float(self.pull), float(self.discount), self.residuals,
            WARMUP_ROWS, self.vary, float(self.widen), float(self.floor), self.latin, stream,
            members, mean, std,
        )  # fmt: skip
        return PathForecast(members, mean, std, marks, self.name, "joint")


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeEnsemble(RidgeSettings):
    """Mean paths of bootstrapped models (epistemic), each with a standard deviation (aleatoric)."""

    models: int = 20  # J

    def __post_init__(self) -> None:
        RidgeSettings.__post_init__(self)
        if not self.models >= 2:
            raise InputError("models", self.models, "at least 2")

    @property
    def name(self) -> str:
        return "ridge-ensemble"

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """One mean path of each model at every cutoff, with its standard deviation in `member_std`."""
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        lags = np.array(self.lags_for(season), dtype=np.int64)
        members = np.empty((marks.size, self.models, horizon))
        member_std = np.empty_like(members)
        mean, std = np.empty((marks.size, horizon)), np.empty((marks.size, horizon))
        ridge_ensemble(
            seen, known_ahead(known, marks, horizon), marks, lags,
            float(self.ridge), float(self.pull), float(self.discount), self.residuals,
            WARMUP_ROWS, float(self.widen), float(self.floor), stream, members, member_std, mean, std,
        )  # fmt: skip
        return PathForecast(members, mean, std, marks, self.name, "joint", member_std=member_std)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbiasedRidge:
    """Joint sample paths of `RidgePaths`, less its own mean error by phase; without a season they are as they were."""

    takes_known: ClassVar[bool] = True

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

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Paths at every cutoff, less the mean error of the same phase so far."""
        seen, marks = check_history(y, cutoffs, horizon=horizon, needed=self.min_history(season))
        how = Recalibration("rolling", season, self.cycles, scale=False, floor=self.floor)
        model = self.model()
        if how.active:
            members = walk_recalibrated(
                model, seen, marks, how, horizon=horizon, season=season, stream=stream, known=known
            )
        else:
            members = model.forecast(seen, marks, horizon=horizon, season=season, stream=stream, known=known).members
        members = np.array(members)
        return PathForecast(members, members.mean(axis=1), members.std(axis=1), marks, self.name, "joint")
