"""Chronos and AutoGluon: frames whose quantile columns are named by their level ('0.1', ...), and Chronos' arrays.

| call | shape | pass |
|---|---|---|
| `predict_df`, AutoGluon's `predict` | a frame | as it is |
| `ChronosPipeline.predict` | samples (series, samples, horizon) | as it is |
| `ChronosBoltPipeline.predict` | quantiles (series, levels, horizon) | with `levels` |
| `Chronos2Pipeline.predict` | list of quantiles (variates, levels, horizon) | with `levels` |
| `predict_quantiles` of all | pair: quantiles (series, horizon, levels), means | with `levels` |"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import Options, Settings, TraceSet, path_traces, quantile_traces
from ucsearch.adapters.levels import choose, quantile_columns
from ucsearch.adapters.table import LongTable, open_frame, read_ids, read_numbers, read_times
from ucsearch.adapters.wide import array_source, as_array, as_levels, path_source
from ucsearch.errors import InputError

__all__ = [
    "from_autogluon",
    "from_chronos",
    "from_quantile_frame",
]


Floats = NDArray[np.float64]
_WHAT = "chronos"
_LOOKS = (
    "Chronos-Bolt and Chronos-2 return quantiles: pass levels=[0.1, ..., 0.9] (and coupling). "
    "If these are samples, say so with kind='samples'."
)


def from_chronos(
    forecast: Any,
    *,
    levels: Sequence[float] | None = None,
    kind: Literal["samples", "quantiles"] | None = None,
    ids: Sequence[Any] | None = None,
    ds: Any = None,
    variate: int | None = None,
    target: str | None = None,
    id_col: str = "item_id",
    time_col: str = "timestamp",
    model: str = "",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per series. `levels`, `kind`, `ids`, `ds` and `variate` are for arrays, the rest for frames.

    `kind` says whether an array holds samples (the default without `levels`) or quantiles, `levels` at which; `variate`
    picks one of several variables. `target` picks one `target_name` of a frame that forecasts several.
    """
    settings = Settings.of(options, _WHAT)
    if hasattr(forecast, "columns") or hasattr(forecast, "column_names"):
        _refuse(levels=levels, kind=kind, ids=ids, ds=ds, variate=variate)
        return from_quantile_frame(
            forecast, _WHAT, id_col=id_col, time_col=time_col, point_col="predictions", model=model, settings=settings,
            target_col="target_name", target=target,
        )  # fmt: skip
    if kind not in (None, "samples", "quantiles"):
        raise InputError(f"{_WHAT}.kind", repr(kind), "'samples' or 'quantiles'")
    if kind == "samples" and levels is not None:
        raise InputError(f"{_WHAT}.levels", "levels for samples", "none, or kind='quantiles'")
    if isinstance(forecast, tuple) and len(forecast) == 2:
        return _quantiles(_stack(forecast[0], variate), levels, ids, ds, model, settings)
    values = _stack(forecast, variate)
    if levels is not None or kind == "quantiles":
        return _quantiles(np.swapaxes(values, 1, 2), levels, ids, ds, model, settings)
    rising = np.diff(values, axis=1)
    if kind is None and values.shape[1] >= 3 and bool((rising >= 0).all()) and bool((rising > 0).any()):
        seen = "values that rise along axis 1 in every series at every step, as quantiles do"
        raise InputError(f"{_WHAT}.values", seen, "samples", hint=_LOOKS)
    return path_traces(path_source(_WHAT, values.shape[0], ids, ds, model), values, settings)


def _quantiles(
    values: Floats, levels: Sequence[float] | None, ids: Sequence[Any] | None, ds: Any, model: str, settings: Settings
) -> TraceSet:
    if levels is None:
        hint = "Pass the quantile_levels that the forecast was made with."
        raise InputError(f"{_WHAT}.levels", "none", f"{values.shape[2]} quantile levels", hint=hint)
    p = as_levels(levels, _WHAT)
    if values.shape[2] != p.size:
        expected = f"{p.size}, as many as levels"
        raise InputError(f"{_WHAT}.values", f"{values.shape[2]} quantiles per step", expected)
    notes = (f"{_WHAT} quantile levels {', '.join(f'{x:g}' for x in p)}",)
    source = array_source(_WHAT, values.shape[0], ids, ds, model, lambda h, q: f"step {h}, level {p[q]:g}", notes)
    return quantile_traces(source, p, values, settings)


def _stack(values: Any, variate: int | None) -> Floats:
    """(series, ., .); a list of Chronos-2 has one (variates, ., .) per series, of which one variate is taken."""
    if isinstance(values, list | tuple):
        parts = [_variate(as_array(part, _WHAT), i, variate) for i, part in enumerate(values)]
        if not parts:
            raise InputError(_WHAT, "an empty list", "at least one series")
        for i, part in enumerate(parts):
            if part.shape != parts[0].shape:
                raise InputError(f"{_WHAT}.values", f"shape {part.shape}", f"shape {parts[0].shape}", index=i)
        return np.stack(parts)
    array = as_array(values, _WHAT)
    if variate is not None:
        raise InputError(f"{_WHAT}.variate", variate, "none: only lists of Chronos-2 have variates")
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.size == 0:
        raise InputError(f"{_WHAT}.values", f"shape {array.shape}", "shape (series, samples, horizon)")
    return array


def _variate(part: Floats, i: int, variate: int | None) -> Floats:
    if part.ndim == 2 and variate is None:
        return part
    if part.ndim != 3 or part.size == 0:
        raise InputError(f"{_WHAT}.values", f"shape {part.shape}", "shape (variates, levels, horizon)", index=i)
    if variate is None:
        if part.shape[0] != 1:
            raise InputError(f"{_WHAT}.values", f"{part.shape[0]} variates", "one, or variate=number", index=i)
        variate = 0
    if not 0 <= variate < part.shape[0]:
        raise InputError(f"{_WHAT}.variate", variate, f"a number from 0 to {part.shape[0] - 1}", index=i)
    return np.asarray(part[variate])


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{_WHAT}.{name}", "an option for arrays beside a frame", "none; the frame says it")


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


def from_autogluon(
    frame: Any,
    *,
    model: str = "",
    id_col: str = "item_id",
    time_col: str = "timestamp",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per item out of the columns `mean`, `0.1`, ..., `0.9`; `model` is only a name for the record."""
    settings = Settings.of(options, "autogluon")
    return from_quantile_frame(
        frame, "autogluon", id_col=id_col, time_col=time_col, point_col="mean", model=model, settings=settings
    )
