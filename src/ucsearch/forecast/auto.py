"""The forecaster that a series' own past speaks for: the least CRPS walking forward, among a few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, PathForecast, first_origin, known_for
from ucsearch.forecast.bootstrap import MarkovBootstrap
from ucsearch.forecast.calibration import crps_ensemble
from ucsearch.forecast.cleaning import stopped_for
from ucsearch.forecast.ridge import UnbiasedRidge
from ucsearch.forecast.smoothing import Smoothing

__all__ = ["Auto"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_INTERMITTENT = 0.6  # share of periods without demand from which the bootstrap is tried
_FEWEST = 4  # past forecasts without which nobody is judged
_CLEARLY = 1.05  # by which smoothing must be better than what also knows drifts: where both are alike, it lags behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Smoothing, unbiased ridge paths or the bootstrap for intermittent demand, chosen per series on its own past."""

    takes_known: ClassVar[bool] = True

    paths: int = 100  # J
    origins: int = 60  # past forecasts that each candidate is judged by
    floor: float = 0.0  # no path goes below

    def __post_init__(self) -> None:
        if not self.origins >= 1:
            raise InputError("origins", self.origins, "at least 1")
        self.candidates()

    @property
    def name(self) -> str:
        return "auto"

    def candidates(self) -> tuple[Forecaster, ...]:
        """What is chosen from; the bootstrap, last, only where no path goes below 0 (and where most periods have no
        demand: elsewhere it is chosen by chance more often than for good reason)."""
        floor = self.floor
        models: list[Any] = [Smoothing(paths=self.paths, floor=floor), UnbiasedRidge(paths=self.paths, floor=floor)]
        if floor >= 0.0:  # for counts only
            models.append(MarkovBootstrap(paths=self.paths, floor=floor))
        return tuple(models)

    def min_history(self, season: int) -> int:
        """Observations that the least demanding candidate needs."""
        return min(model.min_history(season) for model in self.candidates())

    def choose(
        self, y: Floats, cutoff: int, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> Forecaster:
        """The candidate with the least CRPS over the last `origins` forecasts whose outcomes are known at `cutoff`; of
        equals the first. Without enough past: the first that can forecast at all. Where demand has stopped: the
        bootstrap of what was since the last sale."""
        marks = np.array([cutoff], dtype=np.int64)
        return self.choices(y, marks, horizon=horizon, season=season, stream=stream, known=known)[0]

    def choices(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> list[Forecaster]:  # fmt: skip
        """What `choose` would choose at each of the rising `cutoffs`."""
        return [m for m, _ in self._chosen(y, cutoffs, horizon=horizon, season=season, stream=stream, known=known)]

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """At every cutoff by the candidate that was best until then; what is `known` ahead is for ridge paths."""
        chosen = self._chosen(y, cutoffs, horizon=horizon, season=season, stream=stream, known=known)
        members = np.stack([own for _, own in chosen])
        names = {model.name for model, _ in chosen}
        return PathForecast(
            members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs, dtype=np.int64),
            names.pop() if len(names) == 1 else self.name, "joint",
        )  # fmt: skip

    def _chosen(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None
    ) -> list[tuple[Forecaster, Floats]]:  # fmt: skip
        """The candidate and its members (J, H) at each cutoff. Which candidates can forecast there and are tried
        follows from the values up to that cutoff alone."""
        marks = np.asarray(cutoffs, dtype=np.int64)
        if marks.ndim != 1 or marks.size == 0:
            raise InputError("cutoffs", f"shape {marks.shape}", "a list of at least one index")
        seen = np.asarray(y, dtype=np.float64)[: int(marks[-1]) + 1]
        common: dict[str, Any] = {"horizon": horizon, "season": season, "stream": stream}
        able = [self._able(seen, cutoff, season) for cutoff in marks.tolist()]
        walked: dict[Forecaster, tuple[int, Floats, Floats]] = {}  # place of its first cutoff, members, scores
        for model in dict.fromkeys(m for several in able for m in several):
            places = [o for o, several in enumerate(able) if model in several]
            own = known_for(model, known)
            walked[model] = (places[0], *self._walked(model, seen, marks[places[0] :], known=own, **common))
        fits: list[tuple[Forecaster, Floats]] = []
        for o, cutoff in enumerate(marks.tolist()):
            if (faded := self._faded(seen[: cutoff + 1], season)) is not None:
                fits.append((faded, np.asarray(faded.forecast(seen, marks[o : o + 1], **common).members[0])))
                continue
            best = able[o][self._best(able[o], [walked[m][2] for m in able[o]], cutoff)]
            fits.append((best, walked[best][1][o - walked[best][0]]))
        return fits

    def _faded(self, y: Floats, season: int) -> Forecaster | None:
        """Where demand has stopped: as much as since the last sale, whatever was before."""
        run = stopped_for(y, season) if self.floor >= 0.0 else 0
        return MarkovBootstrap(paths=self.paths, floor=self.floor, window=run + 1) if run else None

    def _able(self, y: Floats, cutoff: int, season: int) -> list[Forecaster]:
        values = np.asarray(y)[: cutoff + 1]
        values = values[~np.isnan(values)]
        able = [m for m in self.candidates() if m.min_history(season) <= values.size]
        none = np.mean(values == 0.0) if values.size else 0.0
        if len(able) > 1 and none < _INTERMITTENT:
            able = [m for m in able if not isinstance(m, MarkovBootstrap)]
        if not able:
            needed = self.min_history(season)
            raise InputError(
                "cutoffs", cutoff, f"at least {needed - 1}", hint=f"The model needs {needed} observations."
            )
        return able

    def _walked(
        self, model: Forecaster, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64,
        known: Floats | None = None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Members (O, J, H) at the cutoffs, and CRPS (T, H) of its forecasts at every origin of y from `origins` before
        the first on; NaN where the outcome is not known or nothing was forecast."""
        first = max(first_origin(model, y, season), int(cutoffs[0]) - self.origins - horizon)
        marks = np.arange(first, int(cutoffs[-1]) + 1, dtype=np.int64)
        members = model.forecast(y, marks, horizon=horizon, season=season, stream=stream, known=known).members
        scores = np.full((len(y), horizon), np.nan)
        for h in range(horizon):
            scored = marks[marks + 1 + h < len(y)]
            scored = scored[~np.isnan(y[scored + 1 + h])]
            if scored.size:
                scores[scored, h] = crps_ensemble(members[scored - first, :, h], y[scored + 1 + h])
        return members[cutoffs - first], scores

    def _best(self, able: list[Forecaster], scores: list[Floats], cutoff: int) -> int:
        """Which has the least mean over the last `origins` outcomes of every step known at `cutoff`; smoothing only
        where it is clearly the better one."""
        means = []
        for model, errors in zip(able, scores, strict=True):
            horizon = errors.shape[1]
            recent = [errors[max(0, cutoff - h - self.origins) : max(0, cutoff - h), h] for h in range(horizon)]
            values = np.concatenate(recent)
            values = values[~np.isnan(values)]
            enough = np.count_nonzero(~np.isnan(recent[0])) >= min(_FEWEST, self.origins)
            mean = float(values.mean()) if enough else np.inf
            means.append(_CLEARLY * mean if isinstance(model, Smoothing) else mean)
        return int(np.argmin(means))
