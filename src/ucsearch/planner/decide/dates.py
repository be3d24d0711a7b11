"""Whether forecasts and states speak of the same days: one first date for all series, states of that day, not past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ucsearch.planner.decide.states import StateFile
from ucsearch.planner.files.calendar import day_text, is_short, later
from ucsearch.planner.files.numbers import MISSING, DateOrder, date_words, parse_dates
from ucsearch.planner.files.series_file import SeriesFile, Values
from ucsearch.planner.files.table import Problem
from ucsearch.planner.settings import Settings

__all__ = ["MAX_AGE", "Age", "date_problems", "time_problem"]

MAX_AGE = 2  # periods
_ZONES = np.timedelta64(14, "h")  # dates are local and the clock is UTC: no place on earth is further from it
_AHEAD = np.timedelta64(7, "D")  # a forecast that begins so much later is for another time than now


class Age(NamedTuple):
    """How old a forecast may be: what the clock says, and by how many periods its first one may lie before that."""

    now: datetime
    periods: int = MAX_AGE

    @classmethod
    def at(cls, moment: datetime | None, settings: Settings) -> Age | None:
        """As the settings limit it; None where no time is known."""
        limit = settings.forecast.max_age
        return None if moment is None else cls(moment, MAX_AGE if limit is None else limit)

    @property
    def moment(self) -> Any:
        return np.datetime64(self.now.astimezone(UTC).replace(tzinfo=None), "s")

    def why_not(self, begin: Any, period: str) -> str:
        """What is expected of a forecast that begins too early or too late; "" where it does neither."""
        if period == "any" or np.isnat(begin):
            return ""
        moment = self.moment
        told = f"{self.periods} period" + ("s" if self.periods != 1 else "")
        if later(begin, self.periods, period) + _ZONES <= moment:
            return f"one at most {told} before {day_text(moment)} (--now, [forecast] max_age)"
        if later(moment, self.periods, period) + _AHEAD + _ZONES < begin:
            return f"one at most {told} and a week after {day_text(moment)} (--now, [forecast] max_age)"
        return ""


def date_problems(forecasts: SeriesFile, states: StateFile, age: Age | None, usual: Any = None) -> Iterator[Problem]:
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
    expected = "" if age is None else age.why_not(usual, period)
    for series, begin in first.items():
        if begin != usual:
            text = f"saw {day_text(begin)} as its first date, expected {day_text(usual)} as in most series"
            yield Problem(file, "", column, series, text)
        elif expected:
            yield Problem(file, "", column, series, f"saw {day_text(begin)} as its first date, expected {expected}")
        elif series in states.dates and not _fits(states.dates[series], begin, period):
            text = f"saw {day_text(states.dates[series])}, expected {day_text(begin)}, where its forecast begins"
            text += "" if period == "any" else f", or one {period} before"
            place = states.places[series]
            yield Problem(str(states.table.path), place, states.names.date, series, text)


def time_problem(values: Values, forecasts: SeriesFile, order: DateOrder, age: Age | None) -> Problem | None:
    """What is wrong with the times that a forecast names, its last observation and its issue; None where nothing is."""
    names, period = forecasts.columns, forecasts.period
    first = forecasts.spans[values.series][0] if forecasts.layout.dated else None
    for column, text in ((names.cutoff, values.cutoff), (names.issued, values.issued)):
        if text.lower() in MISSING:
            continue
        time = _parsed(text, order, not is_short(period))
        if np.isnat(time):
            expected = date_words(text)
        elif column == names.cutoff and first is not None and period != "any" and later(first, 1, period) <= time:
            expected = f"a time before the end of its first period, {day_text(first)}"
        elif age is not None and age.moment + _ZONES < time:
            expected = f"a time that is not after {day_text(age.moment)} (--now)"
        elif age is not None and first is None and column == names.cutoff and period != "any":
            expected = age.why_not(later(time, 1, period), period)
        else:
            continue
        if expected:
            return Problem(str(forecasts.table.path), "", column, values.series, f"saw {text!r}, expected {expected}")
    return None


@lru_cache(maxsize=1024)
def _parsed(text: str, order: DateOrder, wall_clock: bool) -> Any:
    return parse_dates([text], order, wall_clock=wall_clock)[0]


def _fits(stock: Any, begin: Any, period: str) -> bool:
    """Stock is counted when the first period begins, or at the end of the one before."""
    return bool(stock == begin or (period != "any" and later(stock, 1, period) == begin))
