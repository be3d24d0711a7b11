"""Members out of marginal forecasts: quantile levels, normal points, pmfs, interpolation between quantiles."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.layout import as_finite

__all__ = ["check_pmf", "interpolate", "levels", "normal_points", "normal_quantile", "pmf_quantile"]

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
    """Values and probabilities (K,) with zero-probability values left out; the sum must be 1."""
    value = as_finite(values, "trace.pmf.values")
    weight = as_finite(probabilities, "trace.pmf.probabilities")
    if value.ndim != 1 or value.shape != weight.shape or value.size == 0:
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
