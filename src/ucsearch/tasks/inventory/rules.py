"""The rules of LeadTimeInventory as plain functions: what may be ordered, what happens, what it earns.

They are compiled as they stand, so parameters come as floats (a flag is 0 or 1, no limit is 1e18) and an open order
is a place in a tuple: `pipeline[i]` arrives i periods from now, before that period's demand.

Every release asks them once more in plain Python, some twenty calls. So what is asked there is written for speed:
comparisons instead of `max` and `min` (`0.0 if y < 0.0 else y` is `max(y, 0.0)` to the last bit), no `float()`.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, NamedTuple

from ucsearch.tasks.checks import NO_LIMIT

__all__ = [
    "CycleParams",
    "Params",
    "PlannedState",
    "State",
    "base_stock",
    "capped_base_stock",
    "fallback",
    "fallback_planned",
    "fallback_to_level",
    "feasible",
    "feasible_planned",
    "invariant",
    "invariant_planned",
    "order_cycle",
    "ordered",
    "reward",
    "reward_planned",
    "step",
    "step_merged",
    "step_planned",
    "terminal",
    "terminal_cycle",
]


WIDER = 1.0 + 1e-9  # a limit met exactly in decimals must not be missed in binary


class State(NamedTuple):
    """At the start of a period, before it is decided what to order."""

    on_hand: float  # units; below 0: backordered
    pipeline: tuple[float, ...]  # (max(1, lead time),) units; [0] arrives in this period. Lead time 0: unused, 0
    last: float  # units ordered in the previous period


class PlannedState(NamedTuple):
    """`State` with the previous plan, for tasks that ask for stable plans."""

    on_hand: float
    pipeline: tuple[float, ...]
    last: float
    planned: tuple[float, ...]  # units the previous plan orders now, next period, ...
    planned_left: float  # how many of them are real
    allowance: float  # units of change still allowed


class Params(NamedTuple):
    lead_time: float  # periods
    backorders: float  # 1: unmet demand waits; 0: it is lost
    by_level: float  # 1: an action is an order-up-to level; 0: a quantity
    holding: float  # currency per unit left at the end of a period
    shortage: float  # currency per unit short at the end of a period
    price: float  # currency per unit sold
    unit_cost: float  # currency per unit ordered
    fixed_cost: float  # currency per order
    salvage: float  # currency per unit in stock or on order at the end of the horizon
    keep: float  # share of leftovers that does not spoil
    capacity: float  # units in stock and on order
    ramp: float  # units by which an order may differ from the one before
    budget: float  # currency spent on one period's order
    largest_order: float  # units
    minimum_order: float  # units; smaller orders are raised to it
    case_pack: float  # units; orders are rounded up to whole packs; 0: none
    fallback_order: float  # units; below 0: the previous order
    level_mean: float  # units; continuations order up to level_mean + theta * level_spread
    level_spread: float
    cap_mean: float  # units; and at most cap_mean + theta * cap_spread
    cap_spread: float
    stability_cost: float  # currency per unit of change against the previous plan
    grid: tuple[float, ...]  # (m,) the actions, for the fallback


class CycleParams(NamedTuple):
    """`Params` with what order cycles need of the forecast, step by step."""

    lead_time: float
    backorders: float
    by_level: float
    holding: float
    shortage: float
    price: float
    unit_cost: float
    fixed_cost: float
    salvage: float
    keep: float
    capacity: float
    ramp: float
    budget: float
    largest_order: float
    minimum_order: float
    case_pack: float
    fallback_order: float
    level_mean: float
    level_spread: float
    cap_mean: float
    cap_spread: float
    stability_cost: float
    grid: tuple[float, ...]
    levels: tuple[float, ...]  # (14,) units; where the level at which an order is due counts from, by planning step


def position_of(s: Any) -> float:
    """Stock on hand and on order."""
    total: float = s.on_hand
    for x in s.pipeline:
        total += x
    return total


def ordered(s: Any, a: float, p: Any) -> float:
    """Units ordered by action `a`: nothing, or at least the minimum, in whole packs."""
    wanted: float = a
    if p.by_level != 0.0:
        wanted = a - position_of(s)
    if wanted <= 0.0:
        return 0.0
    if p.minimum_order > wanted:
        wanted = p.minimum_order
    if p.case_pack > 0.0:
        wanted = ceil(wanted / p.case_pack - 1e-9) * p.case_pack
    return wanted


def feasible(s: Any, a: float, p: Any) -> bool:
    quantity = ordered(s, a, p)
    if abs(quantity - s.last) > p.ramp * WIDER:
        return False
    if quantity == 0.0:
        return True
    if quantity > p.largest_order * WIDER or p.fixed_cost + p.unit_cost * quantity > p.budget * WIDER:
        return False
    # Counting open orders keeps the store from overflowing whatever demand does.
    room: float = p.capacity * WIDER
    return position_of(s) + quantity <= room


def step(s: Any, a: float, y: float, p: Any) -> State:
    quantity = ordered(s, a, p)
    if p.lead_time > 0.0:
        available = s.on_hand + s.pipeline[0]
        pipeline = s.pipeline[1:] + (quantity,)
    else:
        available = s.on_hand + quantity
        pipeline = s.pipeline
    left = available - (0.0 if y < 0.0 else y)
    if left < 0.0:
        if p.backorders == 0.0:
            left = 0.0
    else:
        left = p.keep * left
    return State(left, pipeline, quantity)


def step_merged(s: Any, a: float, y: float, p: Any) -> State:
    """As `step`, with what arrives next counted as stock at once, and the last order only where a ramp asks for it.

    Stock and the next arrival are served together, so costs are the same, bit for bit, under lost sales. States that
    differ in nothing that matters become one: closed-loop planning is an order of magnitude faster.
    """
    new = step(s, a, y, p)
    last = new.last if p.ramp < NO_LIMIT else 0.0
    if p.lead_time > 0.0:
        return State(new.on_hand + new.pipeline[0], (0.0,) + new.pipeline[1:], last)
    return State(new.on_hand, new.pipeline, last)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    quantity = ordered(s, a, p)
    demand = 0.0 if y < 0.0 else y
    on_hand: float = s.on_hand
    owed = 0.0 if on_hand > 0.0 else -on_hand
    available = on_hand + (s.pipeline[0] if p.lead_time > 0.0 else quantity)
    sold = demand if demand < available else available
    left = available - sold
    short = demand - sold
    cost = p.holding * left + p.shortage * short + p.unit_cost * quantity
    if quantity > 0.0:
        cost += p.fixed_cost
    earned: float = p.price * (sold + owed) - cost
    return earned


def terminal(s: Any, p: Any) -> float:
    """Stock that is left and stock still to come, at salvage value."""
    return float(p.salvage * max(position_of(s), 0.0))


def terminal_cycle(s: Any, p: Any) -> float:
    """As `terminal`, less the part of an order's fixed cost that the stock does not put off.

    It is the relative value of the economic order cycle: 0 with a whole batch above the level at which the next order
    is due (`level_mean`), minus the fixed cost at that level, at demand `cap_mean` a period. Where sales are lost no
    unit is worth more than its sale. Never above `terminal`, so that a bound on that is one on this.
    """
    position = position_of(s)
    found = p.salvage * max(position, 0.0)
    if p.cap_mean <= 0.0 or p.holding <= 0.0 or p.keep < 1.0:
        return float(found)
    worth = sqrt(2.0 * p.fixed_cost * p.holding / p.cap_mean)  # currency per unit at the order level
    if p.backorders == 0.0:
        worth = min(worth, p.shortage + max(p.price - p.unit_cost, 0.0))
    if worth <= 0.0:
        return float(found)
    batch = worth * p.cap_mean / p.holding
    above = position - p.level_mean
    missing = batch - max(above, 0.0)
    return float(found - 0.5 * p.holding * missing * missing / p.cap_mean + worth * min(above, 0.0))


def invariant(s: Any, p: Any) -> bool:
    """Nothing is owed under lost sales, open orders are not negative, and the store cannot overflow."""
    for x in s.pipeline:
        if x < 0.0:
            return False
    if s.on_hand < 0.0 and p.backorders == 0.0:
        return False
    return bool(position_of(s) <= p.capacity * WIDER and s.last >= 0.0)


def fallback(s: Any, p: Any) -> float:
    """The feasible action that orders closest to the previous order (or to `fallback_order`), the smaller on ties."""
    target = s.last if p.fallback_order < 0.0 else p.fallback_order
    best = p.grid[0]
    nearest = -1.0
    for a in p.grid:
        if feasible(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest = gap
                best = a
    return float(best)


def fallback_to_level(s: Any, p: Any) -> float:
    """The feasible action that brings stock and open orders closest to the level `fallback_order`, the smaller on ties;
    without a level, closest to the previous order."""
    target = s.last
    if p.fallback_order >= 0.0:
        target = max(p.fallback_order - position_of(s), 0.0)
    best = p.grid[0]
    nearest = -1.0
    for a in p.grid:
        if feasible(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest = gap
                best = a
    return float(best)


# -------------------------------------------------------------------- stable plans


def change(s: Any, a: float, p: Any) -> float:
    """Units by which action `a` departs from the previous plan; 0 beyond its end."""
    if s.planned_left <= 0.0:
        return 0.0
    return float(abs(ordered(s, a, p) - s.planned[0]))


def feasible_planned(s: Any, a: float, p: Any) -> bool:
    return bool(feasible(s, a, p) and change(s, a, p) <= s.allowance)


def step_planned(s: Any, a: float, y: float, p: Any) -> PlannedState:
    new = step(s, a, y, p)
    return PlannedState(
        new.on_hand,
        new.pipeline,
        new.last,
        s.planned[1:] + (0.0,),
        max(s.planned_left - 1.0, 0.0),
        s.allowance - change(s, a, p),
    )


def reward_planned(s: Any, a: float, y: float, p: Any) -> float:
    return float(reward(s, a, y, p) - p.stability_cost * change(s, a, p))


def fallback_planned(s: Any, p: Any) -> float:
    """The feasible action closest to the previous plan while it lasts, else as `fallback`."""
    target = s.last if p.fallback_order < 0.0 else p.fallback_order
    if s.planned_left > 0.0:
        target = s.planned[0]
    best = p.grid[0]
    nearest = -1.0
    for a in p.grid:
        if feasible_planned(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest = gap
                best = a
    return float(best)


def invariant_planned(s: Any, p: Any) -> bool:
    return bool(invariant(s, p) and s.planned_left >= 0.0 and s.allowance >= 0.0)


# -------------------------------------------------------------------- continuations


def order_towards(s: Any, wanted: float, p: Any) -> float:
    """The action that orders `wanted` units, or as near to it as the rules allow."""
    position = position_of(s)
    high = min(p.largest_order, s.last + p.ramp)
    high = min(high, p.capacity - position)
    if p.fixed_cost > p.budget:
        high = 0.0
    elif p.unit_cost > 0.0:
        high = min(high, (p.budget - p.fixed_cost) / p.unit_cost)
    quantity = max(min(wanted, high), s.last - p.ramp, 0.0)
    if 0.0 < quantity < p.minimum_order:
        quantity = p.minimum_order if p.minimum_order <= high else 0.0
    if p.case_pack > 0.0:
        quantity = ceil(quantity / p.case_pack - 1e-9) * p.case_pack
        if quantity > high:
            quantity = max(quantity - p.case_pack, 0.0)
    return float(quantity + (position if p.by_level != 0.0 else 0.0))


def base_stock(s: Any, h: int, p: Any, theta: tuple[float, ...]) -> float:
    """Order up to a level; theta: (level,) in units of `level_spread` above `level_mean`."""
    level = p.level_mean + theta[0] * p.level_spread
    return order_towards(s, level - position_of(s), p)


def capped_base_stock(s: Any, h: int, p: Any, theta: tuple[float, ...]) -> float:
    """Order up to a level but never more than a cap; theta: (level, cap), the cap in units of `cap_spread`."""
    level = p.level_mean + theta[0] * p.level_spread
    cap = p.cap_mean + theta[1] * p.cap_spread
    return order_towards(s, min(level - position_of(s), cap), p)


def order_cycle(s: Any, h: int, p: Any, theta: tuple[float, ...]) -> float:
    """At or below a level, order up to a batch above it; theta: (level in units of `level_spread` above that of the
    step, economic batches at demand `cap_mean`; below 0: order nothing more). Without a fixed cost: base-stock."""
    level = p.levels[min(h, len(p.levels) - 1)] + theta[0] * p.level_spread
    position = position_of(s)
    if position > level or theta[1] < 0.0:
        return order_towards(s, 0.0, p)
    batch = 0.0
    if p.holding > 0.0 and p.cap_mean > 0.0:
        batch = theta[1] * sqrt(2.0 * p.fixed_cost * p.cap_mean / p.holding)
    return order_towards(s, level + batch - position, p)


# -------------------------------------------------------------------- what an order uses of things that items share


def units(s: Any, a: float, p: Any) -> float:
    """Units ordered, packs and minimum orders counted."""
    return ordered(s, a, p)


def spend(s: Any, a: float, p: Any) -> float:
    """Currency spent on the order, its fixed cost included."""
    quantity = ordered(s, a, p)
    return float(p.fixed_cost + p.unit_cost * quantity) if quantity > 0.0 else 0.0


def lines(s: Any, a: float, p: Any) -> float:
    """1 for an order, 0 for none."""
    return 1.0 if ordered(s, a, p) > 0.0 else 0.0
