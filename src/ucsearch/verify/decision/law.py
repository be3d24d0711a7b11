"""The law of the outcomes, made again from the recorded members and what is declared about them.

A second reading of docs/concepts/closed-loop.md: information classes, each with points (outcome, weight, next class).
"""

from __future__ import annotations

import hashlib
import math
import struct
from itertools import groupby, pairwise
from typing import Any

from ucsearch.verify.decision.problem import Meter
from ucsearch.verify.read import Blobs, Malformed, read_blob
from ucsearch.verify.verdict import Record, expect, near, require, require_that

Point = tuple[tuple[float, ...], float, int]  # outcome, weight, class that follows
Rows = list[list[tuple[float, ...]]]  # members by steps
SCALE, MOST_POINTS, A_BIN = 1 << 40, 4096, 30
SNAP = 1e-9


def _sum(values: Any) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def _shares(weights: list[float]) -> list[int]:
    return [1] * len(weights) if len(set(weights)) == 1 else [max(1, round(w * SCALE)) for w in weights]


def _merged(points: list[tuple[tuple[float, ...], float]], following: int) -> list[Point]:
    """Ascending, equal outcomes added up in the order given; what has no weight is dropped."""
    live = sorted([p for p in points if p[1] > 0.0], key=lambda p: p[0])
    return [(y, _sum(w for _, w in group), following) for y, group in groupby(live, key=lambda p: p[0])]


def _on_lattice(column: list[float], weights: list[float], unit: float, count: int) -> list[tuple[Any, float]]:
    """Blocks of equal weight from the smallest value up, each block's mean split onto its neighbours on the lattice."""
    shares = _shares(weights)
    block, at, filled = sum(shares), 0, 0  # a member has `count` times its share, a block the whole
    out: list[tuple[Any, float]] = []
    queue = [(column[j], shares[j] * count) for j in sorted(range(len(column)), key=lambda j: column[j])]
    weight_left = queue[0][1]
    for _ in range(count):
        first, total, filled = queue[at][0] if weight_left else queue[at + 1][0], 0.0, 0
        while filled < block:
            if not weight_left:
                at += 1
                weight_left = queue[at][1]
            weight = min(weight_left, block - filled)
            total += weight * (queue[at][0] - first)
            filled, weight_left = filled + weight, weight_left - weight
        place = (first + total / block) / unit
        require("inputs.trace.meta.law", abs(place) < 1 << 52, unit, "a unit that tells these outcomes apart")
        low = math.floor(place)
        part = place - low
        if part > 1.0 - SNAP:
            low, part = low + 1, 0.0
        part = 0.0 if part < SNAP else part
        out += [((low * unit + 0.0,), (1.0 - part) / count), (((low + 1) * unit + 0.0,), part / count)]
    return out


def _bins(column: list[float], weights: list[float], count: int) -> list[int]:
    shares, passed, bins = _shares(weights), 0, [0] * len(column)
    ranked = sorted(range(len(column)), key=lambda j: column[j])
    for _, group in groupby(ranked, key=lambda j: column[j]):
        members = list(group)
        for j in members:
            bins[j] = passed * count // sum(shares)
        passed += sum(shares[j] for j in members)
    return bins


def _chain(rows: Rows, weights: list[float], count: int) -> list[list[Point]]:
    classes: list[list[Point]] = []
    before, everyone = [0] * len(rows), range(len(rows))
    for h in range(len(rows[0])):
        column = [row[h][0] for row in rows]
        here = _bins(column, weights, count)
        names, base = sorted(set(here)), len(classes) + len(set(before))
        for b in sorted(set(before)):
            whole = _sum(weights[j] for j in everyone if before[j] == b)
            points: list[Point] = []
            for n, to in enumerate(names):
                inside: dict[float, float] = {}
                for j in everyone:
                    if here[j] == to:
                        inside[column[j]] = inside.get(column[j], 0.0) + weights[j]
                flow = _sum(weights[j] for j in everyone if before[j] == b and here[j] == to)
                mass = _sum(weights[j] for j in everyone if here[j] == to)
                for y in sorted(inside) if flow > 0.0 else ():
                    points.append(((y,), flow / whole * (inside[y] / mass), base + n))
            classes.append(points)
        before = here
    return classes


def _tree(rows: Rows, weights: list[float], node: list[list[int]]) -> tuple[list[list[Point]], int]:
    """Classes, and the first step after 0 at which a node has several children."""
    classes: list[list[Point]] = []
    groups, learns = [list(range(len(rows)))], 1 << 40
    for h in range(len(rows[0])):
        base, following = len(classes) + len(groups), list[list[int]]()
        for group in groups:
            children: dict[int, list[int]] = {}
            for j in group:
                children.setdefault(node[j][h], []).append(j)
            if h > 0 and len(children) > 1:
                learns = min(learns, h)
            mass, points = _sum(weights[j] for j in group), []
            for child in children.values():
                require_that("inputs.trace.node", len({rows[j][h] for j in child}) == 1, "a node has several outcomes")
                points.append((rows[child[0]][h], _sum(weights[j] for j in child) / mass, base + len(following)))
                following.append(child)
            classes.append(sorted(points))
        named = [node[group[0]][h] for group in following]
        require_that("inputs.trace.node", len(set(named)) == len(named), "a node has several pasts")
        groups = following
    return classes, learns


