"""Items and outcomes out of data frames of any library that narwhals knows, with our column names or Nixtla's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from numbers import Real
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ucsearch.client.types import Answer, Forecast, Item, Outcome
from ucsearch.errors import InputError

if TYPE_CHECKING:
    from ucsearch.planner.files.columns import Layout
    from ucsearch.planner.files.table import Table
    from ucsearch.planner.settings import Columns

__all__ = ["frame_rows", "items_of", "outcomes_of", "series_of"]


_SERIES = ("series", "unique_id")
_VALUES = ("value", "y", "demand")


class _Names(NamedTuple):
    """A frame's columns, where a file's are expected."""

    path: Path
    columns: tuple[str, ...]


def items_of(
    forecasts: Any, states: Any, *, issued: str | datetime | None = None, cutoff: str | datetime | None = None,
    model: str = "", period: str | None = None, columns: Mapping[str, Any] | None = None,
) -> list[Item]:  # fmt: skip
    """One item per series, in the order of the forecasts frame.

    `forecasts`: a row per series and step (`series, step` or `date`; `unique_id, ds`), with members (`member_1`, ... or
    one value per `sample_id`), `mean` and `std`, or quantiles (`q0.1`, `q10`, `model-lo-90`). Columns cutoff, issued
    and model are taken from the frame; the arguments are for frames without them. States: one row per series, whose
    other columns are the state.

    Steps are 1, 2, 3, ...; dates follow each other by the plan's `period` ("day", "hour", ...), are at least evenly
    apart where that is not given, and begin on the same day in all series: a gap would move what comes after it.
    `columns` are the names of the plan's settings. `Client.decide_frame` asks the service for both.
    """
    from ucsearch.planner.files.columns import forecast_layout, usual_names

    names_given = _columns(columns)
    series_names = tuple(dict.fromkeys((names_given.series, *_SERIES)))
    rows = frame_rows(forecasts, "forecasts", names_given)
    states_by_series: dict[str, dict[str, Any]] = {}
    for row in frame_rows(states, "states", names_given):
        if states_by_series.setdefault(name := _name(row, "states", series_names), row) is not row:
            raise InputError("states", f"{name!r} twice", "one row per series")
    table = cast(Any, _Names(Path("forecasts"), tuple(rows[0])))
    names = usual_names(table, names_given)
    settings = cast(Any, SimpleNamespace(period=period or "any", forecast=SimpleNamespace(model=model), columns=names))
    layout, _ = forecast_layout(table, names, settings)
    out, first = [], {}
    for series, own_rows in _by_series(rows, names.series):
        if series not in states_by_series:
            raise InputError("states", f"no row of {series!r}", "one for every series of the forecasts")
        texts = {"cutoff": cutoff, "issued": issued, "model": model or None, **_said(own_rows, layout, names)}
        forecast, first[series] = _forecast(series, own_rows, layout, names, period, texts)
        if not forecast.cutoff:
            forecast = replace(forecast, cutoff=_before(first[series], period))
        state = _state(states_by_series[series], series_names, names_given.date)
        if names_given.date in state:
            check_dates(series, state[names_given.date], first[series], layout, period)
        out.append(Item(series, state, forecast))
    check_first(first, layout)
    return out


def series_of(states: Any, columns: Mapping[str, Any] | None = None) -> list[str]:
    """Names of the series in a states frame; `columns` as for `items_of`."""
    names = _columns(columns)
    return [_name(row, "states", (names.series, *_SERIES)) for row in frame_rows(states, "states", names)]


def _columns(names: Mapping[str, Any] | None) -> Columns:
    from pydantic import ValidationError

    from ucsearch.planner.settings import Columns

    try:
        known_names = {name: value for name, value in (names or {}).items() if name in Columns.model_fields}
        return Columns.model_validate(known_names, strict=False)  # JSON has no tuples
    except ValidationError as error:
        unknown = ", ".join(str(e["loc"][0]) for e in error.errors())
        raise InputError("columns", unknown[:200], "names of columns, as in a settings file") from error


def outcomes_of(answers: Sequence[Answer], frame: Any, *, observed_at: str | datetime, step: int = 1) -> list[Outcome]:
    """Outcomes of decisions that were answered: `frame` has one row per series (`series, value` or `unique_id, y`),
    the value of the period `step` after the forecasts' cutoff. Decisions whose series is not there are left out."""
    values: dict[str, float] = {}
    for row in frame_rows(frame, "outcomes"):
        column = next((name for name in _VALUES if name in row), None)
        if column is None:
            raise InputError("outcomes", f"columns {', '.join(row)}", "a column value, y or demand")
        series, value = _name(row, "outcomes", _SERIES), row[column]
        if missing(value):
            continue
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise InputError(f"outcomes.{column}", repr(value)[:80], "a number", hint=f"Series {series!r}.") from None
        if series in values:
            raise InputError("outcomes", f"{series!r} twice", "one row per series; filter by date first")
        values[series] = value
    return [Outcome(a.id, values[a.series], observed_at, step) for a in answers if a.series in values]


