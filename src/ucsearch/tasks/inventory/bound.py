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

from math import floor, inf, sqrt
from typing import Any

import numpy as np
from numpy import empty, zeros
from numpy.typing import NDArray

from ucsearch.tasks.inventory.rules import WIDER

__all__ = [
    "DEPTH",
    "MEAN",
    "PEAKS",
    "SIZE",
    "STAR",
    "TOP",
    "WIDTH",
    "bound",
    "certain_value",
    "fill",
    "fill_demands",
    "fill_header",
    "fill_majorant",
    "fill_spread",
    "majorant_at",
    "prepare",
    "room",
    "row_width",
]


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
    depth, members, width = floor(table[DEPTH]), floor(table[SIZE]), table[WIDTH]
    k, row, end = h, TOP + floor(h * width), TOP + floor(depth * width)
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
            k += 1
            row = TOP + floor(k * width)
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
            k += 1
            row = TOP + floor(k * width)
    if s.last > ramp:
        # Orders that arrive too late to sell still cost what the ramp forces them to be.
        for t in range(max(h, depth - floor(p.lead_time)), depth):
            forced = s.last - ramp * (t - h + 1)
            if forced > 0.0:
                part = p.fixed_cost + (p.unit_cost - p.salvage) * forced
                total -= part
                added += abs(part)
    return float(total + safety * added)


DEPTH, SIZE, WIDTH, RISK, KIND, PRICE, HOLDING, SHORTAGE, TOP = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Places in a row.
MEAN = 0  # demand at the mean outcome
CENTRE = 1  # mean of the members' demands; polynomials are in the distance from it
STAR = 2  # where the majorant peaks
PEAKS = 3  # its value there (the caller may sum it over later steps)
LEFT = 4  # slope left of the first vertex
RIGHT = 5  # and right of the last
COUNT = 6  # vertices
SCALE = 7  # range of demands in money: rounding errors of the spread are relative to it
HEAD = 8  # from here the J demands, ascending; four coefficients of the spread for each of the J + 1 pieces between
# them; and the majorant's vertices, all x, then all y.
MANY = 16  # with more members the downside, which has no short form, is left out


def row_width(members: int) -> int:
    return HEAD + 5 * members + 4 + 2 * (2 * members + 3)


def fill_header(
    table: Floats, depth: int, members: int, view: Any, price: float, holding: float, shortage: float
) -> None:
    table[DEPTH] = depth
    table[SIZE] = members
    table[WIDTH] = row_width(members)
    table[RISK] = view.risk
    table[KIND] = view.spread
    table[PRICE] = price
    table[HOLDING] = holding
    table[SHORTAGE] = shortage


def two_sided(amount: float, demand: float, price: float, holding: float, shortage: float) -> float:
    sold = min(amount, demand)
    return price * sold - holding * (amount - sold) - shortage * (demand - sold)


def members_below(amount: float, table: Floats, row: int, members: int) -> int:
    """How many members' demands are below `amount`."""
    if members <= MANY:
        count = 0
        for j in range(row + HEAD, row + HEAD + members):
            if table[j] < amount:
                count += 1
        return count
    low, high = 0, members
    while low < high:
        middle = (low + high) // 2
        if table[row + HEAD + middle] < amount:
            low = middle + 1
        else:
            high = middle
    return low


def piece_spread(amount: float, table: Floats, row: int, members: int, piece: int) -> float:
    """Spread of the step's reward over members, read off one piece: the search's own, or below it by a rounding error
    (the downside: by what two tangents miss)."""
    at = row + HEAD + members + 4 * piece
    z = amount - table[row + CENTRE]
    if table[KIND] == 2.0:
        return float(max(table[at] + z * table[at + 1], table[at + 2] + z * table[at + 3], 0.0))
    variance = max(table[at] + z * (table[at + 1] + z * table[at + 2]), 0.0)
    return float(variance) if table[KIND] == 0.0 else sqrt(variance)


def piece_slope(amount: float, table: Floats, row: int, members: int, piece: int) -> float:
    """Derivative of `piece_spread`; 0 where that is 0."""
    at = row + HEAD + members + 4 * piece
    z = amount - table[row + CENTRE]
    if table[KIND] == 2.0:
        first, second = table[at] + z * table[at + 1], table[at + 2] + z * table[at + 3]
        if max(first, second) <= 0.0:
            return 0.0
        return float(table[at + 1] if first > second else table[at + 3])
    slope = table[at + 1] + 2.0 * z * table[at + 2]
    if table[KIND] == 0.0:
        return float(slope)
    variance = table[at] + z * (table[at + 1] + z * table[at + 2])
    return float(slope / (2.0 * sqrt(variance)) if variance > 0.0 else 0.0)


