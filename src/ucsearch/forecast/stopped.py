"""Items that are sold no more: so many periods without demand that chance does not explain them.

Every forecaster that looks back further than that goes on expecting sales, and stock would be ordered for nobody.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["stopped_for"]

Floats = NDArray[np.float64]
_FEWEST = 10  # periods
_SEASONS = 2  # a shop that is closed for a night or on Sundays has not stopped
_TIMES = 2  # longer than any pause before
_CHANCE = 1e-4  # of so many periods without demand, as demand was before


def stopped_for(y: Floats, season: int) -> int:
    """Periods without demand at the end of a series that has stopped; 0 for one that has not."""
    sold = np.flatnonzero(y != 0.0)
    if sold.size == 0:
        return 0
    run, before = len(y) - 1 - int(sold[-1]), int(sold[-1]) + 1
    if run < max(_FEWEST, _SEASONS * season):
        return 0
    pauses = np.diff(sold) - 1
    longest = int(pauses.max()) if pauses.size else 0
    share = (sold.size + 0.5) / (before - int(sold[0]) + 1.0)
    unlikely = share >= 1.0 or run * math.log1p(-share) < math.log(_CHANCE)
    return run if unlikely and run > _TIMES * longest else 0
