"""Which season a history has: the settings', or the usual one of its period where it holds three of them.

One rule for `forecast`, `calibrate`, `backtest` and `tune`, so that what is replayed is what is used.
"""

from __future__ import annotations

from dataclasses import replace

from ucsearch.pipeline.sales import Data, Sales, read_sales
from ucsearch.settings import Settings

__all__ = ["SEASONS", "seasoned", "too_short", "usual_season"]

SEASONS = {"15min": 96, "30min": 48, "hour": 24, "day": 7, "weekday": 5, "week": 52, "month": 12}
_LEAST = 3  # seasons from which on one can be told from chance


def usual_season(sales: Sales, settings: Settings) -> int:
    """The period's usual season, where histories hold three of them; else none, which is 1. Steps without dates are of
    the settings' period."""
    season = SEASONS.get(settings.period if sales.period == "any" else sales.period, 1)
    longest = max((len(h.y) for h in sales.histories), default=0)
    return season if longest >= _LEAST * season else 1


def seasoned(settings: Settings, data: Data) -> Settings:
    """The settings with a season, from the history where they leave it out."""
    if settings.backtest.season is not None:
        return settings
    season = settings.forecast.season or usual_season(read_sales(data, settings), settings)
    return replace(settings, backtest=settings.backtest.model_copy(update={"season": season}))


def too_short(settings: Settings, size: int, needed: int) -> str:
    """What to change where a history has `size` periods and a replay needs more."""
    test = settings.backtest
    told = f" ([backtest] periods = {test.periods}, warmup = {test.warmup}, and what the forecaster needs"
    fewer = size - (needed - test.periods)
    return told + (f"; periods = {fewer} would do)" if fewer > 0 else ")")
