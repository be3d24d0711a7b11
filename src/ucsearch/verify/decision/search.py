"""The searches a verifier needs: the planner's beams a second time, and exact values within a node budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ucsearch.verify.decision.problem import Edge, Fault, PathNode, RecordedProblem, distinct
from ucsearch.verify.decision.problem import Meter as Meter
from ucsearch.verify.decision.problem import OutOfNodes as OutOfNodes

FEW_PATHS = 4_096  # up to here the task's bound need not be trusted
FIRST_TRY = 50_000  # nodes spent in one way before another one is tried
COMPLETION_MOVES = 100_000  # after so many a planner no longer says that no path exists
Limit = Callable[[PathNode], float]


# -------------------------------------------------------------------- the planner's beams, again


class RetainedPaths(NamedTuple):
    """What a beam retained."""

    paths: dict[int, PathNode]  # best full path of each first action, the best of all first
    generated: set[int]
    expansions: int
    action_scores: int
    dead_end: bool  # nothing was found, and no path of full depth exists


def in_order(nodes: Iterable[PathNode]) -> list[PathNode]:
    """Higher score (with what may follow), lower uncertainty, smaller path."""
    return sorted(nodes, key=lambda n: (-(n.score + n.togo), n.uncertainty, n.path))


def beam(p: RecordedProblem) -> RetainedPaths:
    """UC-Beam, UC-Pareto Beam and Certified Retained Pareto Beam, by `settings.keep`."""
    s, layer, expansions, scores = p.settings, [p.root()], 0, 0
    generated: set[int] = set()
    if p.use_bound:
        p.tables()
    for h in range(p.depth):
        children: list[PathNode] = []
        for node in layer:
            ranked = []
            for e in (edges := p.edges(node.states, h)):
                rank = e.q - s["prune_risk"] * e.u + s["info_bonus"] * e.u
                togo = p.togo(e.states, h + 1) if p.use_bound else 0.0
                ranked.append((-(rank + togo), e.u, e, togo))
            scores += len(edges)
            alone = {e.action for e in distinct(edges)}
            ranked.sort(key=lambda r: (r[0], r[1], r[2].action))
            chosen = [r for r in ranked if r[2].action in alone][: s["top_k"]]
            expansions += len(chosen)
            generated |= {e.action for _, _, e, _ in chosen if h == 0}
            grown = [p.extend(node, e, togo) for _, _, e, togo in chosen]
            children += [c for c in grown if c and (h + 1 == p.depth or p.alive(c.states, h + 1))]
        layer = _retain(children, s["keep"], s["width"])
    paths: dict[int, PathNode] = {}
    for n in in_order(layer):
        paths.setdefault(n.path[0], n)
    return RetainedPaths(paths, generated, expansions, scores, not paths and not completes(p))


def _figures(n: PathNode) -> tuple[float, float]:
    return -(n.reward + n.togo), n.uncertainty


def _retain(children: list[PathNode], keep: int, width: int) -> list[PathNode]:
    """Reserved places first (keep 2), then nondominated nodes (keep 1 and 2), then the rest; each in order of score."""
    ranked = in_order(children)
    place = dict.fromkeys([n.path for n in ranked], math.inf)
    if keep >= 1:
        last = (math.nan, math.inf)
        for n in sorted(ranked, key=_figures):
            here = _figures(n)
            if n.uncertainty < last[1] or here == last:
                last, place[n.path] = here, 1
    if keep == 2:
        for n in {n.path[0]: n for n in reversed(ranked)}.values():
            place[n.path] = 0
    return sorted(ranked, key=lambda n: place[n.path])[:width]


def completes(p: RecordedProblem) -> bool:
    """Whether a path of full depth exists, or may exist after so many moves without an answer."""
    moves, stack = COMPLETION_MOVES, [(p.root().states, iter(p.available))]
    while stack:
        states, h = stack[-1][0], len(stack) - 1
        i = None if h == p.depth else next(stack[-1][1], None)
        if (i is not None and moves <= 0) or (h == p.depth and (p.continues or p.may_end(states))):
            return True
        if i is None:
            stack.pop()
        elif p.allowed(states, i, h):
            moves -= 1
            ys = [y[h] for y in p.members] if p.is_members else [p.mean[h]]
            moved = tuple(p.move(s, p.actions[i], y, h) for s, y in zip(states, ys, strict=True))
            stack.append((moved, iter(p.available)))
    return False


# -------------------------------------------------------------------- exact values, within a budget


def values_to_go(p: RecordedProblem, meter: Meter) -> list[dict[Any, float]]:
    """Additive modes: the best discounted score still to be had, by step, from every state that can be reached."""
    layers: list[dict[Any, tuple[Edge, ...]]] = []
    states = {p.state: None}
    for h in range(p.depth):
        layers.append({})
        for s in states:
            meter.spend(1)
            layers[h][s] = p.edges((s,), h)
        states = {e.states[0]: None for edges in layers[h].values() for e in edges}
    values = [{s: p.discounts[p.depth] * p.end(s) if p.may_end((s,)) else -math.inf for s in states}]
    for h in range(p.depth - 1, -1, -1):
        after, factor, here = values[-1], p.discounts[h], {}
        for s, edges in layers[h].items():
            here[s] = max([factor * (e.q - p.risk * e.u) + after[e.states[0]] for e in edges], default=-math.inf)
        values.append(here)
    return values[::-1]


class Prover:
    """The best score of a path that begins with a given action, by depth-first search under a limit on what is below.

    The limit is the exact value to go (members mode: the mean of what each member could earn if it knew its outcomes;
    with continuations there is none). Where there are many paths the task's bound, if it has one, is tried first.
    """

    def __init__(self, p: RecordedProblem, meter: Meter) -> None:
        self.p, self.meter = p, meter
        # Beyond so many steps a power would be a number too long to compute.
        few = len(p.available) <= 1 or (p.depth <= FEW_PATHS and len(p.available) ** p.depth <= FEW_PATHS)
        bound = [self._bound] if p.has_bound else []
        self.ways: list[Callable[[Meter], Limit]] = [self._values, *bound] if few else [*bound, self._values]
        self.limit: Limit | None = None

    def best(self, first: Edge, floor: float) -> PathNode | None:
        """The path with the best score above `floor`; None when no path scores more than that."""
        while True:
            last = len(self.ways) == 1
            meter = self.meter if last else Meter(FIRST_TRY, self.meter)
            try:
                if self.limit is None:
                    self.limit = self.ways[0](meter)
                return self._search(first, floor, self.limit, meter)
            except (OutOfNodes, Fault):
                if last:
                    raise
                self.ways, self.limit = self.ways[1:], None

    def _search(self, first: Edge, floor: float, limit: Limit, meter: Meter) -> PathNode | None:
        p, best = self.p, None
        start = p.extend(p.root(), first)
        stack = [] if start is None else [(limit(start), start)]
        while stack:
            above, node = stack.pop()
            if not above > floor:
                continue
            meter.spend(len(node.states))
            if len(node.path) == p.depth:
                best, floor = node, node.score
                continue
            children = [p.extend(node, e) for e in p.edges(node.states, len(node.path))]
            stack += sorted([(limit(c), c) for c in children if c is not None], key=lambda item: item[0])
        return best

    def among(self, first: Edge, floor: float, fits: Callable[[PathNode], bool]) -> bool:
        """Whether one of the paths that score more than `floor` fits."""
        limit = self.limit
        if limit is None:
            limit = self.limit = self.ways[0](self.meter)
        start = self.p.extend(self.p.root(), first)
        stack = [] if start is None else [start]
        while stack:
            node = stack.pop()
            if not limit(node) > floor:
                continue
            self.meter.spend(len(node.states))
            if len(node.path) < self.p.depth:
                children = [self.p.extend(node, e) for e in self.p.edges(node.states, len(node.path))]
                stack += [c for c in children if c is not None]
            elif fits(node):
                return True
        return False

    def look_everywhere(self, root: Iterable[Edge]) -> None:
        """Follow every path, as far as the budget goes, and raise what a task function raises on the way."""

        def limit(n: PathNode) -> float:
            if self.p.use_bound:
                self.p.togo(n.states, len(n.path))
            return math.inf

        if self.p.use_bound:
            self.p.tables()
        for edge in root:
            self._search(edge, -math.inf, limit, self.meter)

    def _bound(self, meter: Meter) -> Limit:
        return self._sum(lambda n: self.p.togo(n.states, len(n.path)))

    def _values(self, meter: Meter) -> Limit:
        p = self.p
        if p.continues:
            return self._sum(lambda n: math.inf)
        if not p.is_members:
            values = values_to_go(p, meter)
            return self._sum(lambda n: values[len(n.path)][n.states[0]])
        by_member = [values_to_go(p.certain(j), meter) for j in range(len(p.members))]
        return self._sum(
            lambda n: sum(w * to_go[len(n.path)][s] for w, to_go, s in zip(p.weights, by_member, n.states, strict=True))
        )

    def _sum(self, ahead: Limit) -> Limit:
        """In members mode the uncertainty so far is no part of the limit: it may fall again."""
        depth, members = self.p.depth, self.p.is_members
        return lambda n: n.score if len(n.path) == depth else (n.reward if members else n.score) + ahead(n)
