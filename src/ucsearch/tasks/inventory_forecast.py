"""What a forecast of demand says about an inventory: moments, critical ratios, and a grid of orders that fits it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucsearch.trace import Trace

__all__ = ["critical", "distinct", "mean_demand", "moments", "scaled_columns"]

Floats = NDArray[np.float64]


def moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation over members: (W, J) -> (W,), (W,)."""
    mean = (values * weights).sum(axis=1)
    return mean, np.sqrt((weights * (values - mean[:, None]) ** 2).sum(axis=1))


def mean_demand(trace: Trace) -> Floats:
    """(W, H); negative members are counted as 0 by the rules, so they must not cancel demand."""
    mean, members = trace.mean[:, :, 0], trace.members[..., 0]
    if (members < 0.0).any():
        mean = (trace.weights[:, :, None] * np.maximum(members, 0.0)).sum(axis=1)
    return np.asarray(mean)


def critical(under: Floats, over: Floats) -> Floats:
    """The critical ratio, kept off 0 and 1; a half where nothing costs anything."""
    both = under + over
    ratio = np.divide(under, both, out=np.full(np.shape(both), 0.5), where=both > 0.0)
    return np.asarray(np.minimum(np.maximum(ratio, 0.01), 0.999))


def distinct(grid: Floats) -> tuple[Floats, Floats]:
    """Actions and grid (W, m) of ascending values: of equal ones all but the first are unavailable; NaN at the end
    stands for no further size, where the grid, which must be finite, has the largest again."""
    filled = np.where(np.isnan(grid), np.nanmax(grid, axis=1)[:, None], grid)
    fresh = np.concatenate([np.ones((len(grid), 1), bool), filled[:, 1:] > filled[:, :-1]], axis=1)
    return np.where(fresh, filled, np.nan), filled


def scaled_columns(trace: Trace, steps: Sequence[float], lead: int, arrivals: int, by_level: bool) -> dict[str, Floats]:
    """The columns of params that fit each series, the grid (W, m) among them: forecast plus `steps` of its spread,
    around one period's demand at each of the `arrivals`, or (`by_level`) around the demand of `lead` + 1 periods."""
    demand = np.maximum(trace.members[:, :, : lead + arrivals, 0], 0.0)  # (W, J, L + arrivals)
    total = moments(demand[:, :, : lead + 1].sum(axis=2), trace.weights)
    arrival = moments(demand[:, :, lead], trace.weights)
    parts = []
    for k in range(arrivals):
        covered = demand[:, :, k : k + lead + 1].sum(axis=2)
        centre, spread = moments(covered if by_level else demand[:, :, lead + k], trace.weights)
        parts.append(centre[:, None] + spread[:, None] * np.array(steps))
    grid = np.sort(np.concatenate(parts, axis=1), axis=1)
    if not by_level:
        grid = np.maximum(grid, 0.0)
    return {
        "level_mean": total[0],
        "level_spread": total[1],
        "cap_mean": arrival[0],
        "cap_spread": arrival[1],
        "grid": grid,
    }
