"""The best paths that a search has met: of each first action, and of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Col

__all__ = ["Best", "build"]

SCORE, REWARD, UNCERTAINTY, GROSS = int(Col.SCORE), int(Col.REWARD), int(Col.UNCERTAINTY), int(Col.GROSS)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Function = Callable[..., Any]


class Best(NamedTuple):
    prefix: Ints  # (1, d) the path that is looked at
    fpath: Ints  # (1, m, d) the best of each first action
    bpath: Ints  # (1, d) the best of all
    first: Ints  # (2,) first action of the best of all, -1: none yet; its continuation
    worth: Floats  # (3,) its score, reward and uncertainty


def build(improves: Function, jit: Any) -> tuple[Function, Function]:
    """`clear(best)` for another window, and `offer(first, R, U, G, cont, win, best, res)`."""

    @jit.lean_call
    def clear(best):
        best.first[0], best.first[1] = -1, -1
        for x in range(3):
            best.worth[x] = 0.0

    @jit.lean_call
    def offer(first, R, U, G, cont, win, best, res):
        """A path of full depth in best.prefix: kept if it is the best of its first action, or of all. Ties go to the
        lower uncertainty, then to the smaller path."""
        w, d, table = win.w, win.d, res.table
        score = R - win.risk * U
        if improves(
            score, U, best.prefix, 0, table[w, first, SCORE], table[w, first, UNCERTAINTY], best.fpath, 0, first, d
        ):
            table[w, first, SCORE] = score
            table[w, first, REWARD] = R
            table[w, first, UNCERTAINTY] = U
            table[w, first, GROSS] = G
            for t in range(d):
                best.fpath[0, first, t] = best.prefix[0, t]
        wins = best.first[0] < 0 or score > best.worth[0]
        if not wins and score == best.worth[0]:
            if best.worth[2] != U:
                wins = best.worth[2] > U
            else:
                for t in range(d):
                    if best.prefix[0, t] != best.bpath[0, t]:
                        wins = best.prefix[0, t] < best.bpath[0, t]
                        break
        if wins:
            best.first[0], best.first[1] = first, cont
            best.worth[0], best.worth[1], best.worth[2] = score, R, U
            for t in range(d):
                best.bpath[0, t] = best.prefix[0, t]

    return clear, offer
