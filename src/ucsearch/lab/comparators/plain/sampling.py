"""Random shooting, CEM and MPPI over categorical distributions, in plain Python.

One distribution per step over the task's actions; a plan is sampled step by step, each time from the distribution
restricted to what is feasible there. The plans of an iteration are spread over the tree of feasible actions by
systematic sampling: of c plans that share a prefix, an action of probability p gets floor(cp) or ceil(cp). So an
iteration with as many plans as the space has covers the space, and one with fewer does not try the same plan twice
where it need not.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any, NamedTuple

from ucsearch.engine.arrays import First
from ucsearch.engine.plain.outcome import Outcome, mark_root
from ucsearch.engine.plain.window import Candidate, Node, Window
from ucsearch.lab.comparators.plain.common import finish, retain, score_one, window_stream
from ucsearch.lab.comparators.streams import MASK, absorb, signed, uniform
from ucsearch.policies import Settings

__all__ = ["CEM", "HEAD", "MPPI", "SHOOTING", "sampling"]

SHOOTING, CEM, MPPI = 0, 1, 2
HEAD = 9  # whole numbers before the warm plans in extra_i

Rows = list[list[float]]  # (d, m) probabilities
Sampled = tuple[float, float, tuple[int, ...]]  # -objective, U, path: ascending is best first


class _Options(NamedTuple):
    """extra_i (without the warm plans) and extra_f by name; see ../policies.py."""

    variant: int
    samples: int
    iterations: int
    elites: int
    memory: int
    stratified: int
    seed: int
    keyed: int
    warm_rows: int
    risk: float  # of the objective: 0 when reward only
    smoothing: float
    floor: float
    temperature: float
    blur: float
    warm_weight: float


def sampling(window: Window, state: Any) -> Outcome:
    """Sample, evaluate, update the distributions; the best evaluated plan wins."""
    options = _Options(*window.settings.extra_i[:HEAD], *window.settings.extra_f)
    out = Outcome(window.size)
    root = window.root(state)
    firsts = window.score(root, 0)
    mark_root(out, firsts)
    if firsts:
        stream, content = window_stream(window, state, options.seed & MASK)
        _iterate(window, root, firsts, options, stream, _warm_plan(window.settings, options, content), out)
    finish(window, state, out)
    return out


def _warm_plan(s: Settings, o: _Options, content: int) -> tuple[int, ...]:
    """This window's plan to start from: action indices, -1 without preference; () when it has none."""
    if not o.keyed:
        return s.extra_i[HEAD : HEAD + o.warm_rows * s.depth]
    width, key = s.depth + 1, signed(content)
    row = bisect_left(range(o.warm_rows), key, key=lambda r: s.extra_i[HEAD + r * width])
    at = HEAD + row * width
    return s.extra_i[at + 1 : at + width] if row < o.warm_rows and s.extra_i[at] == key else ()


def _iterate(
    window: Window, root: Node, firsts: list[Candidate], o: _Options, stream: int, warm: tuple[int, ...], out: Outcome
) -> None:
    m = window.size
    probs = [[1.0 / m] * m for _ in range(window.depth)]
    for h, x in enumerate(warm):
        if x >= 0:
            peak = [0.0] * m
            peak[x] = 1.0
            probs[h] = _mixed(probs[h], _blurred(peak, o.blur), o.warm_weight)
    memory: list[Sampled] = []
    for t in range(o.iterations):
        count = o.samples // o.iterations + (1 if t < o.samples % o.iterations else 0)
        led = 1 if t == 0 and warm else 0  # the first plan follows the warm one where it can
        start = absorb(stream, t + 1)
        population = list(memory)
        for n in range(count):
            if o.stratified and n >= led:
                node = _roll(window, root, firsts, probs, start, n - led, count - led, (), out)
            else:
                node = _roll(window, root, firsts, probs, absorb(start, n + 1), 0, 1, warm if n < led else (), out)
            if node is not None:
                out.simulations += 1
                retain(out, node, o.risk)
                objective = node.reward - o.risk * node.uncertainty
                population.append((-objective, node.uncertainty, node.path))
        if population and t + 1 < o.iterations:
            ranked = sorted(set(population))
            if o.variant == CEM:
                weighted = [(1.0, plan) for plan in ranked[: o.elites]]
            else:
                weighted = _softmax(population, o.temperature)
            probs = _updated(probs, weighted, o)
            memory = ranked[: o.memory]


