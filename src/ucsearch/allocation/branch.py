"""A tighter bound for few series: the choices are split in two, again and again, and every part has prices of its own.

With a dozen indivisible orders no single price splits a truck evenly, and the gap at the best price is large although
the allocation is the best there is. The largest bound of all parts holds for all allocations. Splitting is free; a
verifier only needs the tree.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.problem import Problem
from ucsearch.allocation.solve import bound_at, choose_at, prices_near

__all__ = ["Part", "Split", "Tree", "branch"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MOST_PARTS = 160
DEEPEST = 60


class Part(NamedTuple):
    """Choices that are not split further."""

    prices: tuple[Floats, ...]  # per resource (G,)
    over: tuple[int, int] | None  # resource and group whose limit none of these choices keeps; prices do not count then


class Split(NamedTuple):
    """One series takes one of `actions` (`inside`), or another one (`outside`)."""

    series: int
    actions: tuple[int, ...]
    inside: Tree
    outside: Tree


Tree = Part | Split


class _Node:
    def __init__(self, allowed: Bools, prices: list[Floats], bound: float, depth: int) -> None:
        self.allowed, self.prices, self.bound, self.depth = allowed, prices, bound, depth
        self.over: tuple[int, int] | None = None
        self.split: tuple[int, tuple[int, ...], _Node, _Node] | None = None

    def tree(self) -> Tree:
        if self.split is None:
            return Part(tuple(self.prices), self.over)
        series, actions, inside, outside = self.split
        return Split(series, actions, inside.tree(), outside.tree())


def branch(
    problem: Problem, choice: Ints, prices: tuple[Floats, ...], upper: float, enough: float
) -> tuple[Ints, float, Tree]:
    """A choice at least as good, a bound at most as large, and the tree it comes from; `enough`: a gap that will do."""
    root = _Node(problem.ceiling > -np.inf, list(prices), upper, 0)
    best, value = choice, _value(problem, choice)
    heap: list[tuple[float, int, _Node]] = [(-upper, 0, root)]
    done, parts = -math.inf, 1
    while heap and parts < MOST_PARTS and -heap[0][0] - value > enough:
        _, _, node = heapq.heappop(heap)
        split = None if node.depth >= DEEPEST else _best_split(problem, node)
        if split is None:
            done = max(done, node.bound)
            continue
        series, inside = split
        children = []
        for rows in (inside, node.allowed[series] & ~inside):
            allowed = node.allowed.copy()
            allowed[series] = rows
            child, candidate = _child(problem, node, allowed)
            children.append(child)
            if candidate is not None and _value(problem, candidate) > value:
                best, value = candidate, _value(problem, candidate)
        node.split = (series, tuple(np.flatnonzero(inside).tolist()), children[0], children[1])
        for child in children:
            parts += 1
            if child.over is None:
                heapq.heappush(heap, (-child.bound, parts, child))
    top = max([done, *(-x[0] for x in heap)], default=-math.inf)
    return best, max(top, value), root.tree()


def _child(problem: Problem, parent: _Node, allowed: Bools) -> tuple[_Node, Ints | None]:
    node = _Node(allowed, parent.prices, parent.bound, parent.depth + 1)
    node.over = _overdrawn(problem, allowed)
    if node.over is not None:
        return node, None
    part = replace(
        problem, lower=np.where(allowed, problem.lower, np.nan), upper=np.where(allowed, problem.upper, np.nan),
        resources=tuple(replace(r) for r in problem.resources),
    )  # fmt: skip
    candidates = [parent.prices, *prices_near(part, parent.prices)]
    bounds = [bound_at(part, prices) for prices in candidates]
    at = int(np.argmin(bounds))
    node.prices, node.bound = candidates[at], bounds[at]
    if np.isnan(part.lower).all(axis=1).any() or part.missing():
        return node, None
    return node, choose_at(part, node.prices)


def _overdrawn(problem: Problem, allowed: Bools) -> tuple[int, int] | None:
    for k, r in enumerate(problem.resources):
        least = np.where(allowed, r.use, np.inf).min(axis=1)
        for g in np.flatnonzero(~r.fits(np.where(r.group >= 0, least, 0.0))).tolist():
            return k, int(g)
    return None


def _best_split(problem: Problem, node: _Node) -> tuple[int, Bools] | None:
    """The series that is nearest to another action at the prices, by far the dearer or the cheaper one; and which of
    its actions are the cheaper ones. None where all are settled."""
    charge = problem.charge(node.prices)
    value = np.where(node.allowed, problem.ceiling - charge, -np.inf)
    rows = np.arange(value.shape[0])
    first = np.argmax(value, axis=1)
    apart = np.abs(charge - charge[rows, first][:, None])
    apart = np.where(node.allowed, apart, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(apart > 0.0, (value[rows, first][:, None] - value) / apart, np.inf)
    nearest = rate.min(axis=1)
    if not np.isfinite(nearest).any():
        return None
    tied = nearest <= nearest.min() * (1.0 + 1e-9) + 1e-12
    other = np.argmin(rate, axis=1)
    series = int(np.argmax(np.where(tied, apart[rows, other], -1.0)))
    middle = 0.5 * (charge[series, first[series]] + charge[series, other[series]])
    inside = node.allowed[series] & (charge[series] < middle)
    if not inside.any() or not (node.allowed[series] & ~inside).any():
        return None
    return series, inside


def _value(problem: Problem, choice: Ints) -> float:
    return math.fsum(problem.picked(problem.lower, choice).tolist())
