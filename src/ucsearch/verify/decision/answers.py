"""What counts as an answer of a task's function: a number, a yes or a no. Anything else is a fault, never a guess."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from ucsearch.verify.trust import is_genuine


def as_float(value: Any) -> float:
    """A number of the task; text is none, although Python would read it as one, and neither is an array or what has an
    imaginary part, which NumPy would drop."""
    if type(value) is float:
        return value
    if isinstance(value, str | bytes | bytearray | complex) or _of_numpy(type(value), "ndarray", "complexfloating"):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def _of_numpy(kind: type, *names: str) -> bool:
    """Whether it is one of these classes of NumPy, which is not imported here: even an array of one number is none."""
    return any(base.__name__ in names and base.__module__ == "numpy" for base in kind.__mro__)


def yes_or_no(answer: Any) -> bool:
    """True or False, or the numbers 1 and 0; no other answer is one."""
    if isinstance(answer, int | float) or _of_numpy(type(answer), "bool", "bool_", "integer", "floating"):
        for truth in (False, True):
            if answer == truth:
                return truth
    raise ValueError(f"{type(answer).__name__} is neither True nor False")


def feasible_now(task: Any, state: Any, action: Any, params: Any) -> bool:
    """What the rules say of an action in the state of a record; `ValueError` where they say neither."""
    try:
        return yes_or_no(task.feasible(state, action, *((0,) if "feasible" in timed_rules(task) else ()), params))
    except SystemExit as error:
        raise ValueError(f"SystemExit: {error}") from None


def as_action(value: Any) -> Any:
    """A number of the task, or a tuple of them."""
    return tuple(as_float(x) + 0.0 for x in value) if isinstance(value, tuple) else as_float(value)


def fallback_now(task: Any, state: Any, params: Any, actions: Sequence[Any]) -> tuple[Any, bool]:
    """The task's fallback (NaN: none to rely on, whatever it raises, an exit included) and whether it may be sent."""
    try:
        fallback = as_action(task.fallback(state, params))
        if fallback in actions:
            return fallback, feasible_now(task, state, fallback, params)
    except BaseException as error:
        if isinstance(error, MemoryError) or is_genuine(error):
            raise
    return math.nan, False


def timed_rules(task: Any) -> frozenset[str]:
    """Which rules take the step index: they take one more argument by its place than they need."""
    needed = {"feasible": 3, "step": 4, "reward": 4}
    return frozenset(n for n, count in needed.items() if _placed(getattr(task, n)) > count)


def _placed(function: Any) -> int:
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in by_place for parameter in inspect.signature(function).parameters.values())
