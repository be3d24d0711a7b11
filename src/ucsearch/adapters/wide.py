"""Plain arrays: sample paths, quantiles, or mean and standard deviation, for one series or many.

An array may be anything NumPy can read, a torch tensor included; several series are one array, a list or {id: array}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ucsearch.adapters.base import (
    Blocks,
    Options,
    Settings,
    Source,
    TraceSet,
    normal_traces,
    path_traces,
    quantile_traces,
    time_text,
)
from ucsearch.errors import InputError

__all__ = ["array_source", "as_array", "as_levels", "from_wide", "path_source"]

Floats = NDArray[np.float64]
_WHAT = "wide"


def from_wide(
    values: Any,
    *,
    std: Any = None,
    levels: Sequence[float] | None = None,
    ids: Sequence[Any] | None = None,
    ds: Any = None,
    model: str = "",
    **options: Unpack[Options],
) -> TraceSet:
    """Paths (W, J, H); with `levels` (Q,) quantiles (W, H, Q); with `std` means and deviations, both (W, H).

    One series may leave W out. `ds` is the time of the first step: one for all series, or one each.
    """
    settings = Settings.of(options, _WHAT)
    if std is not None and levels is not None:
        raise InputError(f"{_WHAT}.std, {_WHAT}.levels", "both", "at most one of them")
    if isinstance(values, Mapping):
        if ids is not None:
            raise InputError(f"{_WHAT}.ids", "ids beside {id: array}", "one of the two")
        if std is not None:
            std = _in_order(std, values)
        ids, values = list(values), list(values.values())
    if std is not None:
        blocks = _normal_blocks(values, std)
    else:
        blocks = as_blocks(values, _WHAT, "(J, H) or (W, J, H)" if levels is None else "(H, Q) or (W, H, Q)")
    if levels is not None:
        p = as_levels(levels, _WHAT)
        _check_width(blocks, p.size)
        source = array_source(_WHAT, len(blocks), ids, ds, model, lambda h, q: f"step {h}, level {p[q]:g}")
        return quantile_traces(source, p, blocks, settings)
    if std is not None:
        source = array_source(_WHAT, len(blocks), ids, ds, model, lambda h, k: f"step {h}, {('mean', 'std')[k]}")
        return normal_traces(source, blocks, settings)
    return path_traces(path_source(_WHAT, len(blocks), ids, ds, model), blocks, settings)


def path_source(what: str, count: int, ids: Sequence[Any] | None, ds: Any, model: str) -> Source:
    return array_source(what, count, ids, ds, model, lambda j, h: f"member {j}, step {h}")


def array_source(
    what: str, count: int, ids: Sequence[Any] | None, ds: Any, model: str, cell: Callable[[int, int], str],
    notes: tuple[str, ...] = (),
) -> Source:  # fmt: skip
    """Ids and start times for `count` windows; without ids they are numbered."""
    names = tuple(str(i) for i in range(count)) if ids is None else tuple(str(i) for i in ids)
    if len(names) != count:
        raise InputError(f"{what}.ids", f"{len(names)} ids", f"{count}, one per series")
    for i, name in enumerate(names):
        if not name:
            raise InputError(f"{what}.ids", "an empty text", "an id", index=i)
    starts: tuple[str, ...] = ()
    if ds is not None:
        given = list(ds) if hasattr(ds, "__len__") and not isinstance(ds, str) else [ds] * count
        if len(given) != count:
            raise InputError(f"{what}.ds", f"{len(given)} times", f"1 or {count}, one per series")
        starts = tuple(time_text(t) for t in given)

    def locate(w: int, i: int, k: int) -> tuple[str, str]:
        return "values", f"series {names[w]!r}, {cell(i, k)}"

    return Source(what, names, locate, starts, (), model, notes)


def as_array(values: Any, what: str) -> Floats:
    """A float64 array; a torch tensor is brought to the CPU first (bfloat16 has no NumPy type)."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}.values", f"{type(values).__name__} ({error})", "numbers") from None


def as_blocks(values: Any, what: str, expected: str) -> Blocks:
    """(W, ., .) out of an array of two or three dimensions, or one block per element of a list of matrices."""
    if isinstance(values, list | tuple) and values and all(np.ndim(as_array(v, what)) == 2 for v in values):
        return [as_array(v, what) for v in values]
    array = as_array(values, what)
    if array.ndim not in (2, 3) or array.size == 0:
        raise InputError(f"{what}.values", f"shape {array.shape}", f"shape {expected}")
    return array[None] if array.ndim == 2 else array


def as_levels(levels: Sequence[float], what: str) -> Floats:
    p = as_array(levels, what)
    if p.ndim != 1 or p.size < 2 or not (p > 0).all() or not (p < 1).all() or not (np.diff(p) > 0).all():
        raise InputError(f"{what}.levels", p.tolist(), "two or more strictly ascending levels inside (0, 1)")
    return p


def _check_width(blocks: Blocks, width: int) -> None:
    for w, block in enumerate(blocks):
        if block.shape[1] != width:
            raise InputError(f"{_WHAT}.values", f"shape {block.shape}", f"shape (H, {width}), one per level", index=w)


def _normal_blocks(mean: Any, std: Any) -> Blocks:
    if isinstance(mean, list | tuple) and mean and all(np.ndim(as_array(m, _WHAT)) == 1 for m in mean):
        if len(std) != len(mean):
            raise InputError(f"{_WHAT}.std", f"{len(std)} series", f"{len(mean)}, as the means have")
        pairs = [(as_array(m, _WHAT), as_array(s, _WHAT)) for m, s in zip(mean, std, strict=True)]
    else:
        means, stds = as_array(mean, _WHAT), as_array(std, _WHAT)
        if means.ndim not in (1, 2) or means.size == 0:
            raise InputError(f"{_WHAT}.values", f"shape {means.shape}", "means (H,) or (W, H)")
        if stds.shape != means.shape:
            raise InputError(f"{_WHAT}.std", f"shape {stds.shape}", f"the means' shape {means.shape}")
        pairs = list(zip(np.atleast_2d(means), np.atleast_2d(stds), strict=True))
    for w, (m, s) in enumerate(pairs):
        if s.shape != m.shape:
            raise InputError(f"{_WHAT}.std", f"shape {s.shape}", f"the means' shape {m.shape}", index=w)
    return [np.stack([m, s], axis=1) for m, s in pairs]


def _in_order(std: Any, values: Mapping[Any, Any]) -> list[Any]:
    if not isinstance(std, Mapping) or set(std) != set(values):
        raise InputError(f"{_WHAT}.std", "other series", f"the same ids as the means, {list(values)[:8]}")
    return [std[name] for name in values]
