"""Actions that are tuples of whole numbers, each packed into one number: what arrays and kernels hold of them.

Every place of the tuple counts `base` of the next one: (3, 2) is 3 * base + 2. A packed number has fifteen digits at
most, so that nothing is rounded, and order is kept: packed numbers ascend as the tuples do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["base_of", "is_packable", "pack", "packed", "unpack", "unpacked"]

Floats = NDArray[np.float64]
_DIGITS = 15  # of all places together


def base_of(width: int) -> float:
    """What a place of a tuple of so many numbers stays below."""
    return float(10 ** (_DIGITS // width))


def is_packable(tuples: Floats) -> bool:
    """Whether all numbers of tuples (..., width) are whole, not negative, and below the base."""
    return bool(((tuples == np.floor(tuples)) & (tuples >= 0.0) & (tuples < base_of(tuples.shape[-1]))).all())


def packed(tuples: Floats) -> Floats:
    """(...,) numbers of tuples (..., width); NaN for one with a NaN."""
    base, total = base_of(tuples.shape[-1]), np.zeros(tuples.shape[:-1])
    for k in range(tuples.shape[-1]):
        total = total * base + tuples[..., k]
    return total


def unpacked(numbers: Floats, width: int) -> Floats:
    """(..., width) tuples of numbers (...,)."""
    base, rest, places = base_of(width), np.asarray(numbers, dtype=np.float64), []
    for _ in range(width):
        above = np.floor(rest / base)
        places.append(rest - above * base)
        rest = above
    return np.stack(places[::-1], axis=-1)


def unpack(number: float, width: int) -> tuple[float, ...]:
    """The tuple of one number."""
    base, places = base_of(width), []
    for _ in range(width):
        above = math.floor(number / base) * 1.0
        places.append(number - above * base)
        number = above
    return tuple(places[::-1])


def pack(values: Sequence[float]) -> float:
    """The number of one tuple."""
    base, total = base_of(len(values)), 0.0
    for x in values:
        total = total * base + x
    return total
