"""How a series' history is prepared for forecasting: one way for every command that forecasts or replays.

`forecast`, `calibrate`, `backtest`, `tune`, jobs and `service arm` all ask this module which season a history has, how
many periods a forecast needs and looks ahead, which values are outliers, and for the forecasts themselves. A forecast
at cutoff t follows from values up to t only, and is the same whoever asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, first_origin, known_for, pair_paths
from ucsearch.forecast.cleaning import clip_outliers
from ucsearch.forecast.recalibrate import (
    LEAST_PATHS,
    Archive,
    Recalibration,
    models_at,
    past_forecasts,
    walk_recalibrated,
)
from ucsearch.forecast.streams import draw_key, series_stream
from ucsearch.planner.files.calendar import day_text
from ucsearch.planner.files.sales import Data, History, Sales, ended_early, read_sales
from ucsearch.planner.files.series_file import GAPS_WORDS
from ucsearch.planner.settings import Settings

__all__ = [
    "SEASONS", "Newest", "Preparation", "horizon_of", "needed_periods", "not_known_ahead", "prepare",
    "season_of", "too_short", "why_not", "why_not_replayed", "why_unusable", "with_season",
]  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SEASONS = {"15min": 96, "30min": 48, "hour": 24, "day": 7, "weekday": 5, "week": 52, "month": 12}
_LEAST = 3  # seasons from which on one can be told from chance


# -------------------------------------------------------------------- season, horizon, length


def season_of(settings: Settings, sales: Sales) -> int:
    """`forecast.season`, else `backtest.season`, else the usual season of the period where a history holds three of
    them, else 1 (none). Steps without dates are of the settings' period."""
    if (said := settings.forecast.season or settings.backtest.season) is not None:
        return said
    season = SEASONS.get(settings.period if sales.period == "any" else sales.period, 1)
    longest = max((len(h.y) for h in sales.histories), default=0)
    return season if longest >= _LEAST * season else 1


def with_season(settings: Settings, data: Data) -> Settings:
    """The settings with a season, from the history where they leave it out."""
    if settings.forecast.season or settings.backtest.season:
        return settings
    season = season_of(settings, read_sales(data, settings))
    return replace(settings, backtest=settings.backtest.model_copy(update={"season": season}))


def horizon_of(settings: Settings, config: Any = None) -> int:
    """Steps of a forecast: `forecast.steps`, or as many as decisions look at. `config`: the parameters of a series of
    its own, such as one with a longer lead time."""
    if settings.forecast.steps is not None:
        return settings.forecast.steps
    if settings.task is None or settings.policy is None:
        raise InputError("forecast.steps", "nothing", "how many periods to forecast", hint="--set forecast.steps=14")
    wanted = int(settings.task.steps_wanted(settings.policy, settings.actions))
    return wanted if config is None else max(wanted, config.steps_wanted(settings.policy, settings.actions))


def needed_periods(settings: Settings) -> int:
    """Periods of history that a replay needs: those that are counted, the warm-up, what the forecaster needs before
    them, and with recalibrate = "paths" the error paths that are known when it begins."""
    needed = settings.backtest.periods + settings.backtest.warmup
    needed += int(settings.forecaster.min_history(settings.season))
    if settings.recalibration.active and settings.recalibration.method == "paths":
        needed += LEAST_PATHS * settings.season + horizon_of(settings)
    return needed


def too_short(settings: Settings, size: int) -> str:
    """Why a history of `size` periods cannot be replayed and what to change, "" when it can."""
    test, needed = settings.backtest, needed_periods(settings)
    if size >= needed:
        return ""
    told = f"saw {size} periods, expected at least {needed} ([backtest] periods = {test.periods}, warmup = "
    told += f"{test.warmup}, and what the forecaster needs"
    fewer = size - (needed - test.periods)
    return told + (f"; periods = {fewer} would do)" if fewer > 0 else ")")


def why_unusable(sales: Sales, settings: Settings, season: int, horizon: int) -> dict[str, str]:
    """The series that cannot be forecast so far ahead, each with the reason."""
    early = {h.series: newest for h, newest in ended_early(sales)}
    found = {
        h.series: why_not(h, settings, season, early.get(h.series)) or not_known_ahead(h, settings, horizon)
        for h in sales.histories
    }
    return {series: text for series, text in found.items() if text}


def why_not_replayed(sales: Sales, settings: Settings) -> dict[str, str]:
    """The series that cannot be replayed, each with the reason: too short, or not to be forecast at all."""
    refused = why_unusable(sales, settings, settings.season, horizon_of(settings) - 1)
    short = {h.series: text for h in sales.histories if (text := too_short(settings, len(h.y)))}
    return {**refused, **short}


