"""The arrays of a trace out of what a constructor was given: shaped, checked, in the order that members are kept in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch import marginals
from ucsearch.ensembles import ordered_members, refuse_negative, shape_members, tree_order, weighted_mean
from ucsearch.errors import InputError
from ucsearch.layout import as_finite
from ucsearch.trace.checks import freeze_nodes

__all__ = ["expanded", "member_arrays", "score_arrays"]

Floats = NDArray[np.float64]


def expanded(
    array: Floats, weight: Floats, sigma: ArrayLike, shape: tuple[int, ...], points: int, fields: int | None
) -> tuple[Floats, Floats, str]:
    """Every member (W, J, H, F) as `points` equally likely quantile points of its own deviation `sigma`, which has the
    `shape` the members came in; their weights, and the note that says so."""
    given = as_finite(sigma, "trace.sigma")
    if given.shape != shape:
        raise InputError("trace.sigma", f"shape {given.shape}", f"the members' shape {shape}")
    refuse_negative(given, "trace.sigma")
    spread, _ = shape_members(given, fields)
    z = marginals.normal_points(points)
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
        array, weights, found = tree_order(array, weights, node)
        nodes = freeze_nodes(found)
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
