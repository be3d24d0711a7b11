"""Episodes on series: which values, from where, with which forecasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stretch"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretch:
    """One window: `decisions` consecutive decisions on one series. `y` ends where the window's last look-ahead ends."""

    family: str
    series: str
    window: int
    start: int  # index of the first period decided
    decisions: int
    season: int
    y: Floats  # (T,) in units of the series' own scale
    scale: float  # of its fitting part: the mean absolute value, or the standard deviation of its steps
