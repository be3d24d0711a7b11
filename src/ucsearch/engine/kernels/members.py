"""The states that each member can reach on its own, layer by layer (certificate/members/graph.py: specification, and
the layout of what is returned). One window per call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault, ISet, OutI, Status
from ucsearch.engine.kernels.common import states as states_of
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape

__all__ = ["build"]

DEPTH, NODE_BUDGET = int(ISet.DEPTH), int(ISet.NODE_BUDGET)
PROVED, NOT_PROVED, TASK_ERROR = int(Status.PROVED), int(Status.NOT_PROVED), int(Status.TASK_ERROR)
REWARD, STATE, TERMINAL = Fault.REWARD, Fault.STATE, Fault.TERMINAL
STATUS, EXPANSIONS, FAULT = int(OutI.STATUS), int(OutI.EXPANSIONS), int(OutI.FAULT)
FAULT_STEP, FAULT_ACTION = int(OutI.FAULT_STEP), int(OutI.FAULT_ACTION)
Floats = NDArray[np.float64]


class Edges(NamedTuple):
    act: NDArray[np.int32]
    child: NDArray[np.int32]
    gain: Floats  # discounted reward


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., Any]:
    HAS_END, HAS_TERMINAL, N = k.has_end, k.has_terminal, k.n
    params_of, load, store, member = rules.params, rules.load, rules.store, rules.member
    feasible, step, reward, terminal, end_of = rules.feasible, rules.step, rules.reward, rules.terminal, rules.end
    new_pool, larger, more_slots, place, _ = states_of.build(N, jit)
    heap_of = jit.heap

    @jit.inner
    def more_edges(edges, count):
        size = 2 * edges.act.shape[0]
        act, child, gain = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size)
        for e in range(count):
            act[e] = edges.act[e]
            child[e] = edges.child[e]
            gain[e] = edges.gain[e]
        return Edges(act, child, gain)

    @jit.inner
    def longer(array, size):
        new = np.zeros(size, array.dtype)
        new[: array.shape[0]] = array
        return new

    @jit.entry
    def panel_of(
        iset, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out,
        paths, lo, hi,
    ):  # fmt: skip
        """Window lo (none if hi is not above it): starts, first, act, child, gain, end. out_i[0] has the rest."""
        d, budget = iset[DEPTH], iset[NODE_BUDGET]
        m, J = actions.shape[1], members.shape[1]
        starts = np.zeros(J * (d + 1) + 1, np.int64)
        heap = heap_of()
        pool = new_pool(heap, 256)
        first = np.zeros(257, np.int64)
        end = np.zeros(256)
        slots = np.empty(512, np.int32)
        edges = Edges(np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024))
        reached = 0
        count = 0  # edges
        nodes = 0
        status = PROVED
        fault = 0
        fault_step = 0
        fault_action = 0
        if lo < hi:
            w = lo
            p = params_of(params, w if params.shape[0] > 1 else 0)
            arow = w if actions.shape[0] > 1 else 0
            for j in range(J):
                if reached + 1 >= pool.tags.shape[0]:
                    pool = larger(heap, pool, reached, reached + 2)
                for f in range(N):
                    pool.st[reached, 0, f] = states[w, f]
                pool.tags[reached] = 0
                reached += 1
                starts[j * (d + 1) + 1] = reached
                for h in range(d):
                    layer = j * (d + 1) + h
                    begin = starts[layer + 1]
                    if first.shape[0] <= pool.tags.shape[0]:
                        first = longer(first, pool.tags.shape[0] + 1)
                    slots, size = more_slots(heap, pool, slots, reached, reached, 2 * (reached - starts[layer]))
                    for i in range(starts[layer], begin):
                        first[i] = count
                        s = load(pool.st, i, 0)
                        for x in range(m):
                            a = actions[arow, x]
                            if a != a or not feasible(s, a, p):
                                continue
                            if reached + 1 >= pool.tags.shape[0]:
                                pool = larger(heap, pool, reached, reached + 2)
                            if reached + 1 - begin > size // 2:
                                slots, size = more_slots(heap, pool, slots, begin, reached, size)
                            if count >= edges.act.shape[0]:
                                edges = more_edges(edges, count)
                            y = member(members, w, j, h)
                            value = float(reward(s, a, y, p))
                            if not math.isfinite(value):
                                fault = REWARD
                            elif not store(pool.st, reached, 0, step(s, a, y, p)):
                                fault = STATE
                            if fault != 0:
                                status = TASK_ERROR
                                fault_step = h
                                fault_action = x
                                break
                            if HAS_END and h + 1 == d and not end_of(load(pool.st, reached, 0), p):
                                continue
                            to = place(pool, slots, size, 0, reached)
                            if to == reached:
                                if nodes >= budget:
                                    status = NOT_PROVED
                                    break
                                nodes += 1
                                reached += 1
                            edges.act[count] = x
                            edges.child[count] = to
                            edges.gain[count] = disc[h] * value
                            count += 1
                        if status != PROVED:
                            break
                    if status != PROVED:
                        break
                    starts[layer + 2] = reached
                if status != PROVED:
                    break
                if first.shape[0] <= pool.tags.shape[0]:
                    first = longer(first, pool.tags.shape[0] + 1)
                if end.shape[0] < reached:
                    end = longer(end, pool.tags.shape[0])
                for i in range(starts[j * (d + 1) + d], reached):
                    first[i] = count
                    if HAS_TERMINAL:
                        value = terminal(load(pool.st, i, 0), p)
                        if not math.isfinite(value):
                            status = TASK_ERROR
                            fault = TERMINAL
                            fault_step = d - 1
                            break
                        end[i] = disc[d] * value
                if status != PROVED:
                    break
            out_i[0, STATUS] = status
            out_i[0, EXPANSIONS] = nodes
            out_i[0, FAULT] = fault
            out_i[0, FAULT_STEP] = fault_step
            out_i[0, FAULT_ACTION] = fault_action
        if first.shape[0] <= reached:
            first = longer(first, reached + 1)
        if end.shape[0] < reached:
            end = longer(end, reached)
        first[reached] = count
        return starts, first[: reached + 1], edges.act[:count], edges.child[:count], edges.gain[:count], end[:reached]

    entry: Callable[..., Any] = panel_of
    return entry
