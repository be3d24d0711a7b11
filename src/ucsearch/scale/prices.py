"""One limit over a panel that lies in parts: a price is sent out, sums come back, one reduce for each step.

Every part answers a price with what its series would use and be worth at it; sums are exact (whole multiples of the
smallest float), so the answer depends on no partitioning and no order. The price found is the smallest at which the
limit is kept. What is left of the limit then is not handed out: `gap` says what that may cost at most.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError

__all__ = ["Priced", "Sums", "added", "choose_at", "find_price", "sums_at"]

Floats = NDArray[np.float64]
_SCALE = 1074  # every float is a whole multiple of 2**-1074
_LOW = 27  # bits of the lower half of a mantissa
_MOST = 1 << 25  # values whose halves add up exactly in a float


class Sums(NamedTuple):
    """Exact sums, in units of 2**-1074."""

    use: int
    value: int  # of the best known plans that begin so
    bound: int  # no choice at this price is worth more, less what it pays


@dataclass(frozen=True)
class Priced:
    """What one limit costs."""

    price: float  # currency per unit
    use: float  # units, at most the limit
    value: float  # currency
    bound: float  # no choice that keeps the limit is worth more
    gap: float
    steps: int  # reduces


def choose_at(lower: Floats, use: Floats, price: float) -> NDArray[np.int64]:
    """(N,) the action of each series at a price; of equals the one that uses least, then the first. NaN in `lower`:
    cannot be chosen."""
    worth = np.where(np.isnan(lower), -np.inf, lower - price * use)
    best = worth == worth.max(axis=1, keepdims=True)
    return np.asarray(np.argmin(np.where(best, use, np.inf), axis=1), np.int64)


def sums_at(lower: Floats, upper: Floats, use: Floats, price: float) -> Sums:
    """One part's answer to a price; arrays are (N, m)."""
    if not 0.0 <= price < np.inf:
        raise InputError("price", price, "a finite number of at least 0")
    choice = choose_at(lower, use, price)
    rows = np.arange(len(choice))
    most = np.where(np.isnan(upper), -np.inf, upper - price * use).max(axis=1, initial=-np.inf)
    return Sums(_exact(use[rows, choice]), _exact(lower[rows, choice]), _exact(most))


def added(parts: Iterable[Sums]) -> Sums:
    """The reduce."""
    use = value = bound = 0
    for part in parts:
        use, value, bound = use + part.use, value + part.value, bound + part.bound
    return Sums(use, value, bound)


def _exact(values: Floats) -> int:
    """The sum of finite floats as a whole multiple of 2**-1074."""
    if not np.isfinite(values).all():
        raise InputError("values", "one that is not finite", "finite values of every series' actions")
    total = 0
    for lo in range(0, values.size, _MOST):
        mantissa, exponent = np.frexp(values[lo : lo + _MOST])
        whole = (mantissa * 2.0**53).astype(np.int64)
        place = exponent.astype(np.int64)
        first = int(place.min()) if place.size else 0
        high = np.bincount(place - first, weights=(whole >> _LOW).astype(np.float64))
        low = np.bincount(place - first, weights=(whole & ((1 << _LOW) - 1)).astype(np.float64))
        for k, (a, b) in enumerate(zip(high.tolist(), low.tolist(), strict=True)):
            own, shift = (int(a) << _LOW) + int(b), first + k - 53 + _SCALE
            total += own << shift if shift >= 0 else own >> -shift
    return total


def find_price(ask: Callable[[float], Sums], limit: float) -> Priced:
    """The smallest price at which the sums keep the limit; `ask` sends a price to all parts and adds up what comes
    back. At most some 130 reduces."""
    if not 0.0 <= limit < np.inf:
        raise InputError("limit", limit, "a finite number of at least 0")
    most, steps = int(Fraction(limit) * 2**_SCALE), 1
    found, price = ask(0.0), 0.0
    if found.use > most:
        low, high = 0, _bits(1.0)
        while True:
            steps += 1
            found = ask(_float(high))
            if found.use <= most:
                break
            if high >= _bits(1e300):
                raise InputError("limit", limit, f"at least {float(Fraction(found.use, 2**_SCALE)):g}, the least use")
            low, high = high, min(high + (64 << 52), _bits(1e300))
        while high - low > 1:  # between neighbours of the order of floats
            middle, steps = (low + high) // 2, steps + 1
            answer = ask(_float(middle))
            low, high, found = (low, middle, answer) if answer.use <= most else (middle, high, found)
        price = _float(high)
    bound = Fraction(found.bound, 2**_SCALE) + Fraction(price) * Fraction(limit)
    value = Fraction(found.value, 2**_SCALE)
    use = float(Fraction(found.use, 2**_SCALE))
    return Priced(price, use, float(value), float(bound), float(max(bound - value, Fraction(0))), steps)


def _bits(x: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def _float(bits: int) -> float:
    made: Any = struct.unpack("<d", struct.pack("<q", bits))[0]
    return float(made)
