"""UC-MCTS in plain Python: UCT on normalised values, feasible everywhere, greedy rollouts, no randomness."""

from __future__ import annotations

import math
from typing import Any

from ucsearch.engine.arrays import First, Status
from ucsearch.engine.plain.outcome import Outcome, completable, mark_root, top_candidates
from ucsearch.engine.plain.window import Candidate, Node, Window

__all__ = ["mcts"]


class _Tree:
    """A tree node. `closed` means nothing below it is left to try."""

    __slots__ = ("children", "closed", "fails", "node", "parent", "pending", "total", "visits")

    def __init__(self, node: Node, parent: _Tree | None) -> None:
        self.node, self.parent = node, parent
        self.pending: list[Candidate] | None = None  # not expanded yet, best last; None before the first visit
        self.children: list[_Tree] = []
        self.visits, self.fails, self.total, self.closed = 0, 0, 0.0, False


def mcts(window: Window, state: Any) -> Outcome:
    """Select, expand one child, roll out greedily, back up; the best evaluated path wins."""
    s = window.settings
    out = Outcome(window.size)
    root = _Tree(window.root(state), None)
    low, high = math.inf, -math.inf
    for _ in range(s.simulations):
        if root.closed:
            break
        out.simulations += 1
        tree = root
        while _candidates(window, tree, out) == [] and tree.children:
            tree = _select(tree, s.c_uct, low, high)
        if not tree.pending:
            tree.closed = True  # no feasible action here: a dead end
            _close(tree.parent)
            continue
        c = tree.pending.pop()
        window.expansions += 1
        h = len(tree.node.path)
        if h == 0:
            out.flags[c.action] |= First.GENERATED
        child = window.extend(tree.node, c, h)
        leaf = h + 1 == s.depth
        if child is None or (not leaf and not window.alive(child.states, h + 1)):
            _close(tree)
            continue
        grown = _Tree(child, tree)
        tree.children.append(grown)
        if leaf:
            grown.closed = True
        end = _rollout(window, child)
        if end is not None:
            out.retain(end)
            low, high = min(low, end.score), max(high, end.score)
        _back_up(grown, end)
        if leaf:
            _close(tree)
    out.expansions, out.action_scores = window.expansions, window.action_scores
    if out.best is not None:
        out.status = Status.FOUND
    else:
        out.status = Status.SEARCH_EXHAUSTED if completable(window, state) is not False else Status.DEAD_END
    return out


def _candidates(window: Window, tree: _Tree, out: Outcome) -> list[Candidate]:
    """What is still to be expanded here; scored on the first visit only."""
    if tree.pending is None:
        h = len(tree.node.path)
        candidates = window.score(tree.node, h)
        if h == 0:
            mark_root(out, candidates)
        tree.pending = top_candidates(candidates, window.settings.top_k)[::-1]
    return tree.pending


def _select(tree: _Tree, c_uct: float, low: float, high: float) -> _Tree:
    """The open child with the highest UCT value; the earlier one on ties."""
    best, chosen = -math.inf, tree
    width = high - low
    for child in tree.children:
        if child.closed:
            continue
        mean = 0.5
        if width > 0.0:
            mean = ((child.total + child.fails * low) / child.visits - low) / width
        value = mean + c_uct * math.sqrt(math.log(tree.visits + 1.0) / child.visits)
        if value > best:
            best, chosen = value, child
    return chosen


def _rollout(window: Window, node: Node) -> Node | None:
    """Greedy in q - risk * u to full depth; None when it runs into a dead end."""
    risk = window.settings.risk
    for h in range(len(node.path), window.depth):
        best: Candidate | None = None
        for c in window.score(node, h):
            if best is None or (c.q - risk * c.u, -c.u) > (best.q - risk * best.u, -best.u):
                best = c
        if best is None:
            return None
        window.expansions += 1
        extended = window.extend(node, best, h)
        if extended is None:
            return None
        node = extended
    return node


def _back_up(tree: _Tree, end: Node | None) -> None:
    at: _Tree | None = tree
    while at is not None:
        at.visits += 1
        if end is None:
            at.fails += 1
        else:
            at.total += end.score
        at = at.parent


def _close(tree: _Tree | None) -> None:
    """Close a node when nothing is pending and every child is closed, and so on upwards."""
    while tree is not None and not tree.pending and all(c.closed for c in tree.children):
        tree.closed = True
        tree = tree.parent
