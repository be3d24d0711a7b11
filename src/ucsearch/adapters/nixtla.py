"""Frames of StatsForecast, MLForecast, NeuralForecast and TimeGPT: `unique_id, ds, <model>` and what hangs on it.

Intervals are `<model>-lo-90` and `<model>-hi-90`, quantiles `<model>-q-10` or `<model>-median`, paths of `simulate`
have a `sample_id`, and a `cutoff` of `cross_validation` makes one window per series and cutoff.
"""

from __future__ import annotations

import re
from typing import Any, Unpack

from ucsearch.adapters.base import Options, Settings, TraceSet
from ucsearch.adapters.levels import add, choose, clean, interval_levels
from ucsearch.adapters.table import LongTable, open_frame, read_ids, read_numbers, read_times
from ucsearch.errors import InputError

__all__ = ["from_nixtla"]

_WHAT = "nixtla"
_PART = re.compile(r"^(?P<model>.+)-(?:(?P<side>lo|hi)-(?P<level>\d+(?:\.\d+)?)|q-(?P<q>\d+(?:\.\d+)?)|median)$")
_HINT = "Ask the forecaster for intervals, for example forecast(..., level=[80, 95]), or for paths with simulate(...)."


def from_nixtla(
    frame: Any,
    *,
    model: str | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    cutoff_col: str = "cutoff",
    sample_col: str = "sample_id",
    target_col: str = "y",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per series (and cutoff). `model` names the column; it may be left out where there is only one.

    `cutoff_col` and `sample_col` are read where they are there (cross-validation, sample paths); `target_col`, what
    really came, is left aside.
    """
    settings = Settings.of(options, _WHAT)
    table_frame = open_frame(frame, _WHAT, (id_col,))
    names = list(table_frame.columns)
    ids, times = read_ids(table_frame, id_col, _WHAT), read_times(table_frame, time_col, _WHAT)
    cutoff = read_times(table_frame, cutoff_col, _WHAT) if cutoff_col in names else None
    table = LongTable(_WHAT, id_col, time_col, ids, times, cutoff)
    keys = {id_col, time_col, cutoff_col, sample_col, target_col}
    chosen = _pick_model(table_frame, [name for name in names if name not in keys], model)
    if sample_col in names:
        if chosen not in names:
            raise InputError(f"{_WHAT}.columns", f"no column {chosen!r} beside {sample_col}", "the model's paths")
        values = read_numbers(table_frame, [chosen], table)[:, 0]
        samples = read_ids(table_frame, sample_col, _WHAT)
        return table.paths(samples, chosen, values, chosen, (f"{_WHAT} sample paths by {sample_col}",), settings)
    levels, columns, notes = choose(
        _levels(names, chosen), chosen if chosen in names else None, settings, f"{_WHAT}.{chosen}", _HINT
    )
    values = read_numbers(table_frame, columns, table)
    return table.quantiles(levels, columns, values, chosen, notes, settings)


def _pick_model(frame: Any, names: list[str], model: str | None) -> str:
    """The model asked for, or the only one; a model is a column of numbers or the stem of its parts."""
    found: dict[str, None] = {}
    for name in names:
        part = _PART.match(name)
        if part is not None:
            found.setdefault(part["model"])
        elif frame[name].dtype.is_numeric():
            found.setdefault(name)
    if model is not None:
        if model not in found:
            raise InputError(f"{_WHAT}.model", repr(model), f"one of the models {list(found)}")
        return model
    if len(found) != 1:
        seen = f"{len(found)} models {list(found)}" if found else f"none among the columns {names}"
        hint = "Name it: model='...'." if found else ""
        raise InputError(f"{_WHAT}.model", seen, "one model", hint=hint)
    return next(iter(found))


def _levels(names: list[str], model: str) -> dict[float, str]:
    found: dict[float, str] = {}
    sides: dict[float, set[str]] = {}
    for name in names:
        part = _PART.match(name)
        if part is None or part["model"] != model:
            continue
        if part["side"]:
            coverage = clean(float(part["level"]) / 100.0)
            low, high = interval_levels(coverage, name, _WHAT)
            add(found, low if part["side"] == "lo" else high, name, _WHAT)
            sides.setdefault(coverage, set()).add(part["side"])
        else:
            level = 0.5 if part["q"] is None else clean(float(part["q"]) / 100.0)
            if not 0.0 < level < 1.0:
                raise InputError(f"{_WHAT}.{name}", f"level {level:g}", "a level above 0 and below 1")
            add(found, level, name, _WHAT)
    for coverage, seen in sides.items():
        if len(seen) == 1:
            have, missing = ("lo", "hi") if seen == {"lo"} else ("hi", "lo")
            raise InputError(f"{_WHAT}.columns", f"{model}-{have}-{coverage * 100:g} alone", f"its {missing} side too")
    return found