def _roll(
    window: Window, root: Node, firsts: list[Candidate], probs: Rows, stream: int, i: int, c: int,
    warm: tuple[int, ...], out: Outcome,
) -> Node | None:  # fmt: skip
    """One plan, feasible at every step: number i of c that share its prefix. None when it runs into a dead end."""
    node = root
    for h in range(window.depth):
        if h == 0:
            choices = [first.action for first in firsts]
        else:
            choices = [x for x in window.available if window.allowed(node.states, x, h)]
        if not choices:
            return None
        if warm and warm[h] in choices:
            x = warm[h]
        else:
            x, i, c = _pick(choices, probs[h], i, c, uniform(stream))
        stream = absorb(stream, x + 1)
        if h == 0:
            out.flags[x] |= First.GENERATED
            candidate = firsts[choices.index(x)]
        else:
            candidate = score_one(window, node, x, h)
        window.expansions += 1
        child = window.extend(node, candidate, h)
        if child is None:
            return None
        node = child
    return node


def _pick(choices: list[int], weights: list[float], i: int, c: int, offset: float) -> tuple[int, int, int]:
    """The action of plan i of c by systematic sampling, and the plan's number among those that take it."""
    total = 0.0
    for x in choices:
        total += weights[x]
    flat = not total > 0.0  # nothing feasible has any weight left: all alike
    if flat:
        total = float(len(choices))
    below, low = 0.0, 0
    for x in choices[:-1]:
        below += 1.0 if flat else weights[x]
        high = math.ceil(c * (below / total) - offset)
        if i < high:
            return x, i - low, high - low
        low = high
    return choices[-1], i - low, c - low


def _softmax(population: list[Sampled], temperature: float) -> list[tuple[float, Sampled]]:
    """Weights exp((objective - best) / (temperature x standard deviation)); equal when all objectives are."""
    size = float(len(population))
    best, mean, square = -math.inf, 0.0, 0.0
    for plan in population:
        best = max(best, -plan[0])
        mean += -plan[0] / size
    for plan in population:
        square += (-plan[0] - mean) * (-plan[0] - mean) / size
    scale = temperature * math.sqrt(square)
    if not 0.0 < scale < math.inf:
        return [(1.0, plan) for plan in population]
    return [(math.exp((-plan[0] - best) / scale), plan) for plan in population]


def _updated(probs: Rows, weighted: list[tuple[float, Sampled]], o: _Options) -> Rows:
    total = 0.0
    for weight, _ in weighted:
        total += weight
    out = []
    for h, row in enumerate(probs):
        share = [0.0] * len(row)
        for weight, plan in weighted:
            share[plan[2][h]] += weight / total
        mixed = _mixed(row, _blurred(share, o.blur), 1.0 - o.smoothing)
        out.append([(1.0 - o.floor) * p + o.floor / len(row) for p in mixed])
    return out


def _mixed(old: list[float], new: list[float], weight: float) -> list[float]:
    return [(1.0 - weight) * a + weight * b for a, b in zip(old, new, strict=True)]


def _blurred(row: list[float], blur: float) -> list[float]:
    """A share `blur` of every action's weight goes to its two neighbours; at the ends half of it stays."""
    last = len(row) - 1
    return [(1.0 - blur) * row[x] + 0.5 * blur * (row[max(x - 1, 0)] + row[min(x + 1, last)]) for x in range(len(row))]
