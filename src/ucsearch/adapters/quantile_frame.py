"""Long frames whose quantile columns are named by their level ('0.1', '0.5', ...): Chronos and AutoGluon."""

from __future__ import annotations

from typing import Any

import numpy as np

from ucsearch.adapters.base import Settings, TraceSet
from ucsearch.adapters.levels import choose, quantile_columns
from ucsearch.adapters.table import LongTable, open_frame, read_ids, read_numbers, read_times
from ucsearch.errors import InputError

__all__ = ["from_quantile_frame"]

_HINT = "Ask the forecaster for several quantile_levels."


def from_quantile_frame(
    frame: Any,
    what: str,
    *,
    id_col: str,
    time_col: str,
    point_col: str,
    model: str,
    settings: Settings,
    target_col: str | None = None,
    target: str | None = None,
) -> TraceSet:
    """One trace per series. A frame with several targets (`target_col`) needs one of them named."""
    opened = open_frame(frame, what, (id_col, time_col))
    names = list(opened.columns)
    ids, times = read_ids(opened, id_col, what), read_times(opened, time_col, what)
    notes: tuple[str, ...] = ()
    keep = np.ones(len(ids), dtype=bool)
    if target_col is not None and target_col in names:
        targets = read_ids(opened, target_col, what)
        distinct = list(dict.fromkeys(targets.tolist()))
        if target is None and len(distinct) > 1:
            hint = "Name it: target='...'."
            raise InputError(f"{what}.{target_col}", f"{len(distinct)} targets {distinct}", "one target", hint=hint)
        if target is not None and target not in distinct:
            raise InputError(f"{what}.target", repr(target), f"one of the targets {distinct}")
        notes = (f"target {target or distinct[0]}",)
        keep = targets == (target or distinct[0])
    elif target is not None:
        raise InputError(f"{what}.columns", f"no column {target_col!r}", f"it, to find target {target!r}")
    table = LongTable(what, id_col, time_col, ids, times)
    point = point_col if point_col in names else None
    levels, columns, told = choose(quantile_columns(names, what), point, settings, what, _HINT)
    values = read_numbers(opened, columns, table)
    if not keep.all():
        table, values = table.only(keep), values[keep]
    return table.quantiles(levels, columns, values, model, (*notes, *told), settings)
