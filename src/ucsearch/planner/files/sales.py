"""A sales history as people have it: long (a row per series and time), or wide in either direction.

Long: `series, date, demand`, or Nixtla's `unique_id, ds, y`. Wide: a row per series with a column per date (M5), or a
row per date with a column per series.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.calendar import day_text, infer_period, is_regular, is_short, later
from ucsearch.planner.files.columns import column_hint, history_names
from ucsearch.planner.files.future import known_values
from ucsearch.planner.files.numbers import date_words, number_words, offset_of, parse_dates, sniff_order
from ucsearch.planner.files.series_file import GAPS_WORDS, SeriesFile
from ucsearch.planner.files.table import Block, Problem, Table, open_table
from ucsearch.planner.files.totals import added_up, is_total
from ucsearch.planner.settings import Columns, Settings

__all__ = ["Data", "History", "Sales", "ended_early", "read_sales", "sales_of", "with_known"]

Floats = NDArray[np.float64]
_IDS = ("id", "item_id", "sku")
_STEP = re.compile(r"(?:d_|t_|step_)?(\d+)")
_LEAST_COLUMNS = 4


class History(NamedTuple):
    """One series: demand of consecutive periods, and when the first and the last one were."""

    series: str
    y: Floats  # (T,); of outcomes of F fields (T, F); NaN where demand is not known
    first: Any  # datetime64[s]; None where the file counts steps
    last: Any
    known: Floats | None = None  # (n, K) what is known ahead, from the first period on and past the last one

    @property
    def unknown(self) -> int:
        """Periods of which the demand is not known."""
        return int(np.isnan(self.y.reshape(len(self.y), -1)).any(axis=1).sum())

    def least(self, period: str) -> str:
        """The smallest value and when it was, for a message: `-3 (2024-05-20)`."""
        low = np.nanmin(self.y)
        at = int(np.flatnonzero(self.y.ravel() == low)[0]) // (self.y.size // len(self.y))
        dated = self.first is not None and period != "any"
        when = day_text(later(self.first, at, period), period) if dated else f"period {at + 1}"
        return f"{low:g} ({when})"


@dataclass(frozen=True, eq=False)
class Sales:
    """All series that can be used, and what is wrong with the others."""

    histories: tuple[History, ...]
    problems: tuple[Problem, ...]
    period: str  # "any" where it could not be told (steps)
    offset: str = ""  # from UTC, as the newest time is written; "" where it has none
    file: str = ""  # where they were read
    uneven: str = ""  # where dates follow each other by no one period; "" where they do, or there are none


Data = str | Path | Sales  # a file, or what was read of it


def read_sales(data: Data, settings: Settings) -> Sales:
    """Every series of the file; where the settings leave the period open, it is read off the dates. What was read
    before is handed back, so that a job can pass it on instead of reading a large file again."""
    if isinstance(data, Sales):
        return data
    return replace(sales_of(open_table(data, settings.columns.decimal), settings), file=str(data))


def sales_of(table: Table, settings: Settings) -> Sales:
    """The same of an open table."""
    found = _read(table, settings)
    return with_known(found, settings) if settings.columns.known else found


def _read(table: Table, settings: Settings) -> Sales:
    names = history_names(table, settings.columns)
    long = names.series in table.columns and names.demand in table.columns
    if long or settings.fields:
        return _long(table, settings, names.date in table.columns and names.step not in table.columns)
    found = _wide_times(table, settings)
    series = next((n for n in (names.series, *_IDS) if n in table.columns), None)
    if found is not None and series is not None:
        return _by_row(table, settings, series, *found)
    if names.date in table.columns and names.series not in table.columns:
        return _by_column(table, settings, names)
    seen = f"columns {', '.join(table.columns[:8])}"
    if names.series in table.columns and (names.date in table.columns or names.step in table.columns):
        wanted = f"a column {names.demand!r} (columns.demand)"
        raise InputError(str(table.path), seen, wanted, hint=column_hint(table, names))
    raise InputError(
        str(table.path), seen,
        f"a long file ({names.series}, {names.date}, {names.demand} or unique_id, ds, y), a row per series with a "
        "column per date, or a date column with a column per series", hint=column_hint(table, names),
    )  # fmt: skip


def _long(table: Table, settings: Settings, dated: bool) -> Sales:
    period: str = settings.period
    uneven = ""
    if dated and period == "any":
        period, uneven = _sniffed(table, settings)
    if settings.columns.add_up:
        if settings.fields:
            raise InputError("columns.add_up", "true", "false: outcomes have several fields")
        table = added_up(table, history_names(table, settings.columns), period)
    file = SeriesFile.history(table, settings, period, settings.fields)
    found, problems = [], list(file.problems)
    for values in file.values():
        if values.table is None:
            if values.problem is not None and values.series not in file.refused:
                problems.append(values.problem)
            continue
        first, last, _ = file.spans[values.series]
        if file.fills:
            last = max(span[1] for span in file.spans.values())
        dates = (first, last) if file.layout.dated else (None, None)
        beside = {name: values.table[:, i] for i, name in enumerate(file.layout.beside, -len(file.layout.beside))}
        y = values.table[:, : values.table.shape[1] - len(beside)] if settings.fields else values.table[:, 0]
        y = np.array(y, order="C")
        if not settings.fields:
            y[_not_met(beside, settings.columns, len(y))] = np.nan
        known = [beside[name] for name in settings.columns.known if name in beside]
        there = ~np.isnan(y.reshape(len(y), -1)).any(axis=1)
        if not there.any():
            text = "saw no period of which the demand is known, expected some"
            problems.append(Problem(str(table.path), "", "", values.series, text))
            continue
        begin, end = int(np.argmax(there)), len(y)
        if not file.fills and not settings.fields:  # empty rows at the end are the future
            end = int(np.flatnonzero(~np.isnan(values.table[:, 0]))[-1]) + 1
        if dates[0] is not None and (begin or end < len(y)):
            start = dates[0]
            dates = (later(start, begin, period), dates[1] if end == len(y) else later(start, end - 1, period))
        held = np.stack(known, axis=1)[begin:] if known else None
        found.append(History(values.series, y[begin:end], dates[0], dates[1], held))
    period = period if file.layout.dated else "any"
    return Sales(tuple(found), tuple(problems), period, file.offset, uneven=uneven)


def _not_met(beside: Mapping[str, Floats], names: Columns, periods: int) -> NDArray[np.bool_]:
    """(T,) where not all that was asked for was sold, so that demand is not known."""
    out = np.zeros(periods, bool)
    if names.closing_stock:
        out |= beside[names.closing_stock] <= 0.0
    if names.out_of_stock:
        out |= np.nan_to_num(beside[names.out_of_stock]) != 0.0
    return out


def _sniffed(table: Table, settings: Settings) -> tuple[str, str]:
    """The period of the first block's dates: the shortest step between any two of them; and, where there is none, which
    date does not follow as most do."""
    names = history_names(table, settings.columns)
    block = next(table.blocks([names.date]), None)
    if block is None:
        return "any", ""
    texts = block.texts(names.date)
    time = parse_dates(texts, names.dates, wall_clock=True)
    if not (np.isnat(time) | (time == time.astype("datetime64[D]"))).all():  # not midnight everywhere: times count
        time = parse_dates(texts, names.dates, wall_clock=False)
    time = np.unique(time[~np.isnat(time)])
    period = infer_period(time)
    if period != "any" or len(time) < _LEAST_COLUMNS:
        return period, ""
    gaps, counts = np.unique(np.diff(time), return_counts=True)
    at = int(np.argmax(np.diff(time) != gaps[np.argmax(counts)]))
    return period, f"{day_text(time[at + 1])} after {day_text(time[at])}"


# -------------------------------------------------------------------- wide files


def _wide_times(table: Table, settings: Settings) -> tuple[list[str], Any] | None:
    """Columns that are dates or steps, and which; None where they are too few to be a wide file."""
    wall_clock = not is_short(settings.period)
    order = settings.columns.dates
    order = sniff_order(table.columns) if order == "auto" else order
    dates = parse_dates(list(table.columns), order, wall_clock=wall_clock)
    columns = [c for c, d in zip(table.columns, dates, strict=True) if not np.isnat(d)]
    if len(columns) >= _LEAST_COLUMNS:
        return columns, dates[~np.isnat(dates)]
    steps = [(c, int(m[1])) for c in table.columns if (m := _STEP.fullmatch(c)) is not None]
    if len(steps) >= _LEAST_COLUMNS:
        return [c for c, _ in steps], np.array([n for _, n in steps], dtype=np.float64)
    return None


def _check_axis(table: Table, time: Any, settings: Settings) -> str:
    """Dates or steps that follow each other; the period."""
    if not np.issubdtype(time.dtype, np.datetime64):
        if not (np.diff(time) == 1.0).all():
            raise InputError(str(table.path), "numbered columns with gaps", "consecutive numbers, ascending")
        return "any"
    period = infer_period(time) if settings.period == "any" else settings.period
    if period == "any" or not is_regular(time, period).all():
        at = 1 if period == "any" else int(np.argmin(is_regular(time, period))) + 1
        seen = f"{day_text(time[at])} after {day_text(time[at - 1])}"
        apart = "that follow each other by one period" if period == "any" else f"one {period} apart"
        raise InputError(str(table.path), seen, f"ascending dates {apart} (period in the settings)")
    return period


def _by_row(table: Table, settings: Settings, series: str, columns: list[str], time: Any) -> Sales:
    period = _check_axis(table, time, settings)
    found: list[History] = []
    problems: list[Problem] = []
    seen: set[str] = set()
    totals: dict[str, str] = {}  # rows that are called so, with their places
    for block in table.blocks([series, *columns]):
        names = block.texts(series)
        values = np.empty((len(block), len(columns)))
        bad: dict[int, tuple[str, str]] = {}
        for k, column in enumerate(columns):
            values[:, k], unreadable = block.numbers(column)
            for i, text in unreadable.items():
                bad.setdefault(i, (column, text))
        for i, name in enumerate(names):
            place = f"{table.unit} {block.places[i]}"
            text, column = "", ""
            if not name or name in seen:
                column, text = series, "saw the series twice, expected it once" if name else "saw nothing"
            elif i in bad:
                column, text = bad[i][0], f"saw {bad[i][1]!r}, expected {number_words(bad[i][1], block.decimal)}"
            if text:
                problems.append(Problem(str(table.path), place, column, name, text))
                continue
            seen.add(name)
            if is_total(name):
                totals[name] = place
            made = _trimmed(table, settings, name, place, columns, values[i], time)
            (found if isinstance(made, History) else problems).append(made)  # type: ignore[arg-type]
    if totals:
        ends = [np.append(np.zeros(len(time) - len(h.y)), h.y) for h in found]
        kept, total = _without_totals(table, [h.series for h in found], np.array(ends))
        found = [h for h in found if h.series in kept]
        problems += [replace(problem, place=totals[problem.series]) for problem in total]
    return Sales(tuple(found), tuple(problems), period, offset_of(columns[-1]))


def _by_column(table: Table, settings: Settings, names: Columns) -> Sales:
    date = names.date
    columns = [c for c in table.columns if c != date and c not in settings.columns.ignore]
    blocks = list(table.blocks(list(table.columns)))
    if not blocks or not columns:
        raise DataError(f"{table.path}: saw no rows or no series, expected a column per series")
    wall_clock = not is_short(settings.period)
    time = np.concatenate([parse_dates(b.texts(date), names.dates, wall_clock=wall_clock) for b in blocks])
    if np.isnat(time).any():
        at = int(np.argmax(np.isnat(time)))
        place, text = [(p, x) for b in blocks for p, x in zip(b.places.tolist(), b.texts(date), strict=True)][at]
        raise InputError(
            f"{table.path}, {table.unit} {place}, column {date}", repr(text), date_words(text, names.dates)
        )
    if np.unique(time).size < time.size:
        raise _looks_long(table, date, f"dates that come again in {date!r}", settings)
    texts = [c for c in columns if all(np.isnan(b.numbers(c)[0]).all() for b in blocks) and any(blocks[0].texts(c))]
    if texts:
        raise _looks_long(table, date, f"texts in {texts[0]!r}", settings)
    if date != settings.columns.date and len(time) > 1:
        codes = [c for c in columns if len(set(x := _column(blocks, c).tolist())) == 1 and x[0] and x[0].is_integer()]
        if codes:  # the number of the only article in the file, rather than a series that never changes
            raise _looks_long(table, date, f"one number alone in {codes[0]!r}", settings)
    period = _check_axis(table, time, settings)
    places = [f"{table.unit} {p}" for b in blocks for p in b.places.tolist()]
    found: list[History] = []
    problems: list[Problem] = []
    columns, total = _without_totals(table, columns, np.array([_column(blocks, c) for c in columns]))
    problems += [replace(problem, column=problem.series) for problem in total]
    for column in columns:
        parts = [b.numbers(column) for b in blocks]
        values = np.concatenate([p[0] for p in parts])
        wrong = [(b, i, x) for b, p in zip(blocks, parts, strict=True) for i, x in p[1].items()]
        if wrong:
            block, i, seen = wrong[0]
            text = f"saw {seen!r}, expected {number_words(seen, block.decimal)}"
            problems.append(Problem(str(table.path), f"{table.unit} {block.places[i]}", column, column, text))
            continue
        made = _trimmed(table, settings, column, "", places, values, time)
        (found if isinstance(made, History) else problems).append(made)  # type: ignore[arg-type]
    return Sales(tuple(found), tuple(problems), period, offset_of(blocks[-1].texts(date)[-1]))


def _column(blocks: Sequence[Block], column: str) -> Floats:
    return np.concatenate([b.numbers(column)[0] for b in blocks])


def _without_totals(table: Table, names: Sequence[str], values: Floats) -> tuple[list[str], list[Problem]]:
    """The names of series, without one that is called a total and is one: (S, T) `values` add up to it."""
    for i, name in enumerate(names):
        rest = np.nan_to_num(np.delete(values, i, axis=0)).sum(axis=0)
        if len(names) > 2 and is_total(name) and np.allclose(np.nan_to_num(values[i]), rest, rtol=1e-6, atol=1e-6):
            text = "the sum of the others, left out"
            return [x for x in names if x != name], [Problem(str(table.path), "", "", name, text, refuses=False)]
    return list(names), []


def _looks_long(table: Table, date: str, seen: str, settings: Settings) -> InputError:
    """A row per series and date, under names that nobody told us."""
    names = history_names(table, settings.columns)
    return InputError(
        str(table.path), f"columns {', '.join(table.columns[:8])}, and {seen}",
        f"columns {names.series!r} and {names.demand!r}, or beside {date!r} a column of numbers for each series",
        hint=column_hint(table, names),
    )  # fmt: skip


def _trimmed(
    table: Table, settings: Settings, name: str, place: str, cells: list[str], values: Floats, time: Any
) -> History | Problem:
    """A series from its first value on; gaps after it are refused, without demand or not known. It stands in a row at
    `place`, and `cells` are columns; or in a column of its name, and `cells` are places."""
    known = ~np.isnan(values)
    if not known.any():
        return Problem(str(table.path), place, "", name, "saw no values, expected demand")
    begin = int(np.argmax(known))
    y, rest = values[begin:].copy(), known[begin:]
    if not rest.all():
        if settings.columns.gaps == "refuse":
            end = int(np.flatnonzero(rest)[-1]) + 1  # what is empty behind it is the future
            y, rest, time = y[:end], rest[:end], time[: begin + end]
        if not rest.all() and settings.columns.gaps == "refuse":
            at = begin + int(np.argmin(rest))
            text = f"saw nothing, expected a number ({GAPS_WORDS})"
            where, column = (place, cells[at]) if place else (cells[at], name)
            return Problem(str(table.path), where, column, name, text)
        y[~rest] = 0.0 if settings.columns.gaps == "zero" else np.nan
    if not (np.abs(y[~np.isnan(y)]) <= 1e15).all():
        return Problem(str(table.path), place, "", name, "saw an infinite or huge value, expected numbers within 1e15")
    dated = np.issubdtype(time.dtype, np.datetime64)
    return History(name, y, time[begin] if dated else None, time[-1] if dated else None)


def with_known(sales: Sales, settings: Settings) -> Sales:
    """The same with what is known ahead, from the sales file and from files.future; a series of which a past value is
    in neither is refused by name."""
    names, file = settings.columns.known, settings.path("future")
    if file is None:
        raise InputError("files.future", "nothing", f"a file with future values of {', '.join(names)}")
    future = known_values(file, settings, sales.period)
    found: list[History] = []
    problems = list(sales.problems)
    for h in sales.histories:
        ahead = future.of(h.series, h.first)
        held = h.known
        if held is not None and held.shape[1] < len(names):
            raise InputError(
                "columns.known", f"{held.shape[1]} of {len(names)} columns in the sales file", "all of them, or none"
            )
        past = len(h.y)
        rows = np.concatenate([ahead[:past] if held is None else held, ahead[past:]])[: max(past, len(ahead))]
        bad = np.argwhere(np.isnan(rows[:past])) if len(rows) >= past else np.array([[len(rows), 0]])
        if len(bad):
            at, k = (int(x) for x in bad[0])
            when = f"period {at + 1}" if h.first is None else day_text(later(h.first, at, sales.period), sales.period)
            text = f"saw no {names[k]} of {when}, expected it here or among the sales (columns.known)"
            problems.append(Problem(str(file), "", names[k], h.series, text))
            continue
        gone = np.flatnonzero(np.isnan(rows).any(axis=1))
        found.append(h._replace(known=rows[: gone[0]] if gone.size else rows))
    return replace(sales, histories=tuple(found), problems=tuple(problems))


def ended_early(sales: Sales) -> Iterator[tuple[History, Any]]:
    """Series that end before the others do, with the end that most have."""
    ends = [h.last for h in sales.histories if h.last is not None]
    if not ends:
        return
    newest = max(ends)
    for h in sales.histories:
        if h.last != newest:
            yield h, newest
