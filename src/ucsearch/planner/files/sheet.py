"""Workbooks of a spreadsheet, .xlsx, by openpyxl (extra `excel`): sheets as rows of texts, and a table as one.

Numbers come as they are stored, so no country's marks matter; dates are written as ISO 8601.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import DataError

__all__ = ["is_workbook", "need_openpyxl", "read_sheets", "write_workbook"]

_FIRST = datetime(1900, 1, 1)
_WIDEST = 60  # characters of a column


def is_workbook(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".xlsx"


def need_openpyxl(path: str | Path) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise DataError(f"{path}: workbooks need openpyxl: pip install openpyxl") from error
    return openpyxl


class Sheet(NamedTuple):
    """One sheet of a workbook."""

    title: str
    rows: list[tuple[int, list[str]]]  # those that hold anything, with their numbers; cells as texts
    later: tuple[str, ...]  # titles of the sheets after it


def read_sheets(path: Path) -> Iterator[Sheet]:
    """The sheets of a workbook, in their order."""
    openpyxl = need_openpyxl(path)
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            titles = tuple(sheet.title for sheet in book.worksheets)
            for i, sheet in enumerate(book.worksheets):
                rows = enumerate(sheet.iter_rows(values_only=True), start=1)
                found = [(number, [_text(cell) for cell in row]) for number, row in rows]
                yield Sheet(sheet.title, [(number, row) for number, row in found if any(row)], titles[i + 1 :])
        finally:
            book.close()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except DataError:
        raise
    except Exception as error:  # openpyxl raises whatever a broken archive makes its parsers raise
        raise DataError(f"{path}: not a readable workbook ({' '.join(str(error).split())})") from error


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, datetime):
        if value < _FIRST:  # a time of day
            return value.time().isoformat()
        return value.date().isoformat() if value.time() == time(0) else value.isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value).strip()


def write_workbook(file: Any, columns: Mapping[str, type], rows: Iterator[Sequence[Any]]) -> int:
    """One sheet with a header that stays in view."""
    openpyxl = need_openpyxl("the table")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(columns))
    widths = [len(name) for name in columns]
    count = 0
    for row in rows:
        cells = [_cell(x) for x in row]
        sheet.append(cells)
        for cell in sheet[count + 2]:
            if isinstance(cell.value, str):
                cell.data_type = "s"  # a text is never a formula
        widths = [max(w, len(str(x))) for w, x in zip(widths, cells, strict=True)]
        count += 1
    for i, width in enumerate(widths, start=1):
        sheet.column_dimensions[openpyxl.utils.get_column_letter(i)].width = min(width, _WIDEST) + 2
    for cell in sheet[1]:
        cell.font = openpyxl.styles.Font(bold=True)
    sheet.freeze_panes = "A2"
    book.save(file)
    return count


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
