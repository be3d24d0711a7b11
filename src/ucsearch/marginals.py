"""Members out of marginal forecasts: quantile levels, normal points, pmfs, interpolation between quantiles."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.ensembles import refuse_negative
from ucsearch.errors import InputError
from ucsearch.layout import as_finite

__all__ = [
    "check_pmf",
    "distribution_members",
    "interpolate",
    "levels",
    "normal_members",
    "normal_points",
    "normal_quantile",
    "pmf_quantile",
    "quantile_members",
]

Floats = NDArray[np.float64]
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
            "trace.method", "'sobol' without scipy", "scipy to be installed", hint="pip install 'ucsearch[stats]'"
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
    wanted = (1, 2) if fields is None else (2, 3)
    if centre.ndim not in wanted or (fields is not None and centre.shape[-1] != fields):
        raise InputError("trace.mean", f"shape {centre.shape}", shape)
    if spread.shape != centre.shape:
        raise InputError("trace.std", f"shape {spread.shape}", f"the mean's shape {centre.shape}")
    refuse_negative(spread, "trace.std")
    panel = centre.ndim == wanted[1]
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


def distribution_members(
    quantile: Callable[..., float] | None, pmf: tuple[ArrayLike, ArrayLike] | None, horizon: int, points: int,
    method: str, rng: np.random.Generator | None, fields: int | None,
) -> tuple[Floats, Floats | None]:  # fmt: skip
    """(J, H, F) out of a quantile function or a pmf, and their probabilities; None: they are equally likely."""
    if (quantile is None) == (pmf is None):
        raise InputError("trace.quantile, trace.pmf", "both or neither", "exactly one of them")
    if not isinstance(horizon, int) or horizon < 1:
        raise InputError("trace.horizon", horizon, "a whole number of at least 1")
    if pmf is not None:
        values, probabilities = check_pmf(*pmf)
        if values.shape[1:] != (() if fields is None else (fields,)):
            wanted = "values (K,)" if fields is None else f"values (K, {fields})"
            raise InputError("trace.pmf", f"values of shape {values.shape}", wanted)
        if method == "grid":
            whole = np.repeat(values[:, None], horizon, axis=1)
            return whole.reshape(len(values), horizon, -1), probabilities
        if fields is None:
            quantile = pmf_quantile(values, probabilities)
        else:  # a draw is of a whole vector: its fields stay together
            place = pmf_quantile(np.arange(len(values), dtype=np.float64), probabilities)
            level = levels(points, horizon, method, rng)
            return values[[[int(place(float(p), h)) for h, p in enumerate(row)] for row in level]], None
    level = levels(points, horizon * (fields or 1), method, rng)
    steps = [(h,) if fields is None else (h, f) for h in range(horizon) for f in range(fields or 1)]
    made = [[quantile(float(p), *step) for p, step in zip(row, steps, strict=True)] for row in level]  # type: ignore[misc]
    return as_finite(np.array(made), "trace.quantile").reshape(len(level), horizon, fields or 1), None
