"""Which sample path of one quantity goes with which of another, as the past has it.

Quantities that are forecast one by one lose what they had to do with each other. Here whole paths are paired by rank,
after the Schaake shuffle (Clark et al. 2004): as many stretches of the past as there are paths are ranked by how far
each quantity moved on average, and the paths are put together in the same ranks. Each quantity keeps its own paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster

__all__ = ["forecast_paths", "pair_paths"]

Floats = NDArray[np.float64]


def forecast_paths(
    model: Forecaster, y: Floats, marks: NDArray[np.int64], horizon: int, season: int, stream: Any
) -> Floats:
    """(T, J, H) paths after each of T cutoffs of a series (n,); of F quantities (n, F), (T, J, H, F), put together as
    they were in the past."""
    made = [
        np.asarray(model.forecast(one, marks, horizon=horizon, season=season, stream=stream).expand().members)
        for one in (np.ascontiguousarray(y.T) if y.ndim == 2 else (y,))
    ]
    if y.ndim == 1:
        return made[0]
    return np.stack([pair_paths(x, y[: at + 1]) for x, at in zip(np.stack(made, axis=-1), marks, strict=True)])


def pair_paths(paths: Floats, history: Floats) -> Floats:
    """(J, H, F) paths of F quantities, as they belong together after a history (n, F), oldest first.

    A history too short for two stretches leaves them as they come.
    """
    if paths.ndim != 3 or history.ndim != 2 or paths.shape[2] != history.shape[1]:
        raise InputError("paths", f"shapes {paths.shape} and {history.shape}", "(J, H, F) and (n, F)")
    count, horizon, fields = paths.shape
    begins = history.shape[0] - horizon
    if begins < 2:
        return paths
    at = np.linspace(0, begins - 1, count).astype(np.int64)
    ahead = history[at[:, None] + 1 + np.arange(horizon)].mean(axis=1)  # (J, F)
    moved = ahead - history[at]
    out = np.empty_like(paths)
    for f in range(fields):
        past, own = np.argsort(moved[:, f], kind="stable"), np.argsort(paths[:, :, f].mean(axis=1), kind="stable")
        out[past, :, f] = paths[own, :, f]
    return out
