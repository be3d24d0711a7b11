"""UC-MCTS. See engine/plain/mcts.py for the specification.

Nodes lie in flat arrays sized by the number of simulations; a pending action is scored again when it is expanded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault, First, FSet, ISet, Status
from ucsearch.engine.kernels.common import best as bests
from ucsearch.engine.kernels.common import ending, room, scoring
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Results, Shape

__all__ = ["build"]

FOUND, TASK_ERROR, STATE = int(Status.FOUND), int(Status.TASK_ERROR), Fault.STATE
GENERATED, RETAINED = First.GENERATED, First.RETAINED
DEPTH, USE_BOUND, TOP_K = int(ISet.DEPTH), int(ISet.USE_BOUND), int(ISet.TOP_K)
SIMULATIONS, C_UCT = int(ISet.SIMULATIONS), int(FSet.C_UCT)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class VisitTree(NamedTuple):
    """One row for each node; -1 where there is no other node."""

    st: Floats  # (nodes, rows, n)
    ret: Floats  # (nodes, rows) members mode: returns
    R: Floats
    U: Floats
    G: Floats
    level: Ints
    act: Ints  # the action that leads here
    parent: Ints
    child: Ints  # the first of them
    newest: Ints  # the last of them
    sibling: Ints  # the next child of its parent
    pending: Ints  # actions that wait in `queue`; -1: not scored yet
    queue: Ints  # (nodes, top_k) the next one last
    visits: Ints
    fails: Ints  # visits that found no path
    sums: Floats  # of the scores of the others
    closed: Ints  # 1: all that lies below is searched


class Rollout(NamedTuple):
    """A path that is continued greedily."""

    st: Floats  # (1, rows, n)
    ret: Floats  # (1, rows)


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    MEMBERS, SCORES, BOUNDED, N = k.members, k.scores, k.bounded, k.n
    tables_of = rules.tables
    heap_of, floats, zeros, ints = jit.heap, jit.floats, jit.zeros, jit.ints
    rows_of, candidates_of, forecast_of, window_of = room.build(rules, k, jit)
    scored_by = scoring.build(rules, k, jit)
    extend, top_of, alive = scored_by.extend, scored_by.top, scored_by.alive
    mark_root, suffixes = scored_by.mark_root, scored_by.suffixes
    lost, _, improves, blank, report, copy_paths = ending.build(rules, k, jit)
    clear, offer = bests.build(improves, jit)
    score_inline = scored_by.score

    @jit.lean
    def score(h, st, i, only, win, panel, tables, cand):
        return score_inline(h, st, i, only, win.use_bound, win, panel, tables, cand)

    @jit.lean_call
    def plant(node, parent, h, act, R, U, G, closed, tree):
        """A node that nothing is known of, last among its parent's children."""
        tree.R[node] = R
        tree.U[node] = U
        tree.G[node] = G
        tree.level[node] = h
        tree.act[node] = act
        tree.parent[node] = parent
        tree.child[node] = -1
        tree.newest[node] = -1
        tree.sibling[node] = -1
        tree.pending[node] = -1
        tree.visits[node] = 0
        tree.fails[node] = 0
        tree.sums[node] = 0.0
        tree.closed[node] = closed
        if parent >= 0:
            if tree.child[parent] < 0:
                tree.child[parent] = node
            else:
                tree.sibling[tree.newest[parent]] = node
            tree.newest[parent] = node

    @jit.lean_call
    def close(node, tree):
        """Close a node when nothing is pending and every child is closed, and so on upwards."""
        while node >= 0:
            if tree.pending[node] != 0:
                return
            at = tree.child[node]
            while at >= 0:
                if tree.closed[at] == 0:
                    return
                at = tree.sibling[at]
            tree.closed[node] = 1
            node = tree.parent[node]

    @jit.lean_call
    def chosen_child(node, c_uct, low, high, tree):
        """The open child whose average score may be highest; the node itself if there is none."""
        best_value = -np.inf
        chosen = node
        span = high - low
        at = tree.child[node]
        while at >= 0:
            if tree.closed[at] == 0:
                average = 0.5
                if span > 0.0:
                    average = ((tree.sums[at] + tree.fails[at] * low) / tree.visits[at] - low) / span
                upper = average + c_uct * math.sqrt(math.log(tree.visits[node] + 1.0) / tree.visits[at])
                if upper > best_value:
                    best_value = upper
                    chosen = at
            at = tree.sibling[at]
        return chosen

    @jit.lean_call
    def rollout(h, R, U, G, cont, win, panel, tables, cand, roll, best, counts):
        """Greedily on in q - risk * u; ties: lower u, smaller action. R, U, gross, continuation, whether no path was
        found, and a fault, its step and action."""
        for t in range(h, win.d):
            count, fault, fault_action = score(t, roll.st, 0, -1, win, panel, tables, cand)
            counts[1] += count
            if fault != 0:
                return R, U, G, cont, False, fault, t, fault_action
            pick = -1
            pick_worth = 0.0
            for c in range(count):
                worth = cand.q[c] - win.risk * cand.u[c]
                if pick < 0 or worth > pick_worth or (worth == pick_worth and cand.u[c] < cand.u[pick]):
                    pick = c
                    pick_worth = worth
            if pick < 0:
                return R, U, G, cont, True, 0, 0, 0
            counts[0] += 1
            R, U, G, cont, dropped, fault = extend(t, R, U, G, roll.ret, 0, pick, win, panel, cand, roll.ret, 0)
            if fault != 0:
                return R, U, G, cont, False, fault, t, cand.act[pick]
            if dropped:
                return R, U, G, cont, True, 0, 0, 0
            best.prefix[0, t] = cand.act[pick]
            for r in range(win.rows):
                for f in range(N):
                    roll.st[0, r, f] = cand.st[pick, r, f]
        return R, U, G, cont, False, 0, 0, 0

    @jit.lean_call
    def one_window(
        simulations, c_uct, top_k, win, panel, tables, cand, tree, roll, top, best, counts, walk, cursor, res
    ):
        """Search one window; nothing here allocates."""
        w, d, rows, risk = win.w, win.d, win.rows, win.risk
        for r in range(rows):
            for f in range(N):
                tree.st[0, r, f] = panel.states[w, f]
            if MEMBERS:
                tree.ret[0, r] = 0.0
        plant(0, -1, 0, -1, 0.0, 0.0, 0.0, 0, tree)
        clear(best)
        counts[0], counts[1] = 0, 0  # expansions and scored actions
        nodes = 1
        done = 0
        fault = 0
        fault_step = 0
        fault_action = 0
        low = np.inf
        high = -np.inf
        for _ in range(simulations):
            if tree.closed[0] != 0:
                break
            done += 1
            node = 0
            while True:
                if tree.pending[node] < 0:
                    h = tree.level[node]
                    count, fault, fault_action = score(h, tree.st, node, -1, win, panel, tables, cand)
                    counts[1] += count
                    if fault != 0:
                        fault_step = h
                        break
                    if h == 0:
                        mark_root(count, cand, win, res)
                    chosen = top_of(count, top_k, cand, rows, top)
                    tree.pending[node] = chosen
                    for y in range(chosen):
                        tree.queue[node, chosen - 1 - y] = cand.act[top[y]]
                if tree.pending[node] != 0 or tree.child[node] < 0:
                    break
                node = chosen_child(node, c_uct, low, high, tree)
            if fault != 0:
                break
            if tree.pending[node] == 0:
                tree.closed[node] = 1
                close(tree.parent[node], tree)
                continue
            tree.pending[node] -= 1
            x = tree.queue[node, tree.pending[node]]
            h = tree.level[node]
            count, fault, fault_action = score(h, tree.st, node, x, win, panel, tables, cand)
            counts[0] += 1
            if h == 0:
                res.flags[w, x] |= GENERATED
            new = nodes
            reward, uncertainty, gross, cont, dropped, fault = extend(
                h, tree.R[node], tree.U[node], tree.G[node], tree.ret, node, 0, win, panel, cand, tree.ret, new
            )
            if fault != 0:
                fault_step = h
                fault_action = x
                break
            leaf = h + 1 == d
            if dropped or (not leaf and not alive(cand.st, 0, win, panel)):
                close(node, tree)
                continue
            nodes += 1
            for r in range(rows):
                for f in range(N):
                    tree.st[new, r, f] = cand.st[0, r, f]
                    roll.st[0, r, f] = cand.st[0, r, f]
                if MEMBERS:
                    roll.ret[0, r] = tree.ret[new, r]
            plant(new, node, h + 1, x, reward, uncertainty, gross, 1 if leaf else 0, tree)
            at = new
            while tree.parent[at] >= 0:
                best.prefix[0, tree.level[at] - 1] = tree.act[at]
                at = tree.parent[at]
            reward, uncertainty, gross, cont, failed, fault, fault_step, fault_action = rollout(
                h + 1, reward, uncertainty, gross, cont, win, panel, tables, cand, roll, best, counts
            )
            if fault != 0:
                break
            score_found = reward - risk * uncertainty
            if not failed:
                first = best.prefix[0, 0]
                res.flags[w, first] |= RETAINED
                offer(first, reward, uncertainty, gross, cont, win, best, res)
                low = min(low, score_found)
                high = max(high, score_found)
            at = new
            while at >= 0:
                tree.visits[at] += 1
                if failed:
                    tree.fails[at] += 1
                else:
                    tree.sums[at] += score_found
                at = tree.parent[at]
            if leaf:
                close(node, tree)
        status = FOUND
        if fault == 0 and best.first[0] < 0:
            status, fault_step, fault_action = lost(roll.st, win, panel, walk, cursor)
            if status == TASK_ERROR:
                fault = STATE
        if fault != 0:
            status = TASK_ERROR
            blank(w, res)
        report(
            w, status, best.first[0], counts[0], counts[1], done, best.first[1], fault, fault_step, fault_action,
            best.worth[0], best.worth[1], best.worth[2], np.nan, best.bpath, 0, res,
        )  # fmt: skip
        copy_paths(w, best.fpath, res)

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi. See engine/arrays.py for the settings and the columns."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        d, top_k, simulations, c_uct = iset[DEPTH], iset[TOP_K], iset[SIMULATIONS], fset[C_UCT]
        use_bound = iset[USE_BOUND] != 0 and BOUNDED
        m, rows = actions.shape[1], rows_of(panel)
        heap = heap_of()
        cand, forecast = candidates_of(heap, iset, panel), forecast_of(heap, iset, panel, use_bound)
        most = simulations + 1  # a tree cannot outgrow its simulations
        tree = VisitTree(
            floats(heap, (most, rows, N)), zeros(heap, (most, rows if MEMBERS else 1)), floats(heap, most),
            floats(heap, most), floats(heap, most), ints(heap, most), ints(heap, most), ints(heap, most),
            ints(heap, most), ints(heap, most), ints(heap, most), ints(heap, most),
            ints(heap, (most, top_k)), ints(heap, most), ints(heap, most), floats(heap, most),
            ints(heap, most),
        )  # fmt: skip
        roll = Rollout(floats(heap, (1, rows, N)), zeros(heap, (1, rows if MEMBERS else 1)))
        best = bests.Best(
            ints(heap, (1, d)), ints(heap, (1, m, d)), ints(heap, (1, d)),
            ints(heap, 2), floats(heap, 3),
        )  # fmt: skip
        top, counts = ints(heap, top_k), ints(heap, 2)
        walk, cursor = floats(heap, (d + 1, rows, N)), ints(heap, d + 1)
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, use_bound)
            blank(w, res)
            if SCORES:
                suffixes(win, panel, cand.suffix)
            tables = tables_of(win, panel, forecast)
            one_window(
                simulations, c_uct, top_k, win, panel, tables, cand, tree, roll, top, best, counts, walk, cursor, res
            )

    entry: Callable[..., None] = panel_of
    return entry
