"""Whether forecasts and states speak of the same days: one first date for all series, states of that day, not past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ucsearch.pipeline.cases import StateFile
from ucsearch.pipeline.forecasts import ForecastFile
from ucsearch.pipeline.periods import day_text, later
from ucsearch.pipeline.tables import Problem

__all__ = ["date_problems"]

# Dates are local and the clock is UTC: no place on earth is further from it.
_ZONES = np.timedelta64(14, "h")


def date_problems(
    forecasts: ForecastFile, states: StateFile, now: datetime | None, usual: Any = None
) -> Iterator[Problem]:
    """Series whose dates do not fit, each with the reason. Files without dates have none. `usual` is the first date of
    most series, where these are only some of them."""
    if not forecasts.layout.dated:
        return
    first = {s: span[0] for s, span in forecasts.spans.items() if s not in forecasts.refused}
    if not first:
        return
    file, column, period = str(forecasts.table.path), forecasts.layout.time, forecasts.period
    # The day most series begin with; of two the later one, because a file left over is older.
    if usual is None:
        usual = max(Counter(first.values()).items(), key=lambda item: (item[1], item[0]))[0]
    moment = None if now is None else np.datetime64(now.astimezone(UTC).replace(tzinfo=None), "s")
    for series, begin in first.items():
        if begin != usual:
            text = f"saw {day_text(begin)} as its first date, expected {day_text(usual)} as in most series"
            yield Problem(file, "", column, series, text)
        elif moment is not None and period != "any" and later(begin, 1, period) + _ZONES <= moment:
            text = f"saw {day_text(begin)} as its first date, expected a period that is not over at {day_text(moment)}"
            yield Problem(file, "", column, series, text)
        elif series in states.dates and not _fits(states.dates[series], begin, period):
            text = f"saw {day_text(states.dates[series])}, expected {day_text(begin)}, where its forecast begins"
            text += "" if period == "any" else f", or one {period} before"
            place = states.places[series]
            yield Problem(str(states.table.path), place, states.names.date, series, text)


def _fits(stock: Any, begin: Any, period: str) -> bool:
    """Stock is counted when the first period begins, or at the end of the one before."""
    return bool(stock == begin or (period != "any" and later(stock, 1, period) == begin))
