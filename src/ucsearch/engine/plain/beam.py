"""UC-Beam, UC-Pareto Beam and Certified Retained Pareto Beam in plain Python."""

from __future__ import annotations

from typing import Any

from ucsearch.engine.arrays import First, Status
from ucsearch.engine.plain.outcome import Outcome, completable, mark_root, top_candidates
from ucsearch.engine.plain.window import Node, Window, is_same
from ucsearch.policies import Keep

__all__ = ["beam"]


def beam(window: Window, state: Any) -> Outcome:
    """Expand, score, retain; layer by layer."""
    s = window.settings
    out = Outcome(window.size)
    layer = [window.root(state)]
    for h in range(s.depth):
        children: list[Node] = []
        for node in layer:
            candidates = window.score(node, h)
            if h == 0:
                mark_root(out, candidates)
            chosen = top_candidates(candidates, s.top_k)
            if s.use_bound and len(chosen) < len(candidates):
                for c in candidates:
                    # What a chosen action stands for is not dropped (and at the root a duplicate is no action).
                    stood_for = h == 0 and out.flags[c.action] & First.DUPLICATE
                    if not stood_for and not any(is_same(c, b) for b in chosen):
                        first = node.path[0] if h else c.action
                        out.raise_bound(first, window.limit_of_candidate(node, c, h))
            for c in chosen:
                window.expansions += 1
                if h == 0:
                    out.flags[c.action] |= First.GENERATED
                child = window.extend(node, c, h)
                # A child without a feasible successor counts as expanded, then drops.
                if child is not None and (h + 1 == s.depth or window.alive(child.states, h + 1)):
                    children.append(child)
        layer = _retain(window, children, out)
        if not layer:
            break
    for node in layer:
        if len(node.path) == s.depth:
            out.retain(node)
    _finish(window, state, out)
    return out


def _retain(window: Window, children: list[Node], out: Outcome) -> list[Node]:
    """The best `width` children: reserved places first, then nondominated ones, then by score."""
    s = window.settings
    ranked = sorted(children, key=_order)
    place = {id(n): 2 for n in ranked}
    if s.keep != Keep.SCORE:
        for n in _nondominated(ranked):
            place[id(n)] = 1
    if s.keep == Keep.CERTIFIED:
        seen: set[int] = set()
        for n in ranked:
            if n.path[0] not in seen:
                seen.add(n.path[0])
                place[id(n)] = 0
    ranked.sort(key=lambda n: place[id(n)])  # stable: within a place the order stays
    if s.use_bound:
        for n in ranked[s.width :]:
            out.raise_bound(n.path[0], window.limit(n))
    return ranked[: s.width]


def _order(n: Node) -> tuple[float, float, tuple[int, ...]]:
    return (-(n.score + n.togo), n.uncertainty, n.path)


def _nondominated(nodes: list[Node]) -> list[Node]:
    """Nodes that no other beats in optimistic reward and uncertainty (one of them strictly)."""
    ordered = sorted(nodes, key=lambda n: (-(n.reward + n.togo), n.uncertainty))
    front: list[Node] = []
    for n in ordered:
        last = front[-1] if front else None
        equal = last is not None and (n.uncertainty, n.reward + n.togo) == (last.uncertainty, last.reward + last.togo)
        if last is None or equal or n.uncertainty < last.uncertainty:
            front.append(n)
    return front


def _finish(window: Window, state: Any, out: Outcome) -> None:
    out.expansions, out.action_scores = window.expansions, window.action_scores
    if out.best is None:
        out.status = Status.SEARCH_EXHAUSTED if completable(window, state) is not False else Status.DEAD_END
        return
    out.status = Status.FOUND
    if not window.settings.use_bound:
        return
    upper = out.best.score
    for i, node in enumerate(out.firsts):
        if node is not None:
            out.raise_bound(i, node.score)
        if out.bounds[i] == out.bounds[i]:
            upper = max(upper, out.bounds[i])
        elif out.flags[i] & First.GENERATED:
            out.flags[i] |= First.DEAD  # every child ended in a dead end and none was dropped
    out.upper = upper
    if upper <= out.best.score:
        out.status = Status.PROVED
