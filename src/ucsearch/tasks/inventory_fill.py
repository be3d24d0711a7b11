"""The table of LeadTimeInventory's bound, made in room that is there already: what `inventory_bound.prepare` gives.

Every number comes from the same operations in the same order as in `twosided.py`, whose text is in the source hash of
decisions on record. What differs is the work around them: nothing is allocated, and what is needed twice is computed
once.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.instead import fill_instead
from ucsearch.tasks.inventory_bound import prepare
from ucsearch.tasks.twosided import (
    CENTRE,
    COUNT,
    HEAD,
    KIND,
    LEFT,
    MEAN,
    PEAKS,
    RIGHT,
    RISK,
    SCALE,
    STAR,
    TOP,
    fill_demands,
    fill_header,
    fill_majorant,
    fill_spread,
    piece_spread,
    push_vertex,
    row_width,
)

__all__ = ["fill", "prepare", "room"]

Floats = NDArray[np.float64]


def room(depth: int, members: int) -> int:
    """Numbers that a table takes."""
    return TOP + depth * row_width(members) + members  # and behind it the weights of the step that is sorted


def fill(table: Floats, outcomes: Floats, p: Any, view: Any) -> None:
    """`prepare` into a table that held zeros, or the table of another window of the same panel."""
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
        elif table[row + COUNT] != 0.0:
            # Of a window with a shorter lead time. Nobody asks for these; they are what they are in a new table.
            for i in range(row + STAR, row + COUNT + 1):
                table[i] = 0.0
            for i in range(row + HEAD + 5 * members + 4, row + width):
                table[i] = 0.0


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


fill_instead(prepare, room, fill)
