"""Prices at which a convex, piecewise linear bound is small: a proximal bundle method (Kiwiel 1990), a few dozen steps.

Nothing here is trusted: any prices of at least 0 give a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cut", "descend"]

Floats = NDArray[np.float64]
_KEPT = 80  # cuts
_SERIOUS = 0.1  # share of the promised descent that makes a step count
_WEIGHTS = 400  # pairwise steps on the weights of the cuts
_EXACT = 1e-12  # of the weights' own gap


class Cut(NamedTuple):
    """The bound at some prices, and a slope there."""

    price: Floats  # (n,) scaled
    bound: float
    slope: Floats  # (n,)


def descend(ask: Callable[[Floats], Cut], start: Floats, rounds: int, enough: float, stake: float) -> Cut:
    """The best cut within `rounds` questions; earlier when at most a share `enough` of the bound's descent is left.
    `stake`: about how far prices may go at first, in their own scale."""
    best = first = ask(start)
    cuts = [best]
    reach = stake / max(float(np.sqrt(best.slope @ best.slope)), 1e-300)
    for _ in range(rounds):
        price, model = _proximal(cuts, best.price, reach)
        promised = best.bound - model
        if not promised > enough * max(first.bound - model, 1e-300) or not np.any(price != best.price):
            return best
        new = ask(price)
        cuts.append(new)
        if new.bound <= best.bound - _SERIOUS * promised:
            reach *= 4.0 if new.bound <= best.bound - 0.5 * promised else 1.0
            best = new
        else:
            reach *= 0.7
        if len(cuts) > _KEPT:
            cuts = [c for c in cuts if c is best] + cuts[-_KEPT + 1 :]
    return best


def _proximal(cuts: list[Cut], centre: Floats, reach: float) -> tuple[Floats, float]:
    """Prices of at least 0 that minimise the largest cut plus |price - centre|^2 / (2 reach), and that cut's height."""
    slopes = np.stack([c.slope for c in cuts])
    heights = np.array([c.bound - float(c.slope @ c.price) for c in cuts])
    share = np.zeros(len(cuts))
    share[int(np.argmax(heights + slopes @ centre))] = 1.0
    slope = share @ slopes
    for _ in range(_WEIGHTS):
        price = np.maximum(centre - reach * slope, 0.0)
        level = heights + slopes @ price
        up = int(np.argmax(level))
        down = int(np.argmin(np.where(share > 0.0, level, np.inf)))
        gap = level[up] - level[down]
        if not gap > _EXACT * max(abs(level[up]), abs(level[down]), 1e-300):
            break
        turn = slopes[up] - slopes[down]
        curve = reach * float(turn @ turn)
        step = share[down] if curve <= 0.0 else min(float(share[down]), gap / curve)
        share[up] += step
        share[down] -= step
        slope = share @ slopes
    price = np.maximum(centre - reach * slope, 0.0)
    return price, float((heights + slopes @ price).max())
