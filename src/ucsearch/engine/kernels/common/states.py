"""Distinct states, each once, in the rows of a pool that grows by doubling.

A state is tried in the first free row: what is known already costs no copy. Slots tell by a hash where it may lie; a
search that goes on layer by layer enters the states of one layer only, so that their table stays in the processor's
cache. States hold no -0.0, so equal states have equal bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pool", "States", "build"]

Function = Callable[..., Any]


class Pool(NamedTuple):
    """States under tags: equal states of different tags are two."""

    st: NDArray[np.float64]  # (rows, 1, n)
    bits: NDArray[np.uint64]  # the same as whole numbers
    tags: NDArray[np.int64]  # (rows,)


class States(NamedTuple):
    room: Function  # (heap, rows) -> pool
    larger: Function  # (heap, pool, known, need) -> pool, with room for `need` rows
    slots: Function  # (heap, pool, slots, begin, known, need) -> slots for `need` states, how many are in use
    place: Function  # (pool, slots, size, tag, known) -> index of the state in row `known`, which is entered
    find: Function  # (pool, slots, size, tag, row) -> index of the state in that row, -1 where there is none


def build(n: int, jit: Any) -> States:
    """The functions for states of `n` numbers."""
    floats, ints, places = jit.floats, jit.ints, jit.places

    @jit.lean
    def hash_of(bits, i, tag):
        # Whole numbers have their bits at the top, slots are told by the lowest.
        value = np.uint64(tag + 1) * np.uint64(0x9E3779B97F4A7C15)
        for f in range(n):
            value = (value ^ bits[i, 0, f]) * np.uint64(0xBF58476D1CE4E5B9)
            value = value ^ (value >> np.uint64(32))
        value = value * np.uint64(0x9E3779B97F4A7C15)
        return value ^ (value >> np.uint64(29))

    @jit.lean
    def slot_of(pool, slots, size, tag, row):
        """Where the state in this row lies under `tag`, or would."""
        mask = np.uint64(size - 1)
        at = hash_of(pool.bits, row, tag) & mask
        while True:
            other = slots[np.int64(at)]
            if other < 0:
                return np.int64(at)
            if pool.tags[other] == tag:
                same = True
                for f in range(n):
                    # Field by field: all at once they would be read as one, which waits until each has been written.
                    if pool.bits[other, 0, f] != pool.bits[row, 0, f]:
                        same = False
                        break
                if same:
                    return np.int64(at)
            at = (at + np.uint64(1)) & mask

    @jit.lean
    def place(pool, slots, size, tag, row):
        """The index of the state in row `known` under `tag`; `known` itself when it is new."""
        at = slot_of(pool, slots, size, tag, row)
        held = slots[at]
        if held >= 0:
            return np.int64(held)
        slots[at] = row
        pool.tags[row] = tag
        return row

    @jit.lean
    def find(pool, slots, size, tag, row):
        return np.int64(slots[slot_of(pool, slots, size, tag, row)])

    @jit.inner
    def room(heap, rows):
        st = floats(heap, (rows, 1, n))
        return Pool(st, st.view(np.uint64), ints(heap, rows))

    @jit.inner
    def larger(heap, pool, row, need):
        """Room for `need` rows."""
        size = pool.tags.shape[0]
        while size < need:
            size *= 2
        new = room(heap, size)
        for i in range(row):
            for f in range(n):
                new.st[i, 0, f] = pool.st[i, 0, f]
            new.tags[i] = pool.tags[i]
        return new

    @jit.inner
    def empty_slots(heap, pool, slots, begin, row, need):
        """Slots for `need` states, half of them free, with those from `begin` on entered; how many are in use."""
        size = 64
        while size < 2 * need:
            size *= 2
        if size > slots.shape[0]:
            slots = places(heap, size)
        for x in range(size):
            slots[x] = -1
        for i in range(begin, row):
            place(pool, slots, size, pool.tags[i], i)
        return slots, size

    return States(room, larger, empty_slots, place, find)
