"""How far two scores must be apart to count as different (SPEC section 3): by the two figures compared, no others.

`tau(x, y) = 1e-9 * max(|x|, |y|) + 8 * d * 2**-52 * max(size_x, size_y)`, where a path's size is what was added up on
it in absolute terms, and a bound's without a path its absolute value. There is no absolute part: scaling every reward
by a power of two scales every tolerance alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.policies import MODES, Settings
from ucsearch.spreads import NUMBERS

__all__ = ["CANCELLED", "path_size", "tolerance"]

Floats = NDArray[np.float64]
RELATIVE = 1e-9
ROUNDING = 8.0 * 2.0**-52  # for every step that is added up
CANCELLED = 1e6  # a path whose size is so many times its score has lost six digits


def tolerance(x: Floats, y: Floats, size_x: Floats, size_y: Floats, steps: int) -> Floats:
    """tau of every pair; 0 where one of the figures is unbounded or unknown, infinite where a size is."""
    largest = np.maximum(np.abs(x), np.abs(y))
    tau: Floats = np.where(
        largest < np.inf, RELATIVE * largest + ROUNDING * steps * np.fmax(np.fmax(size_x, size_y), 0.0), 0.0
    )
    return tau


def path_size(gross: Floats, uncertainty: Floats, settings: Settings, risk: float) -> Floats:
    """The size of a path from its sum of absolute rewards.

    In additive modes uncertainties are added up as well. In members mode the spread is taken of the members' returns,
    whose rounding enters it once more: as it is, or (variance) times twice the deviation.
    """
    if not risk > 0.0:  # 0 times a sum beyond the largest float would be NaN, and NaN is no size
        return gross
    if settings.mode != MODES["members"]:
        return gross + risk * uncertainty
    with np.errstate(over="ignore", invalid="ignore"):
        inner = gross
        if settings.spread == NUMBERS["variance"]:
            inner = np.where(uncertainty > 0.0, 2.0 * np.sqrt(uncertainty) * gross, 0.0)
        size: Floats = gross + risk * (uncertainty + inner)
    return size
