"""A lower bound on a mean when values come in clusters: series of one store, market or file move together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ucsearch.replay.statistics import LEAST, LEVEL, mean
from ucsearch.student import student_quantile

__all__ = ["cluster_lower"]


def cluster_lower(values: Sequence[float], clusters: Sequence[str], *, level: float = LEVEL) -> float | None:
    """One-sided Student-t bound with the cluster-robust error of the mean and as many degrees of freedom as clusters
    less one; None where there are fewer than three clusters or a value is not finite.

    With every value a cluster of its own it is the ordinary Student-t bound.
    """
    names = sorted(set(clusters))
    if len(values) != len(clusters) or len(names) < LEAST or not all(map(math.isfinite, values)):
        return None
    centre = mean(list(values))
    totals = dict.fromkeys(names, 0.0)
    for value, name in zip(values, clusters, strict=True):
        totals[name] += value - centre
    groups = len(names)
    error = math.sqrt(math.fsum(t * t for t in totals.values()) * groups / (groups - 1)) / len(values)
    return centre - student_quantile(level, groups - 1) * error
