"""Random shooting, CEM and MPPI over categorical distributions. See ../plain/sampling.py for the specification."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col, Fault, First, ISet, Status
from ucsearch.engine.kernels.common import ending, room, scoring
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Candidates, Panel, Results, Shape
from ucsearch.lab.comparators.kernels import streams
from ucsearch.lab.comparators.plain.sampling import CEM, HEAD

__all__ = ["build"]

FOUND, TASK_ERROR, STATE = int(Status.FOUND), int(Status.TASK_ERROR), Fault.STATE
GENERATED, RETAINED = First.GENERATED, First.RETAINED
SCORE, REWARD, UNCERTAINTY, GROSS = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY), int(Col.GROSS)
DEPTH = int(ISet.DEPTH)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Options(NamedTuple):
    """Settings of this algorithm, see ../policies.py."""

    variant: int
    samples: int
    iterations: int
    elites: int
    memory: int
    stratified: bool
    seed: Any
    keyed: int  # whether warm plans belong to windows
    warm_rows: int
    warm_at: int  # where warm plans begin in the whole-number settings
    pick: float  # risk of the objective
    smoothing: float
    floor: float
    temperature: float
    blur: float
    warm_weight: float


class Plans(NamedTuple):
    """Plans of an iteration after those remembered; random shooting needs only the one at hand."""

    plan: Ints  # (plans, d)
    gain: Floats  # objective
    U: Floats
    weight: Floats
    order: Ints  # the best different plans, best first
    memory: Ints  # (memory, d) plans that stay
    memory_gain: Floats
    memory_U: Floats


class Draw(NamedTuple):
    """What plans are drawn from, and the one that is drawn."""

    probs: Floats  # (d, m)
    row: Floats  # (m,)
    choice: Ints  # (m,) actions at hand
    st: Floats  # (1, rows, n)
    ret: Floats  # (1, rows)
    path: Ints  # (1, m, d) the best plan of each first action


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    MEMBERS, N = k.members, k.n
    allowed = rules.allowed
    rows_of, candidates_of, _, window_of = room.build(rules, k, jit)
    heap_of = jit.heap
    scored_by = scoring.build(rules, k, jit)
    extend_inline, mark_root, score_inline = scored_by.extend, scored_by.mark_root, scored_by.score
    lost, _, improves, blank, report, copy_paths = ending.build(rules, k, jit)
    mix, absorb, uniform, content_of = streams.build(N, jit)

    @jit.lean
    def score(h, st, only, win, panel, cand):
        return score_inline(h, st, 0, only, False, win, panel, 0.0, cand)

    @jit.lean
    def extend(h, R, U, G, ret, win, panel, cand):
        return extend_inline(h, R, U, G, ret, 0, 0, win, panel, cand, ret, 0)

    @jit.lean_call
    def pick_of(count, choice, probs, h, i, c, offset):
        """The action of plan i of c by systematic sampling, and the plan's number among those that take it."""
        total = 0.0
        for x in range(count):
            total += probs[h, choice[x]]
        flat = not total > 0.0
        if flat:
            total = float(count)
        below = 0.0
        low = 0
        for x in range(count - 1):
            below += 1.0 if flat else probs[h, choice[x]]
            high = math.ceil(c * (below / total) - offset)
            if i < high:
                return choice[x], i - low, high - low
            low = high
        return choice[count - 1], i - low, c - low

    @jit.inline
    def blurred(row, x, blur):
        """Entry x when a share `blur` of every action's weight goes to its two neighbours."""
        last = row.shape[0] - 1
        return (1.0 - blur) * row[x] + 0.5 * blur * (row[max(x - 1, 0)] + row[min(x + 1, last)])

    @jit.lean_call
    def compared(x, y, plans, d):
        """Plan x against plan y by objective, U and path: negative when x comes first, 0 when they are the same."""
        if plans.gain[x] != plans.gain[y]:
            return -1 if plans.gain[x] > plans.gain[y] else 1
        if plans.U[x] != plans.U[y]:
            return -1 if plans.U[x] < plans.U[y] else 1
        for t in range(d):
            if plans.plan[x, t] != plans.plan[y, t]:
                return -1 if plans.plan[x, t] < plans.plan[y, t] else 1
        return 0

    @jit.lean_call
    def ranked(size, most, plans, d):
        """order[:count] becomes the best `most` different plans, best first."""
        order = plans.order
        count = 0
        for x in range(size):
            at = count
            sign = -1
            while at > 0:
                sign = compared(x, order[at - 1], plans, d)
                if sign >= 0:
                    break
                at -= 1
            if at >= most or (at > 0 and sign == 0):
                continue
            if count < most:
                count += 1
            for y in range(count - 1, at, -1):
                order[y] = order[y - 1]
            order[at] = x
        return count

    @jit.lean_call
    def update(size, ranks, o, plans, draw, d):
        """Move the distributions towards the elites (CEM) or the softmax-weighted plans (MPPI)."""
        gain, weight, row = plans.gain, plans.weight, draw.row
        count = min(o.elites, ranks) if o.variant == CEM else size
        scale = 0.0
        best = -np.inf
        if o.variant != CEM:
            average = 0.0
            square = 0.0
            for x in range(size):
                best = max(best, gain[x])
                average += gain[x] / size
            for x in range(size):
                square += (gain[x] - average) * (gain[x] - average) / size
            scale = o.temperature * math.sqrt(square)
        total = 0.0
        for x in range(count):
            weight[x] = 1.0
            if o.variant != CEM and 0.0 < scale < np.inf:
                weight[x] = math.exp((gain[x] - best) / scale)
            total += weight[x]
        m = row.shape[0]
        for h in range(d):
            for x in range(m):
                row[x] = 0.0
            for x in range(count):
                row[plans.plan[plans.order[x] if o.variant == CEM else x, h]] += weight[x] / total
            for x in range(m):
                drawn = (1.0 - o.smoothing) * blurred(row, x, o.blur)
                moved = (1.0 - (1.0 - o.smoothing)) * draw.probs[h, x] + drawn
                draw.probs[h, x] = (1.0 - o.floor) * moved + o.floor / m

    @jit.lean_call
    def remember(ranks, o, plans, d):
        """The best plans come first in the next population: how many."""
        remembered = min(o.memory, ranks)
        for x in range(remembered):
            plans.memory_gain[x] = plans.gain[plans.order[x]]
            plans.memory_U[x] = plans.U[plans.order[x]]
            for y in range(d):
                plans.memory[x, y] = plans.plan[plans.order[x], y]
        for x in range(remembered):
            plans.gain[x] = plans.memory_gain[x]
            plans.U[x] = plans.memory_U[x]
            for y in range(d):
                plans.plan[x, y] = plans.memory[x, y]
        return remembered

    @jit.lean_call
    def warm_of(iset, o, d, content):
        """Where this window's warm plan starts in iset; -1 when it has none. Rows are sorted by content."""
        if o.keyed == 0:
            return o.warm_at if o.warm_rows > 0 else -1
        key = np.int64(content)
        low = 0
        high = o.warm_rows
        while low < high:
            middle = (low + high) // 2
            if iset[o.warm_at + middle * (d + 1)] < key:
                low = middle + 1
            else:
                high = middle
        place = o.warm_at + low * (d + 1)
        return place + 1 if low < o.warm_rows and iset[place] == key else -1

    @jit.lean_call
    def start(iset, warm, o, draw, d):
        """The first distribution of every step."""
        m = draw.row.shape[0]
        for h in range(d):
            for x in range(m):
                draw.probs[h, x] = 1.0 / m
            if warm >= 0 and iset[warm + h] >= 0:
                for x in range(m):
                    draw.row[x] = 0.0
                draw.row[iset[warm + h]] = 1.0
                for x in range(m):
                    before = (1.0 - o.warm_weight) * draw.probs[h, x]
                    draw.probs[h, x] = before + o.warm_weight * blurred(draw.row, x, o.blur)

    @jit.lean_call
    def one_window(iset, o, content, win, panel, firsts, cand, plans, draw, look, cursor, res):
        """Search one window; nothing here allocates. `firsts`: the candidates of the first step."""
        w, d, rows, risk = win.w, win.d, win.rows, win.risk
        m = panel.actions.shape[1]
        table, flags, plan, st, choice = res.table, res.flags, plans.plan, draw.st, draw.choice
        for r in range(rows):
            for f in range(N):
                st[0, r, f] = panel.states[w, f]
        expansions = 0
        completed = 0
        best_first = -1
        best_gain = 0.0
        best_R = 0.0
        best_U = 0.0
        best_cont = -1
        fault_step = 0
        at_hand, fault, fault_action = score(0, st, -1, win, panel, firsts)
        scored = at_hand
        if fault == 0:
            mark_root(at_hand, firsts, win, res)
        stream = absorb(mix(o.seed), content)
        warm = warm_of(iset, o, d, content)
        start(iset, warm, o, draw, d)
        remembered = 0
        for t in range(o.iterations if fault == 0 and at_hand > 0 else 0):
            count = o.samples // o.iterations + (1 if t < o.samples % o.iterations else 0)
            led = 1 if t == 0 and warm >= 0 else 0
            begun = absorb(stream, np.uint64(t + 1))
            size = remembered
            for n in range(count):
                leading = n < led
                own = begun
                i = n - led
                c = count - led
                if leading or not o.stratified:
                    own = absorb(begun, np.uint64(n + 1))
                    i = 0
                    c = 1
                R = 0.0
                U = 0.0
                G = 0.0
                cont = -1
                alive = True
                for h in range(d):
                    found = 0
                    if h == 0:
                        for x in range(at_hand):
                            choice[x] = firsts.act[x]
                        found = at_hand
                    else:
                        for x in range(m):
                            a = panel.actions[win.arow, x]
                            if a == a and allowed(st, 0, rows, a, win.p):
                                choice[found] = x
                                found += 1
                    if found == 0:
                        alive = False
                        break
                    act = -1
                    if leading:
                        for x in range(found):
                            if choice[x] == iset[warm + h]:
                                act = choice[x]
                    if act < 0:
                        act, i, c = pick_of(found, choice, draw.probs, h, i, c, uniform(own))
                    own = absorb(own, np.uint64(act + 1))
                    if h == 0:
                        flags[w, act] |= GENERATED
                        at = 0
                        while firsts.act[at] != act:
                            at += 1
                        cand.q[0] = firsts.q[at]
                        cand.u[0] = firsts.u[at]
                        for r in range(rows):
                            for f in range(N):
                                cand.st[0, r, f] = firsts.st[at, r, f]
                            if MEMBERS:
                                cand.rew[0, r] = firsts.rew[at, r]
                                draw.ret[0, r] = 0.0
                    else:
                        found, fault, fault_action = score(h, st, act, win, panel, cand)
                        scored += 1
                        if fault != 0:
                            fault_step = h
                            break
                    expansions += 1
                    R, U, G, cont, dropped, fault = extend(h, R, U, G, draw.ret, win, panel, cand)
                    if fault != 0:
                        fault_step = h
                        fault_action = act
                        break
                    if dropped:
                        alive = False
                        break
                    plan[size, h] = act
                    for r in range(rows):
                        for f in range(N):
                            st[0, r, f] = cand.st[0, r, f]
                if fault != 0:
                    break
                if not alive:
                    continue
                completed += 1
                value = R - o.pick * U
                first = plan[size, 0]
                flags[w, first] |= RETAINED
                held_value = np.nan
                if table[w, first, SCORE] == table[w, first, SCORE]:
                    held_value = table[w, first, REWARD] - o.pick * table[w, first, UNCERTAINTY]
                if improves(value, U, plan, size, held_value, table[w, first, UNCERTAINTY], draw.path, 0, first, d):
                    table[w, first, SCORE] = R - risk * U
                    table[w, first, REWARD] = R
                    table[w, first, UNCERTAINTY] = U
                    table[w, first, GROSS] = G
                    for y in range(d):
                        draw.path[0, first, y] = plan[size, y]
                    # What beats the incumbent beats the best of its own first action too.
                    wins = best_first < 0 or value > best_gain
                    if not wins and value == best_gain:
                        if best_U != U:
                            wins = best_U > U
                        elif first != best_first:
                            wins = first < best_first
                        else:
                            wins = True
                    if wins:
                        best_first = first
                        best_gain = value
                        best_R = R
                        best_U = U
                        best_cont = cont
                if o.iterations > 1:
                    plans.gain[size] = value
                    plans.U[size] = U
                    size += 1
            if fault != 0:
                break
            if size > 0 and t + 1 < o.iterations:
                ranks = ranked(size, max(o.elites, o.memory), plans, d)
                update(size, ranks, o, plans, draw, d)
                remembered = remember(ranks, o, plans, d)
        status = FOUND
        if fault == 0 and best_first < 0:
            status, fault_step, fault_action = lost(st, win, panel, look, cursor)
            if status == TASK_ERROR:
                fault = STATE
        if fault != 0:
            status = TASK_ERROR
            blank(w, res)
        report(
            w, status, best_first, expansions, scored, completed, best_cont, fault, fault_step, fault_action,
            best_R - risk * best_U, best_R, best_U, np.nan, draw.path[0], max(best_first, 0), res,
        )  # fmt: skip
        copy_paths(w, draw.path, res)

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Windows lo..hi. The last number of iset is how many belong to this algorithm; see ../policies.py."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        res = Results(out_i, out_f, flags, table, path_out, paths)
        own = iset.shape[0] - iset[iset.shape[0] - 1]
        own_f = fset.shape[0] - 6
        o = Options(
            iset[own], iset[own + 1], iset[own + 2], iset[own + 3], iset[own + 4], iset[own + 5] != 0,
            np.uint64(iset[own + 6]), iset[own + 7], iset[own + 8], own + HEAD, fset[own_f], fset[own_f + 1],
            fset[own_f + 2], fset[own_f + 3], fset[own_f + 4], fset[own_f + 5],
        )  # fmt: skip
        d, m, rows = iset[DEPTH], actions.shape[1], rows_of(panel)
        firsts = candidates_of(heap_of(), iset, panel)
        # One candidate, which shares with those of the first step what holds nothing from one call to the next.
        cand = Candidates(
            np.empty(1, np.int64), np.empty(1), np.empty(1), firsts.rank, firsts.togo, np.empty((1, rows, N)),
            np.empty((1, rows if MEMBERS else 1)), firsts.work, firsts.edge, firsts.suffix, firsts.total,
        )  # fmt: skip
        most = 1 if o.iterations == 1 else o.memory + (o.samples + o.iterations - 1) // o.iterations
        memory = max(o.memory, 1)
        plans = Plans(
            np.empty((most, d), np.int64), np.empty(most), np.empty(most), np.empty(most),
            np.empty(max(o.elites, memory), np.int64), np.empty((memory, d), np.int64), np.empty(memory),
            np.empty(memory),
        )  # fmt: skip
        draw = Draw(
            np.empty((d, m)), np.empty(m), np.empty(m, np.int64), np.empty((1, rows, N)),
            np.empty((1, rows if MEMBERS else 1)), np.empty((1, m, d), np.int64),
        )  # fmt: skip
        one, look, cursor = np.empty(1), np.empty((d + 1, rows, N)), np.empty(d + 1, np.int64)
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, False)
            blank(w, res)
            content = content_of(win, panel, one)
            one_window(iset, o, content, win, panel, firsts, cand, plans, draw, look, cursor, res)

    entry: Callable[..., None] = panel_of
    return entry
