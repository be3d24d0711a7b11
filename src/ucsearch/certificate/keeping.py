"""For how many members does a path keep every rule? Each is rolled through the automaton with its own outcomes.

Mean mode asks the rules at the mean outcome only: what holds there may be broken by members further along the path. In
members mode a path is feasible for all of them by construction. Asked by the plain functions, on demand: a panel whose
certificates nobody looks at pays nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ucsearch.engine.plain.window import TaskFault, Window

__all__ = ["kept_weight"]


def kept_weight(window: Window, state: Any, path: Sequence[int]) -> float:
    """Weight of the members for which every action of `path` is feasible when its turn comes; NaN without members.

    A member on whose way a function fails does not keep the rules.
    """
    if not window.members:
        return math.nan
    total, every = 0.0, True
    for member, weight in zip(window.members, window.weights, strict=True):
        if _keeps(window, state, path, member):
            total += weight
        else:
            every = False
    return 1.0 if every else total


def _keeps(window: Window, state: Any, path: Sequence[int], member: Sequence[Any]) -> bool:
    try:
        for h, i in enumerate(path):
            if not window.allowed((state,), i, h):
                return False
            if h + 1 < len(path):
                state = window.move(state, i, member[h], h)
    except TaskFault:
        return False
    return True