def certain_value(amount: float, table: Floats, row: int, members: int) -> float:
    """Reward at the mean outcome minus risk times spread, for an amount that is already fixed."""
    value = two_sided(amount, table[row + MEAN], table[PRICE], table[HOLDING], table[SHORTAGE])
    if table[RISK] > 0.0:
        piece = members_below(amount, table, row, members)
        value -= table[RISK] * piece_spread(amount, table, row, members, piece)
    return float(value)


# -------------------------------------------------------------------- the concave hull


def push_vertex(x: float, y: float, count: int, table: Floats, at: int, room: int) -> int:
    """Add a vertex right of all others and drop those below the concave hull; returns how many there are."""
    if count > 0 and not x > table[at + count - 1]:
        if y <= table[at + room + count - 1]:
            return count
        count -= 1
    while count > 1:
        x0, x1 = table[at + count - 2], table[at + count - 1]
        y0, y1 = table[at + room + count - 2], table[at + room + count - 1]
        if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
            break
        count -= 1
    table[at + count] = x
    table[at + room + count] = y
    return count + 1


def fill_majorant(
    table: Floats, row: int, members: int, at_mean: float, left: float, right: float, from_zero: bool
) -> None:
    """The concave hull of phi = certain part - risk * spread over the range of demands; outside of it phi is linear.

    The certain part is `at_mean` at the mean demand, with slopes `left` and `right` (left >= right) beside it.
    `from_zero`: amounts are never negative. Between neighbouring demands phi is concave, so the tangents at both ends
    lie above it.
    """
    at, room = row + HEAD + 5 * members + 4, 2 * members + 3
    risk, mean = table[RISK], table[row + MEAN]
    endless = not from_zero and left < 0.0  # the less the better, without end
    if endless:
        risk = 0.0
    lift = 2e-9 * risk * table[row + SCALE]  # more than the rounding error of a tangent
    count, j, before, done, joined = 0, 0, 0, False, False
    x0, y0, a = 0.0, 0.0, 0.0
    if from_zero and table[row + HEAD] > 0.0 and mean > 0.0:
        y = at_mean - left * mean
        if risk > 0.0:
            y += lift - risk * piece_spread(0.0, table, row, members, 0)
        count = push_vertex(0.0, y, count, table, at, room)
    while j < members or not done:
        # Merge the mean outcome's demand into the members' ascending ones.
        if j < members and (done or table[row + HEAD + j] <= mean):
            x = table[row + HEAD + j]
            j += 1
        else:
            x = mean
            done = True
        y = at_mean + (x - mean) * (left if x < mean else right)
        if risk > 0.0:
            # The piece that ends at x has `before` members below it, the one that begins there has j.
            spread = piece_spread(x, table, row, members, before)
            flat = table[KIND] == 1.0 and spread <= 1e-3 * table[row + SCALE]  # no reliable slope: count it as 0
            y += lift - (0.0 if flat else risk * spread)
            if joined and x > x0:
                slope = right if x0 >= mean else left
                b = slope - (0.0 if flat else risk * piece_slope(x, table, row, members, before))
                a += slope
                over = y - y0 - b * (x - x0)
                if a > b and 0.0 < over < (a - b) * (x - x0):
                    over = over / (a - b)
                    count = push_vertex(x0 + over, y0 + a * over, count, table, at, room)
            before = j
            a = 0.0 if flat else -risk * piece_slope(x, table, row, members, before)
        count = push_vertex(x, y, count, table, at, room)
        x0, y0, joined = x, y, True
    best = 0
    for i in range(1, count):
        if table[at + room + i] > table[at + room + best]:
            best = i
    table[row + STAR] = -inf if endless else table[at + best]
    table[row + PEAKS] = inf if endless else table[at + room + best]
    table[row + LEFT] = left
    table[row + RIGHT] = right
    table[row + COUNT] = count


