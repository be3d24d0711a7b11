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

The spread is cheap because a member with demand y earns (price + shortage) * A - shortage * y - c * max(A - y, 0) with
c = price + shortage + holding: between two demands its variance over members is a polynomial of A.
"""

from __future__ import annotations

from math import floor, inf, sqrt
from typing import Any

import numpy as np
from numpy import empty, zeros
from numpy.typing import NDArray

__all__ = ["bound", "prepare"]

Floats = NDArray[np.float64]

# The table is flat, which is faster to read than rows: first the forecast's size and what the loops need of the params,
_DEPTH, _MEMBERS, _WIDTH, _RISK, _KIND, _PRICE, _HOLDING, _SHORTAGE, _TOP = 0, 1, 2, 3, 4, 5, 6, 7, 8
# then a row for every step, addressed by where it begins:
_MEAN = 0  # demand at the mean outcome
_CENTRE = 1  # mean of the members' demands; polynomials are in the distance from it
_STAR = 2  # where the majorant peaks
_PEAKS = 3  # its value there, summed over this step and all later ones
_LEFT = 4  # its slope left of the first vertex
_RIGHT = 5  # and right of the last
_COUNT = 6  # its vertices
_SCALE = 7  # range of demands in money: rounding errors of the spread are relative to it
_HEAD = 8  # from here the J demands, ascending; four coefficients of the spread for each of the J + 1 pieces between
# them; and the majorant's vertices, all x, then all y.
_MANY = 16  # with more members the downside, which has no short form, is left out
_SAFETY = 1e-12  # relative; more than rounding, because the sums here run in another order than a path's


def stock_value(available: float, demand: float, price: float, holding: float, shortage: float) -> float:
    """What a step earns on `available` stock, order cost and revenue on old backorders left out."""
    sold = min(available, demand)
    return price * sold - holding * (available - sold) - shortage * (demand - sold)


def carried(available: float, demand: float, keep: float, backorders: float) -> float:
    """Stock at the start of the next step before arrival; negative is owed to customers."""
    left = available - demand
    return left * (keep if left >= 0.0 else backorders)


def members_below(available: float, table: Floats, row: int, members: int) -> int:
    """How many members' demands are below `available`."""
    if members <= _MANY:
        count = 0
        for j in range(row + _HEAD, row + _HEAD + members):
            count += table[j] < available
        return count
    low, high = 0, members
    while low < high:
        middle = (low + high) >> 1
        if table[row + _HEAD + middle] < available:
            low = middle + 1
        else:
            high = middle
    return low


def piece_spread(available: float, table: Floats, row: int, members: int, piece: int) -> float:
    """Spread of the step's reward over members, read off one piece: the search's own, or below it."""
    at = row + _HEAD + members + 4 * piece
    z = available - table[row + _CENTRE]
    if table[_KIND] == 2.0:
        return max(table[at] + z * table[at + 1], table[at + 2] + z * table[at + 3], 0.0)
    variance = max(table[at] + z * (table[at + 1] + z * table[at + 2]), 0.0)
    return variance if table[_KIND] == 0.0 else sqrt(variance)


def piece_slope(available: float, table: Floats, row: int, members: int, piece: int) -> float:
    """Derivative of `piece_spread`; 0 where that is 0."""
    at = row + _HEAD + members + 4 * piece
    z = available - table[row + _CENTRE]
    if table[_KIND] == 2.0:
        first, second = table[at] + z * table[at + 1], table[at + 2] + z * table[at + 3]
        if max(first, second) <= 0.0:
            return 0.0
        return float(table[at + 1] if first > second else table[at + 3])
    slope = table[at + 1] + 2.0 * z * table[at + 2]
    if table[_KIND] == 0.0:
        return float(slope)
    variance = table[at] + z * (table[at + 1] + z * table[at + 2])
    return float(slope / (2.0 * sqrt(variance)) if variance > 0.0 else 0.0)


def certain_part(available: float, demand: float, last: bool, p: Any) -> float:
    """phi without the spread: stock value, goods used up at unit cost, backorders' revenue when they are served."""
    after = carried(available, demand, p.keep, p.backorders)
    value = stock_value(available, demand, p.price, p.holding, p.shortage) - p.unit_cost * available
    if last:
        return float(value + p.salvage * max(after, 0.0))
    return float(value + p.unit_cost * after - p.price * min(after, 0.0))


def certain_slope(right: bool, last: bool, p: Any) -> float:
    """Slope of `certain_part` right or left of the mean demand; phi has it too outside the range of demands."""
    if right:
        return float(-p.holding - p.unit_cost + p.keep * (p.salvage if last else p.unit_cost))
    slope = p.price + p.shortage - p.unit_cost
    return float(slope if last else slope + p.backorders * (p.unit_cost - p.price))


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


