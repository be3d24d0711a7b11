"""What both engines read and write, as arrays, and the closed lists of what stands in them.

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

__all__ = [
    "COMPLETION_CAP", "DP_SWITCH", "ENUMERATE_BELOW", "HIGH", "LOW", "MIDDLE", "Col", "FSet", "Fault", "First", "ISet",
    "Inputs", "OutF", "OutI", "Outputs", "Status", "read_only",
]  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


COMPLETION_CAP = 100_000  # nodes spent on telling a dead end from an exhausted search
ENUMERATE_BELOW = 4_096  # paths; below this, plain enumeration beats hashing states
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9  # levels of the outcomes after which a closed-loop policy is shown
DP_SWITCH = 20_000  # branch-and-bound nodes after which dynamic programming is tried


class Status(IntEnum):
    """How a search ended. Only FOUND and PROVED carry a path that may be considered for release."""

    FOUND = 0  # a feasible path of full depth, nothing proved
    PROVED = 1  # a feasible path whose first action is proved optimal
    NOT_PROVED = 2  # exact search ran out of its budget; the path is the best seen
    DEAD_END = 3  # no first action has a completion of full depth
    SEARCH_EXHAUSTED = 4  # the search lost all paths although one exists (or none was found within the cap)
    TASK_ERROR = 5  # a task function raised, or gave something unusable
    NO_STRUCTURE = 6  # closed mode, but the forecast does not say what is learned when
    OUT_OF_TIME = 7  # ended by the caller before it was done: nothing is known

    def __str__(self) -> str:
        return self.name


class First:
    """Bits of what is known about a first action."""

    FEASIBLE = 1  # allowed at the root
    GENERATED = 2  # expanded at the root
    RETAINED = 4  # starts a retained path of full depth
    DUPLICATE = 8  # same effect as a smaller action, which stands for it
    EXACT = 16  # its value is exact
    DEAD = 32  # proved to have no completion of full depth


class Fault:
    """What a task function did wrong."""

    NONE = 0
    REWARD = 1
    STATE = 2
    BOUND = 3
    TERMINAL = 4
    VALUE = 5  # finite rewards whose sum is not finite
    CONTINUATION = 6
    RAISED = 7
    END = 8

    TEXT = (
        "",
        "reward is not a finite number",
        "step returned a state that is not finite",
        "bound returned NaN",
        "terminal is not a finite number",
        "the sum of rewards along a path is not finite",
        "a continuation returned an action that is not a finite number",
        "feasible raised an exception or gave neither True nor False",
        "allowed_end raised an exception or gave neither True nor False",
    )
    ROLE = ("", "reward", "step", "prepare or bound", "terminal", "", "a continuation", "feasible", "allowed_end")


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
