"""Members and weights as arrays: their shapes, their shares, and an order that depends on nothing but content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.layout import as_finite, own_row, own_rows

__all__ = [
    "ARRAYS",
    "byte_keys",
    "check_arrays",
    "check_pmf",
    "check_weights",
    "distribution_members",
    "expanded",
    "freeze",
    "freeze_nodes",
    "interpolate",
    "levels",
    "member_arrays",
    "normal_members",
    "normal_points",
    "normal_quantile",
    "ordered_members",
    "plain_sum",
    "pmf_quantile",
    "quantile_members",
    "refuse_negative",
    "score_arrays",
    "shape_members",
    "tree_order",
    "uniform",
    "weighted_mean",
]


Floats = NDArray[np.float64]
ARRAYS = ("members", "weights", "mean", "q", "u")  # of a trace
_SHARES = 1e-9  # how far rounding may take a sum of shares from 1
_CHUNK = 1 << 17  # floats handled at a time: what is computed on the way stays in the processor's cache
_FEW = 1 << 14  # values of a panel for which calling NumPy takes longer than adding


def freeze(array: Floats) -> Floats:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def freeze_nodes(node: Any) -> NDArray[np.int64]:
    nodes = np.array(node, dtype=np.int64)
    nodes.flags.writeable = False
    return nodes


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
    shares = as_finite(weights, "trace.weights")
    array = np.atleast_2d(shares)
    if array.ndim != 2 or array.shape[1] != size or array.shape[0] not in (1, count):
        raise InputError("trace.weights", f"shape {np.shape(weights)}", f"shape ({size},) or ({count}, {size})")
    if not (shares > 0).all():
        index = tuple(int(i) for i in np.argwhere(~(shares > 0))[0])
        raise InputError("trace.weights", float(shares[index]), "a positive weight", index=index)
    total = np.array([[plain_sum(row)] for row in np.sort(array, axis=1).tolist()])
    if not np.isfinite(total).all() or not bool((array / total > 0).all()):
        raise InputError("trace.weights", "weights so uneven or large that shares vanish", "comparable weights")
    off = ~(np.abs(total[:, 0] - 1.0) <= _SHARES)
    if off.any() and not normalise:
        w = int(np.argmax(off))
        raise InputError(
            "trace.weights", f"a sum of {total[w, 0]:.12g}", "weights that sum to 1",
            index=w if array.shape[0] > 1 else None, hint="normalise=True divides them by their sum.",
        )  # fmt: skip
    normalised: Floats = array / total
    return normalised


def uniform(size: int) -> Floats:
    return np.full((1, size), 1.0 / size)


def plain_sum(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def ordered_members(array: Floats, weights: Floats) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Members sorted by content, window by window, weights along with them; third, where each member stood, (W, J)."""
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
        weight = own_rows(weights, slice(lo, lo + chunk))
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
        return np.argsort(byte_keys(values), axis=1, kind="stable")
    pairs = np.empty(values.shape[:2], np.complex128)  # which NumPy sorts by real, then by imaginary part
    pairs.real, pairs.imag = values[:, :, 0], values[:, :, 1]
    order = np.argsort(pairs, axis=1, kind="stable")
    ascending = pairs[np.arange(len(pairs))[:, None], order]
    equal = ascending[:, 1:] == ascending[:, :-1]
    if equal.any():
        tied = np.flatnonzero(equal.any(axis=1))
        order[tied] = np.argsort(byte_keys(values[tied]), axis=1, kind="stable")
    return order


def tree_order(array: Floats, weights: Floats, node: ArrayLike) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Members, weights and nodes (J, H) or (W, J, H) in canonical order, nodes numbered by first appearance.

    Members in one node have the same past and the same outcome; anything else is refused.
    """
    count, size, horizon, _ = array.shape
    numbers = np.asarray(node)
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((size, horizon), (count, size, horizon)):
        raise InputError(
            "trace.node", f"{numbers.dtype} of shape {numbers.shape}", f"whole numbers of shape ({size}, {horizon})"
        )
    nodes = np.broadcast_to(numbers, (count, size, horizon)).astype(np.int64)
    out, out_weights, out_nodes = np.empty_like(array), np.empty((count, size)), np.empty_like(nodes)
    for w in range(count):
        shares = own_row(weights, w).tolist()
        rows, names = array[w].reshape(size, -1).tolist(), nodes[w].tolist()
        _check_tree(array[w].tolist(), names)
        order = sorted(range(size), key=lambda j: (rows[j], shares[j], names[j]))
        out[w], out_weights[w] = array[w, order], [shares[j] for j in order]
        for h in range(horizon):
            numbering: dict[int, int] = {}
            out_nodes[w, :, h] = [numbering.setdefault(names[j][h], len(numbering)) for j in order]
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


def byte_keys(values: Floats) -> NDArray[np.bytes_]:
    """(..., n) floats as (...) byte strings whose order is the order of the floats."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    negative = (bits >> np.uint64(63)).astype(bool)
    flipped = np.where(negative, ~bits, bits | np.uint64(1 << 63)).astype(">u8")
    return flipped.view(f"S{8 * values.shape[-1]}")[..., 0]


