"""The states of the lost-sales model, enumerated in the order the compiled loops use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.inventory._checks import integer

__all__ = ["Period", "StateSpace"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_STATES = 60_000_000  # about 5 GB of states and work arrays


class Period(NamedTuple):
    """One period of a lost-sales model, for stocks x = 0..most after arrivals."""

    stage: Floats  # (most + 1,) expected cost
    weights: Floats  # (most + 1, most + 1) P((x - D)+ = j)
    first: Ints  # (most + 1,) the first j >= 1 with a positive weight


@dataclass(frozen=True, eq=False)
class StateSpace:
    """All states with v_l <= levels[l], in the order the compiled loops use."""

    lead_time: int
    levels: Ints  # (L + 1,)
    radix: int  # levels[L] + 1, the number of order sizes
    offsets: Ints  # (radix ** (L - 1),) first state of a pipeline, -1 if unused
    states: Ints  # (N, L)

    @classmethod
    def build(cls, lead_time: int, levels: Sequence[int]) -> StateSpace:
        """Enumerate the states; refuses level vectors that are not non-increasing or far too large."""
        from ucsearch.inventory import _kernels

        vector = np.array([integer(s, f"levels[{k}]", at_least=0) for k, s in enumerate(levels)], dtype=np.int64)
        if vector.size != lead_time + 1 or bool(np.any(np.diff(vector) > 0)):
            raise InputError("levels", tuple(levels), f"{lead_time + 1} numbers, none above the one before")
        radix = int(vector[-1]) + 1
        # Simplex of the position and box of the pipeline both contain the space.
        most = min(math.comb(int(vector[0]) + lead_time, lead_time), radix ** (lead_time - 1) * (int(vector[0]) + 1))
        codes = radix ** (lead_time - 1)
        if most > _MAX_STATES or codes > _MAX_STATES:
            raise InputError(
                "levels",
                f"{tuple(levels)}: up to {most} states, {codes} pipelines",
                f"at most {_MAX_STATES} of each",
                hint="Shorten the lead time, lower the penalty, or measure demand in larger units.",
            )
        offsets = np.empty(codes, dtype=np.int64)
        empty = np.empty((0, lead_time), dtype=np.int64)
        count = _kernels.build_space(lead_time, vector, radix, offsets, empty)
        states = np.empty((count, lead_time), dtype=np.int64)
        _kernels.build_space(lead_time, vector, radix, offsets, states)
        return cls(lead_time, vector, radix, offsets, states)

    def index(self, states: Ints) -> Ints:
        """Row of each state, -1 for those outside."""
        from ucsearch.inventory import _kernels

        rows = np.ascontiguousarray(states, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != self.lead_time:
            raise InputError("states", f"shape {rows.shape}", f"(N, {self.lead_time})")
        index = np.empty(rows.shape[0], dtype=np.int64)
        _kernels.locate(self.lead_time, self.levels, self.radix, self.offsets, rows, index)
        return index

    def look_up(self, table: Ints, states: Ints) -> Ints:
        """Orders of a tabulated policy: 0 outside the space, where the state can only be left behind."""
        index = self.index(states)
        return np.where(index >= 0, table[np.maximum(index, 0)], 0)

    def levels_for(self, lead_time: int) -> tuple[int, ...]:
        """The levels, if they are those of that lead time."""
        if lead_time != self.lead_time:
            raise InputError("lead_time", lead_time, f"{self.lead_time}, for which the policy was computed")
        return tuple(int(s) for s in self.levels)
