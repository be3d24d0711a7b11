"""What the functions of a task take, by place: checked when a task is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ucsearch.errors import InputError

__all__ = ["ARITY", "TIMED", "arity", "check_function"]

TIMED = ("feasible", "step", "reward")  # these may take the step index before the parameters
ARITY = {
    "feasible": (3, "(s, a, p) or (s, a, h, p)"),
    "step": (4, "(s, a, y, p) or (s, a, y, h, p)"),
    "reward": (4, "(s, a, y, p) or (s, a, y, h, p)"),
    "fallback": (2, "(s, p)"),
    "terminal": (2, "(s, p)"),
    "invariant": (2, "(s, p)"),
    "allowed_end": (2, "(s, p)"),
    "bound": (4, "(s, h, table, p)"),
}


def arity(function: Callable[..., Any]) -> int:
    """How many arguments it takes by their place: a rule is never handed others."""
    return len(_placed(function))


def _placed(function: Callable[..., Any]) -> list[inspect.Parameter]:
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one for one in inspect.signature(function).parameters.values() if one.kind in by_place]


def check_function(name: str, function: Any, count: int, signature: str) -> None:
    if function is None and name in ("terminal", "invariant", "bound", "allowed_end"):
        return
    if not callable(function):
        raise InputError(f"task.{name}", repr(function), f"a function {signature}")
    every = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in every):
        raise InputError(f"task.{name}", "any number of arguments", f"{count} arguments {signature}")
    if arity(function) != count:
        raise InputError(f"task.{name}", f"{arity(function)} arguments", f"{count} arguments {signature}")
    needed = [one for one in _placed(function) if one.default is one.empty]
    if name in TIMED and len(needed) < count and count > ARITY[name][0]:
        # `lambda s, a, y, p, k=k: ...` would be handed the step for p and the parameters for k.
        seen = f"{len(needed)} arguments and {count - len(needed)} with a default"
        hint = "what a rule is to keep goes into a closure or functools.partial(rule, name=value)"
        raise InputError(f"task.{name}", seen, f"arguments without a default: {signature}", hint=hint)
