"""Argument checks shared by the inventory formulas. Comparisons are written so that NaN fails them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError

__all__ = ["finite_array", "integer", "positive", "probability"]


def positive(value: float, field: str) -> float:
    """`value` as a float, if it is finite and above zero."""
    number = _number(value, field, "a finite number above 0")
    if not (0.0 < number < math.inf):
        raise InputError(field, value, "a finite number above 0")
    return number


def probability(value: float, field: str) -> float:
    """`value` as a float, if it lies strictly between 0 and 1."""
    number = _number(value, field, "a number between 0 and 1, both excluded")
    if not (0.0 < number < 1.0):
        raise InputError(field, value, "a number between 0 and 1, both excluded")
    return number


def integer(value: int, field: str, *, at_least: int) -> int:
    """`value` as an int, if it is a whole number and not below `at_least`."""
    expected = f"a whole number of at least {at_least}"
    number = _number(value, field, expected)
    if not (number >= at_least and number == math.floor(number) and number < math.inf):
        raise InputError(field, value, expected)
    return int(value)


def finite_array(values: ArrayLike | Sequence[float], field: str) -> NDArray[np.float64]:
    """`values` as float64, if every entry is a finite number."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(field, type(values).__name__, "an array of numbers") from error
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):  # its size is 0 for a lone number
        index = tuple(int(i) for i in bad[0])
        raise InputError(field, array[index], "a finite number", index=index or None)
    return array


def _number(value: object, field: str, expected: str) -> float:
    if isinstance(value, (bool, str, bytes)):
        raise InputError(field, repr(value), expected)
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(field, repr(value), expected) from error
