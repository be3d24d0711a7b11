"""The optimistic value to go of LeadTimeInventory.

Write A for the stock available in a step (after arrival, before demand) and g(A) for its reward minus risk times
spread, order cost left out. From a state at step h the next L steps are fixed by open orders, and their g is computed
exactly. Later steps are relaxed: moving the unit cost of an order to the step that uses up the goods makes the rest
a sum of one-step functions

    phi_k(A) = g_k(A) - unit * A + unit * carried_k(A)      (last step: salvage instead of unit)

plus unit * x for the stock x on hand when the fixed steps end. Each phi_k is maximised alone, through a concave
majorant, over an interval that contains every reachable A (orders at their least and most under ramp, capacity and
largest order). Dropped are the coupling of orders, fixed cost, packs, minimum order and budget: all of them only
remove plans or add cost, so the sum is never below the best plan's value (but for rounding, see the end of `bound`).
"""

from __future__ import annotations

from math import floor, inf
from typing import Any

import numpy as np
from numpy import empty, zeros
from numpy.typing import NDArray

from ucsearch.tasks.inventory_rules import WIDER
from ucsearch.tasks.twosided import (
    DEPTH,
    MEAN,
    PEAKS,
    SIZE,
    STAR,
    TOP,
    WIDTH,
    certain_value,
    fill_demands,
    fill_header,
    fill_majorant,
    fill_spread,
    majorant_at,
    row_width,
)

__all__ = ["bound", "prepare"]

Floats = NDArray[np.float64]

_SAFETY = 1e-12  # of what is added up; more than rounding, because the sums here run in another order than a path's
_BELOW = 5e-13  # of it, by which orders that arrive too late look worse than none: half of the tolerance


def carried(available: float, demand: float, keep: float, backorders: float) -> float:
    """Stock at the start of the next step before arrival; negative is owed to customers."""
    left = available - demand
    return left * (keep if left >= 0.0 else backorders)


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """Every step's forecast, and from the first order that can still be placed the majorants of phi."""
    depth, members = outcomes.shape[0], view.members.shape[0]
    width = row_width(members)
    table = zeros(TOP + depth * width)
    weights = empty(members)
    fill_header(table, depth, members, view, p.price, p.holding, p.shortage)
    for k in range(depth - 1, -1, -1):
        row = TOP + k * width
        fill_demands(table, weights, row, k, members, outcomes[k], view)
        fill_spread(table, weights, row, members)
        if k >= p.lead_time:
            last = k + 1 == depth
            # Backorders that are served later earn the price then: it is counted in the step that makes them.
            left = p.price + p.shortage - p.unit_cost
            if not last:
                left += p.backorders * (p.unit_cost - p.price)
            right = p.keep * (p.salvage if last else p.unit_cost) - p.holding - p.unit_cost
            at_mean = (p.price - p.unit_cost) * table[row + MEAN]
            fill_majorant(table, row, members, at_mean, left, right, p.backorders == 0.0)
            if not last:
                table[row + PEAKS] += table[row + width + PEAKS]
    return table


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """Never below the best sum of reward minus risk times spread from `s` at step `h` to the end."""
    depth, members, width = floor(table[DEPTH]), floor(table[SIZE]), floor(table[WIDTH])
    row, end = TOP + h * width, TOP + depth * width
    ramp, largest, capacity = p.ramp * WIDER, p.largest_order * WIDER, p.capacity * WIDER
    stock = s.on_hand
    position = s.on_hand
    total = 0.0
    added = 0.0  # the same sum in absolute terms
    money = p.price + p.unit_cost + p.holding + p.shortage
    waiting = 0.0  # open orders that arrive after the end
    if p.lead_time > 0.0:
        for arriving in s.pipeline:
            position += arriving
            if row < end:
                available = stock + arriving
                part = certain_value(available, table, row, members) - p.price * min(stock, 0.0)
                total += part
                added += abs(part)
                stock = carried(available, table[row + MEAN], p.keep, p.backorders)
            else:
                waiting += arriving
            row += width
    safety = _SAFETY
    if row >= end:
        part = p.salvage * (max(stock, 0.0) + waiting)
        total += part
        added += abs(part)
        # All that is left to decide are orders that arrive too late. Without a unit cost they all tie with what has
        # been found already; looking a rounding error worse, they are not searched one by one.
        safety = -_BELOW
    else:
        total += p.unit_cost * stock - p.price * min(stock, 0.0)
        added += money * (abs(stock) + abs(position))
        # Orders at their least and most; the first one must also fit beside all that is in stock and on order.
        least, most = s.last - ramp, min(s.last + ramp, largest)
        low = stock + max(least, 0.0)
        high = max(low, stock + min(most, capacity - position))
        while row < end:
            star = table[row + STAR]
            if low <= star <= high and table[row + PEAKS] < inf:
                total += table[row + PEAKS]  # later peaks are taken to be within reach as well
                added += abs(table[row + PEAKS]) + money * abs(star)
                break
            nearest = high if high < star else low
            part = majorant_at(nearest, table, row, members)
            total += part
            added += abs(part) + money * abs(nearest)
            least -= ramp
            most = min(most + ramp, largest)
            low = carried(low, table[row + MEAN], p.keep, p.backorders) + max(least, 0.0)
            high = carried(high, table[row + MEAN], p.keep, p.backorders) + most
            high = max(low, min(high, capacity))
            row += width
    if s.last > ramp:
        # Orders that arrive too late to sell still cost what the ramp forces them to be.
        for t in range(max(h, depth - floor(p.lead_time)), depth):
            forced = s.last - ramp * (t - h + 1)
            if forced > 0.0:
                part = p.fixed_cost + (p.unit_cost - p.salvage) * forced
                total -= part
                added += abs(part)
    return float(total + safety * added)