def fill_majorant(table: Floats, row: int, members: int, last: bool, p: Any) -> None:
    """The concave hull of phi_k over the range of demands (and 0 under lost sales); outside of it phi_k is linear.

    Between neighbouring demands every member's reward is linear, so its spread is convex and phi_k concave: the
    tangents at both ends lie above it.
    """
    at, room = row + _HEAD + 5 * members + 4, 2 * members + 3
    risk, mean = table[_RISK], table[row + _MEAN]
    table[row + _LEFT] = certain_slope(False, last, p)
    table[row + _RIGHT] = certain_slope(True, last, p)
    endless = p.backorders != 0.0 and table[row + _LEFT] < 0.0  # the less stock the better, without end
    if endless:
        risk = 0.0
    lift = 2e-9 * risk * table[row + _SCALE]  # more than the rounding error of a tangent
    count, j, before, done, joined = 0, 0, 0, False, False
    x0, y0, a = 0.0, 0.0, 0.0
    if p.backorders == 0.0 and table[row + _HEAD] > 0.0 and mean > 0.0:
        y = certain_part(0.0, mean, last, p)
        if risk > 0.0:
            y += lift - risk * piece_spread(0.0, table, row, members, 0)
        count = push_vertex(0.0, y, count, table, at, room)
    while j < members or not done:
        # Merge the mean outcome's demand into the members' ascending ones.
        if j < members and (done or table[row + _HEAD + j] <= mean):
            x = table[row + _HEAD + j]
            j += 1
        else:
            x = mean
            done = True
        y = certain_part(x, mean, last, p)
        if risk > 0.0:
            # The piece that ends at x has `before` members below it, the one that begins there has j.
            spread = piece_spread(x, table, row, members, before)
            flat = table[_KIND] == 1.0 and spread <= 1e-3 * table[row + _SCALE]  # no reliable slope: count it as 0
            y += lift - (0.0 if flat else risk * spread)
            if joined and x > x0:
                slope = certain_slope(x0 >= mean, last, p)
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
    table[row + _STAR] = -inf if endless else table[at + best]
    table[row + _PEAKS] = inf if endless else table[at + room + best]
    table[row + _COUNT] = count


def fill_demands(table: Floats, weights: Floats, row: int, k: int, members: int, view: Any) -> None:
    """Members' demands in ascending order, their weights along with them, and their mean."""
    start = row + _HEAD
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
    table[row + _CENTRE] = low + centre
    rate = table[_PRICE] + table[_HOLDING] + 2.0 * table[_SHORTAGE]
    table[row + _SCALE] = rate * (table[start + members - 1] - low)


def fill_variance(table: Floats, weights: Floats, row: int, members: int) -> None:
    """Variance of the reward as a polynomial of z = available - centre, piece by piece, less its rounding error."""
    shortage, centre = table[_SHORTAGE], table[row + _CENTRE]
    c = table[_PRICE] + table[_HOLDING] + shortage
    base = 0.0
    for j in range(members):
        off = table[row + _HEAD + j] - centre
        base += weights[j] * off * off
    base = shortage * shortage * base - 2e-15 * table[row + _SCALE] * table[row + _SCALE]
    s0, s1, s2 = 0.0, 0.0, 0.0  # weight, demand and squared demand of the members below the piece
    at = row + _HEAD + members
    table[at] = base
    for j in range(members):
        off = table[row + _HEAD + j] - centre
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
    price, holding, shortage = table[_PRICE], table[_HOLDING], table[_SHORTAGE]
    start = row + _HEAD
    for i in range(members):
        x = table[start + i]
        mean = 0.0
        for j in range(members):
            mean += weights[j] * stock_value(x, table[start + j], price, holding, shortage)
        for side in range(2):  # 0: the piece that ends at x, 1: the one that begins there
            slope = 0.0
            for j in range(members):
                slope += weights[j] * (-holding if j < i + side else price + shortage)
            square, cross = 0.0, 0.0
            for j in range(members):
                off = stock_value(x, table[start + j], price, holding, shortage) - mean
                if off < 0.0:
                    square += weights[j] * off * off
                    cross += weights[j] * off * ((-holding if j < i + side else price + shortage) - slope)
            spread, rate = sqrt(square), 0.0
            if 0 < i + side < members:  # outside the range of demands the spread does not change
                if spread > 1e-3 * table[row + _SCALE]:
                    rate = cross / spread
                else:
                    spread = 0.0
            at = start + members + 4 * (i + side) + 2 * (1 - side)
            table[at] = (spread - 1e-9 * table[row + _SCALE]) - rate * (x - table[row + _CENTRE])
            table[at + 1] = rate


