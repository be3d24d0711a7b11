"""Random, greedy, risk-greedy and delay-aware greedy, in plain Python.

All walk down one path: at each step the actions at hand are ranked and the first is taken; where that ends in a dead
end the step is withdrawn and the next in rank is tried. The first action is therefore the first in rank among those
that have a completion of full depth, and no path that left the feasible set is ever considered.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ucsearch.engine.arrays import COMPLETION_CAP, First
from ucsearch.engine.plain.outcome import Outcome, mark_root
from ucsearch.engine.plain.window import Candidate, Node, Window
from ucsearch.lab.comparators.plain.common import finish, retain, window_stream
from ucsearch.lab.comparators.streams import MASK, absorb, uniform

__all__ = ["DELAYED", "GREEDY", "RANDOM", "myopic"]

RANDOM, GREEDY, DELAYED = 0, 1, 2


class _Options(NamedTuple):
    """extra_i and extra_f by name; see ../policies.py."""

    variant: int
    delay: int
    seed: int
    length: int
    risk: float  # of the ranking and the objective: 0 when reward only


class _Walk:
    """A walk from `node` down to full depth, with the steps it entered."""

    def __init__(self, window: Window, options: _Options, stream: int) -> None:
        self.window, self.options, self.stream = window, options, stream
        self.visits = 0  # nodes whose actions were ranked; each has its own random numbers

    def ranked(self, candidates: list[Candidate]) -> list[Candidate]:
        """First in rank last."""
        if self.options.variant == RANDOM:
            visit = absorb(self.stream, self.visits + 1)
            keys = {c.action: uniform(absorb(visit, c.action + 1)) for c in candidates}
            ranked = sorted(candidates, key=lambda c: (keys[c.action], -c.action))
        else:
            risk = self.options.risk
            ranked = sorted(candidates, key=lambda c: (c.q - risk * c.u, -c.u, -c.action))
        self.visits += 1
        return ranked

    def down(self, start: Node, pending: list[Candidate], out: Outcome) -> tuple[list[Node], int]:
        """Nodes from `start` to full depth ([] when there is no way or it takes too long), and steps entered."""
        window, steps = self.window, 0
        nodes, queues = [start], [pending]
        while nodes:
            h = len(nodes[-1].path)
            if h == window.depth:
                return nodes, steps
            if not queues[-1]:
                nodes.pop()
                queues.pop()
                continue
            if steps >= COMPLETION_CAP:
                return [], steps
            candidate = queues[-1].pop()
            steps += 1
            if h == 0:
                out.flags[candidate.action] |= First.GENERATED
            child = window.extend(nodes[-1], candidate, h)
            if child is not None:
                nodes.append(child)
                queues.append([] if h + 1 == window.depth else self.ranked(window.score(child, h + 1)))
        return [], steps


def myopic(window: Window, state: Any) -> Outcome:
    options = _Options(*window.settings.extra_i, *window.settings.extra_f)
    out = Outcome(window.size)
    root = window.root(state)
    firsts = window.score(root, 0)
    mark_root(out, firsts)
    stream, _ = window_stream(window, state, options.seed & MASK)
    walk = _Walk(window, options, stream)
    if options.variant == DELAYED:
        _delayed(walk, root, firsts, out)
    else:
        nodes, steps = walk.down(root, walk.ranked(firsts), out)
        if nodes:
            retain(out, nodes[-1], options.risk)
        # The path itself is no search: only steps tried in vain count.
        window.expansions += steps - window.depth if nodes else steps
    finish(window, state, out)
    return out


def _delayed(walk: _Walk, root: Node, firsts: list[Candidate], out: Outcome) -> None:
    """Each first action is followed greedily and judged by what has accrued when its effect has been realised."""
    window, options = walk.window, walk.options
    best: tuple[float, float] | None = None
    for first in firsts:
        if out.flags[first.action] & First.DUPLICATE:
            continue
        out.flags[first.action] |= First.GENERATED
        child = window.extend(root, first, 0)
        if child is None:
            continue
        pending = [] if window.depth == 1 else walk.ranked(window.score(child, 1))
        nodes, steps = walk.down(child, pending, out)
        window.expansions += steps
        if not nodes:
            continue
        credited = nodes[options.delay]  # delay + 1 steps; `nodes` starts after the first
        value = credited.reward - options.risk * credited.uncertainty
        end = nodes[-1]
        out.flags[first.action] |= First.RETAINED
        out.firsts[first.action] = end
        if best is None or value > best[0] or (value == best[0] and credited.uncertainty < best[1]):
            best, out.best = (value, credited.uncertainty), end
