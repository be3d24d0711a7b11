"""A file of outcomes as people have it: by series and date, by series and count, or by decision and step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.pipeline.numbers import parse_dates
from ucsearch.pipeline.periods import PERIODS, infer_period
from ucsearch.pipeline.tables import Block, Table, open_table

__all__ = ["Outcomes", "read_outcomes", "wall_clock"]

_SERIES = ("series", "unique_id")
_DATES = ("date", "ds")
_STEPS = ("step",)
_VALUES = ("value", "y", "demand", "outcome")
_DECISIONS = ("decision", "certificate", "id")


class Outcomes(NamedTuple):
    """What came."""

    values: dict[tuple[str, Any], float]  # by (series, datetime64), (series, count) or (decision, step)
    dated: bool
    by_decision: bool
    period: str  # between dates; "any" where there are none
    notes: tuple[str, ...]


def wall_clock(period: str) -> bool:
    """Whether a day is the local one that a time names, not an instant."""
    return period in ("any", "day", "weekday", "week", "month")


def read_outcomes(path: str | Path, period: str = "any") -> Outcomes:
    """Columns: `series` (unique_id), `date` (ds) or `step`, `value` (y); or `decision`, `step`, `value`. Rows without a
    value are left out; the same place twice is refused unless the values are equal."""
    table = open_table(path)
    decision, series = _column(table, _DECISIONS), _column(table, _SERIES)
    date, step, value = _column(table, _DATES), _column(table, _STEPS), _column(table, _VALUES)
    by_decision = decision is not None and series is None
    name, time = (decision, step) if by_decision else (series, date if date is not None else step)
    if name is None or time is None or value is None:
        raise InputError(
            str(path), f"columns {', '.join(table.columns[:12])}",
            "series, date and value (or unique_id, ds, y); or series, step and value; or decision, step and value",
        )  # fmt: skip
    if period not in (*PERIODS, "any"):
        raise InputError("--period", repr(period), f"one of {', '.join(PERIODS)}")
    dated = not by_decision and time == date
    blocks = list(table.blocks([name, time, value]))
    found: dict[tuple[str, Any], float] = {}
    empty = 0
    for block in blocks:
        values, bad = block.numbers(value)
        times = _times(table, block, time, dated, period)
        for i, who in enumerate(block.texts(name)):
            place = f"{path}, {table.unit} {block.places[i]}"
            if i in bad or not who:
                raise InputError(place, repr(bad.get(i, who)), "a number, under a name")
            if np.isnan(values[i]):
                empty += 1
                continue
            if not np.isfinite(values[i]):
                raise InputError(place, f"{values[i]}", "a finite number")
            key = (who, times[i])
            if found.setdefault(key, float(values[i])) != values[i]:
                raise InputError(place, f"{who!r} at {_told(times[i])} again with another value", "one value each")
    if dated and period == "any":
        period = infer_period(np.unique(np.array([t for _, t in found], dtype="datetime64[s]")))
        if period == "any" and found:
            raise InputError("--period", "dates without one step between them", f"one of {', '.join(PERIODS)}")
    notes = (f"{empty} rows of {path} have no value.",) if empty else ()
    return Outcomes(found, dated, by_decision, period if dated else "any", notes)


def _times(table: Table, block: Block, column: str, dated: bool, period: str) -> list[Any]:
    """datetime64, or whole numbers from 1."""
    texts = block.texts(column)
    if dated:
        found = parse_dates(texts, "auto", wall_clock=wall_clock(period))
        for i in np.flatnonzero(np.isnat(found))[:1]:
            place = f"{table.path}, {table.unit} {block.places[i]}, column {column}"
            raise InputError(place, repr(texts[i]), "a date such as 2024-05-20")
        return list(found)
    numbers, bad = block.numbers(column)
    for i, number in enumerate(numbers.tolist()):
        if i in bad or not number >= 1.0 or number % 1.0 or number > 2**53:
            place = f"{table.path}, {table.unit} {block.places[i]}, column {column}"
            raise InputError(place, repr(texts[i]), "a whole number from 1")
    return [int(x) for x in numbers]


def _column(table: Table, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _told(time: Any) -> str:
    return str(time).removesuffix("T00:00:00")