def majorant_at(x: float, table: Floats, row: int, members: int) -> float:
    at, room = row + HEAD + 5 * members + 4, 2 * members + 3
    if x <= table[at]:
        return float(table[at + room] + table[row + LEFT] * (x - table[at]))
    low, high = at, at + floor(table[row + COUNT]) - 1
    if x >= table[high]:
        return float(table[high + room] + table[row + RIGHT] * (x - table[high]))
    while high - low > 1:
        middle = (low + high) // 2
        if x < table[middle]:
            high = middle
        else:
            low = middle
    y0 = table[low + room]
    return float(y0 + (table[high + room] - y0) * ((x - table[low]) / (table[high] - table[low])))


# -------------------------------------------------------------------- a step's forecast


def fill_demands(table: Floats, weights: Floats, row: int, k: int, members: int, mean: float, view: Any) -> None:
    """Members' demands (not below 0) in ascending order, their weights along with them, and their mean."""
    start = row + HEAD
    table[row + MEAN] = max(mean, 0.0)
    for j in range(members):
        demand = max(view.members[j, k], 0.0)
        at = j
        while at > 0 and table[start + at - 1] > demand:
            table[start + at] = table[start + at - 1]
            weights[at] = weights[at - 1]
            at -= 1
        table[start + at] = demand
        weights[at] = view.weights[j]
    low, centre = table[start], 0.0
    for j in range(members):
        centre += weights[j] * (table[start + j] - low)
    table[row + CENTRE] = low + centre
    rate = table[PRICE] + table[HOLDING] + 2.0 * table[SHORTAGE]
    table[row + SCALE] = rate * (table[start + members - 1] - low)


def fill_spread(table: Floats, weights: Floats, row: int, members: int) -> None:
    """The coefficients of every piece; zeros, a spread of 0, where nothing is known or nothing is at risk."""
    if table[RISK] > 0.0 and table[KIND] != 2.0:
        fill_variance(table, weights, row, members)
    elif table[RISK] > 0.0 and members <= MANY:
        fill_downside(table, weights, row, members)


def fill_variance(table: Floats, weights: Floats, row: int, members: int) -> None:
    """Variance of the reward as a polynomial of z = amount - centre, piece by piece, less its rounding error."""
    shortage, centre = table[SHORTAGE], table[row + CENTRE]
    c = table[PRICE] + table[HOLDING] + shortage
    base = 0.0
    for j in range(members):
        off = table[row + HEAD + j] - centre
        base += weights[j] * off * off
    base = shortage * shortage * base - 2e-15 * table[row + SCALE] * table[row + SCALE]
    s0, s1, s2 = 0.0, 0.0, 0.0  # weight, demand and squared demand of the members below the piece
    at = row + HEAD + members
    table[at] = base
    for j in range(members):
        off = table[row + HEAD + j] - centre
        s0 += weights[j]
        s1 += weights[j] * off
        s2 += weights[j] * off * off
        at += 4
        c0 = base - 2.0 * shortage * c * s2 + c * c * (s2 - s1 * s1)
        c1 = 2.0 * c * s1 * (shortage - c * (1.0 - s0))
        c2 = c * c * s0 * (1.0 - s0)
        if j + 1 < members:
            table[at], table[at + 1], table[at + 2] = c0, c1, c2
        else:
            table[at] = c0 + off * (c1 + off * c2)  # above all demands the spread stays what it is at the last


def fill_downside(table: Floats, weights: Floats, row: int, members: int) -> None:
    """Two tangents of the semideviation for each piece, one from either end: it is convex in between."""
    price, holding, shortage = table[PRICE], table[HOLDING], table[SHORTAGE]
    start = row + HEAD
    for i in range(members):
        x = table[start + i]
        mean = 0.0
        for j in range(members):
            mean += weights[j] * two_sided(x, table[start + j], price, holding, shortage)
        for side in range(2):  # 0: the piece that ends at x, 1: the one that begins there
            slope = 0.0
            for j in range(members):
                slope += weights[j] * (-holding if j < i + side else price + shortage)
            square, cross = 0.0, 0.0
            for j in range(members):
                off = two_sided(x, table[start + j], price, holding, shortage) - mean
                if off < 0.0:
                    square += weights[j] * off * off
                    cross += weights[j] * off * ((-holding if j < i + side else price + shortage) - slope)
            spread, rate = sqrt(square), 0.0
            if 0 < i + side < members:  # outside the range of demands the spread does not change
                if spread > 1e-3 * table[row + SCALE]:
                    rate = cross / spread
                else:
                    spread = 0.0
            at = start + members + 4 * (i + side) + 2 * (1 - side)
            table[at] = (spread - 1e-9 * table[row + SCALE]) - rate * (x - table[row + CENTRE])
            table[at + 1] = rate


