"""CSV and Parquet files as blocks of rows, read with every problem named by file, row and column, written whole or not
at all; and files that must not be written over.

CSV is read and written with the standard library, so that a bare installation can use it; Parquet needs pyarrow.
Rows are counted as a person does: lines of a CSV file (the header is line 1), rows of a Parquet file from 1.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.numbers import Decimal, parse_numbers, sniff_decimal
from ucsearch.planner.files.sheet import is_workbook, need_openpyxl, read_sheets, write_workbook
from ucsearch.planner.files.text import BROKEN, TEXTS, broken, encoding_like, is_packed, open_text
from ucsearch.records.files import DATABASE, log_at, whole_file

__all__ = [
    "Block",
    "Problem",
    "Style",
    "Table",
    "check_place",
    "check_writable",
    "is_parquet",
    "open_table",
    "pyarrow_parquet",
    "refuse_overwriting",
    "regrouped",
    "whole_series",
    "write_table",
]


Floats = NDArray[np.float64]
_CSV_ROWS = 20_000
_LONGEST = 1 << 26  # characters of a header
_PIECE = 1 << 22  # characters that are looked at together
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_CELLS = 1_500_000  # of a Parquet batch: bounds its memory
_MOST_ROWS = 200_000  # of a Parquet batch: names become texts of their own
_REGROUPED = 40_000_000  # cells of a file whose rows are put together in memory


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a file, and where. `series` is "" when it concerns the whole file."""

    file: str
    place: str  # "line 17", "row 16" or ""
    column: str
    series: str
    text: str  # what was seen and what was expected
    refuses: bool = True  # False: reported, but nothing is refused for it

    def __str__(self) -> str:
        parts = [self.file, self.place, f"column {self.column}" if self.column else ""]
        parts.append(f"series {self.series}" if self.series else "")
        return f"{', '.join(p for p in parts if p)}: {self.text}"


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive rows: `cells` holds texts (CSV) or Arrow arrays (Parquet) by column."""

    first: int  # index of its first row in the file, from 0
    places: NDArray[np.int64]  # (n,) line or row numbers
    cells: Mapping[str, Any]
    ragged: Mapping[int, int] = field(default_factory=dict)  # place -> cells seen, where their number is wrong
    decimal: Decimal | None = "."  # of texts; None: commas in it could be either
    plain: Mapping[str, Floats] = field(default_factory=dict)  # (n,) columns that were numbers before they were texts

    def __len__(self) -> int:
        return int(self.places.size)

    def texts(self, column: str) -> list[str]:
        """(n,) values as texts, "" where there is none."""
        cells = self.cells[column]
        if isinstance(cells, list):
            return [x.strip() for x in cells]
        import pyarrow as pa

        if not pa.types.is_string(cells.type):
            try:
                cells = cells.cast(pa.string())
            except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
                raise DataError(f"column {column}: saw {cells.type}, expected numbers or texts") from error
        return ["" if x is None else x.strip() for x in cells.to_pylist()]

    def numbers(self, column: str) -> tuple[Floats, dict[int, str]]:
        """(n,) values, NaN where there is none, and by index the texts that are no numbers (NaN too)."""
        if (known := self.plain.get(column)) is not None:
            return known.copy(), {}
        cells = self.cells[column]
        if not isinstance(cells, list):
            import pyarrow as pa

            kind = cells.type
            if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
                values = cells.cast(pa.float64(), safe=False)
                return np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64), {}
            if pa.types.is_null(kind):
                return np.full(len(cells), np.nan), {}
        return parse_numbers(self.texts(column), self.decimal)

    def put(self, column: str, out: Floats) -> None:
        """The same values into `out` (n,), without a copy in between where the cells are floats."""
        cells = self.cells[column]
        if not isinstance(cells, list) and str(cells.type) in ("float", "double") and not cells.null_count:
            out[:] = cells.to_numpy(zero_copy_only=True)
        else:
            out[:] = self.numbers(column)[0]

    def part(self, lo: int, hi: int) -> Block:
        cells = {
            name: x[lo:hi] if isinstance(x, list) else x.slice(lo, max(0, hi - lo)) for name, x in self.cells.items()
        }
        plain = {name: x[lo:hi] for name, x in self.plain.items()}
        return Block(self.first + lo, self.places[lo:hi], cells, self.ragged, self.decimal, plain)

    def then(self, other: Block) -> Block:
        """This block's rows followed by those of `other`."""
        if not len(self):
            return other
        return _joined([self, other])

    def take(self, rows: NDArray[np.int64]) -> Block:
        """Those rows, in that order."""
        cells = {
            n: [x[i] for i in rows.tolist()] if isinstance(x, list) else x.take(rows) for n, x in self.cells.items()
        }
        plain = {name: x[rows] for name, x in self.plain.items()}
        return Block(0, self.places[rows], cells, self.ragged, self.decimal, plain)


