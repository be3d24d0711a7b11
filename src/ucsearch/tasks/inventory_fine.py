"""The bound of LeadTimeInventory where amounts of money are small.

`inventory_bound.bound` allows for rounding by a share of 1 + its value: next to amounts far below 1 that is no longer
rounding. Its text is part of the source hash of decisions that are on record, so it stays as it is, and tasks whose
amounts are small take this one.
"""

from __future__ import annotations

from math import floor, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.tasks.inventory_bound import carried
from ucsearch.tasks.inventory_rules import WIDER
from ucsearch.tasks.twosided import DEPTH, MEAN, PEAKS, SIZE, STAR, TOP, WIDTH, certain_value, majorant_at

__all__ = ["bound_fine"]

Floats = NDArray[np.float64]

_SAFETY = 1e-12  # of all that is added up; more than rounding, because the sums here run in another order than a path's


def bound_fine(s: Any, h: int, table: Floats, p: Any) -> float:
    """As `bound`, whatever the unit of money: what is added for rounding is a share of all that was added up."""
    depth, members, width = floor(table[DEPTH]), floor(table[SIZE]), floor(table[WIDTH])
    row, end = TOP + h * width, TOP + depth * width
    ramp, largest, capacity = p.ramp * WIDER, p.largest_order * WIDER, p.capacity * WIDER
    stock = s.on_hand
    position = s.on_hand
    total = gross = 0.0
    waiting = 0.0  # open orders that arrive after the end
    if p.lead_time > 0.0:
        for arriving in s.pipeline:
            position += arriving
            if row < end:
                available = stock + arriving
                term = certain_value(available, table, row, members) - p.price * min(stock, 0.0)
                total += term
                gross += abs(term)
                stock = carried(available, table[row + MEAN], p.keep, p.backorders)
            else:
                waiting += arriving
            row += width
    safety = _SAFETY
    if row >= end:
        term = p.salvage * (max(stock, 0.0) + waiting)
        total += term
        gross += abs(term)
        safety = -_SAFETY  # as there
    else:
        term = p.unit_cost * stock - p.price * min(stock, 0.0)
        total += term
        gross += abs(term)
        least, most = s.last - ramp, min(s.last + ramp, largest)
        low = stock + max(least, 0.0)
        high = max(low, stock + min(most, capacity - position))
        while row < end:
            star = table[row + STAR]
            if low <= star <= high and table[row + PEAKS] < inf:
                total += table[row + PEAKS]  # later peaks are taken to be within reach as well
                gross += abs(table[row + PEAKS])
                break
            term = majorant_at(high if high < star else low, table, row, members)
            total += term
            gross += abs(term)
            least -= ramp
            most = min(most + ramp, largest)
            low = carried(low, table[row + MEAN], p.keep, p.backorders) + max(least, 0.0)
            high = carried(high, table[row + MEAN], p.keep, p.backorders) + most
            high = max(low, min(high, capacity))
            row += width
    if s.last > ramp:
        for t in range(max(h, depth - floor(p.lead_time)), depth):
            forced = s.last - ramp * (t - h + 1)
            if forced > 0.0:
                term = p.fixed_cost + (p.unit_cost - p.salvage) * forced
                total -= term
                gross += abs(term)
    return float(total + safety * gross)
