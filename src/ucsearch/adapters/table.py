"""Long frames, one row per series and time: read through narwhals, checked by row, cut into windows.

Rows are counted from 0, as positions in the frame that was handed over. N rows in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import Settings, Source, TraceSet, path_traces, quantile_traces
from ucsearch.errors import InputError

__all__ = ["LongTable", "Times", "open_frame", "read_ids", "read_numbers", "read_times", "times_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Texts = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Times:
    """A column of times: whole numbers that sort as the times do, and the text of a row's time."""

    keys: Ints  # (N,)
    text: Callable[[int], str]
    kind: Literal["date", "number", "period"]  # keys of different kinds cannot be compared

    def texts(self, rows: Ints) -> tuple[str, ...]:
        """Texts of many rows; most series start at the same time, so each time is written once."""
        _, first, back = np.unique(self.keys[rows], return_index=True, return_inverse=True)
        made = [self.text(int(rows[i])) for i in first]
        return tuple(made[i] for i in back.tolist())

    def only(self, rows: Ints) -> Times:
        return Times(self.keys[rows], lambda row: self.text(int(rows[row])), self.kind)


@dataclass(frozen=True, eq=False)
class LongTable:
    """The key columns of a long frame."""

    what: str
    id_col: str
    time_col: str
    ids: Texts  # (N,)
    times: Times  # (N,)
    cutoff: Times | None = None  # (N,)
    rows: Ints | None = None  # (N,) rows of the frame that these are, where some were left out

    def only(self, keep: NDArray[np.bool_]) -> LongTable:
        """Some of the rows; messages go on naming the frame's rows."""
        rows = np.flatnonzero(keep)
        cutoff = None if self.cutoff is None else self.cutoff.only(rows)
        return replace(self, ids=self.ids[rows], times=self.times.only(rows), cutoff=cutoff, rows=rows)

    def row(self, i: int) -> int:
        return i if self.rows is None else int(self.rows[i])

    def place(self, i: int) -> str:
        return f"row {self.row(i)}, series {self.ids[i]!r}"

    @cached_property
    def window(self) -> Ints:
        """(N,) number of the row's window; windows are numbered as they first appear."""
        return group(self.ids, *([] if self.cutoff is None else [self.cutoff.keys]))

    def fault(self, column: str, row: int, seen: object, expected: str, hint: str = "") -> InputError:
        return InputError(f"{self.what}.{column}", seen, expected, index=self.place(row), hint=hint)

    def quantiles(
        self, levels: Floats, columns: tuple[str, ...], values: Floats, model: str, notes: tuple[str, ...],
        settings: Settings,
    ) -> TraceSet:  # fmt: skip
        """Traces out of quantile columns, values (N, Q)."""
        settings.marginal(self.what)  # ask for the coupling before complaining about anything in the rows
        order, counts = cut(self.window)
        self._check_cutoff()
        self._check_order(order, self.window)
        starts = np.concatenate([[0], np.cumsum(counts)])

        def locate(w: int, h: int, q: int) -> tuple[str, str]:
            return columns[q], self.place(int(order[starts[w] + h]))

        source = self._source(order[starts[:-1]], locate, model, notes)
        return quantile_traces(source, levels, _blocks(_take(values, order), counts), settings)

    def paths(
        self, sample: Texts, column: str, values: Floats, model: str, notes: tuple[str, ...], settings: Settings
    ) -> TraceSet:
        """Traces out of one row per series, sample and time, values (N,)."""
        settings.joint(self.what)
        path = group(self.window, sample)
        order = _in_order(self.window, path)
        self._check_cutoff()
        self._check_order(order, path)
        lengths = _run_lengths(path[order])  # (paths,)
        first = np.concatenate([[0], np.cumsum(lengths)])
        owner = self.window[order[first[:-1]]]  # (paths,) window of each path
        members = _run_lengths(owner)  # (W,) paths per window
        lead = np.concatenate([[0], np.cumsum(members)])  # first path of each window
        steps = lengths[lead[:-1]]
        short = np.flatnonzero(lengths != steps[owner])
        if short.size:
            p = int(short[0])
            row = int(order[first[p + 1] - 1])
            seen, expected = f"a path of {lengths[p]} steps", f"{steps[owner[p]]} steps as in the series' first path"
            raise self.fault(self.time_col, row, seen, expected)
        # Same times in every path of a window: row r of a path against row r of the window's first path.
        within = np.arange(order.size) - np.repeat(first[:-1], lengths)
        model_row = order[np.repeat(first[lead[:-1]][owner], lengths) + within]
        other = np.flatnonzero(self.times.keys[order] != self.times.keys[model_row])
        if other.size:
            row, like = int(order[other[0]]), int(model_row[other[0]])
            expected = f"{self.times.text(like)} as in the series' first path, row {self.row(like)}"
            raise self.fault(self.time_col, row, self.times.text(row), expected)

        def locate(w: int, j: int, h: int) -> tuple[str, str]:
            return column, self.place(int(order[first[lead[w] + j] + h]))

        source = self._source(order[first[lead[:-1]]], locate, model, notes)
        shapes = np.stack([members, steps], axis=1)
        return path_traces(source, _blocks(_take(values, order), members * steps, shapes), settings)

    def _source(
        self, rows: Ints, locate: Callable[[int, int, int], tuple[str, str]], model: str, notes: tuple[str, ...]
    ) -> Source:
        cutoff = () if self.cutoff is None else self.cutoff.texts(rows)
        return Source(self.what, tuple(self.ids[rows].tolist()), locate, self.times.texts(rows), cutoff, model, notes)

    def _check_cutoff(self) -> None:
        if self.cutoff is None:
            return
        if self.cutoff.kind != self.times.kind:
            raise self.fault(self.time_col, 0, f"a {self.times.kind}", f"a {self.cutoff.kind}, as the cutoff is")
        early = np.flatnonzero(~(self.times.keys > self.cutoff.keys))
        if early.size:
            row = int(early[0])
            expected = f"a time after the cutoff {self.cutoff.text(row)}"
            raise self.fault(self.time_col, row, self.times.text(row), expected)

    def _check_order(self, order: Ints, groups: Ints) -> None:
        """Times must ascend strictly within each group, in the order of the rows."""
        keys, group_of = self.times.keys[order], groups[order]
        bad = (group_of[1:] == group_of[:-1]) & (keys[1:] <= keys[:-1])
        if not bad.any():
            return
        row = int(order[1:][bad].min())
        earlier = np.flatnonzero((groups[:row] == groups[row]) & (self.times.keys[:row] == self.times.keys[row]))
        text = self.times.text(row)
        if earlier.size:
            expected = f"one row per series and time; row {self.row(int(earlier[0]))} has it already"
            raise self.fault(self.time_col, row, f"{text} again", expected)
        before = int(np.flatnonzero(groups[:row] == groups[row])[-1])
        expected = f"a time after {self.times.text(before)} of row {self.row(before)}"
        hint = f"Sort the frame by {self.id_col} and {self.time_col}."
        raise self.fault(self.time_col, row, text, expected, hint)


