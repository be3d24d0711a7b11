"""What both engines read and write, as arrays.

Columns of the results:
  out_i  status, first action, expansions, action scores, simulations, continuation, fault kind, its step and action
  out_f  score, reward, uncertainty, proved upper bound
  flags  (W, m) bits of `First`;  table (W, m, 7) of each first action: score, reward, uncertainty,
         upper bound, q and u of its first step, and the path's gross (sum of absolute rewards)
  path   (W, d) action indices;   paths (W or 0, m, d) the best path of each first action

Closed mode has no members but a law: Inputs.members are its points (W, P, 1, F), weights theirs (W, P), q the class
that follows each (W, 1, P), u where the points of each class begin (W, 1, C + 1). Expansions are transitions and
simulations states. A path is what the policy does when every outcome is the middle one, and paths has two rows more:
what follows the first action put forward when every outcome is low, and when every one is high.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Col", "FSet", "ISet", "Inputs", "OutF", "OutI", "Outputs", "read_only"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ISet(IntEnum):
    """Whole numbers among a kernel's settings; an algorithm's own follow."""

    DEPTH = 0
    REACH = 1
    WIDTH = 2
    TOP_K = 3
    KEEP = 4
    SPREAD = 5
    USE_BOUND = 6
    CAP = 7  # nodes spent on telling a dead end from an exhausted search
    NODE_BUDGET = 8
    EVERY_ACTION = 9
    SIMULATIONS = 10
    ENUMERATE_BELOW = 11
    DP_SWITCH = 12


class FSet(IntEnum):
    """Real numbers among a kernel's settings; an algorithm's own follow."""

    RISK = 0
    PRUNE_RISK = 1
    INFO_BONUS = 2
    C_UCT = 3
    TAIL = 4


class OutI(IntEnum):
    """Columns of `out_i`."""

    STATUS = 0
    FIRST = 1  # index of the first action, -1 none
    EXPANSIONS = 2
    ACTION_SCORES = 3
    SIMULATIONS = 4  # closed mode: states
    CONTINUATION = 5
    FAULT = 6
    FAULT_STEP = 7
    FAULT_ACTION = 8


class OutF(IntEnum):
    """Columns of `out_f`."""

    SCORE = 0
    REWARD = 1
    UNCERTAINTY = 2
    UPPER = 3


class Col(IntEnum):
    """Columns of `table`, of each first action."""

    SCORE = 0
    REWARD = 1
    UNCERTAINTY = 2
    UPPER = 3
    STEP_REWARD = 4
    STEP_UNCERTAINTY = 5
    GROSS = 6  # sum of absolute rewards


_I8, _I4, _U1 = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.uint8)  # made once: single searches ask for them
OUT_I, OUT_F, TABLE = len(OutI), len(OutF), len(Col)


class Inputs(NamedTuple):
    """Everything the engines read, as arrays. A leading 1 stands for "the same in every window"."""

    states: Floats  # (W, n)
    params: Floats  # (W or 1, P)
    actions: Floats  # (W or 1, m), NaN unavailable
    mean: Floats  # (W or 1, H, F)
    members: Floats  # (W or 1, J, H, F)
    weights: Floats  # (W or 1, J)
    q: Floats  # (W or 1, H, m)
    u: Floats  # (W or 1, H, m)

    @property
    def windows(self) -> int:
        return int(self.states.shape[0])

    def repeated(self) -> Inputs:
        """With a row of the forecast for every window, where they share one."""
        rows = (np.repeat(x, self.windows, axis=0) if x.shape[0] == 1 else x for x in self[3:])
        return self if self.mean.shape[0] == self.windows else Inputs(*self[:3], *map(read_only, rows))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous view that cannot be written to: numba types such arrays apart, and one kernel should serve all."""
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array


class Outputs(NamedTuple):
    out_i: Ints  # (W, 9)
    out_f: Floats  # (W, 4)
    flags: NDArray[np.uint8]  # (W, m)
    table: Floats  # (W, m, 7)
    path: NDArray[np.int32]  # (W, d)
    paths: NDArray[np.int32]  # (W or 0, m, d)

    @classmethod
    def empty(cls, windows: int, actions: int, depth: int, keep_paths: bool, branches: int = 0) -> Outputs:
        shape = (windows if keep_paths else 0, actions + branches, depth)
        return cls(
            np.empty((windows, OUT_I), _I8),
            np.empty((windows, OUT_F)),
            np.empty((windows, actions), _U1),
            np.empty((windows, actions, TABLE)),
            np.empty((windows, depth), _I4),
            np.full(shape, -1, _I4),
        )

    def blank(self, w: int, status: int) -> None:
        """Window w without an answer, for the reason `status` gives."""
        self.out_i[w] = (status, -1, 0, 0, 0, -1, 0, 0, 0)
        self.out_f[w], self.table[w] = np.nan, np.nan
        self.flags[w], self.path[w] = 0, -1
        if self.paths.shape[0]:
            self.paths[w] = -1
