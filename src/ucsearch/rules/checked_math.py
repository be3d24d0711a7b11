"""`math` as rules see it in a kernel: where Python's raises this raises, so that the plain engine takes the window.

Machine code goes on with NaN or infinity where Python's `math` raises, and `floor` with any number where the answer
needs more than 64 bits; `min` or a comparison then hides it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["CONSTANTS", "EXACT", "ONE", "TWO", "WHOLE", "checked_math"]

ONE = ("sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh", "atan")
TWO = ("atan2", "copysign")
WHOLE = ("floor", "ceil")
CONSTANTS = ("inf", "nan", "pi", "e", "tau")
EXACT = 9007199254740992.0  # 2.0**53: below it a float tells every whole number from its neighbours
_MESSAGE = "a number that Python takes otherwise than a machine"

Function = Callable[..., Any]


def checked_math(inline: Callable[[Function], Function]) -> dict[Function, Function]:
    """Each function of `math` that rules may use, with what takes its place; `inline` compiles that."""
    checked = {name: _of_one(getattr(math, name)) for name in ONE} | {"sqrt": _root}
    checked |= {name: _of_two(getattr(math, name)) for name in TWO}
    checked |= {name: _whole(getattr(math, name)) for name in WHOLE}
    return {getattr(math, name): inline(function) for name, function in checked.items()}


def _of_one(f: Function) -> Function:
    def checked(x: float) -> float:
        y: float = f(x)
        if not math.isfinite(y) and not math.isnan(x) and (math.isnan(y) or math.isfinite(x)):
            raise ArithmeticError(_MESSAGE)
        return y

    return checked


def _root(x: float) -> float:
    """Its argument is what is looked at: with a look at the answer, bounds grow too long for LLVM to inline them."""
    if x < 0.0:
        raise ArithmeticError(_MESSAGE)
    return math.sqrt(x)


def _of_two(f: Function) -> Function:
    def checked(x: float, z: float) -> float:
        y: float = f(x, z)
        numbers = not math.isnan(x) and not math.isnan(z)
        if not math.isfinite(y) and numbers and (math.isnan(y) or (math.isfinite(x) and math.isfinite(z))):
            raise ArithmeticError(_MESSAGE)
        return y

    return checked


def _whole(f: Function) -> Function:
    def checked(x: float) -> Any:
        if not abs(x) < EXACT:
            raise ArithmeticError(_MESSAGE)
        return f(x)

    return checked
