"""Tabular fitted Q iteration (Ernst, Geurts and Wehenkel 2005, with a table as the regressor).

Observations are cut into quantile bins; a cell's value of an action is the mean target of the transitions that took it
there. Deterministic: the same transitions give the same table.
"""

from __future__ import annotations

import math

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.learned.base import Evidence, Progress, QTable, Transitions, discretise
from ucsearch.lab.learned.store import versions_of

__all__ = ["train_fqi"]


def train_fqi(
    data: Transitions,
    *,
    actions: int,
    bins: int = 6,
    sweeps: int = 60,
    discount: float = 0.95,
    seed: int = 0,
    start: QTable | None = None,
    progress: Progress | None = None,
) -> QTable:
    """Iterate Q to the fixed point of the empirical model. `start` resumes an earlier table of the same data."""
    if not 0.0 <= discount < 1.0:
        raise InputError("discount", discount, "a number in [0, 1)")
    if bins < 1 or sweeps < 1:
        raise InputError("bins, sweeps", (bins, sweeps), "whole numbers of at least 1")
    levels = np.arange(1, bins) / bins
    edges = tuple(np.unique(np.quantile(column.astype(np.float64), levels)) for column in data.observations.T)
    keys = discretise(data.observations, edges)
    cells: dict[bytes, int] = {}
    rows = np.array([cells.setdefault(key.tobytes(), len(cells)) for key in keys], np.int64)
    after = np.array([cells.get(key.tobytes(), -1) for key in discretise(data.following, edges)], np.int64)
    flat = rows * actions + data.actions
    count = np.bincount(flat, minlength=len(cells) * actions).reshape(-1, actions)
    values = np.zeros((len(cells), actions))
    if start is not None:
        if start.cells != cells:
            raise InputError("start", f"{len(start.cells)} cells", f"the {len(cells)} cells of these transitions")
        values = start.values.copy()
    change = math.nan
    for sweep in range(sweeps):
        known = np.where(count > 0, values, -np.inf)  # an action never taken in a cell says nothing there
        best = np.max(np.where(data.masks & (after >= 0)[:, None], known[np.maximum(after, 0)], -np.inf), axis=1)
        future = np.where(data.done | ~np.isfinite(best), 0.0, best)
        target = data.rewards + discount * future
        total = np.bincount(flat, weights=target, minlength=values.size).reshape(values.shape)
        new = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
        change = float(np.max(np.abs(new - values)))
        values = new
        if progress is not None:
            progress(sweep + 1, sweeps)
        if change <= 1e-9:
            break
    lowest = values[count > 0].min() if (count > 0).any() else 0.0
    values = np.where(count > 0, values, lowest)  # what was never tried is not preferred
    settings = {"bins": bins, "sweeps": sweeps, "discount": discount}
    done = sweeps if start is None else start.evidence.steps + sweeps
    evidence = Evidence("tabular FQI", settings, seed, data.digest(), done, change, versions=versions_of())
    return QTable(edges, cells, values, evidence)
