"""Checks shared by the built-in tasks' parameters. Comparisons are written so that NaN fails them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import LARGEST, InputError
from ucsearch.layout import refuse_rounded

__all__ = [
    "NO_LIMIT",
    "ascending",
    "choice",
    "finite_array",
    "fractile",
    "integer",
    "limit",
    "number",
    "planned_actions",
    "positive",
    "probability",
    "scale",
    "share",
    "whole",
]


NO_LIMIT = 1e18  # stands for "no limit" in params, which must be finite


_LONGEST = 40  # characters of a value in a refusal


def _shown(value: Any) -> str:
    """What was seen, in short: a whole number of thousands of digits by how many it has."""
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)


def number(field: str, value: Any, low: float = 0.0, high: float = math.inf) -> float:
    """A finite number in [low, high]."""
    # Compared, not converted: a whole number may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise InputError(field, _shown(value), "a finite number")
    if not low <= value <= high:
        span = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise InputError(field, value, f"a number {span}")
    refuse_rounded(value, field)
    return float(value)


def share(field: str, value: Any, *, zero: bool = True) -> float:
    """A share in [0, 1], or in (0, 1]."""
    out = number(field, value, 0.0, 1.0)
    if out == 0.0 and not zero:
        raise InputError(field, value, "a share above 0, at most 1")
    return out


def limit(field: str, value: Any, low: float = 0.0) -> float:
    """A limit in params: `NO_LIMIT` for None."""
    if value is None:
        return NO_LIMIT
    return number(field, value, low, NO_LIMIT)


def whole(field: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(field, repr(value), f"a whole number from {low} to {high}")
    return value


def choice(field: str, value: Any, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise InputError(field, repr(value), f"one of {', '.join(map(repr, allowed))}")
    return str(value)


def ascending(field: str, values: Any, low: float = -math.inf) -> tuple[float, ...]:
    """At least one finite number, strictly ascending, each at least `low`."""
    try:
        values = tuple(values)
        items = tuple(float(x) for x in values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(field, repr(values)[:200], "a sequence of finite numbers") from None
    if not items:
        raise InputError(field, "no values", "at least one")
    for i, (x, value) in enumerate(zip(items, values, strict=True)):
        refuse_rounded(value, field, i)
        if not math.isfinite(x):
            raise InputError(field, x, "a finite number", index=i)
        if not x >= low:
            raise InputError(field, x, f"at least {low:g}", index=i)
        if i and not x > items[i - 1]:
            raise InputError(field, x, f"more than {items[i - 1]:g} (strictly ascending)", index=i)
    return items


def planned_actions(values: Sequence[float] | None, steps: int) -> tuple[tuple[float, ...], float]:
    """The previous plan as (actions padded with 0 to `steps`, how many are real)."""
    given = () if values is None else tuple(values)[:steps]
    items = tuple(number(f"planned[{i}]", x, -math.inf) for i, x in enumerate(given))
    return items + (0.0,) * (steps - len(items)), float(len(items))


def fractile(values: NDArray[np.float64], weights: NDArray[np.float64], ratio: Any) -> NDArray[np.float64]:
    """(W,) least of each row's values (W, J) that so much weight (a number or (W,)) does not exceed."""
    order = np.argsort(values, axis=1, kind="stable")
    rows = np.arange(len(values))
    shares = np.take_along_axis(np.broadcast_to(weights, order.shape), order, axis=1)
    reached = np.cumsum(shares, axis=1) >= np.reshape(ratio, (-1, 1)) - 1e-12
    place = np.where(reached.any(axis=1), reached.argmax(axis=1), values.shape[1] - 1)
    return values[rows, order[rows, place]]


def scale(field: str, pair: Sequence[float]) -> tuple[float, float]:
    """Mean and spread of what levels or caps are multiples of."""
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise InputError(field, repr(pair), "two numbers: mean and spread")
    return number(f"{field}[0]", pair[0], -NO_LIMIT, NO_LIMIT), number(f"{field}[1]", pair[1], 0.0, NO_LIMIT)


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
