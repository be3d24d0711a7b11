"""How far two scores must be apart to count as different: a small share of what was added up for the two.

`tau(x, y) = eps * max(size_x, size_y)` with `eps = max(1e-12, 2**-52 * d * (n + 2))`: d steps, n members or points that
are averaged. There is no absolute part and no part relative to the scores: scaling every reward by a power of two
scales every tolerance alike, and a cost that all plans share adds its own rounding and nothing more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs
from ucsearch.policies import MODES, Settings
from ucsearch.spreads import NUMBERS

__all__ = ["CANCELLED", "LEAST", "bound_size", "path_size", "share", "shares", "tolerance"]

Floats = NDArray[np.float64]
LEAST = 1e-12  # thousands of roundings
ROUNDING = 2.0**-52  # for every step and every number that is averaged
CANCELLED = 1e6  # a path whose size is so many times its score has lost six digits
_MEMBERS, _CLOSED = MODES["members"], MODES["closed"]
_STD, _VARIANCE, _DOWNSIDE = NUMBERS["std"], NUMBERS["variance"], NUMBERS["downside"]


def share(steps: int, averaged: float) -> float:
    """eps where `steps` are added up and `averaged` members or points are averaged (1 where none)."""
    return max(LEAST, ROUNDING * steps * (max(averaged, 1) + 2))


def shares(settings: Settings, inputs: Inputs) -> Floats:
    """eps of every window, one for all where they share a forecast."""
    averaged = np.ones(1)  # members or points at most; 1 where there are none
    if settings.mode == _CLOSED:
        averaged = np.maximum.reduce(np.diff(inputs.u[:, 0], axis=1, prepend=0.0), axis=1, initial=1.0)
    elif settings.mode != MODES["scores"]:
        averaged[:] = max(1, inputs.members.shape[1])
    return np.maximum(LEAST, ROUNDING * settings.reach * (averaged + 2.0))


def tolerance(eps: Floats, size_x: Floats, size_y: Floats) -> Floats:
    """tau of every pair. An unknown size (NaN) does not count; a size beyond the largest float makes tau infinite."""
    tau: Floats = eps * np.fmax(np.fmax(size_x, size_y), 0.0)
    return tau


def path_size(gross: Floats, uncertainty: Floats, settings: Settings, risk: float) -> Floats:
    """The size of a path: everything that was added up for its score, in absolute terms.

    Mean and scores modes add up rewards and uncertainties. In closed mode the recursion has weighed the tail already.
    In members mode the spread is taken of the members' returns, so that their rounding enters it again: once (std),
    twice (downside, whose mean rounds as well), by 1 + 1/tail (cvar). A variance in money squared times a risk per
    money changes by twice the risk times the deviation for every unit by which a return changes.
    """
    if settings.mode == _CLOSED or not risk > 0.0:  # 0 times a sum beyond the largest float would be NaN
        return gross
    with np.errstate(over="ignore", invalid="ignore"):
        if settings.mode != _MEMBERS:
            return gross + risk * uncertainty
        if settings.spread == _VARIANCE:
            size: Floats = gross * (1.0 + 2.0 * risk * np.sqrt(uncertainty))
            return size
        times = 1.0 if settings.spread == _STD else 2.0 if settings.spread == _DOWNSIDE else 1.0 + 1.0 / settings.tail
        size = gross * (1.0 + risk * times)
    return size


def bound_size(upper: Floats, step_score: Floats) -> Floats:
    """The size of a bound without a path: its first step and its value to go, in absolute terms; never less than its
    own absolute value."""
    with np.errstate(over="ignore", invalid="ignore"):
        size: Floats = np.fmax(np.abs(step_score) + np.abs(upper - step_score), np.abs(upper))
    return size
