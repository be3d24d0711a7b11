"""Closed-loop values with a price on every step's use: one pass over what a search has reached, no task called.

With prices of at least 0 on the uses of all steps, `sum of V + sum over steps of price x limit` is at least the
expected value of every joint policy that keeps the limits: a limit that always holds also holds on
average. Prices come per series (K, N, H), a resource that is not limited at a step has price 0 there.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.engine.closed_loop.reachable import Graph

__all__ = ["Priced", "Valued"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Shorts = NDArray[np.int32]


@compiled
def _values(
    depth: int, discount: float, price: Floats, use: Floats, first: Ints, layers: Ints, classes: Shorts, sedge: Shorts,
    efirst: Shorts, emean: Floats, tto: Shorts, ends: Floats, weights: Floats, starts: Floats, value: Floats,
    mean: Floats, lo: int, hi: int,
) -> None:  # fmt: skip
    """Fill `value` (S,) of series lo..hi, and `mean` (K, N, H): expected use at every step of the best policy at these
    prices, the smaller action on ties."""
    resources = use.shape[0]
    for w in range(lo, hi):
        s0, e0, t0 = first[w, 0], first[w, 1], first[w, 2]
        size = first[w + 1, 0] - s0
        best = np.full(size, -1, np.int64)
        chance = np.zeros(size)
        for i in range(layers[w, depth], size):
            value[s0 + i] = ends[s0 + i]
        for back in range(depth):
            h = depth - 1 - back
            for i in range(layers[w, h], layers[w, h + 1]):
                low = np.int64(starts[w, classes[s0 + i]])
                n = np.int64(starts[w, classes[s0 + i] + 1]) - low
                top, chosen = -np.inf, -1
                for e in range(sedge[s0 + w + i], sedge[s0 + w + i + 1]):
                    total = 0.0
                    t = t0 + efirst[e0 + e]
                    for k in range(n):
                        total += weights[w, low + k] * value[s0 + tto[t + k]]
                    total = emean[e0 + e] + discount * total
                    for k in range(resources):
                        total -= price[k, w, h] * use[k, e0 + e]
                    if total > top:
                        top, chosen = total, e
                value[s0 + i] = top
                best[i] = chosen
        for k in range(resources):
            for h in range(depth):
                mean[k, w, h] = 0.0
        chance[0] = 1.0
        for h in range(depth):
            for i in range(layers[w, h], layers[w, h + 1]):
                e = best[i]
                if e < 0 or chance[i] == 0.0:
                    continue
                for k in range(resources):
                    mean[k, w, h] += chance[i] * use[k, e0 + e]
                low = np.int64(starts[w, classes[s0 + i]])
                n = np.int64(starts[w, classes[s0 + i] + 1]) - low
                t = t0 + efirst[e0 + e]
                for k in range(n):
                    chance[tto[t + k]] += chance[i] * weights[w, low + k]


@compiled
def _actions(
    discount: float, use: Floats, first: Ints, classes: Shorts, sedge: Shorts, eact: Shorts, efirst: Shorts,
    emean: Floats, tto: Shorts, weights: Floats, starts: Floats, value: Floats, at: Ints, q: Floats, used: Floats,
    edge: Ints,
) -> None:  # fmt: skip
    """Of every series in state at[w]: value of every action with its own step unpriced (N, m), NaN where it is not
    allowed or ends dead; its uses (K, N, m), and its edge (N, m)."""
    for w in range(at.shape[0]):
        s0, e0, t0 = first[w, 0], first[w, 1], first[w, 2]
        i = at[w]
        low = np.int64(starts[w, classes[s0 + i]])
        n = np.int64(starts[w, classes[s0 + i] + 1]) - low
        for a in range(q.shape[1]):
            q[w, a] = np.nan
            edge[w, a] = -1
            for k in range(used.shape[0]):
                used[k, w, a] = 0.0
        for e in range(sedge[s0 + w + i], sedge[s0 + w + i + 1]):
            total = 0.0
            t = t0 + efirst[e0 + e]
            for k in range(n):
                total += weights[w, low + k] * value[s0 + tto[t + k]]
            a = eact[e0 + e]
            edge[w, a] = e
            for k in range(used.shape[0]):
                used[k, w, a] = use[k, e0 + e]
            if total > -np.inf:
                q[w, a] = emean[e0 + e] + discount * total


@compiled
def _follow(
    first: Ints, classes: Shorts, efirst: Shorts, tto: Shorts, weights: Floats, starts: Floats, at: Ints, edge: Ints,
    level: Floats,
) -> None:  # fmt: skip
    """The state after taking `edge` in `at`, when the outcome is the first point with a share above `level` at or
    before it."""
    for w in range(at.shape[0]):
        s0, e0, t0 = first[w, 0], first[w, 1], first[w, 2]
        low = np.int64(starts[w, classes[s0 + at[w]]])
        n = np.int64(starts[w, classes[s0 + at[w]] + 1]) - low
        k = low
        mass = weights[w, low]
        while k + 1 < low + n and not mass > level[w]:
            k += 1
            mass += weights[w, k]
        at[w] = tto[t0 + efirst[e0 + edge[w]] + k - low]


class Valued(NamedTuple):
    """All series at some prices."""

    values: Floats  # (S,) of every state
    start: Floats  # (N,) of every series' own state, its first step priced too
    mean: Floats  # (K, N, H) expected use at every step


class Step(NamedTuple):
    """What every series can do at one step."""

    q: Floats  # (N, m) NaN where it cannot be done
    used: Floats  # (K, N, m) units
    edge: Ints  # (N, m)


@dataclass(frozen=True, eq=False)
class Priced:
    """A graph with the uses of K resources, in their units, every series' own multiplier included."""

    graph: Graph
    use: Floats  # (K, E)
    discount: float
    actions: int  # m
    threads: int = 1

    @cached_property
    def roots(self) -> Ints:
        return self.graph.first[:-1, 0]

    def at(self, price: Floats) -> Valued:
        g = self.graph
        value, mean = np.empty(g.classes.size), np.empty((self.use.shape[0], g.windows, g.depth))

        def part(edges: tuple[int, int]) -> None:
            _values(
                g.depth, self.discount, price, self.use, g.first, g.layers, g.classes, g.sedge, g.efirst, g.emean,
                g.tto, g.ends, g.weights, g.starts, value, mean, *edges,
            )  # fmt: skip

        if self.threads == 1 or g.windows < 64:
            part((0, g.windows))
        else:
            parts = 8 * self.threads
            with ThreadPoolExecutor(max_workers=self.threads) as pool:
                list(pool.map(part, pairwise(g.windows * i // parts for i in range(parts + 1))))
        return Valued(value, value[self.roots], mean)

    @cached_property
    def _bare(self) -> Priced:
        """Without rewards: only what is allowed, and what it uses."""
        ends = np.where(self.graph.ends > -np.inf, 0.0, -np.inf)
        return replace(self, graph=replace(self.graph, emean=np.zeros(self.graph.emean.size), ends=ends), discount=1.0)

    def frugal(self, price: Floats) -> Floats:
        """(K, N, H) expected use of the policy that spends least at these prices (K, N, H)."""
        return self._bare.at(price).mean

    def least(self, resource: int, step: int) -> Floats:
        """(N,) expected use at one step of the policy that expects to use least then; inf where none is allowed."""
        price = np.zeros((self.use.shape[0], self.graph.windows, self.graph.depth))
        price[resource, :, step] = 1.0
        return -self._bare.at(price).start

    def step(self, values: Floats, at: Ints) -> Step:
        """What every series can do in state number `at` (N,) of its own."""
        g, n, k = self.graph, self.graph.windows, self.use.shape[0]
        step = Step(np.empty((n, self.actions)), np.empty((k, n, self.actions)), np.empty((n, self.actions), np.int64))
        _actions(
            self.discount, self.use, g.first, g.classes, g.sedge, g.eact, g.efirst, g.emean, g.tto, g.weights,
            g.starts, values, at, *step,
        )  # fmt: skip
        return step

    def follow(self, at: Ints, edge: Ints, level: Floats) -> Ints:
        """The states after these edges and outcomes at these levels (N,), in [0, 1)."""
        g, new = self.graph, at.copy()
        _follow(g.first, g.classes, g.efirst, g.tto, g.weights, g.starts, new, edge, level)
        return new
