"""Dynamic programming over distinct states in additive modes. Values go backward; paths are summed forward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ucsearch.engine.arrays import Col
from ucsearch.engine.kernels.rules import Rules
from ucsearch.engine.kernels.scoring import Scoring
from ucsearch.engine.kernels.shapes import Shape
from ucsearch.engine.kernels.states import States
from ucsearch.engine.status import Fault, First, Status

__all__ = ["build"]

NOT_PROVED, DEAD_END, PROVED = int(Status.NOT_PROVED), int(Status.DEAD_END), int(Status.PROVED)
TERMINAL = Fault.TERMINAL
FEASIBLE, DUPLICATE, GENERATED = First.FEASIBLE, First.DUPLICATE, First.GENERATED
RETAINED, EXACT, DEAD = First.RETAINED, First.EXACT, First.DEAD
Function = Callable[..., Any]
SCORE, UPPER = int(Col.SCORE), int(Col.UPPER)


def build(rules: Rules, k: Shape, jit: Any, scoring: Scoring, states: States, offer: Function) -> Function:
    """`offer(first, R, U, G, win, best, res)` takes a path of full depth."""
    N, HAS_END, HAS_TERMINAL = k.n, k.has_end, k.has_terminal
    ended, final = rules.ended, rules.final
    score, extend, mark_root = scoring.score, scoring.extend, scoring.mark_root
    new_room, _, grow, find, probe = states

    @jit.lean_call
    def score_call(h, st, use_bound, win, panel, tables, cand):
        """One copy of it for the three places below."""
        return score(h, st, 0, -1, use_bound, win, panel, tables, cand)

    @jit.lean_call
    def reach(h, end, budget, win, panel, tables, cand, one, s, at_work, res):
        """Expand states at_work[3]..end of step h as far as there is room: a fault, its action, and whether the budget
        ends. Known states, expansions and scored actions are at_work[0:3]."""
        known, expansions, scored, i = at_work[0], at_work[1], at_work[2], at_work[3]
        fault = 0
        fault_action = 0
        stopped = False
        while i < end and known + panel.actions.shape[1] + 1 < s.pool.shape[0]:
            for f in range(N):
                one[0, 0, f] = s.pool[i, f]
            found, fault, fault_action = score_call(h, one, win.use_bound, win, panel, tables, cand)
            scored += found
            if fault != 0:
                break
            if h == 0:
                mark_root(found, cand, win, res)
            for c in range(found):
                spare = probe(s, cand.st, c, 0)
                at = find(s, h + 1, spare)
                if s.slots[at] < 0:
                    if expansions >= budget:
                        stopped = True
                        break
                    expansions += 1
                    for f in range(N):
                        s.pool[known, f] = s.pool[spare, f]
                    s.tags[known] = h + 1
                    s.slots[at] = known
                    known += 1
            if stopped:
                break
            i += 1
        at_work[0] = known
        at_work[1] = expansions
        at_work[2] = scored
        at_work[3] = i
        return fault, fault_action, stopped

    @jit.lean_call
    def ends(starts, win, panel, one, s):
        """Values of the last step's states; whether one is not finite."""
        d = win.d
        for i in range(starts[d], starts[d + 1]):
            s.value[i] = 0.0
            s.second[i] = 0.0
            s.succ[i, 0] = 0
            if HAS_END or HAS_TERMINAL:
                for f in range(N):
                    one[0, 0, f] = s.pool[i, f]
            if HAS_END and not ended(one, 0, 1, win.p):
                s.succ[i, 0] = -1
            elif HAS_TERMINAL:
                end = final(one, 0, 0, win.p)
                if not math.isfinite(end):
                    return True
                s.value[i] = panel.disc[d] * end
        return False

    @jit.lean_call
    def back(starts, win, panel, tables, cand, one, s, res):
        """Values and successors of all states but the last step's."""
        for ago in range(win.d):
            h = win.d - 1 - ago
            for i in range(starts[h], starts[h + 1]):
                for f in range(N):
                    one[0, 0, f] = s.pool[i, f]
                found, _, _ = score_call(h, one, False, win, panel, tables, cand)
                has = False
                s.succ[i, 0] = -1
                for c in range(found):
                    spare = probe(s, cand.st, c, 0)
                    after = s.slots[find(s, h + 1, spare)]
                    if s.succ[after, 0] < 0:
                        continue
                    here = panel.disc[h] * (cand.q[c] - win.risk * cand.u[c]) + s.value[after]
                    here_U = panel.disc[h] * cand.u[c] + s.second[after]
                    if not has or here > s.value[i] or (here == s.value[i] and here_U < s.second[i]):
                        has = True
                        s.value[i] = here
                        s.second[i] = here_U
                        s.succ[i, 0] = after
                        s.succ[i, 1] = cand.act[c]
                    if h == 0:
                        res.flags[win.w, cand.act[c]] |= GENERATED

    @jit.lean_call
    def forward(win, panel, tables, cand, one, one_ret, s, best, res):
        """The path of every first action, summed forward; a fault, its step and action."""
        w, d = win.w, win.d
        for x in range(panel.actions.shape[1]):
            if res.flags[w, x] & FEASIBLE == 0 or res.flags[w, x] & DUPLICATE != 0:
                continue
            for f in range(N):
                one[0, 0, f] = panel.states[w, f]
            reward = 0.0
            uncertainty = 0.0
            gross = 0.0
            at = 0
            alive = True
            for h in range(d):
                act = x if h == 0 else s.succ[at, 1]
                if h > 0 and s.succ[at, 0] < 0:
                    alive = False
                    break
                found, _, _ = score_call(h, one, False, win, panel, tables, cand)
                for c in range(found):
                    if cand.act[c] == act:
                        reward, uncertainty, gross, _, dropped, fault = extend(
                            h, reward, uncertainty, gross, one_ret, 0, c, win, panel, cand, one_ret, 0
                        )
                        if fault != 0:
                            return fault, h, act
                        if dropped:
                            alive = False
                            break
                        best.prefix[0, h] = act
                        spare = probe(s, cand.st, c, 0)
                        at = s.slots[find(s, h + 1, spare)]
                        for f in range(N):
                            one[0, 0, f] = cand.st[c, 0, f]
                        break
                if not alive:
                    break
            if not alive:
                res.flags[w, x] = (res.flags[w, x] | DEAD) & (255 - GENERATED)
                continue
            res.flags[w, x] |= RETAINED | EXACT
            offer(x, reward, uncertainty, gross, -1, win, best, res)
            res.table[w, x, UPPER] = res.table[w, x, SCORE]
        return 0, 0, 0

    @jit.inner
    def programme(budget, win, panel, tables, cand, one, one_ret, starts, best, counts, res):
        """Exact value of every first action, or NOT_PROVED when the budget of nodes runs out: status, fault, its step
        and action. counts: expansions and scored actions."""
        d = win.d
        s = new_room()
        for f in range(N):
            one[0, 0, f] = panel.states[win.w, f]
        spare = probe(s, one, 0, 0)
        at = find(s, 0, spare)
        for f in range(N):
            s.pool[0, f] = s.pool[spare, f]
        s.tags[0] = 0
        s.slots[at] = 0
        starts[0] = 0
        starts[1] = 1
        at_work = np.zeros(4, np.int64)
        at_work[0], at_work[1], at_work[2] = 1, counts[0], counts[1]
        fault = 0
        fault_action = 0
        stopped = False
        for h in range(d):
            at_work[3] = starts[h]
            while True:
                fault, fault_action, stopped = reach(
                    h, starts[h + 1], budget, win, panel, tables, cand, one, s, at_work, res
                )
                if fault != 0 or stopped or at_work[3] == starts[h + 1]:
                    break
                s = grow(s, at_work[0])
            if fault != 0:
                counts[0], counts[1] = at_work[1], at_work[2]
                return NOT_PROVED, fault, h, fault_action
            if stopped:
                break
            starts[h + 2] = at_work[0]
        counts[0], counts[1] = at_work[1], at_work[2]
        if stopped:
            return NOT_PROVED, 0, 0, 0
        if ends(starts, win, panel, one, s):
            return NOT_PROVED, TERMINAL, d - 1, 0
        back(starts, win, panel, tables, cand, one, s, res)
        fault, fault_step, fault_action = forward(win, panel, tables, cand, one, one_ret, s, best, res)
        if fault != 0:
            return NOT_PROVED, fault, fault_step, fault_action
        return DEAD_END if best.first[0] < 0 else PROVED, 0, 0, 0

    made: Function = programme
    return made
