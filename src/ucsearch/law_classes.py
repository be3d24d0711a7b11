"""Classes of trees and of chains: what can be known when an action is chosen, from members and their weights.

Made by plain sums in a fixed order, so that a second program gets the same bits from the same members.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["NEVER", "Class", "bins_of", "markov_classes", "plain_sum", "tree_classes", "whole_shares"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NEVER = 1 << 40  # a step that does not come
_SCALE = 1 << 40  # shares as whole numbers, so that block and bin edges do not hang on rounding
Class = list[tuple[tuple[float, ...], float, int]]  # outcome, weight, following class


def tree_classes(members: Floats, weights: list[float], node: Ints) -> tuple[list[Class], int]:
    """A class for the start and for every node but the last step's, in order of appearance, step by step."""
    size, horizon, _ = members.shape
    rows = members.tolist()
    classes: list[Class] = []
    groups: list[list[int]] = [list(range(size))]
    learns = NEVER
    for h in range(horizon):
        following: list[list[int]] = []
        base = len(classes) + len(groups)
        for group in groups:
            parts: dict[int, list[int]] = {}
            for j in group:
                parts.setdefault(int(node[j, h]), []).append(j)
            mass = plain_sum([weights[j] for j in group])
            learns = min(learns, h) if h > 0 and len(parts) > 1 else learns
            points = [
                (tuple(rows[part[0]][h]), plain_sum([weights[j] for j in part]) / mass, base + len(following) + n)
                for n, part in enumerate(parts.values())
            ]
            following.extend(parts.values())
            classes.append(sorted(points))
        groups = following
    return classes, learns


def markov_classes(values: Floats, weights: list[float], bins: int) -> tuple[list[Class], int]:
    """A class for the start and for every bin of every step but the last."""
    size, horizon = values.shape
    columns = values.T.tolist()
    classes: list[Class] = []
    before = [0] * size  # the bin of each member at the step before
    for h in range(horizon):
        here = bins_of(columns[h], weights, bins)
        names = sorted(set(here))
        base = len(classes) + len(set(before))
        mass = {b: plain_sum([weights[j] for j in range(size) if here[j] == b]) for b in names}
        for b in sorted(set(before)):
            own = [j for j in range(size) if before[j] == b]
            all_own = plain_sum([weights[j] for j in own])
            points: Class = []
            for n, to in enumerate(names):
                flow = plain_sum([weights[j] for j in own if here[j] == to])
                if not flow > 0.0:
                    continue
                share = flow / all_own
                inside: dict[float, float] = {}
                for j in range(size):
                    if here[j] == to:
                        inside[columns[h][j]] = inside.get(columns[h][j], 0.0) + weights[j]
                points += [((y,), share * (inside[y] / mass[to]), base + n) for y in sorted(inside)]
            classes.append(points)
        before = here
    return classes, 0


def bins_of(values: list[float], weights: list[float], bins: int) -> list[int]:
    """The bin of each member by its rank in weight; equal values share the bin of the first, because an outcome tells
    no more than its value."""
    shares = whole_shares(weights)
    total, passed = sum(shares), 0
    found = [0] * len(values)
    last, last_bin = math.nan, 0
    for j in sorted(range(len(values)), key=lambda j: values[j]):
        if values[j] != last:
            last, last_bin = values[j], passed * bins // total
        found[j] = last_bin
        passed += shares[j]
    return found


def whole_shares(weights: list[float]) -> list[int]:
    """Weights as small whole numbers: equal weights are 1 each."""
    if all(w == weights[0] for w in weights):
        return [1] * len(weights)
    return [max(1, round(w * _SCALE)) for w in weights]


def plain_sum(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total
