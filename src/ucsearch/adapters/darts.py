"""Darts: probabilistic `TimeSeries`, by samples or by quantile components (`sales_q0.10`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import Options, Settings, Source, TraceSet, path_traces, quantile_traces, time_text
from ucsearch.adapters.levels import add, choose, level_of
from ucsearch.adapters.wide import as_array
from ucsearch.errors import InputError

__all__ = ["from_darts", "is_darts"]

Floats = NDArray[np.float64]
_WHAT = "darts"
_QUANTILE = re.compile(r"^(?P<stem>.+)_q(?P<level>[01]?\.\d+)$")
_HINT = "Predict with num_samples=100, or with predict_likelihood_parameters=True and a quantile likelihood."


def is_darts(obj: Any) -> bool:
    return hasattr(obj, "all_values") and hasattr(obj, "components")


def from_darts(
    series: Any,
    *,
    component: str | None = None,
    ids: Sequence[Any] | None = None,
    model: str = "",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per `TimeSeries`; `component` where there are several. Darts has no ids: one series goes by its
    component's name, several are numbered, unless `ids` are given."""
    settings = Settings.of(options, _WHAT)
    items = [series] if is_darts(series) else list(series)
    if not items:
        raise InputError(_WHAT, "no series", "at least one")
    for i, item in enumerate(items):
        if not is_darts(item):
            raise InputError(_WHAT, type(item).__name__, "a TimeSeries", index=i)
    values = [_values(item, i) for i, item in enumerate(items)]
    stems = [_stems(item) for item in items]
    stem = _component(stems, component)
    if ids is None:
        names = (stem,) if len(items) == 1 else tuple(str(i) for i in range(len(items)))
    else:
        names = tuple(str(i) for i in ids)
        if len(names) != len(items):
            raise InputError(f"{_WHAT}.ids", f"{len(names)} ids", f"{len(items)}, one per series")
    starts = tuple(time_text(item.start_time()) for item in items)
    if all(array.shape[2] > 1 for array in values):
        paths = [array[:, _names(item).index(stem), :].T for item, array in zip(items, values, strict=True)]
        source = Source(
            _WHAT, names, lambda w, j, h: (stem, f"series {names[w]!r}, sample {j}, step {h}"), starts,
            model=model, notes=(f"{_WHAT} samples of {stem}",),
        )  # fmt: skip
        return path_traces(source, paths, settings)
    for i, array in enumerate(values):
        if array.shape[2] > 1 or stems[i][stem] != stems[0][stem]:
            seen = "samples" if array.shape[2] > 1 else f"components {stems[i][stem]}"
            raise InputError(_WHAT, seen, f"the kind of the first series, {stems[0][stem] or stem}", index=i)
    levels, columns, notes = choose(stems[0][stem], None, settings, _WHAT, _HINT)
    blocks = [
        array[:, [_names(item).index(column) for column in columns], 0]
        for item, array in zip(items, values, strict=True)
    ]
    source = Source(
        _WHAT, names, lambda w, h, q: (columns[q], f"series {names[w]!r}, step {h}"), starts, model=model, notes=notes
    )
    return quantile_traces(source, levels, blocks, settings)


def _names(item: Any) -> list[str]:
    return [str(name) for name in item.components]


def _values(item: Any, i: int) -> Floats:
    array = as_array(item.all_values(), f"{_WHAT}[{i}]")
    if array.ndim != 3 or array.shape[1] != len(_names(item)):
        expected = f"shape (time, {len(_names(item))} components, samples)"
        raise InputError(f"{_WHAT}.all_values", f"shape {array.shape}", expected, index=i)
    return array


def _stems(item: Any) -> dict[str, dict[float, str]]:
    """Components, and under each the quantile components that belong to it."""
    found: dict[str, dict[float, str]] = {}
    for name in _names(item):
        part = _QUANTILE.match(name)
        level = level_of(part["level"]) if part is not None else None
        if part is None or level is None:
            found.setdefault(name, {})
        else:
            add(found.setdefault(part["stem"], {}), level, name, _WHAT)
    return found


def _component(stems: list[dict[str, dict[float, str]]], component: str | None) -> str:
    if component is None:
        if len(stems[0]) != 1:
            raise InputError(f"{_WHAT}.component", f"components {list(stems[0])}", "one of them, component='...'")
        component = next(iter(stems[0]))
    for i, found in enumerate(stems):
        if component not in found:
            raise InputError(f"{_WHAT}.component", repr(component), f"one of {list(found)}", index=i)
    return component
