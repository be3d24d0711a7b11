"""Exact search in plain Python: branch and bound (or enumeration without a bound), and memoised dynamic programming."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ucsearch.engine.arrays import DP_SWITCH, ENUMERATE_BELOW, Fault, First, Status
from ucsearch.engine.plain.outcome import Outcome, better, completable, mark_root
from ucsearch.engine.plain.window import Candidate, Node, Window, is_same

__all__ = ["exact"]


class _Stop(Exception):
    """The node budget is used up."""


def exact(window: Window, state: Any) -> Outcome:
    """Branch and bound with a bound; else enumeration when there are few paths, else dynamic programming."""
    s = window.settings
    budget = s.node_budget
    paths = 1.0
    for _ in range(s.depth):
        paths *= len(window.available)
    small = paths <= ENUMERATE_BELOW
    out = Outcome(window.size)
    if window.is_members:
        values: Callable[[Node], float] | None = None
        if not s.use_bound and not small and not window.continues:
            perfect = _PerfectInformation(window, budget)
            try:
                perfect.solve(state)
                values = perfect.value
            except _Stop:
                pass
            window.expansions += perfect.nodes
        _branch_and_bound(window, state, out, budget, values)
    elif s.use_bound or small:
        first_try = min(budget, DP_SWITCH) if s.use_bound and not small else budget
        _branch_and_bound(window, state, out, first_try, None)
        if out.status == Status.NOT_PROVED and first_try < budget:
            _programme(window, state, out, budget)
    else:
        _programme(window, state, out, budget)
    out.expansions, out.action_scores = window.expansions, window.action_scores
    return out


# -------------------------------------------------------------------- branch and bound


def _branch_and_bound(
    window: Window, state: Any, out: Outcome, budget: int, values: Callable[[Node], float] | None
) -> None:
    s = window.settings
    bounded = s.use_bound or values is not None

    def children(node: Node, h: int) -> list[tuple[float, Node]]:
        """Different, living children with an upper bound on what lies below, most promising first."""
        found: list[tuple[float, Node]] = []
        kept: list[Candidate] = []
        candidates = window.score(node, h)
        if h == 0:
            mark_root(out, candidates)
        for c in candidates:
            if any(is_same(c, b) for b in kept):
                continue
            kept.append(c)
            if window.expansions >= budget:
                raise _Stop
            window.expansions += 1
            if h == 0:
                out.flags[c.action] |= First.GENERATED
            child = window.extend(node, c, h)
            if child is None or (h + 1 < s.depth and not window.alive(child.states, h + 1)):
                continue
            limit = window.limit(child)
            if h + 1 < s.depth:
                if values is not None:
                    limit = child.reward + values(child)
                elif not bounded:
                    limit = math.inf
            found.append((limit, child))
        if bounded:
            found.sort(key=lambda item: (-item[0], item[1].uncertainty, item[1].path))
        return found

    try:
        stack = [iter(children(window.root(state), 0))]
        while stack:
            item = next(stack[-1], None)
            if item is None:
                stack.pop()
                continue
            limit, child = item
            first, full = child.path[0], len(stack) == s.depth
            rival = out.firsts[first] if s.every_action else out.best
            if rival is not None and _hopeless(limit, child, rival, full):
                out.raise_bound(first, limit)
            elif full:
                out.retain(child)
                out.raise_bound(first, child.score)
            else:
                stack.append(iter(children(child, len(stack))))
    except _Stop:
        out.status = Status.NOT_PROVED
        out.bounds = [math.nan] * out.size  # the tree was not finished, so nothing bounds it
        return
    _settle(window, state, out)


def _hopeless(limit: float, child: Node, rival: Node, full: bool) -> bool:
    """Nothing below `child` beats `rival`, ties by U and then by path included.

    U never falls along a path in additive modes; in members mode it may fall to 0.
    """
    if limit != rival.score:
        return limit < rival.score
    if full:
        return not better(child, rival)
    least = 0.0 if child.returns else child.uncertainty
    if least != rival.uncertainty:
        return least > rival.uncertainty
    return child.path > rival.path[: len(child.path)]


def _settle(window: Window, state: Any, out: Outcome) -> None:
    if out.best is None:
        found = completable(window, state)
        out.status = Status.SEARCH_EXHAUSTED if found is not False else Status.DEAD_END
        if found is False:
            out.flags = [f | First.DEAD if f & First.FEASIBLE and not f & First.DUPLICATE else f for f in out.flags]
        return
    out.status = Status.PROVED
    out.upper = out.best.score
    for i, node in enumerate(out.firsts):
        if not out.flags[i] & First.FEASIBLE or out.flags[i] & First.DUPLICATE:
            continue
        if math.isnan(out.bounds[i]):
            out.flags[i] |= First.DEAD
        elif node is not None and out.bounds[i] <= node.score:
            out.flags[i] |= First.EXACT


# -------------------------------------------------------------------- dynamic programming


def _programme(window: Window, state: Any, out: Outcome, budget: int) -> None:
    """Forward over distinct states, backward over values, then one forward re-scored path per first action."""
    s = window.settings
    layers: list[dict[Any, None]] = [{state: None}]
    for h in range(s.depth):
        following: dict[Any, None] = {}
        for known in layers[h]:
            node = window.root(known)
            candidates = window.score(node, h)
            if h == 0:
                mark_root(out, candidates)
            for c in candidates:
                if c.states[0] not in following:
                    if window.expansions >= budget:
                        out.status = Status.NOT_PROVED
                        return
                    window.expansions += 1
                    following[c.states[0]] = None
        layers.append(following)
    values: dict[Any, tuple[float, float]] = {}
    end = window.discounts[s.depth]
    for known in layers[s.depth]:
        if window.ended((known,), s.depth - 1, 0):
            values[known] = (end * window.terminal(known, s.depth - 1, 0), 0.0)
    choices: list[dict[Any, int]] = [{} for _ in range(s.depth)]
    counted = window.action_scores
    for h in range(s.depth - 1, -1, -1):
        current: dict[Any, tuple[float, float]] = {}
        for known in layers[h]:
            best: tuple[float, float] | None = None
            for c in window.score(window.root(known), h):
                after = values.get(c.states[0])
                if after is None:
                    continue
                factor = window.discounts[h]
                here = (factor * (c.q - s.risk * c.u) + after[0], factor * c.u + after[1])
                if best is None or here[0] > best[0] or (here[0] == best[0] and here[1] < best[1]):
                    best, choices[h][known] = here, c.action
                if h == 0:
                    out.flags[c.action] |= First.GENERATED
            if best is not None:
                current[known] = best
        if h > 0:
            values = current
    window.action_scores = counted
    for i in range(window.size):
        if not out.flags[i] & First.FEASIBLE or out.flags[i] & First.DUPLICATE:
            continue
        replayed = _replay(window, state, i, choices)
        if replayed is None:
            out.flags[i] = (out.flags[i] | First.DEAD) & ~First.GENERATED
        else:
            out.retain(replayed)
            out.flags[i] |= First.EXACT
            out.bounds[i] = out.firsts[i].score  # type: ignore[union-attr]
    window.action_scores = counted
    if out.best is None:
        out.status = Status.DEAD_END
    else:
        out.status, out.upper = Status.PROVED, out.best.score


def _replay(window: Window, state: Any, first: int, choices: list[dict[Any, int]]) -> Node | None:
    """The path the programme found after `first`, summed forward like any other path."""
    node = window.root(state)
    for h in range(window.depth):
        action = first if h == 0 else choices[h].get(node.states[0], -1)
        if action < 0:
            return None
        (c,) = [c for c in window.score(node, h) if c.action == action]
        extended = window.extend(node, c, h)
        if extended is None:
            return None
        node = extended
    return node


class _PerfectInformation:
    """Each member's own best reward to go, as if it knew its future: admissible for every common plan."""

    def __init__(self, window: Window, budget: int) -> None:
        self.window, self.budget, self.nodes = window, budget, 0
        self.known: list[list[dict[Any, float]]] = []  # [j][h] state -> value

    def solve(self, state: Any) -> None:
        for j in range(len(self.window.members)):
            self.known.append(self._member(j, state))

    def _member(self, j: int, state: Any) -> list[dict[Any, float]]:
        window, depth, member = self.window, self.window.depth, self.window.members[j]
        layers: list[dict[Any, None]] = [{state: None}]
        for h in range(depth):
            following: dict[Any, None] = {}
            for reached in layers[h]:
                for i in window.available:
                    if window.allowed((reached,), i, h):
                        new = window.move(reached, i, member[h], h)
                        if new not in following:
                            if self.nodes >= self.budget:
                                raise _Stop
                            self.nodes += 1
                            following[new] = None
            layers.append(following)
        values: list[dict[Any, float]] = [{} for _ in range(depth + 1)]
        for reached in layers[depth]:
            if window.ended((reached,), depth - 1, 0):
                values[depth][reached] = window.discounts[depth] * window.terminal(reached, depth - 1, 0)
        for h in range(depth - 1, -1, -1):
            for reached in layers[h]:
                best = -math.inf
                for i in window.available:
                    if window.allowed((reached,), i, h):
                        after = values[h + 1].get(window.move(reached, i, member[h], h), -math.inf)
                        args = (reached, window.actions[i], member[h], h, window.params)
                        reward = window.number(window.task.reward_at, Fault.REWARD, h, i, *args)
                        best = max(best, window.discounts[h] * reward + after)
                values[h][reached] = best
        return values

    def value(self, node: Node) -> float:
        """mean_j of the members' own values to go from `node`."""
        h = len(node.path)
        total = 0.0
        for j, state in enumerate(node.states):
            total += self.window.weights[j] * self.known[j][h][state]
        return total
