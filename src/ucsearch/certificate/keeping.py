"""For how many members does a path keep every rule? Each is rolled through the automaton with its own outcomes.

Mean mode asks the rules at the mean outcome only: what holds there may be broken by members further along the path. In
members mode a path is feasible for all of them by construction. Asked by the plain functions, on demand: a panel whose
certificates nobody looks at pays nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ucsearch.engine.plain.faults import TaskFault
from ucsearch.engine.plain.window import Window

__all__ = ["kept_weight"]


def kept_weight(window: Window, state: Any, path: Sequence[int]) -> float:
    """Weight of the members for which every action of `path` is feasible when its turn comes, and its end allowed; NaN
    without members.

    A member on whose way a function fails does not keep the rules.
    """
    if not window.members:
        return math.nan
    total, every = 0.0, True
    for member, weight in zip(window.members, window.weights, strict=True):
        kept = _plainly(window, state, path, member)
        if _keeps(window, state, path, member) if kept is None else kept:
            total += weight
        else:
            every = False
    return 1.0 if every else total


def _plainly(window: Window, state: Any, path: Sequence[int], member: Sequence[Any]) -> bool | None:
    """As `_keeps`, as long as the rules answer with a plain truth and a state of plain finite numbers; None where they
    do not. A member takes a dozen calls, so what stands around each of them counts."""
    task, actions, params = window.task, window.actions, window.params
    feasible, step, kind, lengths = task.feasible_at, task.bare_step_at, window.layout.kind, window.layout.lengths
    settle = window.layout.settle
    last = len(path) - 1
    try:
        for h, i in enumerate(path):
            answer = feasible(state, actions[i], h, params)
            if answer is not True:
                return False if answer is False else None
            if h == last and task.allowed_end is None:
                return True
            state = step(state, actions[i], member[h], h, params)
            if type(state) is not kind:
                return None
            for item, length in zip(state, lengths, strict=True):
                if type(item) is float:
                    if length or not -math.inf < item < math.inf:
                        return None
                elif (
                    type(item) is not tuple
                    or len(item) != length
                    or not length
                    or not all(type(x) is float and -math.inf < x < math.inf for x in item)
                ):
                    return None
            state = settle(state)
        if task.allowed_end is not None:
            answer = task.allowed_end(state, params)
            return answer if answer is True or answer is False else None
    except (Exception, SystemExit):  # whatever it is, the careful way says what it means
        return None
    return True


def _keeps(window: Window, state: Any, path: Sequence[int], member: Sequence[Any]) -> bool:
    try:
        for h, i in enumerate(path):
            if not window.allowed((state,), i, h):
                return False
            if h + 1 < len(path) or window.task.allowed_end is not None:
                state = window.move(state, i, member[h], h)
        return window.ended((state,), len(path) - 1, path[-1]) if path else True
    except TaskFault:
        return False
