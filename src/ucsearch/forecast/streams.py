"""Counter-based random numbers: every (series, cutoff) has its own stream, computed from a key.

Draw number i of a stream is a hash of (stream, i), so results depend neither on the order in which
series are processed nor on threads, batches or which other series and cutoffs are asked for. The hash is
SplitMix64's finaliser (Steele, Lea and Flood 2014) over a Weyl sequence.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ucsearch.engine.cache import compiled

__all__ = [
    "derive_stream",
    "draw_key",
    "index_below",
    "mix64",
    "normal",
    "series_stream",
    "uniform",
]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MUL_1 = np.uint64(0xBF58476D1CE4E5B9)
MUL_2 = np.uint64(0x94D049BB133111EB)
S12, S27, S30, S31, S32 = (np.uint64(n) for n in (12, 27, 30, 31, 32))
ONE = np.uint64(1)
TO_UNIT = 2.0**-52  # 52 bits and a half stay below 1 exactly


def draw_key(rng: np.random.Generator) -> int:
    """One 64-bit key; the only thing taken from the generator."""
    return int(rng.integers(0, 1 << 64, dtype=np.uint64))


def series_stream(key: int, series_id: str) -> np.uint64:
    """The stream of a series: a function of `key` and its name alone, not of its place in a list."""
    text = key.to_bytes(8, "little") + series_id.encode()
    return np.uint64(int.from_bytes(hashlib.sha256(text).digest()[:8], "little"))


@compiled
def mix64(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> S30)) * MUL_1
    z = (z ^ (z >> S27)) * MUL_2
    return z ^ (z >> S31)


@compiled
def derive_stream(stream: np.uint64, number: int) -> np.uint64:
    """A stream of its own for `number`, for instance a cutoff."""
    return mix64(stream ^ mix64((np.uint64(number) + ONE) * GOLDEN))


@compiled
def bits(stream: np.uint64, draw: int) -> np.uint64:
    return mix64(stream + (np.uint64(draw) + ONE) * GOLDEN)


@compiled
def uniform(stream: np.uint64, draw: int) -> float:
    """In (0, 1), end points excluded, so that a logarithm of it is finite."""
    return (np.float64(bits(stream, draw) >> S12) + 0.5) * TO_UNIT


@compiled
def index_below(stream: np.uint64, draw: int, count: int) -> np.int64:
    """In 0..count-1 by multiply and shift; its bias is below count / 2**32."""
    return np.int64(((bits(stream, draw) >> S32) * np.uint64(count)) >> S32)


@compiled
def normal(stream: np.uint64, draw: int) -> float:
    """Standard normal (Box and Muller 1958); uses draws 2 draw and 2 draw + 1."""
    radius = np.sqrt(-2.0 * np.log(uniform(stream, 2 * draw)))
    return float(radius * np.cos(2.0 * np.pi * uniform(stream, 2 * draw + 1)))
