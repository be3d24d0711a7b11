"""Rows of the benchmark table."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rich import box
from rich.table import Table

__all__ = ["Row", "table"]

COMPARE: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le, ">": operator.gt}


class Row(NamedTuple):
    """One figure. `target` is what the project promises of it: an operator and a limit."""

    part: str
    what: str
    value: float
    unit: str
    target: tuple[str, float] | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None where nothing is promised, or where it could not be measured here."""
        if self.target is None or math.isnan(self.value):
            return None
        return COMPARE[self.target[0]](self.value, self.target[1])


def table(rows: Iterable[Row]) -> Table:
    """For a terminal."""
    made = Table(caption="Machines differ and share their cores: compare ratios inside one run", box=box.SIMPLE_HEAD)
    for column in ("part", "what", "figure", "unit", "promised", "note"):
        made.add_column(column, justify="right" if column in ("figure", "promised") else "left", overflow="fold")
    last = ""
    for row in rows:
        promised = "" if row.target is None else f"{row.target[0]} {row.target[1]:,g}"
        verdict = {True: "", False: " [bold]missed[/]", None: " not measured" if promised else ""}[row.met]
        figure = "" if math.isnan(row.value) else f"{row.value:,.4g}"
        made.add_row("" if row.part == last else row.part, row.what, figure, row.unit, promised + verdict, row.note)
        last = row.part
    return made
