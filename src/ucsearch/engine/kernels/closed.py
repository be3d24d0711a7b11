"""Closed mode: the value of every first action when later ones may depend on what is seen (plain/closed.py).

Inputs carry a law in place of a forecast, see engine/arrays.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ucsearch.engine.arrays import HIGH, LOW, MIDDLE, Col, Fault, First, FSet, ISet, Status
from ucsearch.engine.kernels.common import ending, spreads, states
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Results, SearchedWindow, Shape

__all__ = ["Forward", "build", "forward"]

NOT_PROVED, DEAD_END, PROVED = int(Status.NOT_PROVED), int(Status.DEAD_END), int(Status.PROVED)
TASK_ERROR = int(Status.TASK_ERROR)
REWARD, STATE, TERMINAL, VALUE = Fault.REWARD, Fault.STATE, Fault.TERMINAL, Fault.VALUE
FEASIBLE, DUPLICATE, GENERATED, RETAINED, EXACT, DEAD = (
    First.FEASIBLE, First.DUPLICATE, First.GENERATED, First.RETAINED, First.EXACT, First.DEAD,
)  # fmt: skip
SCORE, MEAN, UNCERTAINTY, UPPER = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY), int(Col.UPPER)
STEP_REWARD, STEP_UNCERTAINTY, GROSS = int(Col.STEP_REWARD), int(Col.STEP_UNCERTAINTY), int(Col.GROSS)
DEPTH, NODE_BUDGET, RISK, TAIL = int(ISet.DEPTH), int(ISet.NODE_BUDGET), int(FSet.RISK), int(FSet.TAIL)

DONE, MORE_ROOM, BUDGET_ENDS = 0, 1, 2  # how `reach` ends; above: a fault
REACHED, EDGES, MOVES, SCORED, STATE_AT, ACTION_AT, SLOTS = range(7)  # its counters, and where it stands


class Moves(NamedTuple):
    """Edges (a state and an action) and their transitions, one for each point of the law, in order."""

    begin: Any  # (states + 1,) first edge of each state
    act: Any  # (edges,) action index
    first: Any  # (edges,) first transition
    reward: Any  # (transitions,)
    to: Any  # (transitions,) the state that follows


class PolicyValues(NamedTuple):
    """Of each state under the best policy; -inf where none keeps the rules."""

    score: Any
    mean: Any  # expected return
    size: Any  # sum of absolute values that were added up
    act: Any  # -1 at a dead end


class Forward(NamedTuple):
    reach: Any
    states: Any


def forward(rules: Rules, k: Shape, jit: Any) -> Forward:
    """What a closed-loop search can reach, layer by layer."""
    load, store, feasible, member = rules.load, rules.store, rules.feasible, rules.member
    step, reward_of = rules.step, rules.reward
    known_states = states.build(k.n, jit)
    place = known_states.place

    @jit.lean_call
    def reach(end, last, budget, win, panel, pool, slots, moves, at):
        """Expand states at[STATE_AT]..end, beginning with action at[ACTION_AT]. Arrays are never replaced in here, so
        that the loops count no references."""
        w, p = win.w, win.p
        size = at[SLOTS]
        most = end + size // 2
        reached, edges, count, scored = at[REACHED], at[EDGES], at[MOVES], at[SCORED]
        first = at[ACTION_AT]
        code = DONE
        i = at[STATE_AT]
        x = first
        while i < end and code == DONE:
            low = np.int64(panel.u[w, 0, pool.tags[i]])
            n = np.int64(panel.u[w, 0, pool.tags[i] + 1]) - low
            if first == 0:
                moves.begin[i] = edges
            x = first
            first = 0
            s = load(pool.st, i, 0)
            while x < panel.actions.shape[1]:
                a = panel.actions[win.arow, x]
                if a != a or not feasible(s, a, p):
                    x += 1
                    continue
                if count + n > budget:
                    code = BUDGET_ENDS
                    break
                if (
                    edges >= moves.act.shape[0]
                    or count + n > moves.to.shape[0]
                    or reached + n > pool.tags.shape[0]
                    or reached + n > most
                ):
                    code = MORE_ROOM
                    break
                scored += 1
                moves.act[edges] = x
                moves.first[edges] = count
                edges += 1
                for point in range(low, low + n):
                    y = member(panel.members, w, point, 0)
                    reward = float(reward_of(s, a, y, p))
                    if not math.isfinite(reward):
                        code = BUDGET_ENDS + REWARD
                        break
                    if not store(pool.st, reached, 0, step(s, a, y, p)):
                        code = BUDGET_ENDS + STATE
                        break
                    to = place(pool, slots, size, -1 if last else np.int64(panel.q[w, 0, point]), reached)
                    if to == reached:
                        reached += 1
                    moves.reward[count] = reward
                    moves.to[count] = to
                    count += 1
                if code != DONE:
                    break
                x += 1
            if code == DONE:
                i += 1
        at[REACHED], at[EDGES], at[MOVES], at[SCORED] = reached, edges, count, scored
        at[STATE_AT] = i
        at[ACTION_AT] = x
        return code

    return Forward(reach, known_states)


def build(rules: Rules, k: Shape, jit: Any) -> Any:
    HAS_END, HAS_TERMINAL, N = k.has_end, k.has_terminal, k.n
    ended, final, params_of = rules.ended, rules.final, rules.params
    reach, (new_room, larger, more_slots, _, _) = forward(rules, k, jit)
    heap_of = jit.heap
    tail_mean = spreads.build(jit).tail_mean
    ends = ending.build(rules, k, jit)
    blank, report, copy_paths = ends.blank, ends.report, ends.copy_paths

    @jit.lean
    def value_of(e, at, n, win, panel, moves, worth, work):
        """Score, mean and size of edge e, whose points begin at `at` in the law."""
        t = moves.first[e]
        discount = panel.disc[1]
        total = 0.0
        mean = 0.0
        whole = 0.0
        most = 0.0
        for y in range(n):
            to = moves.to[t + y]
            if worth.score[to] == -np.inf:
                return -np.inf, -np.inf, 0.0
            weight = panel.weights[win.wrow, at + y]
            value = moves.reward[t + y] + discount * worth.score[to]
            total += weight * value
            if win.risk > 0.0:
                mean += weight * (moves.reward[t + y] + discount * worth.mean[to])
            part = abs(moves.reward[t + y]) + discount * worth.size[to]
            whole += weight * part
            most = max(most, part)
            work[0, y] = value
        if win.risk > 0.0 and math.isfinite(total):
            total = (1.0 - win.risk) * total + win.risk * tail_mean(
                work, 0, n, panel.weights, win.wrow, at, win.spread[1]
            )
            whole = (1.0 - win.risk) * whole + win.risk * most
        return total, mean if win.risk > 0.0 else total, whole

    @jit.lean_call
    def back(layers, reached, win, panel, pool, moves, worth, work):
        """Values of every state from the last layer to the first: fault, its step and action."""
        w, d = win.w, win.d
        score, mean, size = worth.score, worth.mean, worth.size
        for i in range(layers[d], reached):
            end = 0.0
            if HAS_END and not ended(pool.st, i, 1, win.p):
                score[i] = -np.inf
                mean[i] = 0.0
                size[i] = 0.0
                continue
            if HAS_TERMINAL:
                end = final(pool.st, i, 0, win.p)
                if not math.isfinite(end):
                    return TERMINAL, d - 1, 0
            score[i] = end
            mean[i] = end
            size[i] = abs(end)
        for ago in range(d):
            h = d - 1 - ago
            for i in range(layers[h], layers[h + 1]):
                low = np.int64(panel.u[w, 0, pool.tags[i]])
                n = np.int64(panel.u[w, 0, pool.tags[i] + 1]) - low
                score[i] = -np.inf
                mean[i] = 0.0
                size[i] = 0.0
                worth.act[i] = -1
                for e in range(moves.begin[i], moves.begin[i + 1]):
                    value, mean_value, whole = value_of(e, low, n, win, panel, moves, worth, work)
                    if value != -np.inf and not (
                        math.isfinite(value) and math.isfinite(mean_value) and math.isfinite(whole)
                    ):
                        return VALUE, h, np.int64(moves.act[e])
                    if value > score[i]:
                        score[i] = value
                        mean[i] = mean_value
                        size[i] = whole
                        worth.act[i] = moves.act[e]
        return 0, 0, 0

    @jit.lean_call
    def follow(first, level, win, panel, pool, moves, worth, path, row):
        """Actions of the policy that begins with `first`, when every outcome is the one at this level."""
        i = np.int64(0)
        x = first
        path[0, row, 0] = x
        for t in range(1, win.d):
            e = moves.begin[i]
            while moves.act[e] != x:
                e += 1
            low = np.int64(panel.u[win.w, 0, pool.tags[i]])
            high = np.int64(panel.u[win.w, 0, pool.tags[i] + 1])
            at = high - low - 1
            mass = 0.0
            for z in range(high - low):
                mass += panel.weights[win.wrow, low + z]
                if mass >= level:
                    at = np.int64(z)
                    break
            i = np.int64(moves.to[moves.first[e] + at])
            x = np.int64(worth.act[i])
            path[0, row, t] = x

    @jit.lean_call
    def first_actions(win, panel, pool, moves, worth, work, fpath, res):
        """What each action of the first state is worth: the best, its score, mean and spread."""
        w, risk, table, flags = win.w, win.risk, res.table, res.flags
        best = np.int64(-1)
        best_score = 0.0
        best_mean = 0.0
        best_spread = 0.0
        n = np.int64(panel.u[w, 0, 1])
        for e in range(moves.begin[0], moves.begin[1]):
            x = np.int64(moves.act[e])
            flags[w, x] |= FEASIBLE
            total = 0.0
            for y in range(n):
                work[0, y] = moves.reward[moves.first[e] + y]
                total += panel.weights[win.wrow, y] * work[0, y]
            table[w, x, STEP_REWARD] = total
            table[w, x, STEP_UNCERTAINTY] = 0.0
            if risk > 0.0:
                worst = tail_mean(work, 0, n, panel.weights, win.wrow, 0, win.spread[1])
                table[w, x, STEP_UNCERTAINTY] = max(0.0, total - worst)
            same = False
            for z in range(moves.begin[0], e):
                same = True
                for y in range(n):
                    t = moves.first[e] + y
                    v = moves.first[z] + y
                    if moves.reward[t] != moves.reward[v] or moves.to[t] != moves.to[v]:
                        same = False
                        break
                if same:
                    break
            if same:
                flags[w, x] |= DUPLICATE
                continue
            flags[w, x] |= GENERATED
            value, mean_value, whole = value_of(e, 0, n, win, panel, moves, worth, work)
            if value == -np.inf:
                flags[w, x] |= DEAD
                continue
            spread = max(0.0, (mean_value - value) / risk) if risk > 0.0 else 0.0
            flags[w, x] |= RETAINED | EXACT
            table[w, x, SCORE] = value
            table[w, x, MEAN] = mean_value
            table[w, x, UNCERTAINTY] = spread
            table[w, x, UPPER] = value
            table[w, x, GROSS] = whole
            follow(x, MIDDLE, win, panel, pool, moves, worth, fpath, x)
            if best < 0 or value > best_score or (value == best_score and spread < best_spread):
                best = x
                best_score = value
                best_mean = mean_value
                best_spread = spread
        return best, best_score, best_mean, best_spread

    @jit.inner
    def longer(array, need, most):
        """Twice the length, or what is needed, but no more than `most`."""
        size = max(2 * array.shape[0], need)
        if size > most:
            size = most
        new = np.empty(size, array.dtype)
        new[: array.shape[0]] = array
        return new

    @jit.inner
    def with_room(n, reached, edges, count, budget, moves):
        """Room for one more edge of `n` transitions, and for the states that they may lead to."""
        begin, act, first, reward, to = moves
        if edges >= act.shape[0]:
            act = longer(act, edges + 1, budget)
            first = longer(first, edges + 1, budget)
        if count + n > to.shape[0]:
            reward = longer(reward, count + n, budget)
            to = longer(to, count + n, budget)
        return Moves(begin, act, first, reward, to)

    @jit.entry
    def panel_of(
        iset,
        fset,
        states,
        params,
        actions,
        mean,
        members,
        weights,
        q,
        u,
        disc,
        out_i,
        out_f,
        flags,
        table,
        path_out,
        paths,
        lo,
        hi,
    ):
        """Windows lo..hi."""
        d, budget = iset[DEPTH], iset[NODE_BUDGET]
        risk, spread = fset[RISK], (0, fset[TAIL])
        m = actions.shape[1]
        heap = heap_of()
        pool = new_room(heap, 64)
        slots = np.empty(128, np.int32)
        moves = Moves(
            np.empty(65, np.int64), np.empty(64, np.int32), np.empty(64, np.int64), np.empty(64), np.empty(64, np.int32)
        )
        worth = PolicyValues(np.empty(1), np.empty(1), np.empty(1), np.empty(1, np.int32))
        layers = np.empty(d + 2, np.int64)
        at = np.zeros(7, np.int64)
        work = np.empty((1, max(1, members.shape[1])))
        fpath = np.empty((1, m + 2, d), np.int64)
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        for w in range(lo, hi):
            p = params_of(params, w if params.shape[0] > 1 else 0)
            win = SearchedWindow(
                w,
                w if actions.shape[0] > 1 else 0,
                w if weights.shape[0] > 1 else 0,
                d,
                d,
                1,
                0,
                False,
                risk,
                0.0,
                0.0,
                spread,
                p,
            )
            blank(w, res)
            fault = 0
            fault_step = 0
            fault_action = 0
            status = NOT_PROVED
            stopped = False
            for f in range(N):
                pool.st[0, 0, f] = states[w, f]
            pool.tags[0] = 0
            layers[0] = 0
            at[REACHED], at[EDGES], at[MOVES], at[SCORED] = 1, 0, 0, 0
            for h in range(d):
                layers[h + 1] = at[REACHED]
                at[STATE_AT] = layers[h]
                at[ACTION_AT] = 0
                slots, at[SLOTS] = more_slots(
                    heap, pool, slots, at[REACHED], at[REACHED], 2 * (at[REACHED] - layers[h])
                )
                code = MORE_ROOM
                while code == MORE_ROOM:
                    code = reach(layers[h + 1], h + 1 == d, budget, win, panel, pool, slots, moves, at)
                    if code == MORE_ROOM:
                        kind = pool.tags[at[STATE_AT]]
                        n = np.int64(u[w, 0, kind + 1]) - np.int64(u[w, 0, kind])
                        moves = with_room(n, at[REACHED], at[EDGES], at[MOVES], budget, moves)
                        if at[REACHED] + n > pool.tags.shape[0]:
                            pool = larger(heap, pool, at[REACHED], at[REACHED] + n)
                            begin = np.empty(pool.tags.shape[0] + 1, np.int64)
                            begin[: moves.begin.shape[0]] = moves.begin
                            moves = Moves(begin, moves.act, moves.first, moves.reward, moves.to)
                        if at[REACHED] + n > layers[h + 1] + at[SLOTS] // 2:
                            need = max(at[SLOTS], at[REACHED] + n - layers[h + 1])
                            slots, at[SLOTS] = more_slots(heap, pool, slots, layers[h + 1], at[REACHED], need)
                if code == BUDGET_ENDS:
                    stopped = True
                    break
                if code > BUDGET_ENDS:
                    fault = code - BUDGET_ENDS
                    fault_step = h
                    fault_action = at[ACTION_AT]
                    break
            reached = at[REACHED]
            layers[d + 1] = reached
            best = -1
            score = 0.0
            reward = 0.0
            uncertainty = 0.0
            if fault == 0 and not stopped:
                moves.begin[layers[d]] = at[EDGES]
                if worth.score.shape[0] < reached:
                    size = pool.tags.shape[0]
                    worth = PolicyValues(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int32))
                fault, fault_step, fault_action = back(layers, reached, win, panel, pool, moves, worth, work)
                if fault == 0:
                    best, score, reward, uncertainty = first_actions(win, panel, pool, moves, worth, work, fpath, res)
                    status = PROVED if best >= 0 else DEAD_END
                if status == PROVED:
                    follow(best, LOW, win, panel, pool, moves, worth, fpath, m)
                    follow(best, HIGH, win, panel, pool, moves, worth, fpath, m + 1)
            if fault != 0:
                status = TASK_ERROR
                blank(w, res)
            report(
                w,
                status,
                best,
                at[MOVES],
                at[SCORED],
                reached,
                -1,
                fault,
                fault_step,
                fault_action,
                score,
                reward,
                uncertainty,
                score if status == PROVED else np.nan,
                fpath[0],
                max(best, 0),
                res,
            )
            copy_paths(w, fpath, res)
            if paths.shape[0] > 0 and status == PROVED:
                for t in range(d):
                    paths[w, m, t] = fpath[0, m, t]
                    paths[w, m + 1, t] = fpath[0, m + 1, t]

    return panel_of
