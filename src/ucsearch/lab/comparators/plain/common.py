"""What both families share: the objective, the first-action table under it, and how a run without a path ends."""

from __future__ import annotations

from typing import Any

from ucsearch.engine.arrays import First, Status
from ucsearch.engine.plain.outcome import Outcome, completable
from ucsearch.engine.plain.window import Candidate, Node, Window
from ucsearch.lab.comparators.streams import absorb, content_of, mix64

__all__ = ["finish", "prefers", "retain", "score_one", "window_stream"]


def window_stream(window: Window, state: Any, seed: int) -> tuple[int, int]:
    """The stream of (seed, window) and the window's content alone."""
    values = window.layout.flatten(state, "state")
    values += window.mean_array[: window.depth].ravel().tolist()
    for h in range(window.depth):
        if window.q[h : h + 1]:
            values += window.q[h] + window.u[h]
    content = content_of(values)
    return absorb(mix64(seed), content), content


def score_one(window: Window, node: Node, action: int, step: int) -> Candidate:
    """Score one action that is known to be feasible."""
    window.action_scores += 1
    return window.score_one(node, action, step)


def prefers(a: Node, b: Node | None, risk: float) -> bool:
    """Higher objective, then lower U, then the lexicographically smaller path."""
    if b is None:
        return True
    of_a, of_b = a.reward - risk * a.uncertainty, b.reward - risk * b.uncertainty
    if of_a != of_b:
        return of_a > of_b
    if a.uncertainty != b.uncertainty:
        return a.uncertainty < b.uncertainty
    return a.path < b.path


def retain(out: Outcome, node: Node, risk: float) -> None:
    """Enter a full path into the table and the incumbent, both ranked by the objective at `risk`."""
    first = node.path[0]
    out.flags[first] |= First.RETAINED
    if prefers(node, out.firsts[first], risk):
        out.firsts[first] = node
    if prefers(node, out.best, risk):
        out.best = node


def finish(window: Window, state: Any, out: Outcome) -> None:
    """Counters and status; without a path, tell a dead end from a search that lost every path."""
    out.expansions, out.action_scores = window.expansions, window.action_scores
    if out.best is not None:
        out.status = Status.FOUND
    else:
        out.status = Status.SEARCH_EXHAUSTED if completable(window, state) is not False else Status.DEAD_END
