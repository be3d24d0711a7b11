"""What an engine hands back for one window, before it becomes a `Plan`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ucsearch.engine.arrays import COMPLETION_CAP, First, Status
from ucsearch.engine.plain.window import Candidate, Node, Window, is_same

__all__ = ["Outcome", "better", "completable", "mark_root", "top_candidates"]


@dataclass
class Outcome:
    """Status, best path and the first-action table; indices are into the task's actions (m of them)."""

    size: int
    status: Status = Status.SEARCH_EXHAUSTED
    best: Node | None = None
    upper: float = math.nan  # proved upper bound on the best score; NaN when nothing bounds it
    expansions: int = 0
    action_scores: int = 0
    simulations: int = 0
    fault: tuple[int, int, int] = (0, 0, 0)  # kind, step, action index
    flags: list[int] = field(default_factory=list)  # (m,) bits of `First`
    bounds: list[float] = field(default_factory=list)  # (m,) upper bound per first action, NaN unknown
    firsts: list[Node | None] = field(default_factory=list)  # (m,) best full path per first action
    steps: list[tuple[float, float]] = field(default_factory=list)  # (m,) q and u of the first step, NaN infeasible
    branches: list[tuple[int, ...]] = field(default_factory=list)  # closed mode: what follows low and high outcomes

    def __post_init__(self) -> None:
        self.flags = [0] * self.size
        self.bounds = [math.nan] * self.size
        self.firsts = [None] * self.size
        self.steps = [(math.nan, math.nan)] * self.size

    def retain(self, node: Node) -> None:
        """Enter a full path into the table and the incumbent."""
        first = node.path[0]
        self.flags[first] |= First.RETAINED
        if better(node, self.firsts[first]):
            self.firsts[first] = node
        if better(node, self.best):
            self.best = node

    def raise_bound(self, first: int, value: float) -> None:
        """Below `first` nothing scores more than `value`, as far as this part of the tree goes."""
        self.bounds[first] = value if math.isnan(self.bounds[first]) else max(self.bounds[first], value)


def better(a: Node, b: Node | None) -> bool:
    """Higher S, then lower U, then the lexicographically smaller path."""
    if b is None:
        return True
    if a.score != b.score:
        return a.score > b.score
    if a.uncertainty != b.uncertainty:
        return a.uncertainty < b.uncertainty
    return a.path < b.path


def mark_root(out: Outcome, candidates: list[Candidate]) -> None:
    """Mark what is feasible at the root and which actions a smaller one stands for."""
    for i, c in enumerate(candidates):
        out.flags[c.action] |= First.FEASIBLE
        out.steps[c.action] = (c.q, c.u)
        if any(is_same(c, b) for b in candidates[:i]):
            out.flags[c.action] |= First.DUPLICATE


def top_candidates(candidates: list[Candidate], k: int) -> list[Candidate]:
    """The best `k` of different effect by rank: higher, then lower u, then the smaller action."""
    chosen: list[Candidate] = []
    for c in candidates:
        at = len(chosen)
        while at > 0 and (c.rank, -c.u) > (chosen[at - 1].rank, -chosen[at - 1].u):
            at -= 1
        if at < k and not any(is_same(c, b) for b in chosen):
            chosen.insert(at, c)
            del chosen[k:]
    return chosen


def completable(window: Window, state: object) -> bool | None:
    """Whether some path of full depth exists; None when the cap is reached before the answer.

    Depth-first over actions in ascending order; scores do not matter here.
    """
    budget, last_action = COMPLETION_CAP, 0
    walk: list[tuple[object, ...]] = [window.root(state).states]
    cursors = [iter(window.available)]
    while walk:
        step = len(walk) - 1
        if step == window.depth:
            if window.continues or window.ended(walk[-1], step - 1, last_action):
                return True
            walk.pop()
            cursors.pop()
            continue
        i = next(cursors[-1], None)
        if i is None:
            walk.pop()
            cursors.pop()
            continue
        if budget <= 0:
            return None
        if not window.allowed(walk[-1], i, step):
            continue
        budget -= 1
        last_action = i
        outcomes = [y[step] for y in window.members] if window.is_members else [window.mean[step]]
        walk.append(tuple(window.move(s, i, y, step) for s, y in zip(walk[-1], outcomes, strict=True)))
        cursors.append(iter(window.available))
    return False
