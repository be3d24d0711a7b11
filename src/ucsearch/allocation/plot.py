"""Value against the size of a limit, as the band that is proved. matplotlib is imported when asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ucsearch.allocation.result import evaluate
from ucsearch.errors import InputError

if TYPE_CHECKING:
    from ucsearch.allocation.api import Allocation

__all__ = ["plot_value"]

_SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)  # of the limit, at which it is solved again


def plot_value(allocation: Allocation, shared: str | None = None, ax: Any = None) -> Any:
    result = allocation.result
    if result is None or not result.feasible:
        raise InputError("allocation", "no allocation", "one that keeps the limits")
    known = [r.label(g) for r in result.problem.resources for g in range(r.limits.size)]
    name = known[0] if shared is None else shared
    if name not in known:
        raise InputError("shared", repr(shared), f"one of {', '.join(map(repr, known[:10]))}")
    from matplotlib import pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    points = []
    for k, r in enumerate(result.problem.resources):
        for g in np.flatnonzero([r.label(g) == name for g in range(r.limits.size)]).tolist():
            for share in _SHARES:
                limits = r.limits.copy()
                limits[g] *= share
                changed = [*result.problem.resources]
                changed[k] = replace(r, limits=limits)
                own = replace(result.problem, resources=tuple(changed))
                found = evaluate(own)
                if found.feasible:
                    points.append((limits[g], found.lower, found.upper))
            ax.axvline(r.limits[g], linewidth=0.8, linestyle="--", color="0.4")
    size, low, high = (np.array(x) for x in zip(*points, strict=True))
    ax.fill_between(size, low, high, alpha=0.3, linewidth=0.0)
    ax.plot(size, low, marker="o", markersize=3, label="value of the allocation")
    ax.axhline(result.without, linewidth=0.8, color="0.4", label="without any limit")
    ax.set_xlabel(name)
    ax.set_ylabel("value")
    ax.set_title("What more of a shared limit is worth")
    ax.legend(frameon=False)
    return ax.figure
