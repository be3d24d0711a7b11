"""What a closed-loop search reaches, kept as flat arrays instead of valued (engine/closed_loop/reachable.py has them).

Their sizes are known from the search, so nothing grows here but the table of one layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.kernels import closed
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape

__all__ = ["CHANGED", "UNUSABLE", "build"]

CHANGED, TERMINAL, UNUSABLE = 3, 4, 5  # why a window has no graph: other sizes than given, or what a rule gave

Floats = NDArray[np.float64]


class Laws(NamedTuple):
    """What all windows read, as closed mode packs it (engine/arrays.py)."""

    actions: Floats
    members: Floats
    weights: Floats
    q: Floats
    u: Floats


class Place(NamedTuple):
    """A window, and its rows of what may be shared."""

    w: int
    arow: int
    wrow: int
    p: Any


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    HAS_END, HAS_TERMINAL, N = k.has_end, k.has_terminal, k.n
    load, end_of, terminal, use = rules.load, rules.end, rules.terminal, rules.use
    params_of = rules.params
    reach, distinct = closed.forward(rules, k, jit)
    new_pool, more_slots, heap_of = distinct.room, distinct.slots, jit.heap

    @jit.entry
    def panel_of(
        depth, budget, states, params, actions, members, weights, q, u, first, classes, sedge, eact, efirst, emean,
        euse, tto, ends, layers, faults, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi: states, edges and transitions of window w begin at first[w]."""
        most_states = 1
        most_moves = 1
        for w in range(lo, hi):
            most_states = max(most_states, first[w + 1, 0] - first[w, 0])
            most_moves = max(most_moves, first[w + 1, 2] - first[w, 2])
        heap = heap_of()
        pool = new_pool(heap, most_states + max(1, members.shape[1]))
        slots = np.empty(128, np.int32)
        rewards = np.empty(most_moves)
        at = np.zeros(7, np.int64)
        panel = Laws(actions, members, weights, q, u)
        for w in range(lo, hi):
            p = params_of(params, w if params.shape[0] > 1 else 0)
            win = Place(w, w if actions.shape[0] > 1 else 0, w if weights.shape[0] > 1 else 0, p)
            s0, e0, t0 = first[w, 0], first[w, 1], first[w, 2]
            s1, e1, t1 = first[w + 1, 0], first[w + 1, 1], first[w + 1, 2]
            moves = closed.Moves(sedge[s0 + w : s1 + w + 1], eact[e0:e1], efirst[e0:e1], rewards[: t1 - t0], tto[t0:t1])
            for f in range(N):
                pool.st[0, 0, f] = states[w, f]
            pool.tags[0] = 0
            layers[w, 0] = 0
            at[closed.REACHED], at[closed.EDGES], at[closed.MOVES], at[closed.SCORED] = 1, 0, 0, 0
            faults[w] = 0
            for h in range(depth):
                reached = at[closed.REACHED]
                layers[w, h + 1] = reached
                at[closed.STATE_AT] = layers[w, h]
                at[closed.ACTION_AT] = 0
                slots, at[closed.SLOTS] = more_slots(heap, pool, slots, reached, reached, 2 * (reached - layers[w, h]))
                code = closed.MORE_ROOM
                while code == closed.MORE_ROOM:
                    code = reach(layers[w, h + 1], h + 1 == depth, budget, win, panel, pool, slots, moves, at)
                    if code == closed.MORE_ROOM:
                        reached = at[closed.REACHED]
                        kind = pool.tags[at[closed.STATE_AT]]
                        n = np.int64(u[w, 0, kind + 1]) - np.int64(u[w, 0, kind])
                        if reached + n <= layers[w, h + 1] + at[closed.SLOTS] // 2:  # the sizes given are too small
                            code = CHANGED
                            break
                        need = max(at[closed.SLOTS], reached + n - layers[w, h + 1])
                        slots, at[closed.SLOTS] = more_slots(heap, pool, slots, layers[w, h + 1], reached, need)
                if code != closed.DONE:
                    faults[w] = code
                    break
            reached = at[closed.REACHED]
            if faults[w] == 0 and (reached != s1 - s0 or at[closed.EDGES] != e1 - e0 or at[closed.MOVES] != t1 - t0):
                faults[w] = CHANGED
            if faults[w] != 0:
                continue
            layers[w, depth + 1] = reached
            for i in range(layers[w, depth], s1 - s0 + 1):
                moves.begin[i] = at[closed.EDGES]
            for i in range(s1 - s0):
                classes[s0 + i] = pool.tags[i]
                s = load(pool.st, i, 0)
                ends[s0 + i] = 0.0
                if i >= layers[w, depth]:
                    if HAS_END and not end_of(s, p):
                        ends[s0 + i] = -np.inf
                    elif HAS_TERMINAL:
                        ends[s0 + i] = terminal(s, p)
                        if not math.isfinite(ends[s0 + i]):
                            faults[w] = TERMINAL
                    continue
                low = np.int64(u[w, 0, pool.tags[i]])
                n = np.int64(u[w, 0, pool.tags[i] + 1]) - low
                for e in range(moves.begin[i], moves.begin[i + 1]):
                    total = 0.0
                    for y in range(n):
                        total += weights[win.wrow, low + y] * moves.reward[moves.first[e] + y]
                    emean[e0 + e] = total
                    for j in range(euse.shape[0]):
                        amount = use(j, s, actions[win.arow, moves.act[e]], p)
                        if not (amount >= 0.0 and amount < np.inf):
                            faults[w] = UNUSABLE
                        euse[j, e0 + e] = amount

    entry: Callable[..., None] = panel_of
    return entry
