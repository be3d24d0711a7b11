"""Each member's own best reward to go, as if it knew its future: no plan for all of them can promise more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape
from ucsearch.engine.kernels.common.states import Pool, States

__all__ = ["Perfect", "build"]

REWARD, STATE, TERMINAL = Fault.REWARD, Fault.STATE, Fault.TERMINAL
Function = Callable[..., Any]


class ReachedStates(NamedTuple):
    """States that members reach, under the tag j * (d + 1) + h, and the best reward to go of each."""

    pool: Pool
    slots: NDArray[np.int32]
    value: NDArray[np.float64]


class Perfect(NamedTuple):
    perfect: Function  # (heap, budget, win, panel, s, cand, starts) -> s, nodes, all is known, fault, step, action
    value_of: Function  # (s, tag, st, c, r) -> what a known state is worth
    room: Function  # (heap) -> s
    emptied: Function  # (s) -> the same room, for another window


def build(rules: Rules, k: Shape, jit: Any, states: States) -> Perfect:
    N, HAS_END, HAS_TERMINAL = k.n, k.has_end, k.has_terminal
    allowed, ended, final, moved, paid = rules.allowed, rules.ended, rules.final, rules.moved, rules.paid
    new_pool, larger, more_slots, place, find = states
    floats, places, ROWS = jit.floats, jit.places, jit.rows

    @jit.inner
    def room(heap):
        pool = new_pool(heap, ROWS + 1)
        slots, _ = more_slots(heap, pool, places(heap, 0), 0, 0, ROWS)
        return ReachedStates(pool, slots, floats(heap, ROWS + 1))

    @jit.inner
    def emptied(s):
        for x in range(s.slots.shape[0]):
            s.slots[x] = -1
        return s

    @jit.inner
    def grow(heap, s, reached):
        """Twice the room."""
        rows = 2 * s.pool.tags.shape[0]
        pool = larger(heap, s.pool, reached, rows)
        slots, _ = more_slots(heap, pool, s.slots, 0, reached, rows)
        value = floats(heap, rows)
        for x in range(s.value.shape[0]):
            value[x] = s.value[x]
        return ReachedStates(pool, slots, value)

    @jit.lean
    def value_of(s, tag, st, c, r):
        """The state is tried in the last row."""
        row = s.pool.tags.shape[0] - 1
        for f in range(N):
            s.pool.st[row, 0, f] = st[c, r, f]
        return s.value[find(s.pool, s.slots, s.slots.shape[0], tag, row)]

    @jit.inner
    def ends(win, panel, s, starts):
        """Values of the last step's states; whether one is not finite."""
        d = win.d
        for i in range(starts[d], starts[d + 1]):
            s.value[i] = 0.0
            if HAS_END and not ended(s.pool.st, i, 1, win.p):
                s.value[i] = -np.inf
            elif HAS_TERMINAL:
                end = final(s.pool.st, i, 0, win.p)
                if not math.isfinite(end):
                    return True
                s.value[i] = panel.disc[d] * end
        return False

    @jit.inner
    def back(j, h, win, panel, s, cand, starts):
        """Values of the states of step h under member j: a fault, and its action."""
        tag = j * (win.d + 1) + h + 1
        st = s.pool.st
        for i in range(starts[h], starts[h + 1]):
            best = -np.inf
            for x in range(panel.actions.shape[1]):
                a = panel.actions[win.arow, x]
                if a != a or not allowed(st, i, 1, a, win.p):
                    continue
                moved(st, i, 0, a, win.w, h, j, panel, cand.st, 0, win.p)
                after = value_of(s, tag, cand.st, 0, 0)
                reward = paid(st, i, 0, a, win.w, h, j, panel, win.p)
                if not math.isfinite(reward):
                    return REWARD, x
                best = max(best, panel.disc[h] * reward + after)
            s.value[i] = best
        return 0, 0

    @jit.inner
    def perfect(heap, budget, win, panel, s, cand, starts):
        """Values of every state a member can reach: the states, the nodes spent, whether all is known, and a fault, its
        step and action. Not all is known when the budget of nodes runs out."""
        d = win.d
        reached = 0
        nodes = 0
        for j in range(panel.members.shape[1]):
            starts[0] = reached
            if reached + 2 > s.pool.tags.shape[0]:
                s = grow(heap, s, reached)
            for f in range(N):
                s.pool.st[reached, 0, f] = panel.states[win.w, f]
            place(s.pool, s.slots, s.slots.shape[0], j * (d + 1), reached)
            reached += 1
            starts[1] = reached
            for h in range(d):
                tag = j * (d + 1) + h + 1
                for i in range(starts[h], starts[h + 1]):
                    for x in range(panel.actions.shape[1]):
                        a = panel.actions[win.arow, x]
                        if reached + 2 > s.pool.tags.shape[0]:
                            s = grow(heap, s, reached)
                        if a != a or not allowed(s.pool.st, i, 1, a, win.p):
                            continue
                        if not moved(s.pool.st, i, 0, a, win.w, h, j, panel, s.pool.st, reached, win.p):
                            return s, nodes, True, STATE, h, x
                        if place(s.pool, s.slots, s.slots.shape[0], tag, reached) == reached:
                            if nodes >= budget:
                                return s, nodes, False, 0, 0, 0
                            nodes += 1
                            reached += 1
                starts[h + 2] = reached
            if ends(win, panel, s, starts):
                return s, nodes, True, TERMINAL, d - 1, 0
            for ago in range(d):
                fault, action = back(j, d - 1 - ago, win, panel, s, cand, starts)
                if fault != 0:
                    return s, nodes, True, fault, d - 1 - ago, action
        return s, nodes, True, 0, 0, 0

    return Perfect(perfect, value_of, room, emptied)
