"""What a forecaster would have said at past origins, and members recalibrated by that, walking forward."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ucsearch.forecast import recalibrate
from ucsearch.forecast.base import Forecaster, PathForecast
from ucsearch.forecast.recalibrate import LEAST_PATHS, Archive, Correction, Recalibration

__all__ = ["Recalibrating", "models_at", "past_forecasts", "walk_recalibrated"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CELLS = 2_000_000  # of members held at a time


def past_forecasts(
    model: Forecaster, y: Floats, first: int, last: int, keep: int, *, horizon: int, season: int, stream: np.uint64
) -> tuple[Archive, Floats]:
    """The archive of a series as if `model` had been asked at every origin from `first` to `last` (walk-forward), and
    the members (keep, J, H) of the last `keep` origins. Rows before `first` are not known."""
    mean, spread = (np.full((last + 1, horizon), np.nan) for _ in range(2))
    kept: list[Floats] = []
    name, at, size = "", first, 8  # a few at first, to see how many members there are
    while at <= last:
        upto = min(at + size, last + 1)
        marks = np.arange(at, upto, dtype=np.int64)
        made = model.forecast(y[:upto], marks, horizon=horizon, season=season, stream=stream)
        members = np.asarray(made.expand().members)
        centre = members.mean(axis=1)
        mean[at:upto], spread[at:upto] = centre, np.abs(members - centre[:, None, :]).mean(axis=1)
        if upto > last + 1 - keep:
            kept.append(members[max(0, last + 1 - keep - at) :])
        name, at = made.model, upto
        size = max(1, _CELLS // (members.shape[1] * horizon))
    return Archive(y[: last + 1], mean, spread, (name,) * (last + 1)), np.concatenate(kept)


def models_at(
    model: Forecaster, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64
) -> list[Forecaster]:
    """The model that forecasts at each cutoff: the one that `model` chooses there (`Auto.choices`), or itself."""
    choices = getattr(model, "choices", None)
    if choices is None:
        return [model] * len(cutoffs)
    return list(choices(y, cutoffs, horizon=horizon, season=season, stream=stream))


def walk_recalibrated(
    model: Forecaster, y: Floats, cutoffs: Ints, how: Recalibration, *, horizon: int, season: int, stream: np.uint64,
    outcomes: Floats | None = None,
) -> Floats:  # fmt: skip
    """(O, J, H) members at rising `cutoffs`, each recalibrated from what was known then about the model that forecasts
    there. `outcomes`: what happened, where `y` has outliers cut back. With method "paths" J is the least number of
    error paths known at any of them; each takes its newest."""
    models = models_at(model, y, cutoffs, horizon=horizon, season=season, stream=stream)
    several = list(dict.fromkeys(models))
    raws: list[Floats] = [np.zeros((0, 0))] * len(cutoffs)
    means, paths = np.zeros((len(cutoffs), horizon)), [np.zeros((0, horizon))] * len(cutoffs)
    for one in several:
        places = [o for o, chosen in enumerate(models) if chosen == one]
        marks = cutoffs[places]
        first = max(one.min_history(season) - 1, int(marks[0]) - 2 * how.cycles * how.season)
        last = int(marks[-1])
        archive, members = past_forecasts(
            one, y, first, last, last + 1 - int(marks[0]), horizon=horizon, season=season, stream=stream
        )
        if outcomes is not None:
            archive = archive._replace(y=outcomes[: last + 1])
        raw = members[marks - marks[0]]
        if how.method == "rolling":
            fix = recalibrate.corrections(archive, how)
            wanted = Correction(fix.b[marks], fix.c[marks], fix.sums)
            raw = recalibrate.recalibrate_members(raw, archive.mean[marks], wanted, how.floor)
        means[places] = archive.mean[marks]
        for place, t, own in zip(places, marks.tolist(), raw, strict=True):
            raws[place] = own
            if how.method == "paths":
                known = Archive(archive.y[: t + 1], archive.mean[: t + 1], archive.spread[: t + 1])
                errors = recalibrate.correction_at(known, how, horizon).paths
                paths[place] = paths[place] if errors is None else errors
    size = min(map(len, paths))
    if how.method == "rolling" or size < LEAST_PATHS:
        return np.stack(raws)
    return np.asarray(np.maximum(means[:, None, :] + np.stack([x[:size] for x in paths]), how.floor))


@dataclass(frozen=True)
class Recalibrating:
    """A forecaster whose members are recalibrated from what it said before, walk-forward."""

    model: Forecaster
    how: Recalibration
    label: str = ""  # in its name; the method, if none
    by_series: bool = False  # by each series' own season, not by `how.season`

    @property
    def name(self) -> str:
        return f"{self.model.name}, {self.label or self.how.method}"

    def min_history(self, season: int) -> int:
        more = LEAST_PATHS * self.how.season if self.how.method == "paths" else 0
        return int(self.model.min_history(season)) + more

    def forecast(self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64) -> PathForecast:
        how = replace(self.how, season=season) if self.by_series else self.how
        if not how.active:
            return self.model.forecast(y, cutoffs, horizon=horizon, season=season, stream=stream)
        members = walk_recalibrated(self.model, y, cutoffs, how, horizon=horizon, season=season, stream=stream)
        return PathForecast(
            members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs, np.int64), self.name, "joint"
        )