def room(depth: int, members: int) -> int:
    """Numbers that a table takes."""
    return TOP + depth * row_width(members) + members  # and behind it the weights of the step that is sorted


def fill(table: Floats, outcomes: Floats, p: Any, view: Any) -> None:
    """`prepare` into a table of zeros."""
    depth, members = outcomes.shape[0], view.members.shape[0]
    width = row_width(members)
    end = TOP + depth * width
    weights = table[end : end + members]
    fill_header(table, depth, members, view, p.price, p.holding, p.shortage)
    smooth = table[RISK] > 0.0 and table[KIND] != 2.0
    for k in range(depth - 1, -1, -1):
        row = TOP + k * width
        fill_demands(table, weights, row, k, members, outcomes[k], view)
        fill_spread(table, weights, row, members)
        if k >= p.lead_time:
            last = k + 1 == depth
            left = p.price + p.shortage - p.unit_cost
            if not last:
                left += p.backorders * (p.unit_cost - p.price)
            right = p.keep * (p.salvage if last else p.unit_cost) - p.holding - p.unit_cost
            at_mean = (p.price - p.unit_cost) * table[row + MEAN]
            from_zero = p.backorders == 0.0
            if smooth and (from_zero or left >= 0.0):
                fill_hull(table, row, members, at_mean, left, right, from_zero)
            else:
                fill_majorant(table, row, members, at_mean, left, right, from_zero)
            if not last:
                table[row + PEAKS] += table[row + width + PEAKS]


def fill_hull(
    table: Floats, row: int, members: int, at_mean: float, left: float, right: float, from_zero: bool
) -> None:
    """`fill_majorant` where there is a risk, no downside, and an end to what less is worth."""
    at, size = row + HEAD + 5 * members + 4, 2 * members + 3
    risk, mean = table[RISK], table[row + MEAN]
    lift, least = 2e-9 * risk * table[row + SCALE], 1e-3 * table[row + SCALE]
    root, centre, first = table[KIND] == 1.0, table[row + CENTRE], row + HEAD + members
    count, j, done, joined = 0, 0, False, False
    x0, y0, a = 0.0, 0.0, 0.0
    if from_zero and table[row + HEAD] > 0.0 and mean > 0.0:
        y = at_mean - left * mean
        y += lift - risk * piece_spread(0.0, table, row, members, 0)
        count = push_vertex(0.0, y, count, table, at, size)
    while j < members or not done:
        if j < members and (done or table[row + HEAD + j] <= mean):
            x = table[row + HEAD + j]
            j += 1
            begun = True
        else:
            x = mean
            done = True
            begun = False
        # What `piece_spread` and `piece_slope` say of the piece that ends at x, and of the one that begins there.
        z = x - centre
        piece = first + 4 * (j - 1 if begun else j)
        variance = table[piece] + z * (table[piece + 1] + z * table[piece + 2])
        falls = table[piece + 1] + 2.0 * z * table[piece + 2]
        spread = max(variance, 0.0)
        if root:
            spread = sqrt(spread)
            falls = falls / (2.0 * spread) if variance > 0.0 else 0.0
        rises = falls
        if begun:
            piece += 4
            rises = table[piece + 1] + 2.0 * z * table[piece + 2]
            if root:
                variance = table[piece] + z * (table[piece + 1] + z * table[piece + 2])
                rises = rises / (2.0 * sqrt(variance)) if variance > 0.0 else 0.0
        y = at_mean + (x - mean) * (left if x < mean else right)
        flat = root and spread <= least
        y += lift - (0.0 if flat else risk * spread)
        if joined and x > x0:
            slope = right if x0 >= mean else left
            b = slope - (0.0 if flat else risk * falls)
            a += slope
            over = y - y0 - b * (x - x0)
            if a > b and 0.0 < over < (a - b) * (x - x0):
                over = over / (a - b)
                count = push_vertex(x0 + over, y0 + a * over, count, table, at, size)
        a = 0.0 if flat else -risk * rises
        count = push_vertex(x, y, count, table, at, size)
        x0, y0, joined = x, y, True
    star, peak = table[at], table[at + size]
    for i in range(1, count):
        if table[at + size + i] > peak:
            star, peak = table[at + i], table[at + size + i]
    table[row + STAR] = star
    table[row + PEAKS] = peak
    table[row + LEFT] = left
    table[row + RIGHT] = right
    table[row + COUNT] = count
