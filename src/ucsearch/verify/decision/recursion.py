"""The recursion over policies as loops over flat arrays, for `machine.py`, which has them compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

DONE, ROOM, NODES, FAULT = range(4)  # all expanded; more room is needed; the budget is used up; left to the plain rules
AT, ACTION, EDGES, MOVES, KNOWN, CALLS = range(6)  # places in the counters of a walk
Function = Callable[..., Any]
Jit = Callable[[Function], Function]


class Rules(NamedTuple):
    """A task's rules over rows of numbers."""

    load: Function  # (rows, i): a state
    store: Function  # (rows, i, state): whether it is one, of finite numbers
    params: Function  # (row)
    outcome: Function  # (rows, k)
    action: Function  # (rows, x)
    may: Function  # (state, action, step, params): 1 or 0
    earn: Function  # (state, action, outcome, step, params)
    move: Function
    end: Function  # (state, params)
    may_end: Function


class CompiledWalk(NamedTuple):
    """What is compiled for a task."""

    expand: Function
    ends: Function


class Arithmetic(NamedTuple):
    """What is compiled once for all tasks."""

    layer: Function
    count: Function
    place: Function
    places: Function


def arithmetic(jit: Jit, inline: Jit) -> Arithmetic:
    import numpy as np

    @jit
    def tail_mean(values: Any, weights: Any, at: Any, n: Any, share: Any, order: Any) -> Any:
        """Mean of the worst share of values[:n]; equal values in the order of their weights."""
        for k in range(n):
            order[k] = k
        gap = n // 2
        while gap > 0:
            for k in range(gap, n):
                own = order[k]
                j = k
                while j >= gap and (
                    values[order[j - gap]] > values[own]
                    or (values[order[j - gap]] == values[own] and weights[at + order[j - gap]] > weights[at + own])
                ):
                    order[j] = order[j - gap]
                    j -= gap
                order[j] = own
            gap //= 2
        base = values[order[0]]
        left = share
        total = 0.0
        for k in range(n):
            weight = weights[at + order[k]]
            taken = left if k + 1 == n or left < weight else weight
            total += taken * (values[order[k]] - base)
            left -= taken
        return base + total / share

    @jit
    def layer(
        low: Any, high: Any, first: Any, start: Any, reward: Any, to: Any, kinds: Any, starts: Any, weights: Any,
        discount: Any, risk: Any, tail: Any, after: Any, here: Any, work: Any, order: Any,
    ) -> Any:  # fmt: skip
        """Score, mean and gross (columns) of the states low..high; False where a value is not finite."""
        for i in range(low, high):
            at = starts[kinds[i]]
            n = starts[kinds[i] + 1] - at
            here[i, 0] = -math.inf
            here[i, 1] = here[i, 2] = 0.0
            for e in range(first[i], first[i + 1]):
                score = mean = gross = most = 0.0
                alive = True
                for k in range(n):
                    s = to[start[e] + k]
                    if after[s, 0] == -math.inf:
                        alive = False
                        break
                    earned = reward[start[e] + k]
                    weight = weights[at + k]
                    work[k] = earned + discount * after[s, 0]
                    score += weight * work[k]
                    mean += weight * (earned + discount * after[s, 1])
                    whole = abs(earned) + discount * after[s, 2]
                    gross += weight * whole
                    if whole > most:
                        most = whole
                if not alive:
                    continue
                if risk > 0.0:
                    score = (1.0 - risk) * score + risk * tail_mean(work, weights, at, n, tail, order)
                    gross = (1.0 - risk) * gross + risk * most
                if not (math.isfinite(score) and math.isfinite(mean) and math.isfinite(gross)):
                    return False
                if score > here[i, 0]:
                    here[i, 0] = score
                    here[i, 1] = mean
                    here[i, 2] = gross
        return True

    @jit
    def count(marked: Any, known: Any, first: Any, start: Any, to: Any, kinds: Any, starts: Any, following: Any) -> Any:
        """States that are marked, their actions and transitions; what follows is marked."""
        states = pairs = moves = 0
        for i in range(known):
            if not marked[i]:
                continue
            states += 1
            n = starts[kinds[i] + 1] - starts[kinds[i]]
            for e in range(first[i], first[i + 1]):
                pairs += 1
                moves += n
                for k in range(start[e], start[e] + n):
                    following[to[k]] = True
        return states, pairs, moves

    @inline
    def place(bits: Any, kinds: Any, i: Any, slots: Any, seeds: Any) -> Any:
        """Where the state in row i stands already, else i, which is noted."""
        mask = slots.size - 1
        x = seeds[0] ^ bits[i, 0]
        for k in range(1, bits.shape[1]):
            x = (x ^ (x >> seeds[2])) * seeds[1] ^ bits[i, k]
        x = (x ^ (x >> seeds[2])) * seeds[1]
        x = (x ^ (x >> seeds[2])) * seeds[1]
        at = np.int64(x >> seeds[3]) & mask
        while slots[at] >= 0:
            j = slots[at]
            same = kinds[j] == kinds[i]
            for k in range(bits.shape[1]):
                same = same and bits[j, k] == bits[i, k]
            if same:
                return np.int64(j)
            at = (at + 1) & mask
        slots[at] = i
        return np.int64(i)

    @jit
    def places(bits: Any, kinds: Any, known: Any, slots: Any, seeds: Any) -> None:
        for i in range(known):
            place(bits, kinds, i, slots, seeds)

    return Arithmetic(layer, count, place, places)


