"""Distinct states by hash, in arrays that grow by doubling. The last row of a pool is spare, to probe a state in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pool", "States", "build"]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Function = Callable[..., Any]


class Pool(NamedTuple):
    """States, and what is known of each."""

    pool: Floats  # (rows, n)
    bits: NDArray[np.uint64]  # the same as whole numbers
    tags: Ints  # (rows,) two states are one where their tags are equal too
    value: Floats  # (rows,)
    second: Floats  # (rows,) the uncertainty that goes with the value
    succ: Ints  # (rows, 2) the best next state, and the action that leads there
    slots: Ints  # places by hash: a row, or -1


class States(NamedTuple):
    new_room: Function  # () -> pool
    emptied: Function  # (pool) -> the same room, for another window
    grow: Function  # (pool, count) -> twice the room
    find: Function  # (pool, tag, row) -> slot of the state in that row
    probe: Function  # (pool, source, c, r) -> the spare row, with that state in it


def build(n: int, jit: Any) -> States:
    """For states of `n` numbers."""
    N = n

    @jit.lean
    def hash_of(tag, bits, i):
        value = np.uint64(tag) * np.uint64(0x9E3779B97F4A7C15)
        for f in range(N):
            value = (value ^ bits[i, f]) * np.uint64(0xBF58476D1CE4E5B9)
            value = value ^ (value >> np.uint64(47))  # whole floats differ in high bits only
        return value

    @jit.lean
    def find(s, tag, i):
        """The slot of the state in pool row i under `tag`: slots[it] is its index, or -1 where it would go."""
        mask = np.uint64(s.slots.shape[0] - 1)
        at = hash_of(tag, s.bits, i) & mask
        while True:
            held = s.slots[np.int64(at)]
            if held < 0:
                return np.int64(at)
            if s.tags[held] == tag:
                same = True
                for f in range(N):
                    if s.pool[held, f] != s.pool[i, f]:
                        same = False
                        break
                if same:
                    return np.int64(at)
            at = (at + np.uint64(1)) & mask

    @jit.lean
    def probe(s, source, c, r):
        """Copy a state into the spare row: equal states have equal bits, because none holds -0.0."""
        spare = s.pool.shape[0] - 1
        for f in range(N):
            s.pool[spare, f] = source[c, r, f]
        return spare

    @jit.inner
    def room(rows, slots):
        pool = np.empty((rows, N))
        made = Pool(
            pool, pool.view(np.uint64), np.empty(rows, np.int64), np.empty(rows), np.empty(rows),
            np.empty((rows, 2), np.int64), np.empty(slots, np.int64),
        )  # fmt: skip
        for x in range(slots):
            made.slots[x] = -1
        return made

    @jit.inner
    def new_room():
        return room(1025, 2048)

    @jit.inner
    def emptied(s):
        for x in range(s.slots.shape[0]):
            s.slots[x] = -1
        return s

    @jit.inner
    def grow(s, count):
        """Twice the room."""
        new = room((s.pool.shape[0] - 1) * 2 + 1, s.slots.shape[0] * 2)
        mask = np.uint64(new.slots.shape[0] - 1)
        for i in range(count):
            for f in range(N):
                new.pool[i, f] = s.pool[i, f]
            new.tags[i] = s.tags[i]
            new.value[i] = s.value[i]
            new.second[i] = s.second[i]
            new.succ[i, 0] = s.succ[i, 0]
            new.succ[i, 1] = s.succ[i, 1]
        for i in range(count):
            at = hash_of(new.tags[i], new.bits, i) & mask
            while new.slots[np.int64(at)] >= 0:
                at = (at + np.uint64(1)) & mask
            new.slots[np.int64(at)] = i
        return new

    return States(new_room, emptied, grow, find, probe)