def frame_rows(frame: Any, what: str, names: Columns | None = None) -> list[dict[str, Any]]:
    """Rows of a frame, or of a table that the pipeline opened (its texts as numbers where they are). `names` are those
    of the plan's settings, where they are known."""
    import narwhals as nw

    own_names = () if names is None else (names.series, names.date, names.cutoff, names.issued, names.model)
    if hasattr(frame, "blocks"):
        rows = _file_rows(frame, {*_TEXTS, *own_names})
        if not rows and what != "outcomes":
            raise InputError(str(frame.path), "no rows", "at least one")
        return rows

    try:
        native = nw.from_native(frame)
    except nw.exceptions.NarwhalsError as error:  # columns of one name
        raise InputError(what, str(error)[:200], "columns with names that are texts, each once") from error
    except TypeError as error:
        raise InputError(what, type(frame).__name__, "a data frame of pandas, polars, pyarrow, ...") from error
    columns = native.collect_schema().names() if isinstance(native, nw.LazyFrame) else list(native.columns)
    not_texts = [name for name in columns if not isinstance(name, str)]
    if not_texts or len(set(columns)) < len(columns):
        columns_seen = f"a column named {not_texts[0]!r}" if not_texts else f"columns {', '.join(columns)}"
        raise InputError(what, columns_seen[:200], "columns with names that are texts, each once")
    eager = native.collect() if isinstance(native, nw.LazyFrame) else native
    frame_items = eager.iter_rows(named=True)
    rows = [{name: None if missing(_plain(x)) else x for name, x in row.items()} for row in frame_items]
    if what == "outcomes":  # there may be none yet
        return rows
    if not rows:
        raise InputError(what, "no rows", "at least one")
    if not set(columns).intersection({*_SERIES, *own_names[:1]}):
        hint = "An index is not a column: frame.reset_index() makes it one." if hasattr(frame, "reset_index") else ""
        raise InputError(what, f"columns {', '.join(columns)}"[:200], "a column series or unique_id", hint=hint)
    return rows


_TEXTS = ("series", "unique_id", "date", "ds", "cutoff", "issued", "model", "decision", "observed_at")