def walk(jit: Jit, f: Rules, place: Function) -> CompiledWalk:
    load, store, params_of, outcome, action, may, earn, move, end, may_end = f

    @jit
    def expand(
        h: Any, last: Any, end_of: Any, box: Any, nodes: Any, calls: Any, rows: Any, kinds: Any, first: Any, acts: Any,
        start: Any, reward: Any, to: Any, rows_after: Any, bits_after: Any, kinds_after: Any, slots: Any, seeds: Any,
        starts: Any, after: Any, points: Any, actions: Any, offered: Any, row: Any,
    ) -> Any:  # fmt: skip
        """Everything that the states up to `end_of` lead to, from where the counters in `box` stand."""
        p = params_of(row)
        i, at, edges, moves, known, asked = box[AT], box[ACTION], box[EDGES], box[MOVES], box[KNOWN], box[CALLS]
        code = DONE
        while i < end_of and code == DONE:
            state = load(rows, i)
            kind = kinds[i]
            low = starts[kind]
            high = starts[kind + 1]
            if at == 0:
                first[i] = edges
            while at < offered.size:
                x = offered[at]
                a = action(actions, x)
                allowed = may(state, a, h, p)
                if allowed != 1.0:
                    if allowed != 0.0:
                        code = FAULT
                        break
                    asked += 1
                    at += 1
                    continue
                n = high - low
                if moves + n > nodes or asked > calls:
                    code = NODES
                    break
                if (
                    edges >= acts.size
                    or moves + n > to.size
                    or known + n > kinds_after.size
                    or 2 * (known + n) > slots.size
                ):
                    code = ROOM
                    break
                asked += 1 + 3 * n
                acts[edges] = x
                start[edges] = moves
                edges += 1
                for k in range(low, high):
                    y = outcome(points, k)
                    earned = earn(state, a, y, h, p)
                    if not (store(rows_after, known, move(state, a, y, h, p)) and math.isfinite(earned)):
                        code = FAULT
                        break
                    kinds_after[known] = -1 if last else after[k]
                    j = place(bits_after, kinds_after, known, slots, seeds)
                    reward[moves] = earned
                    to[moves] = j
                    moves += 1
                    if j == known:
                        known += 1
                if code != DONE:
                    break
                at += 1
            if code == DONE:
                at = 0
                i += 1
                first[i] = edges
        box[AT], box[ACTION], box[EDGES], box[MOVES], box[KNOWN], box[CALLS] = i, at, edges, moves, known, asked
        return code

    @jit
    def ends(low: Any, high: Any, rows: Any, row: Any, here: Any) -> Any:
        """Values past the last step; False where the plain rules are needed."""
        p = params_of(row)
        for i in range(low, high):
            state = load(rows, i)
            allowed = may_end(state, p)
            if allowed == 0.0:
                here[i, 0] = -math.inf
                here[i, 1] = here[i, 2] = 0.0
            elif allowed == 1.0:
                worth = end(state, p)
                if not math.isfinite(worth):
                    return False
                here[i, 0] = here[i, 1] = worth
                here[i, 2] = abs(worth)
            else:
                return False
        return True

    return CompiledWalk(expand, ends)
