"""Decisions without files: rows in, decisions out, by the same checks and words as `ucsearch decide`.

A row is what a line of the states file says, and its forecast:

    {"series": "SKU-1", "on_hand": 3, "open_orders": [5], "lead_time": 1,
     "forecast": {"members": [[4, 6, 5], [7, 9, 8]], "issued": "2024-05-20T06:00:00Z"}}

`forecast` holds `members` (J lists of H values, or an array), or `mean` and `std`, or `q0.1`, `q0.5`, ... (H values
each); and may say `cutoff`, `issued`, `model`, and `date` (H dates). All rows of a call have the same kind of forecast.
Of outcomes of several fields, `members` are J lists of H lists of a value for each field; the others are `price_mean`,
and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.planner.decide.dates import Age
from ucsearch.planner.decide.inputs import Standing, Work
from ucsearch.planner.decide.job import decided, logged
from ucsearch.planner.decide.rows import shown_columns
from ucsearch.planner.decide.states import Kinds, StateFile
from ucsearch.planner.files.columns import Layout, forecast_layout, usual_names
from ucsearch.planner.files.series_file import LARGEST, SeriesFile, Values
from ucsearch.planner.files.table import Block
from ucsearch.planner.settings import Columns, Settings
from ucsearch.records.entries import Request, as_request
from ucsearch.records.log import AuditLog

__all__ = ["Known", "decide_cases", "rows_work"]

_NUMBERS = frozenset({float, int})
_FLOATS = frozenset({float})
_LISTS = frozenset({list})
_KEPT = 4_096  # sets of parameters
_SHAPES = 64  # of forecasts
_FORECASTS, _STATES = Path("forecasts"), Path("states")  # as problems call them
_SAID = ("cutoff", "issued", "model")  # once for a whole forecast


def decide_cases(
    settings: Settings, rows: Iterable[Mapping[str, Any]], log: AuditLog | None = None, *, now: datetime | None = None,
    request: Request | str | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Decide every row, write the decisions to `log` (None: nowhere) and return what a line of the output file would
    say of each, in order. A row that cannot be used is a row that says why; a call that cannot is an `InputError`."""
    work = rows_work(settings, rows, now)
    out = []
    for chunk in decided(work, settings, range(len(work.chunks)), now):
        out.extend(logged(work, chunk, log, as_request(request)))
    columns = shown_columns(work.has_orders)
    return [{name: row[i] for name, i in columns.items()} for row in out]


class _Shape(NamedTuple):
    """Forecasts with the same columns."""

    table: _Rows  # without rows
    columns: Columns
    layout: Layout
    order: list[int] | None  # of the values, where it is another one than theirs