# -------------------------------------------------------------------- grouping


def group(*columns: NDArray[Any]) -> Ints:
    """Number each row's combination of values by first appearance. Runs are looked up once, not row by row."""
    size = len(columns[0])
    change = np.zeros(size, dtype=bool)
    change[:1] = True
    for column in columns:
        change[1:] |= np.asarray(column[1:] != column[:-1], dtype=bool)
    starts = np.flatnonzero(change)
    seen: dict[Any, int] = {}
    codes = [seen.setdefault(key, len(seen)) for key in zip(*(c[starts].tolist() for c in columns), strict=True)]
    return np.repeat(np.array(codes, dtype=np.int64), np.diff(np.append(starts, size)))


def cut(window: Ints) -> tuple[Ints, Ints]:
    """Row order that brings windows together, and rows per window."""
    return _in_order(window), np.bincount(window).astype(np.int64)


def _in_order(*codes: Ints) -> Ints:
    if len(codes) == 1:
        return np.argsort(codes[0], kind="stable")
    return np.lexsort(codes[::-1])


def _run_lengths(codes: Ints) -> Ints:
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return np.diff(np.append(starts, codes.size))


def _take(values: Floats, order: Ints) -> Floats:
    """Rows in order, without a copy where they are in order already."""
    return values if bool((order[1:] > order[:-1]).all()) else values[order]


def _blocks(values: Floats, counts: Ints, shapes: Ints | None = None) -> Floats | list[Floats]:
    """Consecutive rows as one (W, ., .) array where all windows are alike, else one array per window."""
    if shapes is None:
        shapes = np.stack([counts, np.full_like(counts, values.shape[1])], axis=1)
    if (shapes == shapes[0]).all():
        return values.reshape(-1, *(int(n) for n in shapes[0]))
    parts = np.split(values, np.cumsum(counts)[:-1])
    return [part.reshape(tuple(shape)) for part, shape in zip(parts, shapes.tolist(), strict=True)]


# -------------------------------------------------------------------- reading columns


def open_frame(obj: Any, what: str, keys: Sequence[str] = ()) -> Any:
    """A narwhals frame of pandas, polars or Arrow; `keys` that pandas keeps in the index become columns."""
    import narwhals as nw

    names = list(getattr(getattr(obj, "index", None), "names", None) or [])
    if any(key in names for key in keys) and hasattr(obj, "reset_index"):
        obj = obj.reset_index()
    try:
        frame = nw.from_native(obj, eager_only=True)
    except Exception as error:
        seen = f"{type(obj).__name__} ({error})"
        hint = "Collect a lazy frame first." if hasattr(obj, "collect") else ""
        raise InputError(what, seen, "a pandas, polars or Arrow frame with distinct columns", hint=hint) from None
    if len(frame) == 0:
        raise InputError(what, "a frame without rows", "at least one row")
    return frame