def weighted_mean(array: Floats, weights: Floats) -> Floats:
    """Sequential in member order and shifted by the first member: equal members give that value exactly."""
    out = np.empty((array.shape[0], *array.shape[2:]))
    chunk = max(1, _CHUNK // max(1, array[0].size))
    for lo in range(0, len(array), chunk):
        part = array[lo : lo + chunk]
        shares = own_rows(weights, slice(lo, lo + chunk))
        first = part[:, 0]
        if part.shape[1] > 1 and part.size <= _FEW:  # the same additions, without a call for each member
            shifts = shares[:, 1:, None, None] * (part[:, 1:] - first[:, None])
            shift = np.add.accumulate(shifts, axis=1)[:, -1] + 0.0
        else:
            shift = np.zeros(first.shape)
            for j in range(1, part.shape[1]):
                shift += shares[:, j][:, None, None] * (part[:, j] - first)
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
    expected_shapes = [(count, horizon, fields), (count, horizon, width), (count, horizon, width)]
    if shapes[2:] != expected_shapes or weights.shape[1] != size or weights.shape[0] not in (1, count):
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
        raise InputError("trace.weights", f"a sum of {weights[w].sum():.12g}", "shares that sum to 1", index=w)
    ordered, along, _ = ordered_members(members, weights)
    if ordered.tobytes() != members.tobytes() or along.tobytes() != np.broadcast_to(weights, along.shape).tobytes():
        raise InputError("trace.members", "another order", "members sorted by content", hint="Use Trace.from_members.")
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = np.argwhere(~(weighted_mean(members, weights) == mean))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise InputError("trace.mean", float(mean[index]), "the weighted mean of the members", index=index)
    return int(count)


_MAX_POINTS = 1 << 20


def levels(points: int, horizon: int, method: str, rng: np.random.Generator | None) -> Floats:
    """(J, H) levels inside (0, 1), each column equally likely: the mid-point grid, Sobol points or random draws."""
    if not isinstance(points, int) or not 1 <= points <= _MAX_POINTS:
        raise InputError("trace.points", points, f"a whole number from 1 to {_MAX_POINTS}")
    if method == "grid":
        return np.repeat(((np.arange(points) + 0.5) / points)[:, None], horizon, axis=1)
    if method not in ("sobol", "sampled"):
        raise InputError("trace.method", repr(method), "'grid', 'sobol' or 'sampled'")
    if not isinstance(rng, np.random.Generator):
        raise InputError(
            "trace.rng", repr(rng), f"a numpy Generator for method={method!r}",
            hint="Pass rng=np.random.default_rng(seed).",
        )  # fmt: skip
    if method == "sampled":
        draws = rng.random((points, horizon))
        return np.maximum(draws, 2.0**-54)  # random() may be 0, which has no finite quantile
    return _sobol(points, horizon, rng)


def _sobol(points: int, horizon: int, rng: np.random.Generator) -> Floats:
    try:
        from scipy.stats import qmc
    except ImportError:
        raise InputError(
            "trace.method", "'sobol' without scipy", "scipy to be installed", hint="pip install scipy"
        ) from None
    import inspect
    import warnings

    # scipy renamed the seed argument; the stream is the same.
    name = "rng" if "rng" in inspect.signature(qmc.Sobol).parameters else "seed"
    engine: Any = qmc.Sobol(horizon, scramble=True, **{name: rng})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sizes other than powers of two are allowed here
        draws = engine.random(points)
    inside: Floats = np.clip(draws, 2.0**-54, 1.0 - 2.0**-53)
    return inside


def normal_points(points: int) -> Floats:
    """Mid-point quantiles of the standard normal, scaled to unit variance so that the deviation is kept."""
    if not isinstance(points, int) or not 1 <= points <= 1024:
        raise InputError("trace.points", points, "a whole number from 1 to 1024")
    z = normal_quantile((np.arange(points) + 0.5) / points)
    size = float(np.sqrt(np.mean(z * z)))
    return z / size if size > 0 else z


def normal_quantile(level: Floats) -> Floats:
    inverse = NormalDist().inv_cdf
    unique, back = np.unique(level, return_inverse=True)
    return np.array([inverse(float(p)) for p in unique])[back].reshape(level.shape)


def check_pmf(values: ArrayLike, probabilities: ArrayLike) -> tuple[Floats, Floats]:
    """Values (K,) or (K, F) and probabilities (K,) with zero-probability values left out; the sum must be 1."""
    value = as_finite(values, "trace.pmf.values")
    weight = as_finite(probabilities, "trace.pmf.probabilities")
    if value.ndim not in (1, 2) or value.shape[:1] != weight.shape or value.size == 0:
        raise InputError("trace.pmf", f"shapes {value.shape} and {weight.shape}", "two equally long lists")
    bad = ~(weight >= 0)
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError("trace.pmf.probabilities", float(weight[i]), "at least 0", index=i)
    total = float(weight.sum())
    if not abs(total - 1.0) <= 1e-9:
        raise InputError("trace.pmf.probabilities", f"a sum of {total!r}", "a sum of 1")
    keep = weight > 0
    return value[keep], weight[keep] / total


def pmf_quantile(values: Floats, probabilities: Floats) -> Callable[[float, int], float]:
    order = np.argsort(values, kind="stable")
    sorted_values, cumulative = values[order], np.cumsum(probabilities[order])

    def quantile(level: float, step: int) -> float:
        at = int(np.searchsorted(cumulative, level, side="left"))
        return float(sorted_values[min(at, sorted_values.size - 1)])

    return quantile


def interpolate(p: Floats, table: Floats, level: Floats) -> Floats:
    """Values (W, J, H) at `level` (J, H) between the quantiles `table` (W, H, Q) at `p` (Q,)."""
    if p.size == 1:
        return np.repeat(table[:, None, :, 0], level.shape[0], axis=1)
    right = np.clip(np.searchsorted(p, level), 1, p.size - 1)  # (J, H)
    share = np.clip((level - p[right - 1]) / (p[right] - p[right - 1]), 0.0, 1.0)
    step = np.arange(table.shape[1])[None, :]
    low, high = table[:, step, right - 1], table[:, step, right]  # (W, J, H)
    return low + share[None] * (high - low)


# -------------------------------------------------------------------- members, their last axis the fields of an outcome


def normal_members(
    mean: ArrayLike, std: ArrayLike, points: int, method: str, rng: np.random.Generator | None, fields: int | None
) -> tuple[Floats, bool]:
    """(W, J, H, F) out of mean and standard deviation per step, and whether they are of a panel."""
    centre, spread = as_finite(mean, "trace.mean"), as_finite(std, "trace.std")
    shape = "shape (H,) or (W, H)" if fields is None else f"shape (H, {fields}) or (W, H, {fields})"
    dimensions = (1, 2) if fields is None else (2, 3)
    if centre.ndim not in dimensions or (fields is not None and centre.shape[-1] != fields):
        raise InputError("trace.mean", f"shape {centre.shape}", shape)
    if spread.shape != centre.shape:
        raise InputError("trace.std", f"shape {spread.shape}", f"the mean's shape {centre.shape}")
    refuse_negative(spread, "trace.std")
    panel = centre.ndim == dimensions[1]
    flat = (centre.shape[0] if panel else 1, -1)  # steps and fields side by side
    z = normal_quantile(levels(points, centre[0].size if panel else centre.size, method, rng))
    array = centre.reshape(flat)[:, None] + spread.reshape(flat)[:, None] * z[None]
    return array.reshape(*array.shape[:2], array.shape[2] // (fields or 1), fields or 1), panel


def quantile_members(
    at: ArrayLike, values: ArrayLike, points: int, method: str, rng: np.random.Generator | None, crossing: str,
    fields: int | None,
) -> tuple[Floats, bool, tuple[str, ...]]:  # fmt: skip
    """(W, J, H, F) out of quantiles, whether they are of a panel, and what was mended."""
    p = as_finite(at, "trace.levels")
    if p.ndim != 1 or p.size == 0 or not (p > 0).all() or not (p < 1).all() or not (np.diff(p) > 0).all():
        raise InputError("trace.levels", p.tolist(), "strictly ascending levels inside (0, 1)")
    table = as_finite(values, "trace.quantiles")
    last = () if fields is None else (fields,)
    if table.ndim - len(last) not in (2, 3) or table.shape[table.ndim - len(last) - 1 :] != (p.size, *last):
        rest = ", ".join(map(str, (p.size, *last)))
        raise InputError("trace.quantiles", f"shape {table.shape}", f"shape (H, {rest}) or (W, H, {rest})")
    panel = table.ndim - len(last) == 3
    table = table if panel else table[None]
    table = np.moveaxis(table if last else table[..., None], 2, 3)  # (W, H, F, Q)
    crossed = np.diff(table, axis=-1) < 0
    notes: tuple[str, ...] = ()
    if crossed.any():
        w, h, f, i = (int(x) for x in np.argwhere(crossed)[0])
        if crossing != "sort":
            index = (*((w,) if panel else ()), h, i + 1, *((f,) if last else ()))
            raise InputError(
                "trace.quantiles", f"{table[w, h, f, i + 1]} at level {p[i + 1]:g}",
                f"at least {table[w, h, f, i]}, the value at level {p[i]:g}", index=index,
                hint="Crossed quantiles can be repaired with crossing='sort'.",
            )  # fmt: skip
        table = np.sort(table, axis=-1)
        notes = (f"{int(crossed.any(axis=-1).sum())} steps had crossed quantiles, sorted",)
    count, horizon, width, _ = table.shape
    level = levels(points, horizon * width, method, rng)
    array = interpolate(p, table.reshape(count, horizon * width, p.size), level)
    return array.reshape(count, len(level), horizon, width), panel, notes


Pmf = tuple[ArrayLike, ArrayLike]  # values and probabilities
_SAME_LEVEL = 1e-15  # cumulative probabilities of two steps that are one to within rounding


def distribution_members(
    quantile: Callable[..., float] | None, pmf: Pmf | Sequence[Pmf] | None, horizon: int | None, points: int,
    method: str, rng: np.random.Generator | None, fields: int | None,
) -> tuple[Floats, Floats | None]:  # fmt: skip
    """(J, H, F) out of a quantile function or pmfs, and their probabilities; None: they are equally likely."""
    if (quantile is None) == (pmf is None):
        raise InputError("trace.quantile, trace.pmf", "both or neither", "exactly one of them")
    steps, each = ([], False) if pmf is None else _by_step(pmf, fields)
    if horizon is None and each:
        horizon = len(steps)
    if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
        raise InputError("trace.horizon", horizon, "a whole number of at least 1")
    if each and len(steps) != horizon:
        raise InputError("trace.pmf", f"{len(steps)} steps", f"{horizon}, one for each step of the horizon")
    if steps and method == "grid":
        return _pmf_grid(steps, horizon)
    if steps:
        # A draw is of a whole vector: its fields stay together.
        places = [pmf_quantile(np.arange(len(v), dtype=np.float64), p) for v, p in steps]
        level = levels(points, horizon, method, rng)
        drawn = [
            [own_row(steps, h)[0][int(own_row(places, h)(float(p), h))] for h, p in enumerate(row)] for row in level
        ]
        return np.array(drawn).reshape(len(level), horizon, -1), None
    level = levels(points, horizon * (fields or 1), method, rng)
    at = [(h,) if fields is None else (h, f) for h in range(horizon) for f in range(fields or 1)]
    drawn = [[quantile(float(p), *step) for p, step in zip(row, at, strict=True)] for row in level]  # type: ignore[misc]
    return as_finite(np.array(drawn), "trace.quantile").reshape(len(level), horizon, fields or 1), None


def _by_step(pmf: Pmf | Sequence[Pmf], fields: int | None) -> tuple[list[tuple[Floats, Floats]], bool]:
    """Values (K,), ascending, or (K, F), and probabilities (K,): of one pair, or of one for each step; and whether
    there is one for each."""
    last = () if fields is None else (fields,)
    if not isinstance(pmf, Sequence):
        raise InputError("trace.pmf", type(pmf).__name__, "a pair (values, probabilities), or one for each step")
    single = len(pmf) == 2 and np.iterable(pmf[1]) and all(np.ndim(x) == 0 for x in pmf[1])
    checked = []
    for h, pair in enumerate([pmf] if single else pmf):
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError("trace.pmf", repr(pair), "a pair (values, probabilities), or one for each step", index=h)
        values, probabilities = check_pmf(*pair)
        if values.shape[1:] != last:
            expected = "values (K,)" if fields is None else f"values (K, {fields})"
            raise InputError("trace.pmf", f"values of shape {values.shape}", expected, index=None if single else h)
        order = np.argsort(values, kind="stable") if fields is None else np.arange(len(values))
        checked.append((values[order], probabilities[order]))
    if not checked:
        raise InputError("trace.pmf", "no steps", "at least one")
    return checked, not single


def _pmf_grid(steps: list[tuple[Floats, Floats]], horizon: int) -> tuple[Floats, Floats]:
    """Members that are one quantile at every step. With one pmf member j takes value j with weight p_j; with several
    the weights are those between all cumulative probabilities, so that every step keeps its own."""
    if len(steps) == 1:
        values, probabilities = steps[0]
        return np.repeat(values[:, None], horizon, axis=1).reshape(len(values), horizon, -1), probabilities
    sums = [np.cumsum(p) / p.sum() for _, p in steps]
    edges = np.unique(np.concatenate([cumulative[:-1] for cumulative in sums]))
    edges = edges[np.diff(edges, prepend=0.0) > _SAME_LEVEL]
    weights = np.diff(edges, prepend=0.0, append=1.0)
    middle = np.concatenate([[0.0], edges]) + 0.5 * weights
    at = [np.minimum(np.searchsorted(cumulative, middle), len(cumulative) - 1) for cumulative in sums]
    members = np.stack([v[rows] for (v, _), rows in zip(steps, at, strict=True)], axis=1)
    return members.reshape(len(weights), horizon, -1), weights


def expanded(
    array: Floats, weight: Floats, sigma: ArrayLike, shape: tuple[int, ...], points: int, fields: int | None
) -> tuple[Floats, Floats, str]:
    """Every member (W, J, H, F) as `points` equally likely quantile points of its own deviation `sigma`, which has the
    `shape` the members came in; their weights, and the note that says so."""
    deviations = as_finite(sigma, "trace.sigma")
    if deviations.shape != shape:
        raise InputError("trace.sigma", f"shape {deviations.shape}", f"the members' shape {shape}")
    refuse_negative(deviations, "trace.sigma")
    spread, _ = shape_members(deviations, fields)
    z = normal_points(points)
    many = (array[:, :, None] + spread[:, :, None] * z[None, None, :, None, None]).reshape(
        array.shape[0], -1, *array.shape[2:]
    )
    note = f"each member expanded into {z.size} quantile points of its own deviation"
    return many, np.repeat(weight / z.size, z.size, axis=1), note


def member_arrays(
    array: Floats, weights: Floats, node: ArrayLike | None
) -> tuple[Floats, Floats, Floats, NDArray[np.int64] | None, Any]:
    """Members and weights in their own order, the weighted mean, nodes of a tree, and where each member stood."""
    array, nodes = array + 0.0, None
    if node is not None:
        array, weights, numbers = tree_order(array, weights, node)
        nodes = freeze_nodes(numbers)
    array, weights, stood = ordered_members(array, weights)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weighted_mean(array, weights)
    if not np.isfinite(mean).all():  # as it is not where a member is not
        raise InputError("trace.members", "values so large that members or their mean overflow", "smaller numbers")
    return array, weights, mean, nodes, stood


def score_arrays(q: ArrayLike, u: ArrayLike, outcomes: ArrayLike | None) -> tuple[Floats, Floats, Floats, bool]:
    """Scores and uncertainties (W, H, m), outcomes (W, H, F), NaN where none were given, and whether it is a panel."""
    score = as_finite(q, "trace.q")
    spread = as_finite(u, "trace.u")
    if score.ndim not in (2, 3) or score.size == 0:
        raise InputError("trace.q", f"shape {score.shape}", "shape (H, m) or (W, H, m)")
    if spread.shape != score.shape:
        raise InputError("trace.u", f"shape {spread.shape}", f"the scores' shape {score.shape}")
    refuse_negative(spread, "trace.u")
    panel = score.ndim == 3
    score, spread = (score, spread) if panel else (score[None], spread[None])
    count, horizon = score.shape[:2]
    if outcomes is None:
        return score, spread, np.full((count, horizon, 1), np.nan), panel
    mean = as_finite(outcomes, "trace.outcomes")
    if mean.ndim == 1:
        mean = mean[None, :, None]
    elif mean.ndim == 2:
        mean = mean[:, :, None] if panel else mean[None]
    if mean.ndim != 3 or mean.shape[:2] != (count, horizon):
        raise InputError("trace.outcomes", f"shape {np.shape(outcomes)}", f"{count} windows x {horizon} steps")
    return score, spread, mean, panel
