"""Closed-loop search in plain Python: the exact value of every first action when later ones may depend on what is seen.

This is the specification of ../kernels/closed.py. Forward over layers from the root: states are told apart
by their class of information and their bits. Then backward:

    Q(s, a) = sum_k w_k [reward(s, a, y_k) + discount * V(step(s, a, y_k))],    V(s) = max over feasible a of Q(s, a)

with (1 - risk) * sum + risk * (mean of the worst `tail` share) in place of the sum where risk > 0. The law arrives
packed into a window's arrays (see ../arrays.py): points in `members`, following classes in `q`, starts in `u`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ucsearch.engine.arrays import HIGH, LOW, MIDDLE, Fault, First, Status
from ucsearch.engine.plain.outcome import Outcome, better
from ucsearch.engine.plain.window import Node, TaskFault, Window
from ucsearch.spreads import tail_mean

__all__ = ["PolicyValues", "Reached", "at_level", "backward", "closed", "closed_shared", "fixed_plan_value", "forward"]

END = -1  # the class of every state past the last step
_MOST_MOVED = 200_000  # states of prefixes that the best fixed plan may cost; beyond it the value is not computed


@dataclass
class Reached:
    """Everything that can be reached: states layer by layer, their actions, and a transition for every point."""

    states: list[Any] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    index: dict[tuple[int, Any], int] = field(default_factory=dict)
    layers: list[int] = field(default_factory=list)  # index of each layer's first state
    edges: list[list[tuple[int, int]]] = field(default_factory=list)  # of each state: action, its first transition
    rewards: list[float] = field(default_factory=list)  # of each transition
    following: list[int] = field(default_factory=list)  # the state it leads to

    def place(self, kind: int, state: Any) -> int:
        key = (kind, state)
        at = self.index.get(key)
        if at is None:
            at = self.index[key] = len(self.states)
            self.states.append(state)
            self.classes.append(kind)
        return at


@dataclass
class PolicyValues:
    """Per state; -inf where no policy keeps the rules."""

    score: list[float]  # V
    mean: list[float]  # expected return of the same policy
    size: list[float]  # sum of absolute values that were added up
    action: list[int]  # -1 at a dead end


def closed(window: Window, state: Any) -> Outcome:
    """The recursion over every policy, or status NOT_PROVED when the budget of transitions is too small."""
    out = Outcome(window.size)
    after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
    graph = forward(window, [state], after, starts, window.settings.node_budget)
    out.action_scores, out.expansions, out.simulations = window.action_scores, len(graph.rewards), len(graph.states)
    if len(graph.layers) != window.depth + 2:
        out.status = Status.NOT_PROVED
        return out
    values = backward(window, graph, starts)
    _first_actions(window, graph, values, starts, 0, out)
    return out


def closed_shared(window: Window, roots: Sequence[Any]) -> list[Outcome] | None:
    """The same for many states under one law, each with the counters of a search of its own. What several reach is
    valued once. None where a search of its own would not end within its budget for any of them."""
    after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
    graph = forward(window, roots, after, starts, window.settings.node_budget * len(roots))
    if len(graph.layers) != window.depth + 2:
        return None
    values = backward(window, graph, starts)
    outcomes, by_root = [], {}
    for state in roots:
        root = graph.index[0, state]
        if root not in by_root:
            by_root[root] = out = Outcome(window.size)
            out.action_scores, out.expansions, out.simulations = _counts(window, graph, root, starts)
            if out.expansions > window.settings.node_budget:
                return None
            _first_actions(window, graph, values, starts, root, out)
        outcomes.append(by_root[root])
    return outcomes


def _counts(window: Window, graph: Reached, root: int, starts: list[int]) -> tuple[int, int, int]:
    """Actions, transitions and states that a search from `root` alone would meet."""
    layer, states = {root}, 1
    scored = moves = 0
    for _ in range(window.depth):
        following: set[int] = set()
        for i in layer:
            points = starts[graph.classes[i] + 1] - starts[graph.classes[i]]
            scored += len(graph.edges[i])
            moves += points * len(graph.edges[i])
            for _, at in graph.edges[i]:
                following.update(graph.following[at : at + points])
        layer = following
        states += len(layer)
    return scored, moves, states


def forward(window: Window, roots: Iterable[Any], after: list[int], starts: list[int], budget: int) -> Reached:
    """Layers 0..d from these states; fewer where the budget of transitions ends before."""
    graph = Reached(layers=[0])
    for state in roots:
        graph.place(0, state)
    for h in range(window.depth):
        graph.layers.append(len(graph.states))
        last = h + 1 == window.depth
        for i in range(graph.layers[h], graph.layers[h + 1]):
            here, kind = graph.states[i], graph.classes[i]
            points = range(starts[kind], starts[kind + 1])
            graph.edges.append([])
            for x in window.available:
                if not window.allowed((here,), x, h):
                    continue
                if len(graph.rewards) + len(points) > budget:
                    return graph
                window.action_scores += 1
                graph.edges[i].append((x, len(graph.rewards)))
                for k in points:
                    y = window.members[k][0]
                    args = (here, window.actions[x], y, h, window.params)
                    number = window.number(window.task.reward_at, Fault.REWARD, h, x, *args)
                    new = window.move(here, x, y, h)
                    graph.rewards.append(number)
                    graph.following.append(graph.place(END if last else after[k], new))
    graph.layers.append(len(graph.states))
    return graph


def backward(window: Window, graph: Reached, starts: list[int]) -> PolicyValues:
    size = len(graph.states)
    values = PolicyValues([0.0] * size, [0.0] * size, [0.0] * size, [-1] * size)
    for i in range(graph.layers[window.depth], size):
        if not window.ended((graph.states[i],), window.depth - 1, 0):
            values.score[i] = -math.inf
            continue
        end = window.terminal(graph.states[i], window.depth - 1, 0)
        values.score[i] = values.mean[i] = end
        values.size[i] = abs(end)
    for h in range(window.depth - 1, -1, -1):
        for i in range(graph.layers[h], graph.layers[h + 1]):
            values.score[i] = -math.inf
            for x, at in graph.edges[i]:
                score, mean, total = _value(window, graph, values, starts, i, x, at, h)
                if score > values.score[i]:
                    values.score[i], values.mean[i], values.size[i], values.action[i] = score, mean, total, x
    return values


def _value(
    window: Window, graph: Reached, values: PolicyValues, starts: list[int], i: int, x: int, at: int, h: int
) -> tuple[float, float, float]:
    """Score, mean and size of action x in state i, whose transitions begin at `at`."""
    low, high = starts[graph.classes[i]], starts[graph.classes[i] + 1]
    discount, risk, weights = window.settings.discount, window.risk, window.weights[low:high]
    total = mean = size = most = 0.0
    scores = []
    for k, w in enumerate(weights):
        to, reward = graph.following[at + k], graph.rewards[at + k]
        if values.score[to] == -math.inf:
            return -math.inf, -math.inf, 0.0
        score = reward + discount * values.score[to]
        total += w * score
        mean += w * (reward + discount * values.mean[to])
        whole = abs(reward) + discount * values.size[to]
        size += w * whole
        most = max(most, whole)
        scores.append(score)
    if risk > 0.0 and math.isfinite(total):
        total = (1.0 - risk) * total + risk * tail_mean(scores, weights, window.settings.tail)
        size = (1.0 - risk) * size + risk * most
    if not (math.isfinite(total) and math.isfinite(mean) and math.isfinite(size)):
        raise TaskFault(Fault.VALUE, h, x)
    return total, mean, size


def _first_actions(
    window: Window, graph: Reached, values: PolicyValues, starts: list[int], root: int, out: Outcome
) -> None:
    """The table of first actions of state `root`, the one put forward, and what the policy would do after some
    outcomes."""
    points, risk = starts[1], window.risk
    effects: list[tuple[Any, Any]] = []
    for x, at in graph.edges[root]:
        out.flags[x] |= First.FEASIBLE
        rewards = graph.rewards[at : at + points]
        out.steps[x] = _first_step(window, rewards)
        effect = (rewards, graph.following[at : at + points])
        if effect in effects:
            out.flags[x] |= First.DUPLICATE
            continue
        effects.append(effect)
        score, mean, size = _value(window, graph, values, starts, root, x, at, 0)
        out.flags[x] |= First.GENERATED
        if score == -math.inf:
            out.flags[x] |= First.DEAD
            continue
        spread = max(0.0, (mean - score) / risk) if risk > 0.0 else 0.0
        path = _follow(window, graph, values, starts, root, x, MIDDLE)
        node = Node((), (), mean, spread, score, 0.0, path, -1, size)
        out.bounds[x], out.firsts[x] = score, node
        out.flags[x] |= First.RETAINED | First.EXACT
        if better(node, out.best):
            out.best = node
    out.status = Status.DEAD_END if out.best is None else Status.PROVED
    if out.best is not None:
        first = out.best.path[0]
        out.upper = out.best.score
        out.branches = [_follow(window, graph, values, starts, root, first, level) for level in (LOW, HIGH)]


def _first_step(window: Window, rewards: list[float]) -> tuple[float, float]:
    """Mean of the first step's rewards, and how far their tail lies below it."""
    weights = window.weights[: len(rewards)]
    total = 0.0
    for w, r in zip(weights, rewards, strict=True):
        total += w * r
    if window.risk > 0.0:
        return total, max(0.0, total - tail_mean(rewards, weights, window.settings.tail))
    return total, 0.0