def _column(frame: Any, column: str, what: str) -> Any:
    if column not in frame.columns:
        raise InputError(f"{what}.columns", f"no column {column!r}", f"it among {list(frame.columns)}")
    return frame[column]


def _refuse_null(values: Any, column: str, what: str, expected: str) -> None:
    null = values.is_null()
    if null.any():
        row = int(np.argmax(np.asarray(null.to_numpy(), dtype=bool)))
        raise InputError(f"{what}.{column}", "nothing", expected, index=f"row {row}")


def read_ids(frame: Any, column: str, what: str) -> Texts:
    """Series ids as text."""
    values = _column(frame, column, what)
    _refuse_null(values, column, what, "an id")
    return as_ids(values.to_list(), column, what)


def as_ids(values: Sequence[Any], column: str, what: str) -> Texts:
    out = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        text = value if type(value) is str else str(value)
        if not text or value != value:  # NaN is unequal to itself
            raise InputError(f"{what}.{column}", repr(value), "an id", index=f"row {row}")
        out[row] = text
    return out


def read_numbers(frame: Any, columns: Sequence[str], table: LongTable) -> Floats:
    """Columns of numbers (N, C); what is missing becomes NaN and is refused with the rest."""
    import narwhals as nw

    out = np.empty((len(frame), len(columns)))
    for c, column in enumerate(columns):
        values = _column(frame, column, table.what)
        if values.dtype.is_numeric():
            out[:, c] = values.cast(nw.Float64).to_numpy()
            continue
        for row, value in enumerate(values.to_list()):
            if isinstance(value, str | bool | date):
                raise table.fault(column, row, repr(value), "a number")
            try:
                out[row, c] = np.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise table.fault(column, row, repr(value), "a number") from None
    return out


def read_times(frame: Any, column: str, what: str) -> Times:
    """Dates, date-times, ISO text, periods or whole numbers."""
    import narwhals as nw

    values = _column(frame, column, what)
    _refuse_null(values, column, what, "a time")
    kind = values.dtype
    if kind.is_integer():
        keys = values.cast(nw.Int64).to_numpy()
        return Times(keys, lambda row: str(int(keys[row])), "number")
    if kind == nw.Datetime or kind == nw.Date:
        stamps = values.dt.timestamp("us").to_numpy().astype(np.int64)
        return Times(stamps, lambda row: _iso(values[row]), "date")
    if kind.is_numeric():
        raise InputError(f"{what}.{column}", f"{kind} {values[0]}", "dates, ISO text or whole numbers", index="row 0")
    return times_of(values.to_list(), column, what)


def times_of(values: Sequence[Any], column: str, what: str) -> Times:
    """The same for plain objects: text, dates, whole numbers, or periods with an ordinal."""
    first = values[0]
    if isinstance(first, str):
        values = [_parse(value, row, column, what) for row, value in enumerate(values)]
        first = values[0]
    kind: Literal["date", "number", "period"]
    key: Callable[[Any], int]
    if isinstance(first, date):
        kind, key = "date", _microseconds
    elif isinstance(first, int | np.integer) and not isinstance(first, bool):
        kind, key = "number", int
    elif hasattr(first, "ordinal") and hasattr(first, "freqstr"):
        kind, key = "period", _ordinal
    else:
        seen, expected = f"{type(first).__name__} {first!r}", "dates, ISO text, periods or whole numbers"
        raise InputError(f"{what}.{column}", seen, expected, index="row 0")
    zone = getattr(first, "tzinfo", None) is None
    keys = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        # NaT is unequal to itself.
        if type(value) is not type(first) or value != value or (getattr(value, "tzinfo", None) is None) is not zone:
            seen, expected = f"{type(value).__name__} {value!s}", f"the like of {first!s} in row 0"
            raise InputError(f"{what}.{column}", seen, expected, index=f"row {row}")
        keys[row] = key(value)
    return Times(keys, lambda row: _iso(values[row]), kind)


def _parse(value: Any, row: int, column: str, what: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        hint = "Write dates as 2024-01-31 or 2024-01-31T13:00:00."
        raise InputError(f"{what}.{column}", repr(value), "a date in ISO form", index=f"row {row}", hint=hint) from None


def _microseconds(value: Any) -> int:
    stamp = value if isinstance(value, datetime) else datetime.combine(value, time())
    since = stamp - datetime(1970, 1, 1, tzinfo=None if stamp.tzinfo is None else UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def _ordinal(value: Any) -> int:
    return int(value.ordinal)


def _iso(value: Any) -> str:
    """The same text whichever library held the time: a date is its midnight."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date):
        return datetime.combine(value, time()).isoformat()
    return str(value)
