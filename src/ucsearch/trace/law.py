"""Classes of trees and of chains: what can be known when an action is chosen, from members and their weights.

Made by plain sums in a fixed order, so that a second program gets the same bits from the same members.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.layout import own_row
from ucsearch.trace.members import byte_keys, plain_sum

if TYPE_CHECKING:
    from ucsearch.trace.trace import Declared

__all__ = [
    "NEVER",
    "Class",
    "Law",
    "Laws",
    "bins_of",
    "law_arrays",
    "law_of",
    "markov_classes",
    "tree_classes",
    "variance_ratios",
    "whole_shares",
]


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
            members_of_bin = [j for j in range(size) if before[j] == b]
            weight_of_bin = plain_sum([weights[j] for j in members_of_bin])
            points: Class = []
            for n, to in enumerate(names):
                flow = plain_sum([weights[j] for j in members_of_bin if here[j] == to])
                if not flow > 0.0:
                    continue
                share = flow / weight_of_bin
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
    bin_of = [0] * len(values)
    last, last_bin = math.nan, 0
    for j in sorted(range(len(values)), key=lambda j: values[j]):
        if values[j] != last:
            last, last_bin = values[j], passed * bins // total
        bin_of[j] = last_bin
        passed += shares[j]
    return bin_of


def whole_shares(weights: list[float]) -> list[int]:
    """Weights as small whole numbers: equal weights are 1 each."""
    if all(w == weights[0] for w in weights):
        return [1] * len(weights)
    return [max(1, round(w * _SCALE)) for w in weights]


RATIO_STEPS = (2, 3, 7)  # over which the variance ratio is reported
SNAP = 1e-9  # a block mean this close to the lattice, in units, lies on it
_FAR = float(1 << 52)  # multiples of the unit beyond this are not told apart


@dataclass(frozen=True, eq=False)
class Laws:
    """W laws as padded arrays. Points of class c are starts[c]..starts[c + 1]; padding has weight 0."""

    points: Floats  # (W, P, F) outcomes
    weights: Floats  # (W, P)
    after: Floats  # (W, P) the class that follows, as a float because kernels read it from a float array
    starts: Floats  # (W, C + 1)
    learns: Ints  # (W,) the first step after 0 at which something is learned; a tree of single paths never does

    def window(self, w: int) -> Laws:
        """One window's, without the padding that others needed: the same arrays as if it had been made alone."""
        classes = int(np.argmax(self.starts[w]))  # starts ascend to the number of points and stay there
        points = int(self.starts[w, classes])
        one = slice(w, w + 1)
        return Laws(
            self.points[one, :points], self.weights[one, :points], self.after[one, :points],
            self.starts[one, : classes + 1], self.learns[one],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Law:
    """One window's law: what a record names and a picture shows."""

    kind: str
    unit: float | None
    points: list[list[tuple[float, ...]]]  # (C) outcomes of each class, ascending
    weights: list[list[float]]  # (C) their weights, sum 1
    after: list[list[int]]  # (C) the class that follows each
    declared_points: int | None  # per step on the lattice

    @property
    def most_points(self) -> int:
        """Declared on a lattice, else the largest number of points of a class."""
        return self.declared_points or max(len(p) for p in self.points)

    def hash(self) -> str:
        """SHA-256 over every class's points, weights and successors."""
        digest = hashlib.sha256(f"ucsearch.trace.law.v1\0{self.kind}\0".encode())
        for points, weights, after in zip(self.points, self.weights, self.after, strict=True):
            digest.update(f"\0{len(points)}\0".encode())
            flat = [x for point in points for x in point]
            digest.update(np.array([*flat, *weights, *after], dtype="<f8").tobytes())
        return digest.hexdigest()


def law_of(laws: Laws, w: int, kind: str, declared: Declared) -> Law:
    """Window w as lists."""
    edges = [int(x) for x in laws.starts[w]]
    edges = [e for c, e in enumerate(edges) if c == 0 or e > edges[c - 1]]  # classes past the last are padding
    pairs = list(pairwise(edges))
    return Law(
        kind=kind,
        unit=_single(declared.of_window(w).unit),
        points=[[tuple(row) for row in laws.points[w, a:b].tolist()] for a, b in pairs],
        weights=[laws.weights[w, a:b].tolist() for a, b in pairs],
        after=[[int(x) for x in laws.after[w, a:b]] for a, b in pairs],
        declared_points=declared.points or None,
    )


def _single(unit: float | tuple[float, ...]) -> float | None:
    return None if isinstance(unit, tuple) or not unit else unit


def law_arrays(members: Floats, weights: Floats, kind: str, declared: Declared, node: Ints | None) -> Laws:
    """The laws of (W, J, H, F) members under a declared kind."""
    if declared.draws:
        rest = law_arrays(members[..., :-1], weights, kind, declared._replace(draws=()), node)
        return _with_draws(rest, declared.draws)
    if kind == "independent":
        if declared.points:
            return _independent(*_lattice(members[..., 0], weights, declared.unit, declared.points))
        values = np.ascontiguousarray(members.transpose(0, 2, 1, 3))
        shares = np.broadcast_to(weights[:, None, :], values.shape[:3])
        return _independent(values, np.ascontiguousarray(shares))
    weights_of = [own_row(weights, w).tolist() for w in range(members.shape[0])]
    if kind == "tree" and node is not None:
        return _stack([tree_classes(members[w], weights_of[w], node[w]) for w in range(members.shape[0])])
    return _stack([markov_classes(members[w, :, :, 0], weights_of[w], declared.bins) for w in range(members.shape[0])])


# -------------------------------------------------------------------- independent steps


def _independent(values: Floats, shares: Floats) -> Laws:
    """(W, H, K, F) points with (W, H, K) weights, in the order in which equal ones are added up: merged, ascending."""
    windows, horizon, size, fields = values.shape
    order = np.argsort(_order_keys(values, shares), axis=2, kind="stable")
    values = np.take_along_axis(values, order[..., None], axis=2)
    shares = np.take_along_axis(shares, order, axis=2)
    new = np.ones((windows, horizon, size), bool)
    new[:, :, 1:] = (values[:, :, 1:] != values[:, :, :-1]).any(axis=3)
    new &= shares > 0.0
    group = np.cumsum(new, axis=2) - 1
    total = np.zeros((windows, horizon, size))
    row, step = np.arange(windows)[:, None], np.arange(horizon)[None]
    for k in range(size):
        live = shares[:, :, k] > 0.0
        total[row, step, np.maximum(group[:, :, k], 0)] += np.where(live, shares[:, :, k], 0.0)
    counts = new.sum(axis=2)  # (W, H)
    flat = int(counts.sum(axis=1).max())
    points, weights = np.zeros((windows, flat, fields)), np.zeros((windows, flat))
    after, starts = np.zeros((windows, flat)), np.zeros((windows, horizon + 1))
    starts[:, 1:] = np.cumsum(counts, axis=1)
    place = np.nonzero(new)
    w, h = place[0], place[1]
    at = (starts[w, h] + group[place]).astype(np.int64)
    points[w, at] = values[place]
    weights[w, at] = total[w, h, group[place]]
    after[w, at] = h + 1
    return Laws(points, weights, after, starts, np.zeros(windows, np.int64))


def _with_draws(laws: Laws, draws: tuple[tuple[float, float], ...]) -> Laws:
    """Every point with every value that may be drawn beside it, ascending."""
    values, shares = np.array(draws).T
    windows, points, fields = laws.points.shape
    size = len(values)
    out = np.zeros((windows, points, size, fields + 1))
    out[..., :-1] = laws.points[:, :, None]
    out[..., -1] = values * (laws.weights > 0.0)[:, :, None]
    weights = laws.weights[:, :, None] * shares
    after = np.repeat(laws.after, size, axis=1)
    return Laws(
        out.reshape(windows, points * size, fields + 1), weights.reshape(windows, points * size), after,
        laws.starts * size, laws.learns,
    )  # fmt: skip


def _order_keys(values: Floats, shares: Floats) -> NDArray[np.generic]:
    """Keys that order points by their fields, those of no weight last."""
    if values.shape[3] == 1:
        return np.where(shares > 0.0, values[..., 0], np.inf)
    return byte_keys(values)


def _lattice(values: Floats, weights: Floats, spacing: float | tuple[float, ...], points: int) -> tuple[Floats, Floats]:
    """(W, J, H) members to (W, H, 2 * points, 1) lattice points and their weights, in order of blocks.

    Members ascending are cut into blocks of equal weight (one on the edge is split); each block's mean is split onto
    the two neighbouring multiples of the unit so that the mean is kept.
    """
    windows, size, horizon = values.shape
    order = np.argsort(values, axis=1, kind="stable")
    values = np.take_along_axis(values, order, axis=1)
    means = np.empty((windows, horizon, points))
    shares = [whole_shares(row) for row in weights.tolist()]
    same = len(shares) == 1 and len(set(shares[0])) == 1
    if same:
        means[:] = _block_means(values, np.full((1, size, 1), points, np.int64), size, points)
    else:
        for w in range(windows):
            whole = np.array(own_row(shares, w), np.int64)
            mass = np.broadcast_to(whole[:, None] * points, (size, horizon))
            mass = np.take_along_axis(mass, order[w], axis=0)
            means[w] = _block_means(values[w : w + 1], mass[None], int(whole.sum()), points)[0]
    unit = np.array(spacing, dtype=np.float64).reshape(-1, 1, 1)
    place = means / unit
    if not bool((np.abs(place) < _FAR).all()):
        raise InputError("unit", spacing, f"at least {np.abs(means).max() / _FAR:g} for outcomes of this size")
    low = np.floor(place)
    share = place - low
    low = np.where(share > 1.0 - SNAP, low + 1.0, low)
    share = np.where((share < SNAP) | (share > 1.0 - SNAP), 0.0, share)
    out = np.empty((windows, horizon, points, 2))
    mass_out = np.empty_like(out)
    out[..., 0], out[..., 1] = low * unit + 0.0, (low + 1.0) * unit + 0.0
    mass_out[..., 0], mass_out[..., 1] = (1.0 - share) / points, share / points
    shape = (windows, horizon, 2 * points)
    return out.reshape(*shape, 1), mass_out.reshape(shape)


def _block_means(values: Floats, mass: Ints, block: int, points: int) -> Floats:
    """(W, J, H) ascending values whose masses (W or 1, J, H or 1) fill blocks of `block`: (W, H, points) means.

    Shifted by the block's first value, so that a block of equal values has that mean exactly.
    """
    windows, _, horizon = values.shape
    ends = np.cumsum(mass, axis=1)
    means = np.zeros((windows, horizon, points))
    last, begin = ends.max(axis=(0, 2)), (ends - mass).min(axis=(0, 2))
    for b in range(points):
        low, high = b * block, (b + 1) * block
        first = np.zeros((windows, horizon))
        started = np.zeros((windows, horizon), bool)
        total = np.zeros((windows, horizon))
        for j in range(int(np.searchsorted(last, low, "right")), int(np.searchsorted(begin, high, "left"))):
            overlap = np.minimum(ends[:, j], high) - np.maximum(ends[:, j] - mass[:, j], low)
            inside = overlap > 0
            y = values[:, j]
            first = np.where(inside & ~started, y, first)
            started |= inside
            total = total + np.where(inside, overlap * (y - first), 0.0)
        means[:, :, b] = first + total / block
    return means


# -------------------------------------------------------------------- trees and chains


def _stack(built: list[tuple[list[Class], int]]) -> Laws:
    size = max(sum(len(c) for c in classes) for classes, _ in built)
    most = max(len(classes) for classes, _ in built)
    fields = len(built[0][0][0][0][0])
    points, weights = np.zeros((len(built), size, fields)), np.zeros((len(built), size))
    after, starts = np.zeros((len(built), size)), np.zeros((len(built), most + 1))
    for w, (classes, _) in enumerate(built):
        at = 0
        for c, points_of in enumerate(classes):
            for y, weight, following in points_of:
                points[w, at], weights[w, at], after[w, at] = y, weight, following
                at += 1
            starts[w, c + 1 :] = at
    return Laws(points, weights, after, starts, np.array([learns for _, learns in built]))


# -------------------------------------------------------------------- what the reader is told


def variance_ratios(members: Floats, weights: Floats, steps: Sequence[int]) -> list[float]:
    """For each number of steps: Var(sum of the first so many outcomes) / sum of their variances, the largest over
    fields; NaN when nothing varies. 1: as independent steps have it; above: sums vary more than the law says."""
    if not steps:
        return []
    first = members[:, : max(steps)]
    with np.errstate(over="ignore", invalid="ignore"):
        singles = np.add.accumulate(_variances(first, weights))
        sums = _variances(np.add.accumulate(first, axis=1), weights)
    ratios = []
    for n in steps:
        worst = math.nan
        for single, of_sum in zip(singles[n - 1].tolist(), sums[n - 1].tolist(), strict=True):
            if single > 0.0:
                ratio = of_sum / single
                worst = ratio if not worst >= ratio else worst
        ratios.append(worst)
    return ratios


def _variances(values: Floats, weights: Floats) -> Floats:
    """Variances over the first axis, added up one after the other: the same figure on every machine."""
    each = weights.reshape(-1, 1, 1)
    off = values - values[0]
    off = off - np.add.accumulate(each * off)[-1]
    return np.asarray(np.add.accumulate(each * off * off)[-1])
