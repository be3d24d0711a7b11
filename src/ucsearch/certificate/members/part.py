"""What of a members graph lies after one first action. Import inside functions: pulls in Numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.members.weights import Floats
from ucsearch.engine.cache import compiled

__all__ = ["Ints", "Longs", "Part", "after", "edge", "living"]

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


class Part(NamedTuple):
    """A graph (its edges as in `members_graph.Graph`) and what of it lies after one first action."""

    first: Longs  # (n + 1,)
    act: Ints  # (E,)
    child: Ints  # (E,)
    gain: Floats  # (E,)
    end: Floats  # (n,)
    order: Longs  # nodes that can be reached and have a completion, ascending
    layers: Longs  # (J * d + 1,) layer h = 1..d of member j: order[layers[j * d + h - 1] : layers[j * d + h]]
    head: Floats  # (J,) discounted reward of the first action


@compiled
def living(starts: Longs, first: Longs, child: Ints, d: int) -> NDArray[np.bool_]:
    """(n,) whether the node has a completion."""
    alive = np.zeros(first.size - 1, np.bool_)
    for last in range(starts.size - 2, -1, -1):  # layers, the deepest of each member first
        for i in range(starts[last], starts[last + 1]):
            alive[i] = last % (d + 1) == d
            for e in range(first[i], first[i + 1]):
                alive[i] = alive[i] or alive[child[e]]
    return alive


@compiled
def edge(first: Longs, act: Ints, i: int, x: int) -> int:
    """The edge of node i with action x; -1 when there is none."""
    for e in range(first[i], first[i + 1]):
        if act[e] == x:
            return e
    return -1


@compiled
def after(
    a: int, d: int, starts: Longs, first: Longs, act: Ints, child: Ints, gain: Floats, end: Floats,
    alive: NDArray[np.bool_],
) -> tuple[bool, Part]:  # fmt: skip
    """The part after first action `a`; False when some member has no completion after it."""
    members = starts.size // (d + 1)
    reached = np.zeros(alive.size, np.bool_)
    order, layers = np.empty(alive.size, np.int64), np.zeros(members * d + 1, np.int64)
    part = Part(first, act, child, gain, end, order, layers, np.zeros(members))
    count = 0
    for j in range(members):
        e = edge(first, act, starts[j * (d + 1)], a)
        if e < 0 or not alive[child[e]]:
            return False, part
        part.head[j] = gain[e]
        reached[child[e]] = True
        for h in range(1, d + 1):
            for i in range(starts[j * (d + 1) + h], starts[j * (d + 1) + h + 1]):
                if reached[i] and alive[i]:
                    order[count] = i
                    count += 1
                    for k in range(first[i], first[i + 1]):
                        reached[child[k]] = True
            layers[j * d + h] = count
    return True, part
