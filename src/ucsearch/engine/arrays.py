"""What both engines read and write, as arrays.

Columns of the results:
  out_i  status, first action, expansions, action scores, simulations, continuation, fault kind, its step and action
  out_f  score, reward, uncertainty, proved upper bound
  flags  (W, m) bits of `First`;  table (W, m, 7) of each first action: score, reward, uncertainty,
         upper bound, q and u of its first step, and the path's gross (sum of absolute rewards)
  path   (W, d) action indices;   paths (W or 0, m, d) the best path of each first action
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Inputs", "Outputs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
OUT_I, OUT_F, TABLE = 9, 4, 7


class Inputs(NamedTuple):
    """Everything the engines read, as arrays. A leading 1 stands for "the same in every window"."""

    states: Floats  # (W, n)
    params: Floats  # (W or 1, P)
    actions: Floats  # (W or 1, m), NaN unavailable
    mean: Floats  # (W, H, F)
    members: Floats  # (W, J, H, F)
    weights: Floats  # (W or 1, J)
    q: Floats  # (W, H, m)
    u: Floats  # (W, H, m)


class Outputs(NamedTuple):
    out_i: Ints  # (W, 9)
    out_f: Floats  # (W, 4)
    flags: NDArray[np.uint8]  # (W, m)
    table: Floats  # (W, m, 7)
    path: NDArray[np.int32]  # (W, d)
    paths: NDArray[np.int32]  # (W or 0, m, d)

    @classmethod
    def empty(cls, windows: int, actions: int, depth: int, keep_paths: bool) -> Outputs:
        return cls(
            np.empty((windows, OUT_I), np.int64),
            np.empty((windows, OUT_F)),
            np.empty((windows, actions), np.uint8),
            np.empty((windows, actions, TABLE)),
            np.empty((windows, depth), np.int32),
            np.full((windows if keep_paths else 0, actions, depth), -1, np.int32),
        )
