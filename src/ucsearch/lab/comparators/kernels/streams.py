"""The random numbers of ../streams.py in 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Streams", "build"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
NAN = np.uint64(0x7FF8000000000000)
Function = Callable[..., Any]


class Streams(NamedTuple):
    mix: Function  # (z) -> its bits, mixed
    absorb: Function  # (stream, word) -> stream
    uniform: Function  # (stream) -> a number between 0 and 1
    content: Function  # (win, panel, one) -> hash of a window's own numbers; `one` has room for one of them


def build(n: int, jit: Any) -> Streams:
    """For states of `n` numbers."""

    @jit.inline
    def mix(z):
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        return z ^ (z >> np.uint64(31))

    @jit.inline
    def absorb(stream, word):
        return mix((stream + GOLDEN) ^ word)

    @jit.inline
    def uniform(stream):
        return (np.float64(mix(stream + GOLDEN) >> np.uint64(12)) + 0.5) * 2.220446049250313e-16

    @jit.inner
    def content(win, panel, one):
        """State, then mean outcomes and action scores of the searched steps."""
        bits = one.view(np.uint64)
        out = np.uint64(0)
        for f in range(n):
            one[0] = panel.states[win.w, f] + 0.0
            out = absorb(out, bits[0])
        for h in range(win.d):
            for f in range(panel.mean.shape[2]):
                one[0] = panel.mean[win.w, h, f] + 0.0
                out = absorb(out, bits[0] if one[0] == one[0] else NAN)
        for h in range(win.d):
            for x in range(panel.q.shape[2]):
                one[0] = panel.q[win.w, h, x] + 0.0
                out = absorb(out, bits[0])
            for x in range(panel.q.shape[2]):
                one[0] = panel.u[win.w, h, x] + 0.0
                out = absorb(out, bits[0])
        return out

    return Streams(mix, absorb, uniform, content)