def _follow(
    window: Window, graph: Reached, values: PolicyValues, starts: list[int], root: int, first: int, level: float
) -> tuple[int, ...]:
    """Action indices of the policy that begins with `first` in state `root`, when every outcome is the one at this
    level."""
    path, i, x = [first], root, first
    for _ in range(window.depth - 1):
        at = next(t for a, t in graph.edges[i] if a == x)
        low, high = starts[graph.classes[i]], starts[graph.classes[i] + 1]
        i = graph.following[at + at_level(window.weights[low:high], level)]
        x = values.action[i]
        path.append(x)
    return tuple(path)


def at_level(weights: Sequence[float], level: float) -> int:
    """The first point with at least this share at or before it."""
    mass = 0.0
    for k, w in enumerate(weights):
        mass += w
        if mass >= level:
            return k
    return len(weights) - 1


def fixed_plan_value(window: Window, state: Any) -> float:
    """Expected return of the best fixed plan that keeps the rules whatever happens: what closed mode's policies are
    compared with. -inf when there is none, NaN when it was not found within the budget. Only at risk 0.

    Branch and bound over plans. A prefix is a distribution over states; the values of the best policy from there on
    bound whatever a fixed plan can still earn.
    """
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
            if spent > _MOST_MOVED:
                return math.nan
            reward, following = 0.0, dict[int, float]()
            for (i, share), begins in zip(states.items(), moves, strict=True):
                low = starts[graph.classes[i]]
                for k in range(starts[graph.classes[i] + 1] - low):
                    mass, t = share * window.weights[low + k], begins[x] + k
                    reward += mass * graph.rewards[t]
                    following[graph.following[t]] = following.get(graph.following[t], 0.0) + mass
            total, ahead = earned + window.discounts[h] * reward, 0.0
            for i, share in following.items():
                ahead += share * value[i]
            children.append((total + window.discounts[h + 1] * ahead, h + 1, total, following))
        stack += sorted(children, key=lambda child: child[0])
    return best
