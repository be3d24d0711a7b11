"""The front door: recognise what was handed over by its attributes and columns, and call the right adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ucsearch.adapters.base import TraceSet
from ucsearch.adapters.chronos import from_autogluon, from_chronos
from ucsearch.adapters.darts import from_darts, is_darts
from ucsearch.adapters.gluonts import from_gluonts, is_gluonts
from ucsearch.adapters.levels import quantile_columns
from ucsearch.adapters.nixtla import from_nixtla
from ucsearch.adapters.sktime import from_sktime, is_sktime
from ucsearch.adapters.wide import from_wide
from ucsearch.errors import InputError

__all__ = ["recognise", "to_traces"]

_ADAPTERS: dict[str, Callable[..., TraceSet]] = {
    "nixtla": from_nixtla,
    "chronos": from_chronos,
    "gluonts": from_gluonts,
    "darts": from_darts,
    "sktime": from_sktime,
    "autogluon": from_autogluon,
    "wide": from_wide,
}


def to_traces(obj: Any, *, source: str | None = None, **options: Any) -> TraceSet:
    """Traces out of any supported forecast. `source` names the library where its looks do not tell."""
    if source is not None and source not in _ADAPTERS:
        raise InputError("source", repr(source), f"one of {list(_ADAPTERS)}")
    if isinstance(obj, Iterator):  # what a GluonTS predictor yields
        obj = list(obj)
    return _ADAPTERS[recognise(obj, options) if source is None else source](obj, **options)


def recognise(obj: Any, options: Mapping[str, Any] | None = None) -> str:
    """The name of the adapter for `obj`."""
    options = options or {}
    first = obj
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if is_gluonts(first):
        return "gluonts"
    if is_darts(first):
        return "darts"
    if is_sktime(obj):
        return "sktime"
    if _is_frame(obj):
        return _recognise_frame(obj, options)
    if hasattr(first, "detach"):
        return "chronos"
    if isinstance(obj, Mapping | list | tuple) or hasattr(obj, "__array__"):
        return "wide"
    raise InputError(
        "forecast", f"a {type(obj).__name__}",
        "a frame, a GluonTS forecast, a Darts TimeSeries, or arrays",
        hint=f"Or name it with source, one of {list(_ADAPTERS)}.",
    )  # fmt: skip


def _is_frame(obj: Any) -> bool:
    return (hasattr(obj, "columns") and hasattr(obj, "__getitem__")) or hasattr(obj, "column_names")


def _recognise_frame(obj: Any, options: Mapping[str, Any]) -> str:
    # An Arrow table has its data under `columns` and their names under `column_names`.
    names = [str(name) for name in getattr(obj, "column_names", None) or obj.columns]
    names += [str(name) for name in getattr(getattr(obj, "index", None), "names", None) or [] if name is not None]
    id_col, time_col = options.get("id_col"), options.get("time_col")
    if (id_col or "unique_id") in names and (time_col or "ds") in names and not quantile_columns(names, "forecast"):
        return "nixtla"
    if (id_col or "item_id") in names and (time_col or "timestamp") in names:
        return "autogluon" if "mean" in names and "predictions" not in names else "chronos"
    raise InputError(
        "forecast.columns", names, "unique_id and ds (Nixtla), or item_id and timestamp (Chronos, AutoGluon)",
        hint="Name the library with source='...' and its columns with id_col and time_col.",
    )  # fmt: skip
