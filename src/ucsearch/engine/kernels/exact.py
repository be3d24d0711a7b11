"""Exact search: branch and bound, enumeration, or dynamic programming. Specification: engine/plain/exact.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col, Fault, First, ISet, Status
from ucsearch.engine.kernels import perfect, programme
from ucsearch.engine.kernels.common import best as bests
from ucsearch.engine.kernels.common import ending, room, scoring, states
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Results, Shape

__all__ = ["build"]

NOT_PROVED, DEAD_END, PROVED = int(Status.NOT_PROVED), int(Status.DEAD_END), int(Status.PROVED)
TASK_ERROR, SEARCH_EXHAUSTED = int(Status.TASK_ERROR), int(Status.SEARCH_EXHAUSTED)
STATE = Fault.STATE
FEASIBLE, DUPLICATE, GENERATED = First.FEASIBLE, First.DUPLICATE, First.GENERATED
RETAINED, EXACT, DEAD = First.RETAINED, First.EXACT, First.DEAD
SCORE, REWARD, UNCERTAINTY = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY)
UPPER, GROSS = int(Col.UPPER), int(Col.GROSS)
DEPTH, USE_BOUND = int(ISet.DEPTH), int(ISet.USE_BOUND)
NODE_BUDGET, EVERY_ACTION = int(ISet.NODE_BUDGET), int(ISet.EVERY_ACTION)
ENUMERATE_BELOW, DP_SWITCH = int(ISet.ENUMERATE_BELOW), int(ISet.DP_SWITCH)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BranchTree(NamedTuple):
    """One row per child of the open node at each level; the root is the last row."""

    st: Floats  # (d * m + 1, rows, n)
    ret: Floats  # members mode: returns
    R: Floats  # reward
    U: Floats  # uncertainty
    G: Floats  # sum of the absolute rewards
    limit: Floats  # what no path below it exceeds
    act: Ints
    cont: Ints  # the continuation that scored it, -1 without one
    order: Ints  # (d, m) children of each level, the most promising first
    counts: Ints  # (d,) how many there are
    cursor: Ints  # (d + 1,) which of them is looked at; -1: the node is not open yet


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    """The entry of a kernel: windows lo..hi of a panel."""
    MEMBERS, SCORES, N, BOUNDED, CONTINUES = k.members, k.scores, k.n, k.bounded, k.continuations > 0
    tables_of = rules.tables
    heap_of, floats, zeros, ints = jit.heap, jit.floats, jit.zeros, jit.ints
    rows_of, candidates_of, forecast_of, window_of = room.build(rules, k, jit)
    known_states = states.build(N, jit)
    scored_by = scoring.build(rules, k, jit)
    score, extend, _, same, alive, mark_root, suffixes = scored_by
    lost, _, improves, blank, report, copy_paths = ending.build(rules, k, jit)

    clear, offer = bests.build(improves, jit)
    programme_of = programme.build(rules, k, jit, scored_by, known_states, offer)
    perfect_of, value_of, new_room, emptied = perfect.build(rules, k, jit, known_states)

    @jit.lean
    def best_to_go(h, c, s, win, panel, cand):
        """Mean of what every member could still have from candidate c, at step h, if it knew its future."""
        total = 0.0
        for r in range(win.rows):
            total += panel.weights[win.wrow, r] * value_of(s, r * (win.d + 1) + h, cand.st, c, r)
        return total

    @jit.lean_call
    def branch(limit_nodes, every, tabled, s, win, panel, tables, cand, tree, best, counts, res):
        """Branch and bound, or enumeration when nothing bounds what lies below: fault, its step and action, stopped.
        `known`: `s` has members' own values to go."""
        w, d, rows, risk = win.w, win.d, win.rows, win.risk
        bounded = win.use_bound or tabled
        m = panel.actions.shape[1]
        table, order, cursor, prefix = res.table, tree.order, tree.cursor, best.prefix
        root = d * m
        for r in range(rows):
            for f in range(N):
                tree.st[root, r, f] = panel.states[w, f]
            if MEMBERS:
                tree.ret[root, r] = 0.0
        tree.R[root] = 0.0
        tree.U[root] = 0.0
        tree.G[root] = 0.0
        expansions, scored = counts[0], counts[1]
        fault = 0
        fault_step = 0
        fault_action = 0
        stopped = False
        level = 0
        cursor[0] = -1
        while level >= 0 and fault == 0 and not stopped:
            if cursor[level] < 0:
                # Open the node: root, or the child chosen one level above.
                node = root if level == 0 else (level - 1) * m + order[level - 1, cursor[level - 1]]
                count, fault, fault_action = score(level, tree.st, node, -1, win.use_bound, win, panel, tables, cand)
                scored += count
                if fault != 0:
                    fault_step = level
                    break
                if level == 0:
                    mark_root(count, cand, win, res)
                last = level + 1 == d
                n = 0
                for c in range(count):
                    double = False
                    for y in range(c):
                        if same(cand, c, y, rows):
                            double = True
                            break
                    if double:
                        continue
                    if expansions >= limit_nodes:
                        stopped = True
                        break
                    expansions += 1
                    if level == 0:
                        res.flags[w, cand.act[c]] |= GENERATED
                    slot = level * m + n
                    reward, uncertainty, gross, cont, dropped, fault = extend(
                        level,
                        tree.R[node],
                        tree.U[node],
                        tree.G[node],
                        tree.ret,
                        node,
                        c,
                        win,
                        panel,
                        cand,
                        tree.ret,
                        slot,
                    )
                    if fault != 0:
                        fault_step = level
                        fault_action = cand.act[c]
                        break
                    if dropped or (not last and not alive(cand.st, c, win, panel)):
                        continue
                    limit = (reward - risk * uncertainty) + (0.0 if last else cand.togo[c])
                    if MEMBERS and not last and tabled:
                        limit = reward + best_to_go(level + 1, c, s, win, panel, cand)
                    elif not last and not bounded:
                        limit = np.inf
                    elif MEMBERS and not last:
                        limit = reward + cand.togo[c]
                    for r in range(rows):
                        for f in range(N):
                            tree.st[slot, r, f] = cand.st[c, r, f]
                    tree.R[slot] = reward
                    tree.U[slot] = uncertainty
                    tree.G[slot] = gross
                    tree.limit[slot] = limit
                    tree.act[slot] = cand.act[c]
                    tree.cont[slot] = cont
                    at = n
                    if bounded:
                        while at > 0:
                            held = level * m + order[level, at - 1]
                            if limit > tree.limit[held] or (limit == tree.limit[held] and uncertainty < tree.U[held]):
                                order[level, at] = order[level, at - 1]
                                at -= 1
                            else:
                                break
                    order[level, at] = n
                    n += 1
                tree.counts[level] = n
                cursor[level] = 0
                continue
            if cursor[level] >= tree.counts[level]:
                level -= 1
                if level >= 0:
                    cursor[level] += 1
                continue
            child = level * m + order[level, cursor[level]]
            prefix[0, level] = tree.act[child]
            first = prefix[0, 0]
            full = level + 1 == d
            limit = tree.limit[child]
            rival = table[w, first, SCORE] == table[w, first, SCORE] if every else best.first[0] >= 0
            hopeless = False
            rival_S = 0.0
            if rival:
                rival_S = table[w, first, SCORE] if every else best.worth[0]
                rival_U = table[w, first, UNCERTAINTY] if every else best.worth[2]
                least = 0.0 if MEMBERS and not full else tree.U[child]
                if limit != rival_S:
                    hopeless = limit < rival_S
                elif least != rival_U:
                    hopeless = least > rival_U
                else:
                    # Equal so far: only a smaller path may still win.
                    hopeless = full
                    for t in range(level + 1):
                        held = best.fpath[0, first, t] if every else best.bpath[0, t]
                        if prefix[0, t] != held:
                            hopeless = prefix[0, t] > held
                            break
            if hopeless:
                if not table[w, first, UPPER] >= limit:
                    table[w, first, UPPER] = limit
                # Limits fall from one child to the next, so below the first step the others raise nothing either.
                cursor[level] = tree.counts[level] if bounded and level > 0 and limit < rival_S else cursor[level] + 1
            elif full:
                res.flags[w, first] |= RETAINED
                worth = tree.R[child] - risk * tree.U[child]
                if not table[w, first, UPPER] >= worth:
                    table[w, first, UPPER] = worth
                offer(first, tree.R[child], tree.U[child], tree.G[child], tree.cont[child], win, best, res)
                cursor[level] += 1
            else:
                level += 1
                cursor[level] = -1
        counts[0], counts[1] = expansions, scored
        return fault, fault_step, fault_action, stopped

    @jit.lean_call
    def small_tree(win, panel, enumerate_below):
        available = 0
        for x in range(panel.actions.shape[1]):
            if panel.actions[win.arow, x] == panel.actions[win.arow, x]:
                available += 1
        leaves = 1.0
        for _ in range(win.d):
            leaves *= available
        return leaves <= enumerate_below

    @jit.lean_call
    def settle(status, win, res):
        """What is known of the first actions once all is searched."""
        w = win.w
        for x in range(res.flags.shape[1]):
            if res.flags[w, x] & FEASIBLE != 0 and res.flags[w, x] & DUPLICATE == 0:
                if status == DEAD_END or (status == PROVED and not res.table[w, x, UPPER] == res.table[w, x, UPPER]):
                    res.flags[w, x] |= DEAD
                elif status == PROVED and res.table[w, x, UPPER] <= res.table[w, x, SCORE]:
                    res.flags[w, x] |= EXACT

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi. See engine/arrays.py for the settings and the columns."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        d, budget, every = iset[DEPTH], iset[NODE_BUDGET], iset[EVERY_ACTION] != 0
        use_bound = iset[USE_BOUND] != 0 and BOUNDED
        dp_switch = min(budget, iset[DP_SWITCH])
        m, rows = actions.shape[1], rows_of(panel)
        heap = heap_of()
        cand, forecast = candidates_of(heap, iset, panel), forecast_of(heap, iset, panel, use_bound)
        nodes = d * m + 1
        tree = BranchTree(
            floats(heap, (nodes, rows, N)), zeros(heap, (nodes, rows if MEMBERS else 1)), zeros(heap, nodes),
            zeros(heap, nodes), zeros(heap, nodes), floats(heap, nodes), ints(heap, nodes), ints(heap, nodes),
            ints(heap, (d, m)), ints(heap, d), ints(heap, d + 1),
        )  # fmt: skip
        best = bests.Best(
            ints(heap, (1, d)), ints(heap, (1, m, d)), ints(heap, (1, d)),
            ints(heap, 2), floats(heap, 3),
        )  # fmt: skip
        one, one_ret = floats(heap, (1, rows, N)), zeros(heap, (1, rows if MEMBERS else 1))
        walk, spot, starts = floats(heap, (d + 1, rows, N)), ints(heap, d + 1), ints(heap, d + 2)
        counts = ints(heap, 2)
        s = new_room(heap) if MEMBERS else 0
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, use_bound)
            blank(w, res)
            if SCORES:
                suffixes(win, panel, cand.suffix)
            tables = tables_of(win, panel, forecast)
            small = small_tree(win, panel, iset[ENUMERATE_BELOW])
            clear(best)
            counts[0], counts[1] = 0, 0
            status = SEARCH_EXHAUSTED
            upper = np.nan
            fault = 0
            fault_step = 0
            fault_action = 0
            tabled = False
            if MEMBERS and not CONTINUES and not use_bound and not small:
                s, counts[0], tabled, fault, fault_step, fault_action = perfect_of(
                    heap, budget, win, panel, emptied(s), cand, starts
                )
            searched = MEMBERS or use_bound or small
            if fault == 0 and searched:
                limit_nodes = dp_switch if not MEMBERS and use_bound and not small else budget
                fault, fault_step, fault_action, stopped = branch(
                    limit_nodes, every, tabled, s, win, panel, tables, cand, tree, best, counts, res
                )
                if fault == 0 and stopped:
                    status = NOT_PROVED
                    for x in range(m):
                        table[w, x, UPPER] = np.nan
                elif fault == 0 and best.first[0] >= 0:
                    status = PROVED
                    upper = best.worth[0]
                    settle(status, win, res)
                elif fault == 0:
                    status, fault_step, fault_action = lost(one, win, panel, walk, spot)
                    if status == TASK_ERROR:
                        fault = STATE
                    settle(status, win, res)
            if not MEMBERS and fault == 0:
                if not searched or (status == NOT_PROVED and dp_switch < budget and not small):
                    status, fault, fault_step, fault_action = programme_of(
                        heap, budget, win, panel, tables, cand, one, one_ret, starts, best, counts, res
                    )
                    upper = best.worth[0] if status == PROVED else np.nan
            if fault != 0:
                status = TASK_ERROR
                blank(w, res)
            report(
                w, status, best.first[0], counts[0], counts[1], 0, best.first[1], fault, fault_step, fault_action,
                best.worth[0], best.worth[1], best.worth[2], upper, best.bpath, 0, res,
            )  # fmt: skip
            copy_paths(w, best.fpath, res)

    entry: Callable[..., None] = panel_of
    return entry
