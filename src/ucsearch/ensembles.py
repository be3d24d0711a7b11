"""Members and weights as arrays: their shapes, their shares, and an order that depends on nothing but content."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.layout import as_finite, own_row

__all__ = [
    "canonical_order",
    "check_arrays",
    "check_weights",
    "ordered_members",
    "refuse_negative",
    "shape_members",
    "tree_order",
    "uniform",
    "weighted_mean",
]

Floats = NDArray[np.float64]
_SHARES = 1e-9  # how far rounding may take a sum of shares from 1
_CHUNK = 1 << 17  # floats handled at a time: what is computed on the way stays in the processor's cache
_FEW = 1 << 14  # values of a panel for which calling NumPy takes longer than adding


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


def check_weights(weights: ArrayLike | None, count: int, size: int, normalise: bool = False) -> Floats:
    """Shares of the members, (1, J) or (W, J). Weights must sum to 1 within rounding, unless `normalise` divides them
    by their sum."""
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
    off = ~(np.abs(total[:, 0] - 1.0) <= _SHARES)
    if off.any() and not normalise:
        w = int(np.argmax(off))
        raise InputError(
            "trace.weights", f"a sum of {total[w, 0]:.9g}", "weights that sum to 1",
            index=w if array.shape[0] > 1 else None, hint="normalise=True divides them by their sum.",
        )  # fmt: skip
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
    return ordered_members(array, weights)[:2]


def ordered_members(array: Floats, weights: Floats) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """The same, and where each member stood before, (W, J)."""
    count, size, horizon, fields = array.shape
    uniform = weights.shape[0] == 1 and bool((weights == weights[0, 0]).all())
    flat = array.reshape(count, size, horizon * fields)
    width = horizon * fields + (0 if uniform else 1)
    chunk = max(1, _CHUNK // (size * width))
    out = np.empty(flat.shape)  # in C order, whatever the order of what comes in
    out_weights = weights if uniform else np.empty((count, size))
    stood = np.empty((count, size), np.int32)
    for lo in range(0, count, chunk):
        part = flat[lo : lo + chunk]
        weight = weights if weights.shape[0] == 1 else weights[lo : lo + chunk]
        keyed = part if uniform else np.concatenate([part, np.broadcast_to(weight, part.shape[:2])[..., None]], axis=2)
        order = _content_order(keyed)
        stood[lo : lo + chunk] = order
        # Whole members are moved at once; "clip" only spares a copy, all places are valid.
        rows = (order + size * np.arange(len(part))[:, None]).reshape(-1)
        np.take(
            part.reshape(-1, part.shape[2]), rows, axis=0, out=out[lo : lo + chunk].reshape(rows.size, -1), mode="clip"
        )
        if not uniform:
            out_weights[lo : lo + chunk] = np.take_along_axis(np.broadcast_to(weight, part.shape[:2]), order, axis=1)
    return out.reshape(array.shape), out_weights, stood


def _content_order(values: Floats) -> NDArray[np.int64]:
    """(W, J) places of members (W, J, n) in order of content, equal ones as they stood. Most windows are told apart by
    the first two values; only those with members equal in both are compared as a whole."""
    if values.shape[2] < 3:
        return np.argsort(_byte_keys(values), axis=1, kind="stable")
    pairs = np.empty(values.shape[:2], np.complex128)  # which NumPy sorts by real, then by imaginary part
    pairs.real, pairs.imag = values[:, :, 0], values[:, :, 1]
    order = np.argsort(pairs, axis=1, kind="stable")
    found = pairs[np.arange(len(pairs))[:, None], order]
    equal = found[:, 1:] == found[:, :-1]
    if equal.any():
        tied = np.flatnonzero(equal.any(axis=1))
        order[tied] = np.argsort(_byte_keys(values[tied]), axis=1, kind="stable")
    return order


def tree_order(array: Floats, weights: Floats, node: ArrayLike) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Members, weights and nodes (J, H) or (W, J, H) in canonical order, nodes numbered by first appearance.

    Members in one node have the same past and the same outcome; anything else is refused.
    """
    count, size, horizon, _ = array.shape
    given = np.asarray(node)
    if given.dtype.kind not in "iu" or given.shape not in ((size, horizon), (count, size, horizon)):
        raise InputError(
            "trace.node", f"{given.dtype} of shape {given.shape}", f"whole numbers of shape ({size}, {horizon})"
        )
    nodes = np.broadcast_to(given, (count, size, horizon)).astype(np.int64)
    out, out_weights, out_nodes = np.empty_like(array), np.empty((count, size)), np.empty_like(nodes)
    for w in range(count):
        own = own_row(weights, w).tolist()
        rows, names = array[w].reshape(size, -1).tolist(), nodes[w].tolist()
        _check_tree(array[w].tolist(), names)
        order = sorted(range(size), key=lambda j: (rows[j], own[j], names[j]))
        out[w], out_weights[w] = array[w, order], [own[j] for j in order]
        for h in range(horizon):
            seen: dict[int, int] = {}
            out_nodes[w, :, h] = [seen.setdefault(names[j][h], len(seen)) for j in order]
    return out, out_weights if len(set(weights.ravel().tolist())) > 1 else weights, out_nodes