def _draws(recorded: Any) -> list[tuple[float, float]]:
    """Values of a field that is drawn every step, ascending, with their probabilities."""
    try:
        draws = [(float.fromhex(x), float.fromhex(p)) for x, p in recorded]
    except (TypeError, ValueError, OverflowError):
        raise Malformed(
            f"inputs.trace.meta.law.draws: saw {recorded!r}, expected pairs of hexadecimal floats"
        ) from None
    numbers = all(math.isfinite(x) and 0.0 < p <= 1.0 for x, p in draws)
    ascending = all(a[0] < b[0] for a, b in pairwise(draws))
    whole = not draws or abs(_sum(p for _, p in draws) - 1.0) <= SNAP
    require("inputs.trace.meta.law.draws", numbers and ascending and whole, recorded, "values and their shares of 1")
    return draws


class Law:
    """Classes of information by the record's trace, or none at all."""

    def __init__(self, r: Record, rows: Rows, weights: list[float], blobs: Blobs, meter: Meter) -> None:
        t = r["inputs"]["trace"]
        self.kind: str = t["meta"]["coupling"]
        declared = t["meta"].get("law", {})
        try:
            self.unit = float.fromhex(declared.get("unit", "0x0p+0"))
        except (ValueError, OverflowError):
            raise Malformed(
                f"inputs.trace.meta.law.unit: saw {declared['unit']!r}, expected a hexadecimal float"
            ) from None
        self.declared, bins = declared.get("points", 0), declared.get("bins", 0)
        self.learns, self.classes = 0, list[list[Point]]()
        draws = _draws(declared.get("draws", []))
        drawn = len(draws) > 0
        require(
            "inputs.trace.meta.law", self.kind == "independent" or not drawn, declared, "draws of independent steps"
        )
        expect("inputs.trace.node", "node" in t, self.kind == "tree")
        self.rows, self.weights, self.origin = rows, weights, declared.get("origin", "") or self.kind
        lattice = 0 < self.unit < math.inf and 1 <= self.declared <= MOST_POINTS and self.kind == "independent"
        is_lattice = lattice if self.unit or self.declared else True
        require("inputs.trace.meta.law", is_lattice, declared, "a lattice of independent steps")
        require("inputs.trace.meta.law", (bins > 0) == (self.kind == "markov"), bins, "bins of a chain")
        require("inputs.trace.meta.law", bins * A_BIN <= len(rows), bins, f"at most {len(rows) // A_BIN} bins")
        meter.toil(len(rows[0]) * (len(rows) * (1 + bins * bins) + self.declared))
        require("inputs.trace.meta.law", not (bins or lattice) or len(rows[0][0]) == 1 + drawn, declared, "one field")
        require("inputs.trace.meta.law", len(rows[0][0]) > drawn, declared, "a field beside the one that is drawn")
        if self.kind == "tree":
            shape, _, flat = read_blob(t["node"]["$blob"], blobs)
            if shape != (1, len(rows), len(rows[0])) or any(x != int(x) for x in flat):
                raise Malformed(f"inputs.trace.node: {shape} do not fit the members")
            n = len(rows[0])
            self.classes, self.learns = _tree(
                rows, weights, [[int(x) for x in flat[j * n : (j + 1) * n]] for j in range(len(rows))]
            )
        elif self.kind == "markov":
            self.classes = _chain(rows, weights, bins)
        elif self.kind == "independent":
            for h in range(len(rows[0])):
                fields = len(rows[0][0]) - drawn
                points = [(row[h][:fields], w) for row, w in zip(rows, weights, strict=True)]
                if lattice:
                    points = _on_lattice([row[h][0] for row in rows], weights, self.unit, self.declared)
                merged = _merged(points, h + 1)
                self.classes.append([((*y, x), w * p, c) for y, w, c in merged for x, p in draws] if drawn else merged)

    def digest(self) -> str:
        sha = hashlib.sha256(f"ucsearch.trace.law.v1\0{self.kind}\0".encode())
        for points in self.classes:
            sha.update(f"\0{len(points)}\0".encode())
            numbers = [*(x for y, _, _ in points for x in y), *(w for _, w, _ in points), *(c for _, _, c in points)]
            sha.update(struct.pack(f"<{len(numbers)}d", *numbers))
        return sha.hexdigest()

    def verify(self, claim: Record) -> None:
        """The law that the claim names is this one, and its reader was told how the members hang together."""
        recorded, some = claim["law"], bool(self.classes)
        expect("claim.law.kind", recorded["kind"], self.kind)
        expect("claim.law.unit", recorded["unit"], (self.unit or None) if some else None)
        most = max([len(points) for points in self.classes], default=0)
        expect("claim.law.points", recorded["points"], (self.declared or most) if some else 0)
        expect("claim.law.hash", recorded["hash"], self.digest() if some else "")
        has_ratio = some and self.kind == "independent" and self.origin != "comonotone"
        steps = [n for n in (2, 3, 7) if n <= len(self.rows[0])] if has_ratio else []
        expect("claim.law.variance_ratio", sorted(recorded["variance_ratio"]), [str(n) for n in steps])
        for n in steps:
            near(f"claim.law.variance_ratio.{n}", recorded["variance_ratio"][str(n)], self._ratio(n), 1e3, 1e-12)

    def _ratio(self, steps: int) -> float:
        """The largest over fields; unknown where nothing varies."""
        ratios = []
        for f in range(len(self.rows[0][0])):
            columns = [[row[h][f] for row in self.rows] for h in range(steps)]
            single = _sum(self._variance(column) for column in columns)
            paths = [_sum(column[j] for column in columns) for j in range(len(self.rows))]
            ratios += [self._variance(paths) / single] if single > 0.0 else []
        return max(ratios, default=math.nan)

    def _variance(self, values: list[float]) -> float:
        first = values[0]
        mean = _sum(w * (x - first) for w, x in zip(self.weights, values, strict=True))
        return _sum(w * (x - first - mean) ** 2 for w, x in zip(self.weights, values, strict=True))
