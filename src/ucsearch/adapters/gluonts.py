"""GluonTS: `SampleForecast` and `QuantileForecast`, one or the list that a predictor yields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import Options, Settings, Source, TraceSet, path_traces, quantile_traces, time_text
from ucsearch.adapters.levels import choose, quantile_columns
from ucsearch.adapters.wide import as_array
from ucsearch.errors import InputError

__all__ = ["from_gluonts", "is_gluonts"]

Floats = NDArray[np.float64]
_WHAT = "gluonts"


def is_gluonts(obj: Any) -> bool:
    return hasattr(obj, "start_date") and (hasattr(obj, "samples") or hasattr(obj, "forecast_keys"))


def from_gluonts(
    forecasts: Any,
    *,
    ids: Sequence[Any] | None = None,
    component: int | None = None,
    model: str = "",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per forecast. `ids` where `item_id` is not set; `component` of multivariate samples."""
    settings = Settings.of(options, _WHAT)
    items = [forecasts] if is_gluonts(forecasts) else _listed(forecasts)
    for i, item in enumerate(items):
        if not is_gluonts(item):
            raise InputError(_WHAT, type(item).__name__, "a SampleForecast or a QuantileForecast", index=i)
    names = _ids(items, ids)
    starts = tuple(_start(item) for item in items)
    if all(hasattr(item, "samples") for item in items):
        paths = [_samples(item, i, component) for i, item in enumerate(items)]
        source = Source(
            _WHAT, names, lambda w, j, h: ("samples", f"series {names[w]!r}, sample {j}, step {h}"), starts,
            model=model, notes=(f"{_WHAT} samples",),
        )  # fmt: skip
        return path_traces(source, paths, settings)
    for i, item in enumerate(items):
        if hasattr(item, "samples") or list(item.forecast_keys) != list(items[0].forecast_keys):
            seen = "samples" if hasattr(item, "samples") else f"quantiles {list(item.forecast_keys)}"
            raise InputError(_WHAT, seen, "the same kind and levels in all forecasts", index=i)
    keys = [str(key) for key in items[0].forecast_keys]
    point = "mean" if "mean" in keys else None
    levels, columns, notes = choose(quantile_columns(list(keys), _WHAT), point, settings, _WHAT, "")
    rows = [keys.index(column) for column in columns]
    blocks = [_quantiles(item, i, len(keys))[rows].T for i, item in enumerate(items)]
    source = Source(
        _WHAT, names, lambda w, h, q: (columns[q], f"series {names[w]!r}, step {h}"), starts, model=model, notes=notes
    )
    return quantile_traces(source, levels, blocks, settings)


def _listed(forecasts: Any) -> list[Any]:
    if not isinstance(forecasts, Iterable):
        raise InputError(_WHAT, type(forecasts).__name__, "a forecast or several")
    items = list(forecasts)
    if not items:
        raise InputError(_WHAT, "no forecasts", "at least one")
    return items


def _ids(items: list[Any], ids: Sequence[Any] | None) -> tuple[str, ...]:
    if ids is not None:
        if len(ids) != len(items):
            raise InputError(f"{_WHAT}.ids", f"{len(ids)} ids", f"{len(items)}, one per forecast")
        return tuple(str(i) for i in ids)
    for i, item in enumerate(items):
        if getattr(item, "item_id", None) in (None, ""):
            raise InputError(f"{_WHAT}.item_id", "none", "an item_id, or ids=[...]", index=i)
    return tuple(str(item.item_id) for item in items)


def _start(item: Any) -> str:
    """The first step's period as the time at which it begins, like the times of frames."""
    return time_text(getattr(item.start_date, "start_time", item.start_date))


def _samples(item: Any, i: int, component: int | None) -> Floats:
    array = as_array(item.samples, f"{_WHAT}[{i}]")
    if array.ndim == 3:
        if component is None or not 0 <= component < array.shape[2]:
            expected = f"component=0 to {array.shape[2] - 1} of the multivariate forecast"
            raise InputError(f"{_WHAT}.component", component, expected, index=i)
        return array[:, :, component]
    if array.ndim != 2 or component is not None:
        seen = f"shape {array.shape}" + ("" if component is None else f" and component={component}")
        raise InputError(f"{_WHAT}.samples", seen, "shape (samples, horizon)", index=i)
    return array


def _quantiles(item: Any, i: int, count: int) -> Floats:
    array = as_array(item.forecast_array, f"{_WHAT}[{i}]")
    if array.ndim != 2 or array.shape[0] != count:
        raise InputError(f"{_WHAT}.forecast_array", f"shape {array.shape}", f"shape ({count}, horizon)", index=i)
    return array
