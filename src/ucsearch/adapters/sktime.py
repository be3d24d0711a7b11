"""sktime: frames of `predict_quantiles` (variable, alpha) and `predict_interval` (variable, coverage, lower/upper)."""

from __future__ import annotations

from typing import Any, Unpack

from ucsearch.adapters.base import Options, Settings, TraceSet
from ucsearch.adapters.levels import add, choose, interval_levels, level_of
from ucsearch.adapters.table import LongTable, as_ids, times_of
from ucsearch.adapters.wide import as_array
from ucsearch.errors import InputError

__all__ = ["from_sktime", "is_sktime"]

_WHAT = "sktime"
_HINT = "Use predict_quantiles(alpha=[0.1, 0.5, 0.9]) or predict_interval(coverage=[0.5, 0.9])."


def is_sktime(obj: Any) -> bool:
    return getattr(getattr(obj, "columns", None), "nlevels", 1) in (2, 3) and hasattr(obj, "to_numpy")


def from_sktime(
    frame: Any,
    *,
    variable: Any = None,
    id: str | None = None,
    model: str = "",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per series. In a panel or hierarchy the last index level is time and the others, joined by '/', are
    the id; a single series is called `id`, or by the name of its variable. `variable` picks one of several."""
    settings = Settings.of(options, _WHAT)
    if not is_sktime(frame):
        expected = "columns (variable, alpha) or (variable, coverage, lower/upper)"
        raise InputError(f"{_WHAT}.columns", type(frame).__name__, expected, hint=_HINT)
    if len(frame) == 0:
        raise InputError(_WHAT, "a frame without rows", "at least one row")
    labels = [tuple(label) for label in frame.columns]
    chosen = _variable(labels, variable)
    levels, columns, notes = choose(_levels(labels, chosen), None, settings, _WHAT, _HINT)
    positions = [labels.index(column) for column in columns]
    values = as_array(frame.iloc[:, positions].to_numpy(), _WHAT)
    rows = list(frame.index)
    nested = getattr(frame.index, "nlevels", 1) > 1
    if nested and id is not None:
        raise InputError(f"{_WHAT}.id", repr(id), "none: the index names the series")
    keys = ["/".join(str(part) for part in row[:-1]) for row in rows] if nested else [id or str(chosen)] * len(rows)
    times = times_of([row[-1] for row in rows] if nested else rows, "time", _WHAT)
    table = LongTable(_WHAT, "id", "time", as_ids(keys, "id", _WHAT), times)
    return table.quantiles(levels, tuple(str(column) for column in columns), values, model, notes, settings)


def _variable(labels: list[tuple[Any, ...]], variable: Any) -> Any:
    known = list(dict.fromkeys(label[0] for label in labels))
    if variable is None:
        if len(known) != 1:
            raise InputError(f"{_WHAT}.variable", f"variables {known}", "one of them, variable=...")
        return known[0]
    if variable not in known:
        raise InputError(f"{_WHAT}.variable", repr(variable), f"one of {known}")
    return variable


def _levels(labels: list[tuple[Any, ...]], variable: Any) -> dict[float, tuple[Any, ...]]:
    found: dict[float, tuple[Any, ...]] = {}
    for label in labels:
        if label[0] != variable:
            continue
        if len(label) == 2:
            level = level_of(label[1])
            if level is None:
                raise InputError(f"{_WHAT}.{label}", label[1], "an alpha above 0 and below 1")
        else:
            if label[2] not in ("lower", "upper"):
                raise InputError(f"{_WHAT}.{label}", label[2], "'lower' or 'upper'")
            low, high = interval_levels(float(label[1]), label, _WHAT)
            level = low if label[2] == "lower" else high
        add(found, level, label, _WHAT)
    return found