def _joined(blocks: Sequence[Block]) -> Block:
    """The rows of all of them, one after the other."""
    ragged = {place: count for b in blocks for place, count in b.ragged.items()}
    cells = {name: _join([b.cells[name] for b in blocks]) for name in blocks[0].cells}
    plain = {name: np.concatenate([b.plain[name] for b in blocks]) for name in blocks[0].plain}
    return Block(blocks[0].first, np.concatenate([b.places for b in blocks]), cells, ragged, blocks[0].decimal, plain)


def _join(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], list):
        return [x for part in parts for x in part]
    import pyarrow as pa

    return pa.concat_arrays(parts)


class Table(Protocol):
    """A file with named columns."""

    path: Path
    columns: tuple[str, ...]
    unit: str  # "line" or "row"

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        """The rows from index `start` on, those columns only."""
        ...


_SHEETS = (".xls", ".xlsm", ".ods", ".numbers")


def is_parquet(path: str | Path) -> bool:
    """By the file's ending; anything but .parquet, .pq, .csv and .xlsx is refused."""
    ending = Path(path).suffix.lower()
    if ending in (".parquet", ".pq"):
        return True
    if ending in TEXTS or is_workbook(path):
        return False
    hint = "Save the sheet as .xlsx or CSV in your spreadsheet." if ending in _SHEETS else ""
    hint = "A packed table is called .csv.gz." if ending in (".gz", ".tgz", ".zip", ".bz2", ".xz", ".zst") else hint
    raise InputError(str(path), f"the ending {ending!r}", "a file called .csv, .xlsx or .parquet", hint=hint)


