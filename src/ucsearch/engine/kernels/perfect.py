"""Each member's own best reward to go, as if it knew its future: no plan for all of them can promise more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ucsearch.engine.kernels.rules import Rules
from ucsearch.engine.kernels.shapes import Shape
from ucsearch.engine.kernels.states import States
from ucsearch.engine.status import Fault

__all__ = ["build"]

REWARD, STATE, TERMINAL = Fault.REWARD, Fault.STATE, Fault.TERMINAL
Function = Callable[..., Any]


def build(rules: Rules, k: Shape, jit: Any, states: States) -> Function:
    N, HAS_END, HAS_TERMINAL = k.n, k.has_end, k.has_terminal
    allowed, ended, final, moved, paid = rules.allowed, rules.ended, rules.final, rules.moved, rules.paid
    _, _, grow, find, probe = states

    @jit.lean_call
    def take(s, i, one):
        for f in range(N):
            one[0, 0, f] = s.pool[i, f]

    @jit.lean_call
    def keep(s, known, spare, tag, at):
        for f in range(N):
            s.pool[known, f] = s.pool[spare, f]
        s.tags[known] = tag
        s.slots[at] = known

    @jit.inner
    def ends(win, panel, s, one, starts):
        """Values of the last step's states; whether one is not finite."""
        d = win.d
        for i in range(starts[d], starts[d + 1]):
            s.value[i] = 0.0
            if HAS_END or HAS_TERMINAL:
                take(s, i, one)
            if HAS_END and not ended(one, 0, 1, win.p):
                s.value[i] = -np.inf
            elif HAS_TERMINAL:
                end = final(one, 0, 0, win.p)
                if not math.isfinite(end):
                    return True
                s.value[i] = panel.disc[d] * end
        return False

    @jit.inner
    def back(j, h, win, panel, s, one, cand, starts):
        """Values of the states of step h under member j: a fault, and its action."""
        tag = j * (win.d + 1) + h + 1
        for i in range(starts[h], starts[h + 1]):
            take(s, i, one)
            best = -np.inf
            for x in range(panel.actions.shape[1]):
                a = panel.actions[win.arow, x]
                if a != a or not allowed(one, 0, 1, a, win.p):
                    continue
                moved(one, 0, 0, a, win.w, h, j, panel, cand.st, 0, win.p)
                spare = probe(s, cand.st, 0, 0)
                after = s.value[s.slots[find(s, tag, spare)]]
                reward = paid(one, 0, 0, a, win.w, h, j, panel, win.p)
                if not math.isfinite(reward):
                    return REWARD, x
                best = max(best, panel.disc[h] * reward + after)
            s.value[i] = best
        return 0, 0

    @jit.inner
    def perfect(budget, win, panel, s, one, cand, starts):
        """Values of every state a member can reach, under the tag j * (d + 1) + h: the pool, the nodes spent, whether
        all is known, and a fault, its step and action. Not all is known when the budget of nodes runs out."""
        d = win.d
        known = 0
        nodes = 0
        for j in range(panel.members.shape[1]):
            starts[0] = known
            if known + 1 >= s.pool.shape[0]:
                s = grow(s, known)
            for f in range(N):
                one[0, 0, f] = panel.states[win.w, f]
            spare = probe(s, one, 0, 0)
            keep(s, known, spare, j * (d + 1), find(s, j * (d + 1), spare))
            known += 1
            starts[1] = known
            for h in range(d):
                tag = j * (d + 1) + h + 1
                for i in range(starts[h], starts[h + 1]):
                    take(s, i, one)
                    for x in range(panel.actions.shape[1]):
                        a = panel.actions[win.arow, x]
                        if a != a or not allowed(one, 0, 1, a, win.p):
                            continue
                        if not moved(one, 0, 0, a, win.w, h, j, panel, cand.st, 0, win.p):
                            return s, nodes, True, STATE, h, x
                        if known + 1 >= s.pool.shape[0]:
                            s = grow(s, known)
                        spare = probe(s, cand.st, 0, 0)
                        at = find(s, tag, spare)
                        if s.slots[at] < 0:
                            if nodes >= budget:
                                return s, nodes, False, 0, 0, 0
                            nodes += 1
                            keep(s, known, spare, tag, at)
                            known += 1
                starts[h + 2] = known
            if ends(win, panel, s, one, starts):
                return s, nodes, True, TERMINAL, d - 1, 0
            for ago in range(d):
                fault, action = back(j, d - 1 - ago, win, panel, s, one, cand, starts)
                if fault != 0:
                    return s, nodes, True, fault, d - 1 - ago, action
        return s, nodes, True, 0, 0, 0

    made: Function = perfect
    return made
