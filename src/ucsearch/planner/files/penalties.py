"""The file of penalties that reach a fill rate or a service level: `tune` writes it, every command reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ucsearch.errors import InputError
from ucsearch.planner.files.table import open_table, write_table
from ucsearch.planner.settings import Settings

__all__ = ["Penalty", "read_penalties", "write_penalties"]

_COLUMNS = ("series", "penalty", "target", "value", "promised", "below", "factor")


class Penalty(NamedTuple):
    """Of one series."""

    name: str  # "missed_unit" or "missed_period"
    target: float
    value: float  # currency
    promised: float  # what the policy reaches under its forecast with the value before the factor
    below: float  # what the next lower step reaches
    factor: float  # by which the history says that penalties fall short, the same for all series of a target


def write_penalties(path: Path, found: Sequence[tuple[str, Penalty]]) -> None:
    """A row for each series."""
    head = {name: str if name in ("series", "penalty") else float for name in _COLUMNS}
    write_table(path, head, lambda: ([series, *penalty] for series, penalty in found))


def read_penalties(path: Path, settings: Settings) -> dict[str, Penalty]:
    """By series; an InputError names the row that is none."""
    table = open_table(path, settings.columns.decimal)
    if lacking := [name for name in _COLUMNS if name not in table.columns]:
        raise InputError(str(path), f"columns {', '.join(table.columns)}", f"a column {lacking[0]!r}")
    found: dict[str, Penalty] = {}
    for block in table.blocks(_COLUMNS):
        names, penalties = block.texts("series"), block.texts("penalty")
        numbers = {name: block.numbers(name)[0].tolist() for name in _COLUMNS[2:]}
        for i, series in enumerate(names):
            made = Penalty(penalties[i], *(numbers[name][i] for name in _COLUMNS[2:]))
            if made.name not in ("missed_unit", "missed_period") or not made.value >= 0.0:
                place = f"{path}, {table.unit} {block.places[i]}"
                raise InputError(place, f"{made.name!r}, {made.value:g}", "missed_unit or missed_period, and a cost")
            found[series] = made
    return found
