"""What counts as an answer of a user's function: a number, a yes or a no. Anything else is a fault, never a guess."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["as_allowed", "as_float", "as_number", "failure", "guarded"]


def as_float(value: Any) -> float:
    """A number as a float, infinities and NaN included. Text is no number, and neither is None, an array, or anything
    with an imaginary part, which NumPy would drop."""
    if type(value) is float:
        return value
    if isinstance(value, str | bytes | bytearray | np.ndarray | np.complexfloating):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def as_number(value: Any) -> float:
    """A finite number as a float."""
    number = value if type(value) is float else as_float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not finite")
    return number


def as_allowed(answer: Any) -> bool:
    """True or False, or the numbers 1 and 0. NaN, None, "no" or 17 say neither."""
    if answer is True or answer is False:
        return answer
    if isinstance(answer, bool | np.bool_ | int | float | np.integer | np.floating):
        if answer == 0:
            return False
        if answer == 1:
            return True
    raise ValueError(f"feasible returned {answer!r}, expected True or False")


def guarded(function: Any, *args: Any) -> Any:
    """Call a user's function; leaving the program from inside a rule is one more way to fail."""
    try:
        return function(*args)
    except Exception:
        raise
    except BaseException as error:
        raise failure(error) from None


def failure(error: BaseException) -> Exception:
    """What failed inside a rule: an exception as it is, an attempt to leave the program (SystemExit, GeneratorExit, a
    cancelled task) as one. What the keyboard interrupts is interrupted."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
