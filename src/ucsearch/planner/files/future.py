"""The file of future values: what is known ahead, by series and time, or by time alone where it is the same for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.files.calendar import count_periods, day_text, is_short
from ucsearch.planner.files.columns import column_hint, usual_names
from ucsearch.planner.files.numbers import date_words, number_words, parse_dates
from ucsearch.planner.files.table import Block, open_table
from ucsearch.planner.settings import Settings

__all__ = ["Future", "known_values"]

Floats = NDArray[np.float64]


class Future(NamedTuple):
    """Values by time, of every series."""

    period: str
    times: dict[str, Any]  # (n,) by series, ascending; "" where they are of all series
    values: dict[str, Floats]  # (n, K)

    def of(self, series: str, first: Any) -> Floats:
        """(n, K) of a series from its period `first` on (None: step 1), as far as they are known; NaN where one is
        missing in between, nothing for a series that the file does not name."""
        name = series if series in self.times else ""
        if name not in self.times:
            return np.zeros((0, self._columns))
        time, values = self.times[name], self.values[name]
        if first is None:
            place = time.astype(np.int64) - 1
        else:
            place = _places(first, time, self.period)
        inside = place >= 0
        if not inside.any():
            return np.zeros((0, self._columns))
        out = np.full((int(place[inside].max()) + 1, self._columns), np.nan)
        out[place[inside]] = values[inside]
        return out

    @property
    def _columns(self) -> int:
        return int(next(iter(self.values.values())).shape[1])


def _places(first: Any, time: Any, period: str) -> NDArray[np.int64]:
    """(n,) periods from `first` to each time; below 0 before it, and where a weekday's file has a weekend."""
    place = count_periods(np.concatenate([[first], time]), period)[1:]
    place = np.where(time < first, -1, place)
    if period == "weekday":
        place = np.where(np.is_busday(time.astype("datetime64[D]")), place, -1)
    return np.asarray(place)


def known_values(path: str | Path, settings: Settings, period: str) -> Future:
    """Read the file: a column of dates (or steps), one for each of columns.known, and perhaps one of series."""
    table = open_table(path, settings.columns.decimal)
    names = usual_names(table, settings.columns)
    time = next((n for n in (names.date, names.step) if n in table.columns), None)
    wanted = settings.columns.known
    for name in (time or names.date, *wanted):
        if name not in table.columns:
            raise InputError(
                str(path), f"columns {', '.join(table.columns[:12])}", f"a column {name!r}",
                hint=column_hint(table, names) if name == names.date else "columns.known names it.",
            )  # fmt: skip
    dated = time == names.date
    if dated and period == "any":
        raise InputError("period", "'any' with a file of future values by date", "the step between dates, such as day")
    by_series = names.series in table.columns
    keys = [names.series] if by_series else []
    series: list[str] = []
    times: list[Any] = []
    values: list[Floats] = []
    for block in table.blocks([*keys, str(time), *wanted]):
        series += block.texts(names.series) if by_series else [""] * len(block)
        times.append(_times(block, str(time), settings, dated))
        values.append(np.stack([_numbers(block, name, path, table.unit) for name in wanted], axis=1))
    if not series:
        raise InputError(str(path), "no rows", "a row for every period that is known")
    every, every_time, every_value = np.array(series, dtype=object), np.concatenate(times), np.concatenate(values)
    found = Future(period if dated else "any", {}, {})
    for name in dict.fromkeys(series):
        at = np.flatnonzero(every == name) if by_series else np.arange(len(every))
        at = at[np.argsort(every_time[at], kind="stable")]
        own = every_time[at]
        twice = np.flatnonzero(own[1:] == own[:-1])
        if twice.size:
            seen = day_text(own[twice[0]], period) if dated else f"step {own[twice[0]]:g}"
            where = f"{path}, series {name}" if name else str(path)
            raise InputError(where, f"{seen} twice", "one row for each period")
        found.times[name], found.values[name] = own, every_value[at]
    return found


def _times(block: Block, column: str, settings: Settings, dated: bool) -> Any:
    if not dated:
        steps, bad = block.numbers(column)
        _refuse(bad, block, column, "a whole number")
        return steps
    texts = block.texts(column)
    out = parse_dates(texts, settings.columns.dates, wall_clock=not is_short(settings.period))
    bad = {int(i): texts[i] for i in np.flatnonzero(np.isnat(out))}
    _refuse(bad, block, column, date_words(next(iter(bad.values()), ""), settings.columns.dates))
    return out


def _numbers(block: Block, column: str, path: str | Path, unit: str) -> Floats:
    out, bad = block.numbers(column)
    bad |= {int(i): "nothing" for i in np.flatnonzero(np.isnan(out)) if int(i) not in bad}
    if bad:
        at = min(bad)
        place = f"{path}, {unit} {block.places[at]}, column {column}"
        raise InputError(place, repr(bad[at]), number_words(bad[at], block.decimal))
    return out


def _refuse(bad: dict[int, str], block: Block, column: str, wanted: str) -> None:
    if bad:
        at = min(bad)
        raise InputError(f"files.future, row {block.places[at]}, column {column}", repr(bad[at]), wanted)
