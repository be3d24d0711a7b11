"""What to write under [columns] for a long file whose names nobody told us: a guess from what the columns hold.

Only ever a hint in a message. Which column is the demand is for the person who made the file to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ucsearch.pipeline.numbers import parse_dates
from ucsearch.pipeline.tables import Block, Table
from ucsearch.settings import Columns

__all__ = ["column_hint", "forecast_hint"]

_ROWS = 200  # looked at
_FEW = 12  # columns of a long file


class _Held(NamedTuple):
    """Columns by what they hold, in the file's order."""

    dates: list[str]
    texts: list[str]
    numbers: list[str]


def column_hint(table: Table, names: Columns) -> str:
    """`Say what yours are called, under [columns]: ...`, as far as it can be told; else "" ."""
    if len(table.columns) == 1:
        return "Line 1 has one column: take away what stands above the header, or separate by , ; tab or |."
    if table.unit == "line" and _is_data(table.columns):
        return "Line 1 holds data: put a line with column names above it."
    block = next(table.blocks(list(table.columns)), None)
    if block is None or not len(block):
        return ""
    known = {key: getattr(names, key) for key in ("series", "date", "demand")}
    free = [c for c in table.columns if c not in (*known.values(), names.step) and c not in names.ignore]
    held = _held(block.part(0, _ROWS), free, names)
    found: dict[str, str] = {}
    if known["series"] not in table.columns and (choice := _series(block, held)):
        found["series"] = choice
    if known["date"] not in table.columns and names.step not in table.columns and held.dates:
        found["date"] = held.dates[0]
    left = [c for c in held.numbers if c not in found.values()]
    if known["demand"] not in table.columns and left:
        found["demand"] = left[-1]
    if not found:
        return ""
    said = ", ".join(f"{key} = {json.dumps(name, ensure_ascii=False)}" for key, name in found.items())
    return f"Say what yours are called, under [columns]{'; perhaps' if len(free) > len(found) else ':'} {said}."


def forecast_hint(have: Sequence[str], names: Columns, close: list[str]) -> str:
    """What to do with forecasts in a form that is not read."""
    lower = {x.lower(): x for x in have}
    level = next((lower[x] for x in ("quantile", "level", "quantile_level") if x in lower), None)
    if level is not None:
        return f"Quantiles go side by side: a column such as {names.quantiles}0.1 for each value of {level!r}."
    sides = [lower[x] for x in ("lower", "upper", "lo", "hi", "low", "high", "yhat_lower", "yhat_upper") if x in lower]
    if len(sides) > 1:
        q = names.quantiles
        return f"Say which quantiles {' and '.join(map(repr, sides))} are: {q}0.1 and {q}0.9 for 80 %."
    keys = {names.series, names.step, names.date, names.cutoff, names.issued, names.model, *names.ignore}
    if not close and len(rest := [x for x in have if x not in keys]) == 1:
        return (
            f"{rest[0]!r} is one number a period; a decision needs to know how sure it is: members, quantiles or a std."
        )
    return " ".join(close)


def _is_data(columns: Sequence[str]) -> bool:
    """Whether a header has a date and a number among a few texts, so that it must be a row."""
    dates = sum(not np.isnat(x) for x in parse_dates(list(columns), "dmy", wall_clock=True))
    numbers = sum(bool(re.fullmatch(r"[+-]?\d+([.,]\d+)?", x)) for x in columns)
    return len(columns) <= _FEW and dates == 1 and numbers >= 1


def _held(block: Block, columns: list[str], names: Columns) -> _Held:
    held = _Held([], [], [])
    for column in columns:
        texts = [x for x in block.texts(column) if x]
        order = names.dates if names.dates != "auto" else "dmy"  # 05/06/2024 is a date whichever way it is meant
        if not texts:
            continue
        values, others = block.numbers(column)
        if np.isfinite(values).any() and not others:
            held.numbers.append(column)
        elif not np.isnat(parse_dates(texts, order, wall_clock=True)).all():
            held.dates.append(column)
        else:
            held.texts.append(column)
    return held


def _series(block: Block, held: _Held) -> str:
    """Names, or of several columns of numbers the one that comes again most (article numbers)."""
    if held.texts:
        return held.texts[0]
    if len(held.numbers) < 2:
        return ""
    return min(held.numbers, key=lambda c: len(set(block.texts(c))))
