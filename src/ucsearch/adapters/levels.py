"""Which columns are quantiles, at which level, and whether the point forecast stands in for the median."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import Settings
from ucsearch.errors import InputError

__all__ = ["Chosen", "choose", "interval_levels", "level_of", "quantile_columns"]

Chosen = tuple[NDArray[np.float64], tuple[Any, ...], tuple[str, ...]]  # levels (Q,), their columns, notes


def clean(level: float) -> float:
    """0.05 rather than 0.04999999999999999, so that equal levels compare equal."""
    return round(level, 12)


def level_of(name: object) -> float | None:
    """The level that a column name such as '0.1' or 0.1 is, else None."""
    if isinstance(name, bool) or not isinstance(name, str | int | float):
        return None
    try:
        level = float(name)
    except ValueError:
        return None
    return clean(level) if 0.0 < level < 1.0 else None


def quantile_columns(names: list[Any], what: str) -> dict[float, Any]:
    """Columns whose name is a level, by level."""
    found: dict[float, Any] = {}
    for name in names:
        level = level_of(name)
        if level is not None:
            add(found, level, name, what)
    return found


def add(found: dict[float, Any], level: float, name: Any, what: str) -> None:
    if level in found:
        raise InputError(f"{what}.{name}", f"level {level:g} again", f"one column per level; {found[level]} is one")
    found[level] = name


def interval_levels(coverage: float, column: object, what: str) -> tuple[float, float]:
    """The two quantile levels of a central interval with `coverage` inside (0, 1)."""
    if not 0.0 < coverage < 1.0:
        raise InputError(f"{what}.{column}", f"coverage {coverage:g}", "a coverage above 0 and below 1")
    return clean((1.0 - coverage) / 2.0), clean((1.0 + coverage) / 2.0)


def choose(found: Mapping[float, Any], point: Any, settings: Settings, what: str, hint: str) -> Chosen:
    """Levels in order. Without a level 0.5 the point forecast stands in for it, unless told to ignore it."""
    columns = dict(found)
    notes: tuple[str, ...] = ()
    if columns and 0.5 not in columns and point is not None and settings.point == "median":
        columns[0.5] = point
        notes = (f"point forecast {point} taken as the median",)
    if len(columns) < 2:
        seen = f"only level {next(iter(columns)):g}" if columns else "no quantiles, intervals or samples"
        raise InputError(f"{what}.columns", seen, "at least two quantile levels", hint=hint)
    order = sorted(columns)
    names = tuple(columns[p] for p in order)
    told = ", ".join(f"{name}: {p:g}" for p, name in zip(order, names, strict=True))
    return np.array(order), names, (f"{what} quantile levels {told}", *notes)
