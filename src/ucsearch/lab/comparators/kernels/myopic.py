"""Random, greedy, risk-greedy and delay-aware greedy. See ../plain/myopic.py for the specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col, Fault, First, ISet, Status
from ucsearch.engine.kernels.common import ending, room, scoring
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Results, Shape
from ucsearch.lab.comparators.kernels import streams
from ucsearch.lab.comparators.plain.myopic import DELAYED, RANDOM

__all__ = ["build"]

FOUND, TASK_ERROR, STATE = int(Status.FOUND), int(Status.TASK_ERROR), Fault.STATE
DUPLICATE, GENERATED, RETAINED = First.DUPLICATE, First.GENERATED, First.RETAINED
SCORE, REWARD, UNCERTAINTY, GROSS = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY), int(Col.GROSS)
DEPTH, CAP = int(ISet.DEPTH), int(ISet.CAP)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GreedyWalk(NamedTuple):
    """One node for each level of a walk."""

    st: Floats  # (d + 1, rows, n)
    ret: Floats  # (d + 1, rows) members mode: returns
    R: Floats
    U: Floats
    G: Floats
    act: Ints  # (d,)
    queue: Ints  # (d + 1, m) actions not tried yet, the next one last
    pending: Ints  # (d + 1,) how many there are
    path: Ints  # (1, m, d) the walk of each first action


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    MEMBERS, N = k.members, k.n
    rows_of, candidates_of, _, window_of = room.build(rules, k, jit)
    heap_of = jit.heap
    scored_by = scoring.build(rules, k, jit)
    extend, mark_root, score_inline = scored_by.extend, scored_by.mark_root, scored_by.score
    lost, _, _, blank, report, copy_paths = ending.build(rules, k, jit)
    mix, absorb, uniform, content_of = streams.build(N, jit)

    @jit.lean
    def score(h, walk, only, win, panel, cand):
        return score_inline(h, walk.st, h, only, False, win, panel, 0.0, cand)

    @jit.lean_call
    def rank(count, variant, pick, visit, cand, key, slot, queue, level):
        """queue[level, :count] becomes the scored actions, first in rank last."""
        for x in range(count):
            if variant == RANDOM:
                key[x] = uniform(absorb(visit, np.uint64(cand.act[x] + 1)))
            else:
                key[x] = cand.q[x] - pick * cand.u[x]
            at = x
            while at > 0:
                y = slot[at - 1]
                if key[x] > key[y] or (variant != RANDOM and key[x] == key[y] and cand.u[x] < cand.u[y]):
                    break
                slot[at] = y
                at -= 1
            slot[at] = x
        for x in range(count):
            queue[level, x] = cand.act[slot[x]]

    @jit.lean_call
    def one_window(variant, delay, pick, stream, win, panel, cand, walk, key, slot, look, cursor, res):
        """Walk one window; nothing here allocates."""
        w, d, rows, risk = win.w, win.d, win.rows, win.risk
        pending, queue, table, flags = walk.pending, walk.queue, res.table, res.flags
        for r in range(rows):
            for f in range(N):
                walk.st[0, r, f] = panel.states[w, f]
            if MEMBERS:
                walk.ret[0, r] = 0.0
        walk.R[0] = 0.0
        walk.U[0] = 0.0
        walk.G[0] = 0.0
        visits = 0
        expansions = 0
        scored = 0
        fault = 0
        fault_step = 0
        fault_action = 0
        cont = -1
        best_first = -1
        best_cont = -1
        best_value = 0.0
        best_credit = 0.0
        best_R = 0.0
        best_U = 0.0
        # `base` is the level the walk starts from and may not leave: 0, or 1 below each first action in turn.
        base = 0
        level = 0
        fresh = True
        steps = 0
        while True:
            if fresh:
                fresh = False
                count, fault, fault_action = score(level, walk, -1, win, panel, cand)
                scored += count
                if fault != 0:
                    fault_step = level
                    break
                if level == 0:
                    mark_root(count, cand, win, res)
                pending[level] = count
                if level == 0 and variant == DELAYED:
                    # Delay-aware: every first action of its own effect gets a walk, in ascending order.
                    pending[0] = 0
                    for x in range(count - 1, -1, -1):
                        if flags[w, cand.act[x]] & DUPLICATE == 0:
                            queue[0, pending[0]] = cand.act[x]
                            pending[0] += 1
                else:
                    rank(count, variant, pick, absorb(stream, np.uint64(visits + 1)), cand, key, slot, queue, level)
                    visits += 1
            # What to do next: step down, step back, or finish a walk.
            x = -1
            if level < d:
                while level >= base and pending[level] == 0:
                    level -= 1
                if level >= base and steps < win.cap:
                    pending[level] -= 1
                    x = queue[level, pending[level]]
            if x >= 0:
                h = level
                count, fault, fault_action = score(h, walk, x, win, panel, cand)
                if h > 0 or variant != DELAYED:
                    steps += 1
                if h == 0:
                    flags[w, x] |= GENERATED
                reward, uncertainty, gross, cont, dropped, fault = extend(
                    h, walk.R[h], walk.U[h], walk.G[h], walk.ret, h, 0, win, panel, cand, walk.ret, h + 1
                )
                if fault != 0:
                    fault_step = h
                    fault_action = x
                    break
                if not dropped:
                    walk.act[h] = x
                    level = h + 1
                    walk.R[level] = reward
                    walk.U[level] = uncertainty
                    walk.G[level] = gross
                    for r in range(rows):
                        for f in range(N):
                            walk.st[level, r, f] = cand.st[0, r, f]
                    fresh = level < d
                    if h == 0 and variant == DELAYED:
                        base = 1
                        steps = 0
                if level < d:
                    continue
            # The walk is over: at full depth with a path, or without one.
            arrived = level == d
            if arrived:
                first = walk.act[0]
                flags[w, first] |= RETAINED
                table[w, first, SCORE] = walk.R[d] - risk * walk.U[d]
                table[w, first, REWARD] = walk.R[d]
                table[w, first, UNCERTAINTY] = walk.U[d]
                table[w, first, GROSS] = walk.G[d]
                for t in range(d):
                    walk.path[0, first, t] = walk.act[t]
                credited = delay + 1 if variant == DELAYED else d
                value = walk.R[credited] - pick * walk.U[credited]
                if best_first < 0 or value > best_value or (value == best_value and walk.U[credited] < best_credit):
                    best_first = first
                    best_value = value
                    best_credit = walk.U[credited]
                    best_R = walk.R[d]
                    best_U = walk.U[d]
                    best_cont = cont
            if variant != DELAYED:
                expansions = steps - d if arrived else steps
                break
            expansions += steps
            steps = 0
            base = 0
            level = 0
            if pending[0] == 0:
                break
        status = FOUND
        if fault == 0 and best_first < 0:
            status, fault_step, fault_action = lost(walk.st, win, panel, look, cursor)
            if status == TASK_ERROR:
                fault = STATE
        if fault != 0:
            status = TASK_ERROR
            blank(w, res)
        report(
            w, status, best_first, expansions, scored, 0, best_cont, fault, fault_step, fault_action,
            best_R - risk * best_U, best_R, best_U, np.nan, walk.path[0], max(best_first, 0), res,
        )  # fmt: skip
        copy_paths(w, walk.path, res)

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi. The last number of iset is how many belong to this algorithm; see ../policies.py."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        at = iset.shape[0] - iset[iset.shape[0] - 1]
        variant, delay, seed = iset[at], iset[at + 1], np.uint64(iset[at + 2])
        pick = fset[fset.shape[0] - 1]
        d, m, rows = iset[DEPTH], actions.shape[1], rows_of(panel)
        cand = candidates_of(heap_of(), iset, panel)
        walk = GreedyWalk(
            np.empty((d + 1, rows, N)), np.empty((d + 1, rows if MEMBERS else 1)), np.empty(d + 1), np.empty(d + 1),
            np.empty(d + 1), np.empty(d, np.int64), np.empty((d + 1, m), np.int64), np.empty(d + 1, np.int64),
            np.empty((1, m, d), np.int64),
        )  # fmt: skip
        key, slot, one = np.empty(m), np.empty(m, np.int64), np.empty(1)
        look, cursor = np.empty((d + 1, rows, N)), np.empty(d + 1, np.int64)
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, False)
            blank(w, res)
            stream = absorb(mix(seed), content_of(win, panel, one))
            one_window(variant, delay, pick, stream, win, panel, cand, walk, key, slot, look, cursor, res)

    entry: Callable[..., None] = panel_of
    return entry
