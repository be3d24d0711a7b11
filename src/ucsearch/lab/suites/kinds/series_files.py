"""A family's series from other files of the same form: a suite runs unchanged on data it was not made for.

Accepted are a folder laid out as the data folder is, and one file (CSV, gzipped or not, or Parquet) in one of the forms
that the built-in data have: long (`series`, `value`, optionally `cluster`; or `unique_id`, `y`), a row per series
(`id`, then one column per period), or a column per series beside a `date` or `timestamp`. Rows are in time order;
where a file says times, they are checked. Sales (M5 and generated demand) are never below 0.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import lt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.records import ResolvedFile, Series
from ucsearch.lab.suites.kinds.series import Family, column_series, item_series, load_family, price_blocks, season_of

__all__ = ["load_replaced"]

Floats = NDArray[np.float64]
_LONG = (("series", "value"), ("unique_id", "y"))
_TIMES = ("date", "timestamp", "ds", "time")
PRICE = "zonal_price"
_SALES = ("m5-", "sample-")
_CLOCK = 4000  # rows: in so many hours clocks are put back at most once, and an hour occurs twice


def load_replaced(name: str, path: Path) -> Family:
    """The series of family `name` from `path`. Its data set has a name of its own, by the content: the same ids in
    other files are other series."""
    dataset = name.partition("-")[0]
    if path.is_dir():
        family = load_family(name, path)
        whole = hashlib.sha256("".join(sorted(f.sha256 for f in family.files)).encode()).hexdigest()
        return Family(name, f"{dataset}@{whole[:12]}", family.series, family.files)
    if not path.is_file():
        raise InputError("--family", f"{name}={path}", "a folder or a file that exists")
    body = path.read_bytes()
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path, body)
    series = _series(name, path, columns)
    if not series:
        raise DataError(f"{path}: no series for {name}")
    if name.startswith(_SALES):
        for item in series:
            if not item.y.min() >= 0.0:
                raise DataError(f"{path}: series {item.id!r}: saw {item.y.min():g}, expected sales of at least 0")
    digest = hashlib.sha256(body).hexdigest()
    file = ResolvedFile(f"{name}/{path.name}", path, digest, len(body), "unverified", "--family", "other file", True)
    return Family(name, f"{dataset}@{digest[:12]}", series, (file,))


def _series(name: str, path: Path, columns: Mapping[str, Sequence[Any]]) -> tuple[Series, ...]:
    time = next((column for column in _TIMES if column in columns), None)
    for key, value in _LONG:
        if key in columns and value in columns:
            if time is not None:
                _check_times(path, time, columns[time], columns[key])
            return _long(name, path, columns[key], columns[value], columns.get("cluster"))
    if "id" in columns:
        return _rows(name, path, columns)
    if time is None:
        wanted = "series and value; unique_id and y; id and a column per period; or date and a column per series"
        raise DataError(f"{path}: row 1: saw {', '.join(list(columns)[:8])}, expected the columns {wanted}")
    _check_times(path, time, columns[time])
    names = [column for column in columns if column != time]
    if name.startswith("gefcom-"):
        names = [PRICE] if PRICE in names else names[:1]
    table = np.array([_numbers(path, column, columns[column]) for column in names]).T
    return price_blocks(name, table[:, 0]) if name.startswith("gefcom-") else column_series(name, names, table)


def _long(
    name: str, path: Path, ids: Sequence[Any], numbers: Sequence[Any], clusters: Sequence[Any] | None
) -> tuple[Series, ...]:
    values: dict[str, list[float]] = {}
    groups: dict[str, str] = {}
    for n, (series_id, cell) in enumerate(zip(ids, numbers, strict=True), start=2):
        value = _number(cell)
        if not (math.isfinite(value) and series_id):
            raise DataError(f"{path}: row {n}: saw {series_id!r}, {cell!r}, expected an id and a number")
        values.setdefault(str(series_id), []).append(value)
        group = "" if clusters is None else str(clusters[n - 2])
        if groups.setdefault(str(series_id), group) != group:
            raise DataError(f"{path}: row {n}: series {series_id!r} is in two clusters")
    season = season_of(name)
    return tuple(
        Series(series_id, np.array(y), "", season, 1, len(y), groups[series_id])
        for series_id, y in sorted(values.items())
    )


def _check_times(path: Path, column: str, stamps: Sequence[Any], ids: Sequence[Any] | None = None) -> None:
    """Times of each series go forward. An hour that occurs twice now and then is a clock put back."""
    latest: dict[Any, Any] = {}
    again: Counter[Any] = Counter()
    for n, cell in enumerate(stamps, start=2):
        series_id = None if ids is None else ids[n - 2]
        now, before = _moment(cell), latest.get(series_id)
        if now is None or now != now:
            raise DataError(f"{path}: row {n}: {column}: saw nothing, expected a time")
        if before is not None and type(now) is type(before):
            again[series_id] += now == before
            # Of text that is no time only repeats can be told.
            if (now < before and not isinstance(now, str)) or again[series_id] > 1 + len(stamps) // _CLOCK:
                whose = "" if series_id is None else f" of series {series_id!r}"
                raise DataError(f"{path}: row {n}: {column}: saw {cell}{whose} out of order or twice, "
                                "expected times in order, each once")  # fmt: skip
        latest[series_id] = now


def _moment(cell: Any) -> Any:
    """A time as something to compare: seconds, a number, or the text itself; None for an empty cell."""
    if cell is None or cell == "":
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        pass
    try:
        when = datetime.fromisoformat(str(cell))
    except ValueError:
        return str(cell)
    # Without a zone all are taken alike, whatever the zone of this machine.
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _rows(name: str, path: Path, columns: Mapping[str, Sequence[Any]]) -> tuple[Series, ...]:
    """A row per series. What is missing at its beginning is 0, as in M5. Where ids name the family's store, only its
    own are taken."""
    ids = [str(cell) for cell in columns["id"]]
    twice = next((series_id for series_id, count in Counter(ids).items() if count > 1), None)
    if twice is not None or not all(ids):
        raise DataError(f"{path}: id {twice or ''!r}: saw it in several rows or empty, expected an id for each row")
    store = name.partition("-")[2]
    rows = [i for i, series_id in enumerate(ids) if f"_{store}" in series_id] or list(range(len(ids)))
    # Columns of words only (department, state) describe the series, as in M5's own file.
    periods = [column for column in columns if column != "id" and not all(map(_is_word, columns[column]))]
    times = [_moment(period) for period in periods]
    if all(isinstance(moment, float) for moment in times) and not all(map(lt, times, times[1:])):
        raise DataError(f"{path}: row 1: periods are out of order, expected the oldest first")
    for i, p in ((i, p) for p in periods for i in rows if _is_word(columns[p][i])):
        raise DataError(f"{path}: row {i + 2}: {p}: saw {columns[p][i]!r}, expected a number")
    table = np.array([[_number(columns[p][i]) for p in periods] for i in rows])
    kept = []
    for i, y in zip(rows, table, strict=True):
        known = np.isfinite(y)
        if not known.any() or not known[int(np.argmax(known)) :].all():
            raise DataError(f"{path}: id {ids[i]!r}: a value is missing after the first, or there is none")
        item = Series(ids[i], np.where(known, y, 0.0), "", season_of(name), 1, len(y))
        kept.append(item_series(item) if name.startswith("m5-") else item)
    return tuple(kept)


def _numbers(path: Path, column: str, cells: Sequence[Any]) -> Floats:
    numbers = np.array([_number(cell) for cell in cells])
    if not np.isfinite(numbers).all():
        n = int(np.argmin(np.isfinite(numbers)))
        raise DataError(f"{path}: row {n + 2}: {column}: saw {cells[n]!r}, expected a number")
    return numbers


def _is_word(cell: Any) -> bool:
    """Neither a number nor missing."""
    text = "" if cell is None else str(cell).strip().lower()
    return text not in ("", "nan") and not math.isfinite(_number(cell))


def _number(cell: Any) -> float:
    try:
        return math.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        return math.nan


def _csv(path: Path, body: bytes) -> dict[str, list[str]]:
    try:
        text = (gzip.decompress(body) if path.suffix == ".gz" else body).decode("utf-8-sig")
        header, *lines = csv.reader(io.StringIO(text))
    except (ValueError, csv.Error, OSError, EOFError) as error:
        raise DataError(f"{path}: not a CSV file with a header ({error})") from error
    for n, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise DataError(f"{path}: row {n}: saw {len(line)} cells, expected {len(header)}")
    if len(set(header)) != len(header):
        raise DataError(f"{path}: row 1: a column occurs twice")
    return {name: [line[i] for line in lines] for i, name in enumerate(header)}


def _parquet(path: Path) -> dict[str, Sequence[Any]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from error
    return {name: table.column(name).to_pylist() for name in table.column_names}