def pyarrow_parquet(path: str | Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs pyarrow: pip install pyarrow") from error
    return pq


def open_table(path: str | Path, decimal: Literal["auto", ".", ","] = "auto") -> Table:
    """Look at a file's header; its rows are read when asked for. `decimal`: how its numbers are written."""
    if is_workbook(path):
        table: Table = _Sheet(Path(path))
    else:
        packed = is_packed(Path(path))
        table = _Parquet(Path(path)) if not packed and is_parquet(path) else _Csv(Path(path), decimal)
    seen: set[str] = set()
    for name in table.columns:
        if name in seen:
            raise DataError(f"{path}: the column {name!r} occurs twice")
        seen.add(name)
    return table


_ABOVE = 30  # lines in which a header is looked for
_LINE = re.compile(r"[\s|;,+]*[-=_]{3,}[-=_\s|;,+]*")  # drawn by programs below a header or above totals
_DECIMAL_POINT = re.compile(r"[+-]?\d*\.\d+")
_VALUE = re.compile(r"[\d.,:/+-]*\d[\d.,:/ +-]*")  # numbers and dates


def header_row(rows: Sequence[Sequence[str]]) -> int:
    """Which of a file's first rows names its columns: the first one with two names, unless the rows below have other
    numbers of cells and a later one, with more names and nothing else, fits what is below it. Titles, comments and
    drawn lines that programs write above a table are passed over."""
    names = [i for i, row in enumerate(rows) if sum(map(bool, row)) > 1 and not is_drawn(row)]
    if not names:
        return next((i for i, row in enumerate(rows) if any(row)), 0)

    def fits(i: int) -> bool:
        below = next((row for row in rows[i + 1 :] if any(row) and not is_drawn(row)), None)
        return below is None or len(below) == len(rows[i])

    first = names[0]
    if fits(first):
        return first
    width = sum(map(bool, rows[first]))
    later = (i for i in names[1:] if fits(i) and sum(map(bool, rows[i])) > width)
    return next((i for i in later if not any(_VALUE.fullmatch(x) for x in rows[i])), first)


def is_drawn(row: Sequence[str]) -> bool:
    """Whether a row is a line drawn of dashes."""
    return _LINE.fullmatch("".join(row)) is not None


class _Csv:
    unit = "line"

    def __init__(self, path: Path, decimal: Literal["auto", ".", ","] = "auto") -> None:
        self.path = path
        try:
            with open_text(path) as file:
                lines = [line for _ in range(_ABOVE) if (line := file.readline(_LONGEST))]
                if lines and len(lines[0]) == _LONGEST:
                    told = f"saw a first line of more than {_LONGEST >> 20} MB, expected column names"
                    raise DataError(f"{path}: {told}")
                said = _SEPARATOR.fullmatch(lines[0]) if lines else None  # a spreadsheet's own way to say it
                begin = 0 if said is None else 1
                marks = [_mark_of(line) if said is None else said[1] for line in lines[begin:]]
                rows = [_cells_of(line, mark) for line, mark in zip(lines[begin:], marks, strict=True)]
                self.above = begin + header_row(rows)  # lines above the header
                self.delimiter = marks[self.above - begin] if self.above - begin < len(marks) else ","
                reader = csv.reader(chain(lines[self.above :], file), delimiter=self.delimiter)
                self._header([x.strip() for x in next(reader, [])])
                below = lines[self.above + reader.line_num :]
                self.decimal: Decimal | None = decimal if decimal != "auto" else sniff_decimal(
                    chain([below], iter(lambda: file.readlines(_PIECE), [])), self.delimiter
                )  # fmt: skip
        except (*BROKEN, UnicodeError) as error:
            raise broken(path, error) from error
        except csv.Error as error:
            raise DataError(f"{path}: cannot be read ({error})") from error

    def _header(self, names: list[str]) -> None:
        while names and not names[-1]:
            names.pop()  # separators at the end of each line
        if not names:
            raise DataError(f"{self.path}: saw no header, expected column names in line {self.above + 1}")
        self.names = names  # with those of columns that have none
        self.columns = tuple(name for name in names if name)

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        index = [self.names.index(name) for name in columns]
        width, first = len(self.names), self.names[0]
        try:
            with open_text(self.path) as file:
                for _ in range(self.above):
                    file.readline()
                reader = csv.reader(file, delimiter=self.delimiter)
                next(reader)
                row = 0
                cells: list[list[str]] = [[] for _ in index]
                places: list[int] = []
                ragged: dict[int, int] = {}
                for line in reader:
                    if not any(line):  # nothing, or separators alone below a sheet's last row
                        continue
                    if line[0][:3] in _DRAWN and is_drawn(line):
                        continue
                    if line[0] == first and [x.strip() for x in line[:width]] == self.names:  # the header again
                        continue
                    if len(line) != width:
                        if len(line) < width or any(line[width:]):
                            ragged[self.above + reader.line_num] = len(line)
                        line = (line + [""] * width)[:width]
                    row += 1
                    if row <= start:
                        continue
                    places.append(self.above + reader.line_num)
                    for own, i in zip(cells, index, strict=True):
                        own.append(line[i])
                    if len(places) == _CSV_ROWS:
                        yield _csv_block(row, places, columns, cells, ragged, self.decimal)
                        cells, places, ragged = [[] for _ in index], [], {}
                if places:
                    yield _csv_block(row, places, columns, cells, ragged, self.decimal)
        except (*BROKEN, UnicodeError) as error:
            raise broken(self.path, error) from error
        except csv.Error as error:
            raise DataError(f"{self.path}: cannot be read ({error})") from error


_DRAWN = ("---", "===", "___", "")  # how a line begins that may be drawn


def _mark_of(line: str) -> str:
    """What separates its cells. A sheet saved in some countries has semicolons."""
    return max(",;\t|", key=line.count)


def _cells_of(line: str, mark: str) -> list[str]:
    try:
        return [x.strip() for x in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return [line.strip()]


def _csv_block(
    row: int,
    places: list[int],
    columns: Sequence[str],
    cells: list[list[str]],
    ragged: dict[int, int],
    decimal: Decimal | None,
) -> Block:
    found = dict(zip(columns, cells, strict=True))
    return Block(row - len(places), np.array(places, np.int64), found, ragged, decimal)


class _Sheet:
    """The first sheet of a workbook that holds a table; rows are counted as the spreadsheet counts them."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[tuple[int, list[str]]] = []
        names: list[str] = []
        self.note = ""  # which sheet is read, where there are others
        for title, rows, later in read_sheets(path):
            at = header_row([row for _, row in rows[:_ABOVE]])
            names = [x.strip() for x in rows[at][1]] if rows else []
            self._rows = [(place, row) for place, row in rows[at + 1 :] if not is_drawn(row)]
            if sum(map(bool, names)) > 1 and self._rows:
                if later:
                    others = ", ".join(map(repr, later))
                    self.note = (
                        f"Sheet {title!r} is read, the first with a table; move another one before it: {others}."
                    )
                break
        while names and not names[-1]:
            names.pop()
        if not names:
            raise DataError(f"{path}: saw no table in any sheet, expected column names in the first row of one")
        self.names = names
        self.columns = tuple(name for name in names if name)

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        index = [self.names.index(name) for name in columns]
        width = len(self.names)
        rows = self._rows[start:]
        ragged = {place: len(row) for place, row in rows if any(row[width:])}
        cells = {
            name: [row[i] if i < len(row) else "" for _, row in rows] for name, i in zip(columns, index, strict=True)
        }
        if rows:
            yield Block(start, np.array([place for place, _ in rows], np.int64), cells, ragged)


class _Parquet:
    unit = "row"

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)
            self.group_rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

    def _open(self) -> Any:
        pq = pyarrow_parquet(self.path)
        try:
            return pq.ParquetFile(self.path)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: not a readable Parquet file ({error})") from error

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        groups, skipped = list(range(len(self.group_rows))), 0
        while groups and skipped + self.group_rows[groups[0]] <= start:
            skipped += self.group_rows[groups.pop(0)]
        size = min(_MOST_ROWS, max(1_000, _CELLS // max(1, len(columns))))
        at = skipped
        with self._open() as file:
            for batch in self._batches(file, size, groups, columns):
                lo = max(0, start - at)
                rows = np.arange(at + lo, at + batch.num_rows, dtype=np.int64)
                if rows.size:
                    cells = {name: batch.column(i).slice(lo) for i, name in enumerate(batch.schema.names)}
                    yield Block(at + lo, rows + 1, cells)
                at += batch.num_rows

    def _batches(self, file: Any, size: int, groups: list[int], columns: Sequence[str]) -> Iterator[Any]:
        if missing := [name for name in columns if name not in self.columns]:
            raise DataError(f"{self.path}: column {missing[0]}: missing; saw columns {', '.join(self.columns[:12])}")
        try:
            # A reader keeps something of every group that it has read, so each gets as few as fill a batch.
            while groups:
                own, rows = [], 0
                while groups and rows < size:
                    own.append(groups.pop(0))
                    rows += self.group_rows[own[-1]]
                yield from file.iter_batches(size, row_groups=own, columns=list(columns))
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path}: cannot be read ({' '.join(str(error).split())})") from error


def whole_series(
    table: Table, columns: Sequence[str], series: str, start: int = 0
) -> Iterator[tuple[Block, list[str]]]:
    """Blocks cut where a series ends, with the series of each row; rows of one series are in one block."""
    rest: Block | None = None
    for block in table.blocks(columns, start):
        joined = block if rest is None else rest.then(block)
        names = joined.texts(series)
        cut = len(names)
        while cut > 0 and names[cut - 1] == names[-1]:
            cut -= 1
        if cut:
            yield joined.part(0, cut), names[:cut]
        rest = joined.part(cut, len(names))
    if rest is not None and len(rest):
        yield rest, rest.texts(series)


class _Regrouped:
    """A table whose rows are put together by series, as if it had been written so; places stay those of the file."""

    def __init__(self, table: Table, series: str) -> None:
        self.table, self.path, self.columns, self.unit = table, table.path, table.columns, table.unit
        names: dict[str, int] = {}
        numbers = [names.setdefault(x, len(names)) for block in table.blocks([series]) for x in block.texts(series)]
        self.order: NDArray[np.int64] = np.argsort(np.array(numbers, np.int64), kind="stable")

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        if self.order.size * len(columns) > _REGROUPED:
            seen = f"{self.order.size} rows of {len(columns)} columns whose series lie apart"
            raise InputError(
                str(self.path), seen, "a file sorted by series, because this one is too large to sort here"
            )
        parts = list(self.table.blocks(columns))
        if not parts:
            return
        ordered = _joined(parts).take(self.order)
        for lo in range(start, len(ordered), _CSV_ROWS):
            yield ordered.part(lo, min(lo + _CSV_ROWS, len(ordered)))


def regrouped(table: Table, series: str) -> Table:
    """The same rows with those of a series together, series by first appearance, order within a series kept."""
    return _Regrouped(table, series)


_ROW_GROUP = 50_000
_DIGITS = 12  # of a number that a person looks at
_PACKED = 5_000  # rows turned into Arrow at a time; a divisor of the row group
Rows = Iterator[Sequence[Any]]


def check_place(path: str | Path) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    place = Path(path)
    if place.is_dir():
        raise InputError(str(path), "a folder", "the name of a file")
    if not place.parent.is_dir():
        raise InputError(str(path), f"no folder {place.parent}", "a folder that is there")
    if not os.access(place.parent, os.W_OK):
        raise InputError(str(path), f"a folder that cannot be written to, {place.parent}", "another one")


def check_writable(path: str | Path) -> None:
    """Refuse a table that could not be written, before any work is done for it."""
    check_place(path)
    if is_workbook(path):
        need_openpyxl(path)
    elif is_parquet(path):
        pyarrow_parquet(path)


def refuse_overwriting(
    outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None], *,
    logs: Mapping[str, str | Path | None] | None = None,
) -> None:  # fmt: skip
    """Before anything is read: no file that is written may be one that is read, a log or a part of one, or be written
    twice. `logs` are added to, and may be no other file either. Names are for the message. One file under two names (a
    link of either kind, another spelling) is still one file."""
    seen: list[tuple[str, Path]] = [(name, Path(path)) for name, path in inputs.items() if path is not None]
    added = {name: path for name, path in (logs or {}).items() if path is not None}
    for name, given in (*added.items(), *outputs.items()):
        if given is None:
            continue
        path = Path(given)
        for other_name, other in seen:
            if _same_file(path, other):
                raise InputError(name, str(path), f"another file than {other_name} ({other}), which it would replace")
        found = log_at(path)
        if found and not (name in added and found == DATABASE):
            raise InputError(name, f"{path}, {found}", "another file, because no output replaces a log")
        seen.append((name, path))


def _same_file(a: Path, b: Path) -> bool:
    try:
        if os.path.samefile(a, b):
            return True
    except OSError:  # one of them is not there yet
        pass
    try:
        return os.path.normcase(a.resolve()) == os.path.normcase(b.resolve())
    except (OSError, RuntimeError):
        return os.path.normcase(a.absolute()) == os.path.normcase(b.absolute())


class Style(NamedTuple):
    """How numbers, columns and letters are written in CSV files."""

    delimiter: str = ","
    decimal: Decimal = "."
    encoding: str = "utf-8"

    @classmethod
    def of(cls, path: str | Path, decimal: Literal["auto", ".", ","] = "auto") -> Style:
        """As a file that people gave: semicolons, decimal commas and the mark of UTF-8 where it has them."""
        table = open_table(path, decimal)
        if not isinstance(table, _Csv):
            return cls(";" if decimal == "," else ",", decimal if decimal != "auto" else ".")
        mark = table.decimal or "."
        if decimal == "auto" and table.delimiter == ";" and not _has_points(table):
            mark = ","  # spreadsheets take semicolons where commas are decimals
        delimiter = ";" if mark == "," and table.delimiter == "," else table.delimiter
        return cls(delimiter, mark, encoding_like(table.path))

    @classmethod
    def like(cls, paths: Sequence[str | Path | None], decimal: Literal["auto", ".", ","] = "auto") -> Style:
        """As the first of these files that is there."""
        there = next((path for path in paths if path is not None and Path(path).exists()), None)
        return cls() if there is None else cls.of(there, decimal)


def _has_points(table: _Csv) -> bool:
    """Whether some number of the first rows has a decimal point."""
    block = next(table.blocks(table.columns), None)
    texts = [] if block is None else [x for column in table.columns for x in block.texts(column)]
    return any(_DECIMAL_POINT.fullmatch(x) for x in texts)


def write_table(
    path: str | Path, columns: Mapping[str, type], rows: Callable[[], Rows], *, for_people: bool = False,
    style: Style = Style(),  # noqa: B008 - never changed
) -> int:  # fmt: skip
    """Write rows of str, float and int, whole or not at all; None and NaN are empty. Equal rows, equal bytes. CSV
    `for_people` has twelve digits: -1.235, not -1.2349999999999999, which is the same number to a store or a purse.
    What is read back to plan on, and Parquet, has them all. A path that ends in .xlsx becomes a workbook."""
    check_writable(path)
    with whole_file(path) as file:
        if is_workbook(path):
            return write_workbook(file, columns, rows())
        if is_parquet(path):
            return _write_parquet(file, columns, rows())
        return _write_csv(file, columns, rows(), for_people, style)


def _write_csv(file: Any, columns: Mapping[str, type], rows: Rows, for_people: bool, style: Style) -> int:
    text = io.TextIOWrapper(file, encoding=style.encoding, newline="", write_through=False)
    writer = csv.writer(text, lineterminator="\n", delimiter=style.delimiter)
    writer.writerow(columns)
    comma, count = style.decimal == ",", 0
    for row in rows:
        cells = [_csv_cell(x, for_people) for x in row]
        if comma:
            cells = [c.replace(".", ",") if isinstance(x, float) else c for c, x in zip(cells, row, strict=True)]
        writer.writerow(cells)
        count += 1
    text.flush()
    text.detach()
    return count


def _csv_cell(value: Any, for_people: bool) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        text = repr(value)
        if for_people and len(text) > _DIGITS:
            text = repr(float(f"{value:.{_DIGITS}g}"))
        return text.removesuffix(".0")
    return str(value)


def _write_parquet(file: Any, columns: Mapping[str, type], rows: Rows) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    count = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        batch: list[Sequence[Any]] = []
        held: list[Any] = []  # of the row group that is being filled: Arrow takes a fraction of Python's memory

        def pack() -> None:
            parts = zip(*batch, strict=True) if batch else [()] * len(columns)
            arrays = [pa.array(x, kind, from_pandas=True) for x, kind in zip(parts, schema.types, strict=True)]
            held.append(pa.Table.from_arrays(arrays, schema=schema))
            batch.clear()

        def flush() -> None:
            writer.write_table(pa.concat_tables(held).combine_chunks(), row_group_size=_ROW_GROUP)
            held.clear()

        for row in rows:
            batch.append(row)
            count += 1
            if len(batch) == _PACKED:
                pack()
            if count % _ROW_GROUP == 0:
                flush()
        if batch or not count:
            pack()
        if held:
            flush()
    return count
