"""Reading CSV and Parquet with errors that name the file, the row and the column.

Rows are numbered as an editor shows them: the header is row 1.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError

__all__ = ["BLANK", "open_text", "parse_times", "read_csv_numbers", "read_csv_records", "read_parquet"]

Floats = NDArray[np.float64]

# What the published files write for "no value".
BLANK = ("", "NA", "NaN", "nan", "null")


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """Text of a plain or gzip file. Undecodable bytes (some published headers have them) become U+FFFD."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opener: Any = gzip.open if packed else open
        with (
            opener(path, "rb") as stream,
            io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="") as text,
        ):
            yield text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip stream is truncated or damaged ({error}); fetch the file again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV file ({error})") from error


def read_csv_records(path: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The named columns of a CSV file with a header, as text."""
    with open_text(path) as text:
        reader = csv.reader(text)
        header = _header(path, reader)
        at = [_position(path, header, name) for name in columns]
        out = []
        for row, cells in enumerate(reader, start=2):
            if len(cells) != len(header):
                raise DataError(f"{path}: row {row}: saw {len(cells)} cells, expected {len(header)}")
            out.append(tuple(cells[i] for i in at))
    return out


def read_csv_numbers(
    path: Path, *, time_column: str | None = None, header: bool = True, columns: Sequence[str] | None = None
) -> tuple[tuple[str, ...], list[str], Floats]:
    """Names, time stamps as text (empty without `time_column`) and values (T, C) of a CSV of numbers.

    With `columns` the header must be exactly these (after the time column, which comes first).
    """
    with open_text(path) as text:
        reader = csv.reader(text)
        first = 2 if header else 1
        names: list[str] = _header(path, reader) if header else []
        skip = 0
        if time_column is not None:
            if names[:1] != [time_column]:
                raise DataError(f"{path}: row 1: saw first column {names[0]!r}, expected {time_column!r}")
            skip = 1
        if columns is not None and header and names[skip:] != list(columns):
            missing = [c for c in columns if c not in names]
            what = f"column {missing[0]!r} is missing" if missing else "another order, or too many columns"
            seen, expected = _short(names[skip:]), _short(list(columns))
            raise DataError(f"{path}: row 1: {what}; saw {seen}, expected {expected}")
        width = len(names)
        times: list[str] = []
        flat = array("d")
        for row, cells in enumerate(reader, start=first):
            if width == 0:
                width = len(cells)
                names = [str(i) for i in range(width)]
            if len(cells) != width:
                raise DataError(f"{path}: row {row}: saw {len(cells)} cells, expected {width}; is the file cut off?")
            if skip:
                times.append(cells[0])
            try:
                flat.extend(map(float, cells[skip:]))
            except ValueError:
                _refuse_cell(path, row, names[skip:], cells[skip:])
    rows = len(flat) // max(1, width - skip)
    if rows == 0:
        raise DataError(f"{path}: no rows of data")
    values = np.frombuffer(flat, dtype=np.float64).reshape(rows, width - skip)
    good = np.isfinite(values)
    if not good.all():
        r, c = (int(i) for i in np.argwhere(~good)[0])
        place = f"row {r + first}, column {names[skip + c]!r}"
        raise DataError(f"{path}: {place}: saw {values[r, c]}, expected a finite number")
    return tuple(names[skip:]), times, values


def parse_times(path: Path, stamps: Sequence[str]) -> NDArray[np.datetime64]:
    """Seconds from `2016-07-01 00:00:00` or `2016/7/1 2:00` (the two forms the published files use)."""
    parse: Callable[[str], datetime] = datetime.fromisoformat
    if stamps and "/" in stamps[0]:
        parse = _parse_slashes
    out = np.empty(len(stamps), dtype="datetime64[s]")
    for at, stamp in enumerate(stamps):
        try:
            out[at] = np.datetime64(parse(stamp), "s")
        except ValueError:
            raise DataError(f"{path}: row {at + 2}: saw time {stamp!r}, expected a form like {stamps[0]!r}") from None
    return out


def read_parquet(path: Path, columns: Sequence[str]) -> Any:
    """The named columns as a pyarrow Table."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        with pq.ParquetFile(path) as file:
            present = file.schema_arrow.names
            for name in columns:
                if name not in present:
                    raise DataError(f"{path}: column {name!r} is missing; saw {', '.join(present)}")
            return file.read(columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a readable Parquet file, perhaps truncated ({reason})") from error


def _parse_slashes(stamp: str) -> datetime:
    day, _, clock = stamp.partition(" ")
    year, month, date = (int(part) for part in day.split("/"))
    hour, minute = (int(part) for part in clock.split(":")[:2])
    return datetime(year, month, date, hour, minute)


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    names = next(reader, [])
    if not names:
        raise DataError(f"{path}: the file is empty")
    return names


def _position(path: Path, header: Sequence[str], name: str) -> int:
    if name not in header:
        raise DataError(f"{path}: row 1: column {name!r} is missing; saw {_short(list(header))}")
    return list(header).index(name)


def _refuse_cell(path: Path, row: int, names: Sequence[str], cells: Sequence[str]) -> None:
    for name, cell in zip(names, cells, strict=True):
        try:
            float(cell)
        except ValueError:
            seen = "an empty cell" if cell.strip() == "" else repr(cell)
            raise DataError(f"{path}: row {row}, column {name!r}: saw {seen}, expected a number") from None


def _short(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 10 else ", ".join(names[:9]) + f", ... ({len(names)})"
