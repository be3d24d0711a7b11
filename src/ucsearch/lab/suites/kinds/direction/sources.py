"""Series of the direction suites, cut by time, and their walk-forward forecasts with how honest these are.

A part of a series is handed out only up to its own end, and the test part only when the test split is open. Values are
measured in standard deviations of the fitting part's changes, so that an outcome of 1 is a usual step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.forecast import RidgeEnsemble, RidgePaths
from ucsearch.forecast.base import Forecaster, walk_forward_cutoffs
from ucsearch.forecast.calibration import Calibration
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.data.records import ResolvedFile
from ucsearch.lab.suites.job import SuiteJob

__all__ = [
    "COLUMN",
    "DirectionSource",
    "Model",
    "SeriesPart",
    "SeriesSplit",
    "calibration",
    "ensemble",
    "forecaster",
    "load_sources",
    "returns_of",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLUMN = "OT"


class SeriesSplit(NamedTuple):
    """Decisions of validation and test, and how far each looks ahead."""

    validation: int
    test: int
    ahead: int


class Model(NamedTuple):
    """What is chosen about the ridge autoregression; its other settings are as the library has them."""

    ridge: float
    pull: float
    discount: float
    vary: bool

    @property
    def id(self) -> str:
        drawn = "drawn" if self.vary else "fixed"
        return f"ridge-{self.ridge:g}_pull-{self.pull:g}_discount-{self.discount:g}_{drawn}"


@dataclass(frozen=True, eq=False)
class SeriesPart:
    """One purpose of one series."""

    name: str
    season: int
    y: Floats  # (n,) up to the last step that the last decision looks at
    cutoffs: Ints  # (T,) index of the last value each decision sees

    @property
    def start(self) -> int:
        """The first period decided."""
        return int(self.cutoffs[0]) + 1

    @property
    def outcomes(self) -> Floats:
        """(T,) what a unit held long over the next step earned."""
        return np.asarray(self.y[self.cutoffs + 1] - self.y[self.cutoffs])


@dataclass(frozen=True, eq=False)
class DirectionSource:
    """A whole series; `part` is the only way to its values."""

    name: str
    season: int
    split: SeriesSplit
    files: tuple[ResolvedFile, ...]
    _values: Floats

    def opened(self) -> list[int]:
        """The periods that opening the test split hands out, from the first to before the last."""
        tests = walk_forward_cutoffs(len(self._values), horizon=self.split.ahead, origins=self.split.test)
        return [int(tests[0]) + 1, len(self._values)]

    def part(self, purpose: str, job: SuiteJob) -> SeriesPart:
        """Validation ends where the first test decision is taken; fitting ends where validation begins."""
        if purpose not in ("validation", "test"):
            raise InputError("purpose", repr(purpose), "validation or test")
        if purpose == "test":
            job.require_open()
        ahead = self.split.ahead
        tests = walk_forward_cutoffs(len(self._values), horizon=ahead, origins=self.split.test)
        end = int(tests[0]) + 1
        earlier = walk_forward_cutoffs(end, horizon=ahead, origins=self.split.validation)
        fitting = np.diff(self._values[: int(earlier[0]) + 1])
        scale = float(fitting.std()) if fitting.size > 1 else 0.0
        if not 0.0 < scale < np.inf:
            raise DataError(f"series {self.name}: its fitting part never changes, so there is no unit to measure in")
        values, cutoffs = (self._values, tests) if purpose == "test" else (self._values[:end], earlier)
        return SeriesPart(self.name, self.season, values / scale, cutoffs)


def load_sources(
    files: tuple[str, ...], generated: int, length: int, seed: int, split: SeriesSplit, data_dir: Path | None
) -> tuple[DirectionSource, ...]:
    """Columns `OT` of ETT files, or generated series when no files are named."""
    if files:
        from ucsearch.lab.data.ett import load_ett

        found = []
        for name in files:
            table = load_ett(name, data_dir=data_dir)
            values = np.asarray(table.values[:, table.columns.index(COLUMN)], np.float64)
            found.append(DirectionSource(name, table.seasonal_period, split, tuple(table.report.files), values))
        return tuple(found)
    return tuple(
        DirectionSource(f"made-{n}", 24, split, (), _made(np.random.default_rng([seed, n]), length))
        for n in range(generated)
    )


def _made(rng: np.random.Generator, length: int) -> Floats:
    """A level with a daily cycle and short momentum, of the size of an oil temperature."""
    shocks, momentum = rng.standard_normal(length), np.empty(length)
    momentum[0] = shocks[0]
    for t in range(1, length):
        momentum[t] = 0.6 * momentum[t - 1] + shocks[t]
    steps = np.arange(length)
    return np.asarray(30.0 + 4.0 * np.sin(2.0 * np.pi * steps / 24.0) + 0.6 * np.cumsum(momentum))


# -------------------------------------------------------------------- forecasts


def forecaster(model: Model, paths: int) -> RidgePaths:
    return RidgePaths(ridge=model.ridge, pull=model.pull, discount=model.discount, vary=model.vary, paths=paths)


def returns_of(part: SeriesPart, model: Forecaster, ahead: int, key: int) -> Floats:
    """(T, J, ahead) the outcome of each of the next steps, along joint sample paths of the level."""
    made = model.forecast(part.y, part.cutoffs, horizon=ahead, season=part.season, stream=series_stream(key, part.name))
    last = np.broadcast_to(part.y[part.cutoffs][:, None, None], (*made.members.shape[:2], 1))
    return np.diff(np.concatenate([last, made.members], axis=2), axis=2)


def ensemble(model: Model) -> RidgeEnsemble:
    return RidgeEnsemble(ridge=model.ridge, pull=model.pull, discount=model.discount)


def calibration(
    part: SeriesPart, model: Forecaster, ahead: int, key: int, levels: tuple[float, ...]
) -> dict[str, float]:
    """How honest a forecaster is about the levels 1 to `ahead` steps on; MAE, RMSE and correlation of the first."""
    made = model.forecast(part.y, part.cutoffs, horizon=ahead, season=part.season, stream=series_stream(key, part.name))
    # Members with a spread of their own need many points each, or the outer quantiles would be cut off.
    wide = made.expand(33)
    gathered = Calibration(ahead, levels=levels)
    gathered.add(wide.members, made.actuals(part.y), weights=wide.weights)
    report = gathered.report()
    # The next step alone: further ahead spread and error grow together, whatever the forecaster knows.
    off, spread = np.abs(made.actuals(part.y) - made.mean)[:, 0], made.std[:, 0]
    related = float(np.corrcoef(spread, off)[0, 1]) if spread.std() > 0.0 and off.std() > 0.0 else 0.0
    return {
        "crps": report.crps,
        "mae": float(off.mean()),
        "rmse": float(np.sqrt(np.mean(off * off))),
        "spread_error_correlation": related,
        "pit_distance": report.pit_distance,
        **{f"coverage_{100 * level:g}": float(report.coverage[i]) for i, level in enumerate(levels)},
        **{f"width_{100 * level:g}": float(report.width[i]) for i, level in enumerate(levels)},
    }
