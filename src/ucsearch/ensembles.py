"""Members and weights as arrays: their shapes, their shares, and an order that depends on nothing but content."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.layout import as_finite

__all__ = ["canonical_order", "check_weights", "refuse_negative", "shape_members", "uniform", "weighted_mean"]

Floats = NDArray[np.float64]
_SORT_CHUNK = 1 << 22  # floats sorted at a time; bounds the memory of the sort keys


def shape_members(array: Floats, fields: int | None) -> tuple[Floats, bool]:
    """To (W, J, H, F). Three dimensions are a panel (W, J, H) unless `fields` says (J, H, F)."""
    if fields is not None and (array.ndim not in (3, 4) or array.shape[-1] != fields):
        raise InputError("trace.members", f"shape {array.shape}", f"shape (J, H, {fields}) or (W, J, H, {fields})")
    if array.size == 0 or array.ndim not in (2, 3, 4):
        raise InputError("trace.members", f"shape {array.shape}", "shape (J, H), (W, J, H) or, with fields, one more")
    if array.ndim == 2:
        return array[None, :, :, None], False
    if array.ndim == 3:
        return (array[None], False) if fields is not None else (array[..., None], True)
    return array, True


def check_weights(weights: ArrayLike | None, count: int, size: int) -> Floats:
    if weights is None:
        return uniform(size)
    given = as_finite(weights, "trace.weights")
    array = np.atleast_2d(given)
    if array.ndim != 2 or array.shape[1] != size or array.shape[0] not in (1, count):
        raise InputError("trace.weights", f"shape {np.shape(weights)}", f"shape ({size},) or ({count}, {size})")
    if not (given > 0).all():
        index = tuple(int(i) for i in np.argwhere(~(given > 0))[0])
        raise InputError("trace.weights", float(given[index]), "a positive weight", index=index)
    total = np.array([[_plain_sum(row)] for row in np.sort(array, axis=1).tolist()])
    if not np.isfinite(total).all() or not bool((array / total > 0).all()):
        raise InputError("trace.weights", "weights so uneven or large that shares vanish", "comparable weights")
    shares: Floats = array / total
    return shares


def uniform(size: int) -> Floats:
    return np.full((1, size), 1.0 / size)


def _plain_sum(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def canonical_order(array: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Members sorted by content, window by window, weights along with them."""
    count, size, horizon, fields = array.shape
    uniform = weights.shape[0] == 1 and bool((weights == weights[0, 0]).all())
    flat = array.reshape(count, size, horizon * fields)
    width = horizon * fields + (0 if uniform else 1)
    chunk = max(1, _SORT_CHUNK // (size * width))
    out = np.empty_like(flat)
    out_weights = weights if uniform else np.empty((count, size))
    for lo in range(0, count, chunk):
        part = flat[lo : lo + chunk]
        weight = weights if weights.shape[0] == 1 else weights[lo : lo + chunk]
        keyed = part if uniform else np.concatenate(
            [part, np.broadcast_to(weight, part.shape[:2])[..., None]], axis=2
        )  # fmt: skip
        order = np.argsort(_byte_keys(keyed), axis=1, kind="stable")
        out[lo : lo + chunk] = np.take_along_axis(part, order[..., None], axis=1)
        if not uniform:
            out_weights[lo : lo + chunk] = np.take_along_axis(np.broadcast_to(weight, part.shape[:2]), order, axis=1)
    return out.reshape(array.shape), out_weights


def _byte_keys(values: Floats) -> NDArray[np.bytes_]:
    """(W, J, n) floats as (W, J) byte strings whose order is the order of the floats."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    negative = (bits >> np.uint64(63)).astype(bool)
    flipped = np.where(negative, ~bits, bits | np.uint64(1 << 63)).astype(">u8")
    return flipped.view(f"S{8 * values.shape[2]}")[..., 0]


def weighted_mean(array: Floats, weights: Floats) -> Floats:
    """Sequential in member order and shifted by the first member: equal members give that value exactly."""
    first = array[:, 0]
    shift = np.zeros_like(first)
    for j in range(1, array.shape[1]):
        shift += weights[:, j][:, None, None] * (array[:, j] - first)
    return first + shift


def refuse_negative(array: Floats, name: str) -> None:
    bad = ~(array >= 0)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(name, float(array[index]), "at least 0", index=index)