def prepare(outcomes: Floats, p: Any, view: Any) -> Floats:
    """Everything `bound` reads; see the places above."""
    depth, members = outcomes.shape[0], view.members.shape[0]
    width = _HEAD + 5 * members + 4 + 2 * (2 * members + 3)
    table = zeros(_TOP + depth * width)
    weights = empty(members)
    table[_DEPTH] = depth
    table[_MEMBERS] = members
    table[_WIDTH] = width
    table[_RISK] = view.risk
    table[_KIND] = view.spread
    table[_PRICE] = p.price
    table[_HOLDING] = p.holding
    table[_SHORTAGE] = p.shortage
    for k in range(depth - 1, -1, -1):
        row = _TOP + k * width
        table[row + _MEAN] = max(outcomes[k], 0.0)
        fill_demands(table, weights, row, k, members, view)
        if view.risk > 0.0 and view.spread != 2:
            fill_variance(table, weights, row, members)
        elif view.risk > 0.0 and members <= _MANY:
            fill_downside(table, weights, row, members)
        if k >= p.lead_time:  # earlier steps are always fixed by open orders
            last = k + 1 == depth
            fill_majorant(table, row, members, last, p)
            if not last:
                table[row + _PEAKS] += table[row + width + _PEAKS]
    return table


def known_value(available: float, table: Floats, row: int, members: int) -> float:
    """Exact g of a step that open orders fix."""
    value = stock_value(available, table[row + _MEAN], table[_PRICE], table[_HOLDING], table[_SHORTAGE])
    if table[_RISK] > 0.0:
        piece = members_below(available, table, row, members)
        value -= table[_RISK] * piece_spread(available, table, row, members, piece)
    return float(value)


def majorant_at(x: float, table: Floats, row: int, members: int) -> float:
    at, room = row + _HEAD + 5 * members + 4, 2 * members + 3
    if x <= table[at]:
        return float(table[at + room] + table[row + _LEFT] * (x - table[at]))
    low, high = at, at + floor(table[row + _COUNT]) - 1
    if x >= table[high]:
        return float(table[high + room] + table[row + _RIGHT] * (x - table[high]))
    while high - low > 1:
        middle = (low + high) >> 1
        if x < table[middle]:
            high = middle
        else:
            low = middle
    y0 = table[low + room]
    return float(y0 + (table[high + room] - y0) * ((x - table[low]) / (table[high] - table[low])))


def bound(s: Any, h: int, table: Floats, p: Any) -> float:
    """Never below the best sum of reward minus risk times spread from `s` at step `h` to the end."""
    depth, members, width = floor(table[_DEPTH]), floor(table[_MEMBERS]), floor(table[_WIDTH])
    row, end = _TOP + h * width, _TOP + depth * width
    stock = s.on_hand
    position = s.on_hand
    total = 0.0
    waiting = 0.0  # open orders that arrive after the end
    if p.lead_time > 0.0:
        for arriving in s.pipeline:
            position += arriving
            if row < end:
                available = stock + arriving
                total += known_value(available, table, row, members) - p.price * min(stock, 0.0)
                stock = carried(available, table[row + _MEAN], p.keep, p.backorders)
            else:
                waiting += arriving
            row += width
    safety = _SAFETY
    if row >= end:
        total += p.salvage * (max(stock, 0.0) + waiting)
        # All that is left to decide are orders that arrive too late. Without a unit cost they all tie with what has been
        # found already; looking a rounding error smaller, they are not searched one by one.
        safety = -_SAFETY
    else:
        total += p.unit_cost * stock - p.price * min(stock, 0.0)
        # Orders at their least and most; the first one must also fit beside all that is in stock and on order.
        least, most = s.last - p.ramp, min(s.last + p.ramp, p.largest_order)
        low = stock + max(least, 0.0)
        high = max(low, stock + min(most, p.capacity - position))
        while row < end:
            star = table[row + _STAR]
            if low <= star <= high and table[row + _PEAKS] < inf:
                total += table[row + _PEAKS]  # later peaks are taken to be within reach as well
                break
            total += majorant_at(high if high < star else low, table, row, members)
            least -= p.ramp
            most = min(most + p.ramp, p.largest_order)
            low = carried(low, table[row + _MEAN], p.keep, p.backorders) + max(least, 0.0)
            high = carried(high, table[row + _MEAN], p.keep, p.backorders) + most
            high = max(low, min(high, p.capacity))
            row += width
    if s.last > p.ramp:
        # Orders that arrive too late to sell still cost what the ramp forces them to be.
        for t in range(max(h, depth - floor(p.lead_time)), depth):
            forced = s.last - p.ramp * (t - h + 1)
            if forced > 0.0:
                total -= p.fixed_cost + (p.unit_cost - p.salvage) * forced
    return float(total + safety * (1.0 + abs(total)))
