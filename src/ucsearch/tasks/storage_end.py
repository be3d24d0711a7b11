"""What energy in store is worth where a forecast ends: what it would earn in one more day like the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.tasks.exposure import ROUNDING

__all__ = ["DAY", "end_values"]

Floats = NDArray[np.float64]

DAY = 24.0  # hours of forecast that say what energy is worth at the end
_LEVELS = 41  # of the store, for that


def end_values(prices: Floats, p: Any, up: float, down: float, steps: int) -> Floats:
    """(W,) currency per unit: what the upper half of the store would earn on the last `steps` of `prices` (W, H), or on
    all of them where they are fewer. `up`, `down`: energy that full power buys and sells in a step. `p`: params of the
    storage, one for all windows or one each."""
    price = prices[:, prices.shape[1] - max(1, min(prices.shape[1], steps)) :]
    capacity, charging, discharging, fee, wear = (
        np.broadcast_to(np.asarray(x, np.float64), len(price))[:, None, None]
        for x in (p.capacity, p.charging, p.discharging, p.fee, p.wear)
    )
    share_of = np.linspace(0.0, 1.0, _LEVELS)
    move = capacity * (share_of[None, None, :] - share_of[None, :, None])  # (W, from, to)
    slack = ROUNDING * (1.0 + capacity)
    allowed = (move <= up * charging + slack) & (move >= -down / discharging - slack)
    bought, sold = np.maximum(move, 0.0) / charging, np.maximum(-move, 0.0)
    paid = -fee * (bought + sold * discharging) - wear * sold
    traded = sold * discharging - bought
    value = np.zeros((len(price), _LEVELS))
    for k in range(price.shape[1] - 1, -1, -1):
        earned = traded * price[:, k, None, None] + paid + value[:, None, :]
        value = np.where(allowed, earned, -np.inf).max(axis=2)
    half = np.maximum(capacity[:, 0, 0], ROUNDING) / 2.0
    return np.maximum((value[:, -1] - value[:, _LEVELS // 2]) / half, 0.0)