def why_not(h: History, settings: Settings, season: int, newest: Any = None) -> str:
    """Why a series cannot be forecast, "" when it can. `newest`: where the others end, if it does not end there."""
    needed = settings.forecaster.min_history(season)
    if newest is not None:
        text = f"saw {day_text(h.last)} as its last date, expected {day_text(newest)} as in the other "
        return text + f"series ({GAPS_WORDS})"
    if (there := len(h.y) - h.unknown) < needed:
        fewer = settings.forecaster.min_history(1)
        seen = f"{there} periods" + (" of which the demand is known" if h.unknown else "")
        text = f"saw {seen}, expected at least {needed} for {settings.forecaster.name}, season {season}"
        return text + (f" (forecast.season = 1, none, needs {fewer})" if season > 1 and fewer <= there else "")
    if np.nanmin(h.y) < 0.0 <= getattr(settings.forecaster, "floor", -np.inf):
        wanted = "expected demand of at least 0: write returns as 0 or keep them elsewhere"
        return f"saw {h.least(settings.period)}, {wanted} (or take floor = 0 from the forecaster)"
    return ""


def not_known_ahead(h: History, settings: Settings, horizon: int) -> str:
    """Why a series lacks the future values for so many periods, "" when it has them."""
    if h.known is None or (ahead := len(h.known) - len(h.y)) >= horizon:
        return ""
    names = ", ".join(settings.columns.known)
    return f"saw {names} of {max(ahead, 0)} periods ahead, expected {horizon} (files.future)"


# -------------------------------------------------------------------- forecasts


class Newest(NamedTuple):
    """The forecast at a history's end."""

    model: str
    members: Floats  # (J, H), or (J, H, F)
    clipped: int  # outliers that were cut back
    past: Archive | None  # of the same model, from index `first` on
    first: int


@dataclass(frozen=True)
class Preparation:
    """How series are forecast; equal preparations give equal forecasts."""

    model: Forecaster
    season: int
    horizon: int
    seed: int
    keep_outliers: bool
    cycles: int  # seasons that recalibration looks back on

    def stream(self, series: str) -> np.uint64:
        return series_stream(draw_key(np.random.default_rng(self.seed)), series)

    def learned_from(self, y: Floats) -> tuple[Floats, Ints]:
        """What the forecaster learns from, and where outliers were cut back. Each is judged by earlier values only."""
        return (y, np.zeros(0, np.int64)) if self.keep_outliers else clip_outliers(y)

    def forecasts(
        self, series: str, y: Floats, cutoffs: Ints, how: Recalibration | None = None, known: Floats | None = None
    ) -> Floats:
        """(O, J, H) or (O, J, H, F) members at rising `cutoffs` of a history (T,) or (T, F), recalibrated where `how`
        says so. Errors of past forecasts are taken from what happened, outliers included. `known`: what is known
        ahead."""
        if y.ndim == 2:
            fields = [self.forecasts(series, np.ascontiguousarray(one), cutoffs, how, known) for one in y.T]
            size = min(one.shape[1] for one in fields)
            paths = np.stack([one[:, :size] for one in fields], axis=-1)
            return np.stack([pair_paths(x, y[: at + 1]) for x, at in zip(paths, cutoffs.tolist(), strict=True)])
        learned, _ = self.learned_from(y)
        if how is not None and how.active:
            return walk_recalibrated(self.model, learned, cutoffs, how, outcomes=y, **self._common(series, known))
        return np.asarray(self.model.forecast(learned, cutoffs, **self._common(series, known)).expand().members)

    def newest(self, series: str, y: Floats, with_past: bool = False, known: Floats | None = None) -> Newest:
        """The forecast from the history's last value on; `with_past`: what its model would have said before."""
        last = len(y) - 1
        if y.ndim == 2:
            several = [self.newest(series, np.ascontiguousarray(one), known=known) for one in y.T]
            models = " + ".join(dict.fromkeys(one.model for one in several))
            paths = self.forecasts(series, y, np.array([last]), known=known)[0]
            return Newest(models, paths, sum(one.clipped for one in several), None, 0)
        learned, far = self.learned_from(y)
        model = models_at(self.model, learned, np.array([last]), **self._common(series, known))[0]
        first = last
        if with_past:
            span = 2 * self.cycles * self.season + self.horizon
            first = max(first_origin(model, learned, self.season), last - span)
        own = self._common(series, known_for(model, known))
        past, members = past_forecasts(model, learned, first, last, 1, **own)
        whole = past._replace(y=y)  # what happened, outliers included
        return Newest(model.name, members[0], int(far.size), whole if with_past else None, first)

    def _common(self, series: str, known: Floats | None) -> dict[str, Any]:
        return {"horizon": self.horizon, "season": self.season, "stream": self.stream(series), "known": known}


def prepare(
    settings: Settings, *, season: int | None = None, horizon: int | None = None, seed: int | None = None,
    config: Any = None,
) -> Preparation:  # fmt: skip
    """How the settings forecast. `season`, `horizon` and `seed` come before theirs; `config` as in `horizon_of`."""
    return Preparation(
        settings.forecaster, season or settings.season, horizon or horizon_of(settings, config),
        settings.backtest.seed if seed is None else seed, settings.forecast.keep_outliers, settings.forecast.cycles,
    )  # fmt: skip
