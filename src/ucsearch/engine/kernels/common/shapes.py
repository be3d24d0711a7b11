"""What kernels are built for (numbers known when compiling), and the records that their functions hand on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LANES", "Candidates", "Forecast", "Panel", "Results", "SearchedWindow", "Shape"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LANES = 4  # candidates whose sums run side by side: one addition waits for the one before


class Shape(NamedTuple):
    """Known when a kernel is built: branches on these cost nothing in it."""

    n: int  # numbers of a state, the step index among them where rules look at it
    action: int  # numbers of an action
    outcome: int  # numbers of an outcome
    scalar: bool  # an outcome is one bare number, not a record
    timed: bool  # states carry the step index behind their own numbers
    members: bool  # a plan is valued member by member
    scores: bool  # a forecast of action scores
    bounded: bool  # something says what the steps ahead can add at most
    later: int  # 1: a bound's table begins at step 1
    has_terminal: bool
    has_end: bool
    continuations: int  # candidates that members follow past the searched depth
    uses: int  # things shared with others of which an action uses some
    room: tuple[int, int, int, int]  # of a bound's table: in all, for each step, each member, each member of each step


class Panel(NamedTuple):
    """What all windows read. A leading 1 stands for "the same in every window"."""

    states: Floats  # (W, n)
    actions: Floats  # (W or 1, m), NaN unavailable
    mean: Floats  # (W, H, F)
    members: Floats  # (W, J, H, F)
    weights: Floats  # (W or 1, J)
    q: Floats  # (W, H, m)
    u: Floats  # (W, H, m)
    disc: Floats  # (H + 1,)


class SearchedWindow(NamedTuple):
    """What does not change while one window is searched."""

    w: int
    arow: int  # its row of the actions
    wrow: int  # its row of the weights
    d: int  # searched depth
    reach: int  # steps that are looked at, continuations included
    rows: int  # states of a node: one, or one for each member
    cap: int  # nodes spent on telling a dead end from an exhausted search
    use_bound: bool
    risk: float
    prune: float
    bonus: float
    spread: tuple[int, float]  # its number, and the tail's share
    p: Any  # parameters of the task


class Forecast(NamedTuple):
    """A window's forecast as `prepare` reads it, and room for its table."""

    mean: Floats
    members: Floats
    room: Floats


class Candidates(NamedTuple):
    """The candidates of one node, scored."""

    act: Ints  # (m,) index of the action
    q: Floats  # (m,)
    u: Floats  # (m,)
    rank: Floats  # (m,)
    togo: Floats  # (m,)
    st: Floats  # (m, rows, n) the state that each leads to
    rew: Floats  # (m, rows) members mode: rewards
    work: Floats  # (1, rows) values of one state
    edge: Floats  # (LANES + 1, J) members' rewards of candidates side by side; the last row: members' outcomes
    suffix: Floats  # (d + 1,) forecast of scores: the best that the steps from h on can add
    total: Floats  # (1, rows) members' returns under a continuation


class Results(NamedTuple):
    """What is written, see `engine/arrays.py`."""

    out_i: Ints
    out_f: Floats
    flags: NDArray[np.uint8]
    table: Floats
    path: NDArray[np.int32]
    paths: NDArray[np.int32]
