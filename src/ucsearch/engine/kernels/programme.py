"""Dynamic programming over distinct states in additive modes. Values go backward; paths are summed forward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col, Fault, First, Status
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.scoring import Scoring
from ucsearch.engine.kernels.common.shapes import Shape
from ucsearch.engine.kernels.common.states import States

__all__ = ["build"]

NOT_PROVED, DEAD_END, PROVED = int(Status.NOT_PROVED), int(Status.DEAD_END), int(Status.PROVED)
TERMINAL = Fault.TERMINAL
FEASIBLE, DUPLICATE, GENERATED = First.FEASIBLE, First.DUPLICATE, First.GENERATED
RETAINED, EXACT, DEAD = First.RETAINED, First.EXACT, First.DEAD
Function = Callable[..., Any]
SCORE, UPPER = int(Col.SCORE), int(Col.UPPER)
REACHED, EXPANSIONS, SCORED, STATE_AT = range(4)  # counters of `reach`, and where it stands


class StateValues(NamedTuple):
    """Of each state under the best path."""

    value: NDArray[np.float64]
    second: NDArray[np.float64]  # the uncertainty that goes with it
    after: NDArray[np.int64]  # the state that follows, -1 at a dead end
    act: NDArray[np.int64]  # the action that leads there


def build(rules: Rules, k: Shape, jit: Any, scoring: Scoring, states: States, offer: Function) -> Function:
    """`offer(first, R, U, G, win, best, res)` takes a path of full depth."""
    N, HAS_END, HAS_TERMINAL = k.n, k.has_end, k.has_terminal
    ended, final = rules.ended, rules.final
    score, extend, mark_root = scoring.score, scoring.extend, scoring.mark_root
    new_pool, larger, more_slots, place, find = states
    floats, ints, places, ROWS = jit.floats, jit.ints, jit.places, jit.rows

    @jit.lean_call
    def score_call(h, st, i, use_bound, win, panel, tables, cand):
        """One copy of it for the three places below."""
        return score(h, st, i, -1, use_bound, win, panel, tables, cand)

    @jit.lean
    def index_of(pool, slots, tag, row, cand, c):
        """The known state that candidate c leads to; it is tried in this free row."""
        for f in range(N):
            pool.st[row, 0, f] = cand.st[c, 0, f]
        return find(pool, slots, slots.shape[0], tag, row)

    @jit.lean_call
    def reach(h, end, budget, win, panel, tables, cand, pool, slots, at, res):
        """Expand states at[STATE_AT]..end of step h as far as there is room: a fault, its action, and whether the
        budget ends."""
        reached, expansions, scored, i = at[REACHED], at[EXPANSIONS], at[SCORED], at[STATE_AT]
        fault = 0
        fault_action = 0
        stopped = False
        while i < end and reached + panel.actions.shape[1] + 1 < pool.tags.shape[0]:
            count, fault, fault_action = score_call(h, pool.st, i, win.use_bound, win, panel, tables, cand)
            scored += count
            if fault != 0:
                break
            if h == 0:
                mark_root(count, cand, win, res)
            for c in range(count):
                for f in range(N):
                    pool.st[reached, 0, f] = cand.st[c, 0, f]
                if place(pool, slots, slots.shape[0], h + 1, reached) == reached:
                    if expansions >= budget:
                        stopped = True
                        break
                    expansions += 1
                    reached += 1
            if stopped:
                break
            i += 1
        at[REACHED], at[EXPANSIONS], at[SCORED], at[STATE_AT] = reached, expansions, scored, i
        return fault, fault_action, stopped

    @jit.lean_call
    def ends(starts, win, panel, pool, worth):
        """Values of the last step's states; whether one is not finite."""
        d = win.d
        for i in range(starts[d], starts[d + 1]):
            worth.value[i] = 0.0
            worth.second[i] = 0.0
            worth.after[i] = 0
            if HAS_END and not ended(pool.st, i, 1, win.p):
                worth.after[i] = -1
            elif HAS_TERMINAL:
                end = final(pool.st, i, 0, win.p)
                if not math.isfinite(end):
                    return True
                worth.value[i] = panel.disc[d] * end
        return False

    @jit.lean_call
    def back(starts, win, panel, tables, cand, pool, slots, worth, res):
        """Values and successors of all states but the last step's."""
        reached = starts[win.d + 1]
        for ago in range(win.d):
            h = win.d - 1 - ago
            for i in range(starts[h], starts[h + 1]):
                count, _, _ = score_call(h, pool.st, i, False, win, panel, tables, cand)
                has = False
                worth.after[i] = -1
                for c in range(count):
                    after = index_of(pool, slots, h + 1, reached, cand, c)
                    if worth.after[after] < 0:
                        continue
                    value = panel.disc[h] * (cand.q[c] - win.risk * cand.u[c]) + worth.value[after]
                    value_U = panel.disc[h] * cand.u[c] + worth.second[after]
                    if not has or value > worth.value[i] or (value == worth.value[i] and value_U < worth.second[i]):
                        has = True
                        worth.value[i] = value
                        worth.second[i] = value_U
                        worth.after[i] = after
                        worth.act[i] = cand.act[c]
                    if h == 0:
                        res.flags[win.w, cand.act[c]] |= GENERATED

    @jit.lean_call
    def forward(reached, win, panel, tables, cand, one, one_ret, pool, slots, worth, best, res):
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
                act = x if h == 0 else worth.act[at]
                if h > 0 and worth.after[at] < 0:
                    alive = False
                    break
                count, _, _ = score_call(h, one, 0, False, win, panel, tables, cand)
                for c in range(count):
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
                        at = index_of(pool, slots, h + 1, reached, cand, c)
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
    def programme(heap, budget, win, panel, tables, cand, one, one_ret, starts, best, counts, res):
        """Exact value of every first action, or NOT_PROVED when the budget of nodes runs out: status, fault, its step
        and action. counts: expansions and scored actions."""
        d = win.d
        pool = new_pool(heap, ROWS)
        slots, _ = more_slots(heap, pool, places(heap, 0), 0, 0, ROWS)
        for f in range(N):
            pool.st[0, 0, f] = panel.states[win.w, f]
        place(pool, slots, slots.shape[0], 0, 0)
        starts[0] = 0
        starts[1] = 1
        at = ints(heap, 4)
        at[REACHED], at[EXPANSIONS], at[SCORED] = 1, counts[0], counts[1]
        fault = 0
        fault_action = 0
        stopped = False
        for h in range(d):
            at[STATE_AT] = starts[h]
            while True:
                fault, fault_action, stopped = reach(
                    h, starts[h + 1], budget, win, panel, tables, cand, pool, slots, at, res
                )
                if fault != 0 or stopped or at[STATE_AT] == starts[h + 1]:
                    break
                rows = max(2 * pool.tags.shape[0], at[REACHED] + panel.actions.shape[1] + 2)
                pool = larger(heap, pool, at[REACHED], rows)
                slots, _ = more_slots(heap, pool, slots, 0, at[REACHED], rows)
            if fault != 0:
                counts[0], counts[1] = at[EXPANSIONS], at[SCORED]
                return NOT_PROVED, fault, h, fault_action
            if stopped:
                break
            starts[h + 2] = at[REACHED]
        counts[0], counts[1] = at[EXPANSIONS], at[SCORED]
        if stopped:
            return NOT_PROVED, 0, 0, 0
        reached = at[REACHED]
        worth = StateValues(floats(heap, reached), floats(heap, reached), ints(heap, reached), ints(heap, reached))
        if ends(starts, win, panel, pool, worth):
            return NOT_PROVED, TERMINAL, d - 1, 0
        back(starts, win, panel, tables, cand, pool, slots, worth, res)
        fault, fault_step, fault_action = forward(
            reached, win, panel, tables, cand, one, one_ret, pool, slots, worth, best, res
        )
        if fault != 0:
            return NOT_PROVED, fault, fault_step, fault_action
        return DEAD_END if best.first[0] < 0 else PROVED, 0, 0, 0

    made: Function = programme
    return made
