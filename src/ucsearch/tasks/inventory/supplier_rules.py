"""The rules of an inventory with a regular and an expedited supplier, on the state and parameters of `general_rules`.

An action is a pair of quantities: (3.0, 2.0) orders 3 units from the regular supplier, 2 from the expedited one. Both
are ordered on the same days; the regular order is raised to its supplier's minimum and whole packs, the expedited one
to its own.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any

from ucsearch.tasks.inventory.general_rules import State, arriving_of, earned_from, level_of, moved, placed, price_of
from ucsearch.tasks.inventory.rules import WIDER, position_of

__all__ = [
    "expedited_of",
    "fallback",
    "feasible",
    "lines",
    "ordered",
    "regular_of",
    "reward",
    "spend",
    "step",
]

Pair = tuple[float, float]  # units from the regular supplier, and from the expedited one


def raised(wanted: float, least: float, pack: float) -> float:
    """Units ordered where `wanted` are asked for: nothing, or at least the minimum, in whole packs."""
    if wanted <= 0.0:
        return 0.0
    quantity = least if least > wanted else wanted
    if pack > 0.0:
        quantity = float(ceil(quantity / pack - 1e-9)) * pack
    return quantity


def regular_of(a: Pair, p: Any) -> float:
    """Units that action `a` orders from the regular supplier."""
    return raised(a[0], p.minimum_order, p.case_pack)


def expedited_of(a: Pair, p: Any) -> float:
    """Units that action `a` orders from the expedited supplier."""
    return raised(a[1], p.fast_minimum_order, p.fast_case_pack)


def ordered(s: Any, a: Pair, p: Any) -> float:
    """Units ordered from both."""
    return regular_of(a, p) + expedited_of(a, p)


def spend(s: Any, a: Pair, p: Any) -> float:
    """Currency spent on both orders, their fixed costs included."""
    slow, fast = regular_of(a, p), expedited_of(a, p)
    total = price_of(slow, p.unit_cost, p.break_at, p.break_cost, p.incremental)
    total = total + price_of(fast, p.fast_unit_cost, p.fast_break_at, p.fast_break_cost, p.incremental)
    if slow > 0.0:
        total = total + p.fixed_cost
    if fast > 0.0:
        total = total + p.fast_fixed_cost
    return total


def lines(s: Any, a: Pair, p: Any) -> float:
    """How many suppliers have an order."""
    slow, fast = 0.0, 0.0
    if regular_of(a, p) > 0.0:
        slow = 1.0
    if expedited_of(a, p) > 0.0:
        fast = 1.0
    return slow + fast


def feasible(s: Any, a: Pair, p: Any) -> bool:
    quantity = ordered(s, a, p)
    if p.open[floor(s.clock)] == 0.0:
        return quantity == 0.0
    if abs(quantity - s.last) > p.ramp * WIDER:
        return False
    if quantity == 0.0:
        return True
    if quantity > p.largest_order * WIDER or spend(s, a, p) > p.budget * WIDER:
        return False
    return position_of(s) + quantity <= p.capacity * WIDER


def with_orders(s: Any, a: Pair, p: Any) -> tuple[float, ...]:
    """The open orders with today's two."""
    today = floor(s.clock)
    pipeline = placed(s.pipeline + (0.0,), p.slot[today], regular_of(a, p))
    return placed(pipeline, p.fast_slot[today], expedited_of(a, p))


def step(s: Any, a: Pair, y: float, p: Any) -> State:
    return moved(s, with_orders(s, a, p), ordered(s, a, p), y, p)


def reward(s: Any, a: Pair, y: float, p: Any) -> float:
    return earned_from(s, arriving_of(with_orders(s, a, p), s, p), y, p) - spend(s, a, p)


def fallback(s: Any, p: Any) -> Pair:
    """The feasible regular order that brings stock and open orders closest to a level, the smaller on ties; nothing is
    expedited."""
    target = max(level_of(s, p) - position_of(s), 0.0)
    best, nearest = p.grid[0], -1.0
    for x in p.grid:
        a = (x, 0.0)
        if feasible(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest, best = gap, x
    return best, 0.0