class Known:
    """What calls with the same settings have in common, so that it is found once: tasks by their parameters, and which
    columns hold a forecast. For one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._kinds = Kinds(settings)
        self._shapes: dict[tuple[tuple[str, ...], int], _Shape | None] = {}

    def kinds(self) -> Kinds:
        """For one call: parameters that differ from series to series must not be kept for ever."""
        if len(self._kinds) > _KEPT:
            self._kinds = self._kinds.renewed()
        return self._kinds

    def shape(self, columns: tuple[str, ...], values: int) -> _Shape | None:
        """Which of these columns of a forecast hold what, the last ones being its `values`; None where they are not
        those of a plain forecast."""
        key = (columns, values)
        if key not in self._shapes:
            if len(self._shapes) >= _SHAPES:
                self._shapes.clear()
            self._shapes[key] = self._shape(columns, values)
        return self._shapes[key]

    def _shape(self, columns: tuple[str, ...], values: int) -> _Shape | None:
        names, given = self.settings.columns, columns[len(columns) - values :]
        if len(set(columns)) != len(columns):
            return None
        table = _Rows(_FORECASTS, [])
        table.columns = columns
        used = usual_names(table, names)
        layout, problems = forecast_layout(table, used, self.settings)
        if problems or layout.dated or layout.time != names.step or layout.kind == "sample":
            return None
        order = [given.index(name) for name in layout.values]
        return _Shape(table, used, layout, None if order == list(range(values)) else order)


def rows_work(
    settings: Settings, rows: Iterable[Mapping[str, Any]], now: datetime | None, standing: Standing | None = None,
    known: Known | None = None,
) -> Work:  # fmt: skip
    """The rows, ready to be decided by `decided`. `known` is of calls before with the same settings."""
    common = Known(settings) if known is None else known
    if settings.gate.max_trace_age_s is not None and now is None:
        raise InputError("now", "nothing", "a time, because gate.max_trace_age_s is set")
    given = list(rows)
    if not given:
        raise InputError("rows", "none", "at least one")
    names = settings.columns
    kinds = common.kinds()
    lists = {*names.rename, *kinds.arguments.several}
    states, asked, seen = [], {}, set()
    for i, row in enumerate(given):
        state, forecast = dict(row), row.get("forecast")
        series = row.get(names.series)
        if not isinstance(series, str) or not series.isprintable() or series != series.strip() or not series:
            expected = "the name of a series, without control characters and spaces around it"
            raise InputError(f"rows[{i}].{names.series}", repr(series), expected)
        if series in seen:
            raise InputError(f"rows[{i}].{names.series}", f"{series!r} again", "each series once")
        seen.add(series)
        if not isinstance(forecast, Mapping):
            kind = type(forecast).__name__
            raise InputError(f"rows[{i}].forecast", kind, "an object with members, mean and std, or quantiles")
        for name in _SAID:
            said = forecast.get(name)
            if not isinstance(said, str | datetime | None) or (isinstance(said, str) and not said.isprintable()):
                raise InputError(f"rows[{i}].forecast.{name}", repr(said), "printable text")
        state.pop("forecast")
        states.append(_spread_out(state, i, lists))
        asked[series] = forecast
    forecasts = _quick(asked, settings, common)
    if forecasts is None:  # something is unusual: cell by cell, as in a file
        cells = [row for i, (s, f) in enumerate(asked.items()) for row in _steps(s, f, i, settings)]
        forecasts = SeriesFile.open(_Rows(_FORECASTS, cells), settings)
    book = StateFile(_Rows(_STATES, states), settings, kinds)
    # Without dates only a limit that the settings name is held against the clock: a service may run ahead of it.
    limited = forecasts.layout.dated or settings.forecast.max_age is not None
    age = Age.at(now, settings) if limited else None
    return Work(settings, forecasts, book, age, None, standing=standing)


class _Given(SeriesFile):
    """Forecasts that are arrays already: nothing of them is wrong."""

    tables: dict[str, Values]

    def values(self, start: int = 0) -> Iterator[Values]:
        yield from (self.tables[series] for series in self.order[start:])


def _quick(asked: Mapping[str, Mapping[str, Any]], settings: Settings, common: Known) -> SeriesFile | None:
    """The forecasts as arrays, when all are of one shape and every value is a plain number that can be used."""
    if settings.fields:
        return None
    names, tables, said = settings.columns, {}, set()
    arrays: dict[str, Any] = {}
    columns: tuple[str, ...] = ()
    for series, forecast in asked.items():
        own, found = _table(forecast, names.members)
        if found is None or (columns and own != columns):
            return None
        columns = own
        notes = {name: _text(forecast.get(name)) for name in _SAID}
        said |= {name for name in _SAID if name in forecast}
        arrays[series] = found
        tables[series] = Values(series, found, notes["cutoff"], notes["issued"], None, notes["model"])
    extra = (names.series, names.step, *(getattr(names, n) for n in _SAID if n in said))
    shape = common.shape((*extra, *columns), len(columns))
    if shape is None:
        return None
    layout = shape.layout
    if shape.order is not None:
        arrays = {s: np.ascontiguousarray(x[:, shape.order]) for s, x in arrays.items()}
        tables = {s: v._replace(table=arrays[s]) for s, v in tables.items()}
    if layout.kind == "mean" and any((x[:, 1] < 0.0).any() for x in arrays.values()):
        return None
    spans = {s: (1.0, float(len(x)), len(x)) for s, x in arrays.items()}
    file = _Given(
        shape.table, layout, shape.columns, tuple(tables), tuple(range(len(tables))), {}, (), spans, settings.period
    )
    object.__setattr__(file, "tables", tables)
    return file


def _table(forecast: Mapping[str, Any], prefix: str) -> tuple[tuple[str, ...], Any]:
    """Names of the columns and (H, K) values; None where it is not that simple."""
    columns: list[str] = []
    lists: list[Any] = []
    packed: Any = None
    for name, value in forecast.items():
        if name in _SAID:
            if not isinstance(value, str):
                return (), None
        elif name == "members" and isinstance(value, np.ndarray):
            packed = value
        elif not isinstance(value, list) or not value:
            return (), None
        elif name == "members":
            columns += _numbered(prefix, len(value))
            lists += value
        else:
            columns.append(name)
            lists.append(value)
    if packed is not None:
        if columns or packed.ndim != 2 or packed.dtype != np.float64 or not packed.size:
            return (), None
        usable = bool((np.abs(packed) <= LARGEST).all())
        return (_numbered(prefix, len(packed)), packed.T) if usable else ((), None)
    if not lists or not _LISTS.issuperset(map(type, lists)):
        return (), None
    lengths = set(map(len, lists))
    if len(lengths) != 1 or 0 in lengths or not _NUMBERS.issuperset(map(type, chain.from_iterable(lists))):
        return (), None
    try:
        table = np.array(lists, dtype=np.float64).T
    except OverflowError:
        return (), None
    return (tuple(columns), table) if bool((np.abs(table) <= LARGEST).all()) else ((), None)


@lru_cache(maxsize=256)
def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{j + 1}" for j in range(count))


def _spread_out(state: Mapping[str, Any], i: int, lists: set[str]) -> dict[str, Any]:
    """Lists under numbered names, as the columns of a file: `open_orders` becomes `open_orders_1`, ..."""
    out: dict[str, Any] = {}
    for name, value in state.items():
        if not isinstance(name, str):
            raise InputError(f"rows[{i}]", f"the key {name!r}", "names")
        if isinstance(value, list | tuple):
            if not value and name not in lists:  # it would leave no column, and so no complaint
                raise InputError(f"rows[{i}].{name}", "an empty list", "a number")
            out.update({f"{name}_{k + 1}": x for k, x in enumerate(value)})
        elif value is not None:
            out[name] = value
    return out


def _steps(series: str, forecast: Mapping[str, Any], i: int, settings: Settings) -> list[dict[str, Any]]:
    """One row for each step."""
    names, columns, said = settings.columns, {}, {}
    for name, value in forecast.items():
        if name == "members":
            value = value.tolist() if isinstance(value, np.ndarray) else value
            if not isinstance(value, Sequence) or not all(isinstance(path, Sequence) for path in value):
                raise InputError(f"rows[{i}].forecast.members", type(value).__name__, "lists of values, one per member")
            for j, path in enumerate(value):
                columns.update(_member(path, f"{names.members}{j + 1}", settings.fields, f"{i}].forecast.members[{j}"))
        elif name in _SAID:
            said[getattr(names, name)] = value
        elif isinstance(value, list | tuple):
            columns[name] = list(value)
        else:
            raise InputError(f"rows[{i}].forecast.{name}", type(value).__name__, "a list, one value per step")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or not lengths.isdisjoint({0}):
        seen = ", ".join(map(str, sorted(lengths))) or "no values"
        raise InputError(f"rows[{i}].forecast", f"lists of {seen} values", "lists of the same length, at least 1")
    made = [{names.series: series, **said, **{n: v[h] for n, v in columns.items()}} for h in range(lengths.pop())]
    if names.step not in columns and names.date not in columns:
        for h, row in enumerate(made):
            row[names.step] = h + 1
    return made


def _member(path: Sequence[Any], name: str, fields: Sequence[str], where: str) -> dict[str, list[Any]]:
    """A member's values by column: one, or one for each field."""
    if not fields:
        return {name: list(path)}
    for h, value in enumerate(path):
        if not isinstance(value, list | tuple) or len(value) != len(fields):
            seen = f"{len(value)} values" if isinstance(value, list | tuple) else type(value).__name__
            raise InputError(f"rows[{where}][{h}]", seen, f"a value for each of {', '.join(fields)}")
    return {f"{field}_{name}": [value[k] for value in path] for k, field in enumerate(fields)}


class _Rows:
    """Rows in memory as a table."""

    unit = "row"

    def __init__(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self.path = path
        self.rows = rows
        self.columns = tuple(dict.fromkeys(column for row in rows for column in row))

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        part = self.rows[start:]
        values = {name: [row.get(name) for row in part] for name in columns}
        cells = {name: [_text(x) for x in column] for name, column in values.items()}
        plain = {n: np.array(x) for n, x in values.items() if _FLOATS.issuperset(map(type, x))}
        place = np.arange(start + 1, len(self.rows) + 1, dtype=np.int64)
        yield Block(start, place, cells, plain=plain)


def _text(value: Any) -> str:
    """As a file would say it; floats with every digit."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(float(value)) if isinstance(value, float) else str(value)