def _check_tree(rows: list[list[list[float]]], names: list[list[int]]) -> None:
    for h in range(len(names[0])):
        first: dict[int, int] = {}
        for j, name in enumerate(names):
            i = first.setdefault(name[h], j)
            if h > 0 and name[h - 1] != names[i][h - 1]:
                raise InputError(
                    "trace.node", f"node {name[h]} after node {name[h - 1]}",
                    f"after node {names[i][h - 1]}, as for member {i}: a node has one past", index=(j, h),
                )  # fmt: skip
            if rows[j][h] != rows[i][h]:
                raise InputError(
                    "trace.node", f"outcome {rows[j][h]} in node {name[h]}",
                    f"{rows[i][h]}, as for member {i}: members in one node have equal outcomes", index=(j, h),
                )  # fmt: skip


def _byte_keys(values: Floats) -> NDArray[np.bytes_]:
    """(W, J, n) floats as (W, J) byte strings whose order is the order of the floats."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    negative = (bits >> np.uint64(63)).astype(bool)
    flipped = np.where(negative, ~bits, bits | np.uint64(1 << 63)).astype(">u8")
    return flipped.view(f"S{8 * values.shape[2]}")[..., 0]


def weighted_mean(array: Floats, weights: Floats) -> Floats:
    """Sequential in member order and shifted by the first member: equal members give that value exactly."""
    out = np.empty((array.shape[0], *array.shape[2:]))
    chunk = max(1, _CHUNK // max(1, array[0].size))
    for lo in range(0, len(array), chunk):
        part = array[lo : lo + chunk]
        own = weights if weights.shape[0] == 1 else weights[lo : lo + chunk]
        first = part[:, 0]
        if part.shape[1] > 1 and part.size <= _FEW:  # the same additions, without a call for each member
            shifts = own[:, 1:, None, None] * (part[:, 1:] - first[:, None])
            shift = np.add.accumulate(shifts, axis=1)[:, -1] + 0.0
        else:
            shift = np.zeros(first.shape)
            for j in range(1, part.shape[1]):
                shift += own[:, j][:, None, None] * (part[:, j] - first)
        out[lo : lo + chunk] = first + shift
    return out


def refuse_negative(array: Floats, name: str) -> None:
    bad = ~(array >= 0)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(name, float(array[index]), "at least 0", index=index)


def check_arrays(members: Floats, weights: Floats, mean: Floats, q: Floats, u: Floats) -> int:
    """Refuse arrays that are no trace: shapes, shares, order and mean follow from the members. Returns the windows."""
    shapes = [a.shape for a in (members, weights, mean, q, u)]
    if [len(s) for s in shapes] != [4, 2, 3, 3, 3]:
        expected = "shapes (W, J, H, F), (W or 1, J), (W, H, F), (W, H, m) and (W, H, m)"
        raise InputError("trace", f"shapes {shapes}", expected)
    (count, size, horizon, fields), width = members.shape, q.shape[2]
    if min(count, horizon, fields) < 1 or (size > 0) == (width > 0):
        raise InputError("trace", f"shapes {shapes}", "at least one window and step, and either members or scores")
    wanted = [(count, horizon, fields), (count, horizon, width), (count, horizon, width)]
    if shapes[2:] != wanted or weights.shape[1] != size or weights.shape[0] not in (1, count):
        raise InputError("trace", f"shapes {shapes}", "members, weights, mean, q and u of one size")
    if width:
        as_finite(q, "trace.q")
        refuse_negative(as_finite(u, "trace.u"), "trace.u")
        if not np.isnan(mean).all():
            as_finite(mean, "trace.mean")
        return int(count)
    as_finite(members, "trace.members")
    if not (as_finite(weights, "trace.weights") > 0).all():
        raise InputError("trace.weights", float(weights.min()), "positive weights")
    off = np.abs(weights.sum(axis=1) - 1.0)
    if not (off <= _SHARES).all():
        w = int(np.argmax(off))
        raise InputError("trace.weights", f"a sum of {weights[w].sum():.9g}", "shares that sum to 1", index=w)
    ordered, along = canonical_order(members, weights)
    if ordered.tobytes() != members.tobytes() or along.tobytes() != np.broadcast_to(weights, along.shape).tobytes():
        raise InputError("trace.members", "another order", "members sorted by content", hint="Use Trace.from_members.")
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.argwhere(~(weighted_mean(members, weights) == mean))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise InputError("trace.mean", float(mean[index]), "the weighted mean of the members", index=index)
    return int(count)
