"""Sums in sales files: rows and columns of totals that programs add, and receipts that are added up by period."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ucsearch.errors import InputError
from ucsearch.planner.files.calendar import has_local_dates, period_start
from ucsearch.planner.files.numbers import Decimal, parse_dates
from ucsearch.planner.files.table import Block, Table
from ucsearch.planner.settings import Columns

__all__ = ["added_up", "is_total"]

_CALLED = (
    "total", "grandtotal", "totals", "subtotal", "sum", "sums", "summe", "gesamt", "gesamtsumme", "gesamtergebnis",
    "zwischensumme", "ergebnis", "somme", "totalgeneral", "sumatotal", "suma", "totale", "totaal", "totalt", "razem",
)  # fmt: skip


def is_total(name: str) -> bool:
    """Whether a row or column is called as programs call those that they add up."""
    return "".join(c for c in name.lower() if c.isalnum()) in _CALLED


class _Added:
    """A table with a row for each series and period."""

    def __init__(self, table: Table, block: Block) -> None:
        self.path, self.columns, self.unit, self._block = table.path, tuple(block.cells), table.unit, block

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        whole = self._block.part(start, len(self._block))
        cells = {name: whole.cells[name] for name in columns}
        yield Block(start, whole.places, cells, whole.ragged, whole.decimal, whole.plain)


def added_up(table: Table, names: Columns, period: str) -> Table:
    """The demand of the rows of a series that lie in one period, added up; other columns are those of the last row.

    Args:
        table: a long sales file; its rows may stand in any order.
        names: what its columns are called.
        period: of the settings, or read off the dates.

    Returns: a table with a row for each series and period, in the order of time. What cannot be read stays as it is, so
    that it is reported.

    Raises: InputError where dates have no period.
    """
    dated = names.step not in table.columns
    time_column = names.date if dated else names.step
    if dated and period == "any":
        raise InputError("columns.add_up", "dates without a period", "a period in the settings, such as period = 'day'")
    columns = [c for c in table.columns if c not in names.ignore]
    rows: dict[tuple[str, str], _Row] = {}
    ragged: dict[int, int] = {}
    decimal: Decimal | None = "."
    for block in table.blocks(columns):
        ragged |= block.ragged
        decimal = block.decimal
        texts = {c: block.texts(c) for c in columns}
        stamps = _periods(texts[time_column], names, period) if dated else texts[time_column]
        demand, unreadable = block.numbers(names.demand)
        for i, (series, stamp, value) in enumerate(zip(texts[names.series], stamps, demand.tolist(), strict=True)):
            place = int(block.places[i])
            row = rows.setdefault((series, stamp or f"row {place}"), _Row())
            if not row.unreadable:
                row.place, row.texts = place, {c: texts[c][i] for c in columns}
                row.time, row.unreadable = stamp or texts[time_column][i], unreadable.get(i, "")
                row.values += [value] if value == value else []
    first: dict[str, int] = {}
    ordered = [rows[k] for k in sorted(rows, key=lambda k: (first.setdefault(k[0], len(first)), k[1]))]
    cells = {c: [row.texts[c] for row in ordered] for c in columns}
    cells[time_column] = [row.time for row in ordered]
    cells[names.demand] = [row.demand(decimal or ".") for row in ordered]
    places = np.array([row.place for row in ordered], np.int64)
    return _Added(table, Block(0, places, cells, ragged, decimal))


class _Row:
    """One series' rows of one period: the last one, and what is added up."""

    place: int
    time: str
    texts: dict[str, str]

    def __init__(self) -> None:
        self.values: list[float] = []
        self.unreadable = ""  # a demand that is no number

    def demand(self, decimal: Decimal) -> str:
        return self.unreadable or (repr(math.fsum(self.values)).replace(".", decimal) if self.values else "")


def _periods(texts: list[str], names: Columns, period: str) -> list[str]:
    """The first moment of each date's period, ISO 8601; "" for what is no date."""
    time = period_start(parse_dates(texts, names.dates, wall_clock=has_local_dates(period)), period)
    return ["" if np.isnat(x) else str(x) for x in time]
