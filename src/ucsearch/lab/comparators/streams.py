"""Random numbers that are a function of what they are for: seed, window, iteration and the plan sampled so far.

Every number is a hash (SplitMix64's finaliser, Steele, Lea and Flood 2014), so results depend neither on threads nor on
how windows are split into batches. A window's part of the hash is its content (state, mean outcomes, action scores of
the searched steps), not its place in a panel: equal windows get equal answers. Python integers masked to 64 bits here,
uint64 in the kernels, the same bits in both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError

__all__ = ["absorb", "check_seed", "content_of", "contents_of_rows", "key_from", "mix64", "signed", "uniform"]

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MUL_1 = 0xBF58476D1CE4E5B9
MUL_2 = 0x94D049BB133111EB
NAN_BITS = 0x7FF8000000000000
TO_UNIT = 1.0 / (1 << 52)


def key_from(rng: np.random.Generator) -> int:
    """A seed for a comparator: one 64-bit number, the only thing taken from the generator."""
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng", type(rng).__name__, "a numpy.random.Generator")
    return int(rng.integers(0, 1 << 64, dtype=np.uint64))


def check_seed(seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MASK:
        raise InputError("seed", repr(seed), "a whole number from 0 to 2**64 - 1", hint="Use key_from(rng).")


def signed(word: int) -> int:
    """The same 64 bits as a signed number, which is how they travel to a kernel."""
    return word - (1 << 64) if word >> 63 else word


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * MUL_1) & MASK
    z = ((z ^ (z >> 27)) * MUL_2) & MASK
    return z ^ (z >> 31)


def absorb(stream: int, word: int) -> int:
    """A stream of its own for `word`."""
    return mix64(((stream + GOLDEN) & MASK) ^ (word & MASK))


def uniform(stream: int) -> float:
    """The number of a stream, in (0, 1). 52 bits and a half are exact; with 53 the largest would round to 1."""
    return (float(mix64((stream + GOLDEN) & MASK) >> 12) + 0.5) * TO_UNIT


def content_of(values: Iterable[float]) -> int:
    """A hash of floats by their bits; -0.0 counts as 0.0 and every NaN as the same one."""
    out = 0
    for value in values:
        word = NAN_BITS if value != value else struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
        out = absorb(out, word)
    return out


def contents_of_rows(rows: NDArray[np.float64]) -> NDArray[np.uint64]:
    """`content_of` every row of a (W, n) array."""
    bits = np.ascontiguousarray(rows + 0.0).view(np.uint64)
    bits = np.where(np.isnan(rows), np.uint64(NAN_BITS), bits)
    out = np.zeros(rows.shape[0], np.uint64)
    for column in range(rows.shape[1]):
        z = (out + np.uint64(GOLDEN)) ^ bits[:, column]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MUL_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MUL_2)
        out = z ^ (z >> np.uint64(31))
    return out