def _file_rows(table: Table, words: Collection[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for block in table.blocks(table.columns):
        cells: dict[str, list[Any]] = {}
        for name in table.columns:
            if name in words:
                cells[name] = list(block.texts(name))
                continue
            values, unreadable = block.numbers(name)
            numbers = [None if math.isnan(x) else x for x in values.tolist()]
            cells[name] = [unreadable.get(i, x) for i, x in enumerate(numbers)]
        rows += [dict(zip(cells, values, strict=True)) for values in zip(*cells.values(), strict=True)]
    return rows


def _name(row: Mapping[str, Any], what: str, names: Sequence[str]) -> str:
    column = next((name for name in names if name in row), None)
    if column is None:
        raise InputError(what, f"columns {', '.join(row)}", f"a column {' or '.join(names)}")
    return str(row[column])


def _by_series(rows: Sequence[dict[str, Any]], column: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(str(row[column]), []).append(row)
    yield from groups.items()


def _said(rows: Sequence[dict[str, Any]], layout: Layout, names: Columns) -> dict[str, Any]:
    """What the frame says once for a whole forecast."""
    out: dict[str, Any] = {}
    for ours in ("cutoff", "issued", "model"):
        column = getattr(names, ours)
        if column in layout.extra:
            values = {_text(row[column]) for row in rows}
            if len(values) > 1:
                raise InputError(f"forecasts.{column}", ", ".join(sorted(values)[:3]), "one of each series")
            if text := values.pop():
                out[ours] = text
    return out


def _plain(value: Any) -> Any:
    """NumPy's, of list columns and numbers, as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _text(value: Any) -> str:
    if missing(value):
        return ""
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text.removesuffix("T00:00:00")


def _forecast(
    series: str, rows: list[dict[str, Any]], layout: Layout, names: Columns, period: str | None, texts: dict[str, Any]
) -> tuple[Forecast, Any]:
    """The forecast of a series, and its first step or date."""
    if layout.kind == "sample":
        paths: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            paths.setdefault(row[names.sample], []).append(row)
        paths_in_order = [in_order(series, path, layout, period) for path in paths.values()]
        times = paths_in_order[0][1].tolist()
        if None in paths or any(own_times.tolist() != times for _, own_times in paths_in_order):
            where = f"forecasts.{names.sample}"
            raise InputError(where, "samples of different steps", "every step of each", hint=f"Series {series!r}.")
        members = [[row[layout.values[0]] for row in path] for path, _ in paths_in_order]
        return Forecast(members=members, **texts), paths_in_order[0][1][0]
    ordered, times = in_order(series, rows, layout, period)
    begin = times[0]
    columns = {name: [row[name] for row in ordered] for name in layout.values}
    if layout.kind == "members":
        return Forecast(members=list(columns.values()), **texts), begin
    if layout.kind == "mean":
        return Forecast(mean=columns[layout.values[0]], std=columns[layout.values[1]], **texts), begin
    levels = zip(layout.levels, columns.values(), strict=True)
    return Forecast(quantiles={f"{level:g}": values for level, values in levels}, **texts), begin


def _before(begin: Any, period: str | None) -> str | None:
    """The period before the first date of a forecast that names no last observation, as `decide` reads a file."""
    import numpy as np

    from ucsearch.planner.files.calendar import day_text, later

    if period in (None, "any") or not isinstance(begin, np.datetime64):
        return None
    return day_text(later(begin, -1, str(period)), str(period))


def _state(row: Mapping[str, Any], names: Sequence[str], dated: str) -> dict[str, Any]:
    skip = next(name for name in names if name in row)
    out: dict[str, Any] = {}
    for name, value in row.items():
        plain = _plain(value)
        if name == skip or missing(plain):
            continue
        if name == dated:
            plain = _text(value)
        out[name] = list(plain) if isinstance(plain, list | tuple) else plain
    return out


Row = dict[str, Any]


def missing(value: Any) -> bool:
    """None, NaN, and what other libraries have for it: NaT and NA are not equal to themselves, or cannot say."""
    if isinstance(value, list | tuple | str):
        return False
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def in_order(series: str, rows: Sequence[Row], layout: Layout, period: str | None) -> tuple[list[Row], Any]:
    """The rows of a series (of one of its sample paths) by step or date, and these; every step is there once.
    `period` is the plan's; None where nobody knows it: then dates must at least be evenly apart."""
    import numpy as np

    where, hint = f"forecasts.{layout.time}", f"Series {series!r}."
    raw_times = [row[layout.time] for row in rows]
    if any(missing(x) for x in raw_times):
        raise InputError(where, "nothing", "every step of a series once", hint=hint)
    dates = layout.dated and not all(isinstance(x, Real) for x in raw_times)
    times = _dates(raw_times, layout, where, hint) if dates else _numbers(raw_times, where, hint)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if (twice := np.flatnonzero(times[1:] == times[:-1])).size:
        raise InputError(where, f"{_word(times[twice[0]])} twice", "every step of a series once", hint=hint)
    if dates:
        _follow(times, period, where, hint)
    else:
        first = times[0] if layout.dated else 1.0  # whole numbers under `ds` may begin anywhere
        gaps = np.flatnonzero(times != first + np.arange(times.size))
        if gaps.size:
            time, expected = times[gaps[0]], first + gaps[0]
            raise InputError(where, f"step {time:g}", f"step {expected:g}: every one from {first:g} on", hint=hint)
    return [rows[i] for i in order], times


def check_first(first: Mapping[str, Any], layout: Layout) -> None:
    """One first date for all series: a forecast that was left over from another day is older than the others."""
    if not layout.dated or len(set(first.values())) < 2:
        return
    usual = max(Counter(first.values()).items(), key=lambda item: (item[1], item[0]))[0]
    series, first_time = next((s, t) for s, t in first.items() if t != usual)
    raise InputError(
        f"forecasts.{layout.time}", f"{_word(first_time)} as its first", f"{_word(usual)} as in most series",
        hint=f"Series {series!r}; forecasts of another day go into a request of their own.",
    )  # fmt: skip


def check_dates(series: str, stock: Any, begin: Any, layout: Layout, period: str | None) -> None:
    """The date of a state, where it has one: the day on which its forecast begins, or one period before."""
    import numpy as np

    from ucsearch.planner.files.calendar import later

    if not layout.dated or not isinstance(begin, np.datetime64):
        return
    where, hint = "states.date", f"Series {series!r}."
    date = _dates([stock], layout, where, hint)[0]
    if date == begin or (period not in (None, "any") and later(date, 1, str(period)) == begin):
        return
    before = "" if period in (None, "any") else f", or one {period} before"
    raise InputError(where, _word(date), f"{_word(begin)}, where its forecast begins{before}", hint=hint)


def _dates(raw: Sequence[Any], layout: Layout, where: str, hint: str) -> Any:
    import numpy as np

    from ucsearch.planner.files.numbers import date_words, parse_dates

    texts = [_date_text(x) for x in raw]
    dates = parse_dates(texts, layout.order, wall_clock=layout.wall_clock)
    if (no_dates := np.flatnonzero(np.isnat(dates))).size:
        text = texts[no_dates[0]]
        raise InputError(where, repr(text)[:80], date_words(text, layout.order), hint=hint)
    return dates


def _date_text(value: Any) -> str:
    if hasattr(value, "to_timestamp"):  # a pandas Period
        value = value.to_timestamp()
    return value.isoformat() if isinstance(value, date) else str(value)


def _numbers(raw: Sequence[Any], where: str, hint: str) -> Any:
    import numpy as np

    try:
        return np.array([float(x) for x in raw])
    except (TypeError, ValueError):
        no_number = next(x for x in raw if not isinstance(x, Real))
        raise InputError(where, repr(no_number)[:80], "a whole number", hint=hint) from None


def _follow(times: Any, period: str | None, where: str, hint: str) -> None:
    import numpy as np

    from ucsearch.planner.files.calendar import infer_period, is_regular

    if period is not None:
        gaps_wrong, expected = np.flatnonzero(~is_regular(times, period)), f"one {period} between them"
    else:
        gaps = np.diff(times)
        even = infer_period(times) != "any" or len(set(gaps.tolist())) < 2
        gaps_wrong = np.flatnonzero(gaps != gaps.min()) if not even else np.empty(0, dtype=np.int64)
        expected = "evenly spaced dates"
    if gaps_wrong.size:
        at = int(gaps_wrong[0]) + 1
        raise InputError(where, f"{_word(times[at])} after {_word(times[at - 1])}", expected, hint=hint)


def _word(time: Any) -> str:
    return f"{time:g}" if isinstance(time, float) else str(time).removesuffix("T00:00:00")
