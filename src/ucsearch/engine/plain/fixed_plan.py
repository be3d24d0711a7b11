"""The best fixed plan under a law of outcomes: what closed mode's policies are compared with.

Branch and bound over plans. A prefix is a distribution over states; the values of the best policy from there on bound
whatever a fixed plan can still earn.
"""

from __future__ import annotations

import math
from typing import Any

from ucsearch.engine.plain.closed import backward, forward
from ucsearch.engine.plain.window import Window

__all__ = ["fixed_plan_value"]

BUDGET = 200_000  # states of prefixes that are moved; beyond it the value is not computed


def fixed_plan_value(window: Window, state: Any) -> float:
    """Expected return of the best plan that keeps the rules whatever happens; -inf when there is none, NaN when it was
    not found within the budget. Only at risk 0."""
    after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
    graph = forward(window, [state], after, starts, window.settings.node_budget)
    if len(graph.layers) != window.depth + 2:
        return math.nan
    value = backward(window, graph, starts).score
    best, spent = -math.inf, 0
    stack: list[tuple[float, int, float, dict[int, float]]] = [(value[0], 0, 0.0, {0: 1.0})]
    while stack:
        limit, h, earned, states = stack.pop()
        if not limit > best:
            continue
        if h == window.depth:
            best = limit
            continue
        moves = [dict(graph.edges[i]) for i in states]
        children = []
        for x in sorted(set(moves[0]).intersection(*moves[1:])):
            spent += len(states)
            if spent > BUDGET:
                return math.nan
            reward, following = 0.0, dict[int, float]()
            for (i, share), own in zip(states.items(), moves, strict=True):
                low = starts[graph.classes[i]]
                for k in range(starts[graph.classes[i] + 1] - low):
                    mass, t = share * window.weights[low + k], own[x] + k
                    reward += mass * graph.rewards[t]
                    following[graph.following[t]] = following.get(graph.following[t], 0.0) + mass
            total, ahead = earned + window.discounts[h] * reward, 0.0
            for i, share in following.items():
                ahead += share * value[i]
            children.append((total + window.discounts[h + 1] * ahead, h + 1, total, following))
        stack += sorted(children, key=lambda child: child[0])
    return best
