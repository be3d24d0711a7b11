"""The rules of an inventory with order days, delivery days, a shelf life, price breaks or penalties for missed demand.

They are `rules` with a calendar in the state and stock by age. A period runs: decide the order, receive what is due
today, serve demand, discard what has reached its age, pay. Units that arrive before the demand of period t with a
shelf life of m periods serve demand of t .. t + m - 1.

The calendar is four tuples in the parameters, read at `clock`, the place of the period in them; after the last place
comes the first. An open order is a place in a tuple: `pipeline[k]` arrives on the delivery day after k others, today's
counted.
"""

from __future__ import annotations

from math import floor
from typing import Any, NamedTuple

from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.tasks.inventory.rules import WIDER, ordered, position_of
from ucsearch.tasks.inventory.rules import invariant as invariant_of_stock

__all__ = [
    "Params",
    "State",
    "arriving_of",
    "earned_from",
    "fallback",
    "fallback_to_level",
    "feasible",
    "invariant",
    "issued",
    "level_of",
    "moved",
    "placed",
    "price_of",
    "reward",
    "spend",
    "step",
    "tomorrow",
]


class State(NamedTuple):
    """At the start of a period, before it is decided what to order."""

    on_hand: float  # units of all ages; below 0: backordered
    pipeline: tuple[float, ...]  # (n,) units; [k] arrives on the delivery day after k others, today's counted
    last: float  # units ordered on the last order day, where a ramp asks for it
    ages: tuple[float, ...]  # (max(1, shelf life - 1),) units with 1, 2, ... periods left; without a shelf life 0
    clock: float  # place of this period in the calendar


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
    ramp: float  # units by which an order may differ from that of the last order day
    budget: float  # currency spent on one period's order
    largest_order: float  # units
    minimum_order: float  # units; smaller orders are raised to it
    case_pack: float  # units; orders are rounded up to whole packs; 0: none
    fallback_order: float  # units; below 0: the previous order, or the level of `levels`
    level_mean: float  # units; the level at which an economic order is due, for the end value
    level_spread: float
    cap_mean: float  # units; mean demand of a period, for the end value
    cap_spread: float
    stability_cost: float  # 0
    grid: tuple[float, ...]  # (m,) the actions, for the fallback
    life: float  # periods that a unit can be sold in; 0: it keeps
    lifo: float  # 1: the newest units leave first; 0: the oldest
    disposal: float  # currency per unit that is discarded
    missed_unit: float  # currency per unit of a period's demand that is not served in it
    missed_period: float  # currency per period in which demand is not served
    merge: float  # 1: what arrives next counts as stock where tomorrow is a delivery day; lost sales without ages
    periods: float  # places of the calendar
    open: tuple[float, ...]  # (periods,) 1: orders may be placed
    due: tuple[float, ...]  # (periods,) 1: a delivery day
    slot: tuple[float, ...]  # (periods,) where in the pipeline an order of this period is
    span: tuple[float, ...]  # (periods,) periods until the next order can arrive
    levels: tuple[float, ...]  # (longest span,) units; the fallback's level by span
    fast_slot: tuple[float, ...]  # (periods,) as `slot`, of an expedited order
    fast_unit_cost: float  # currency per unit expedited
    fast_fixed_cost: float  # currency per expedited order
    fast_minimum_order: float  # units; smaller expedited orders are raised to it
    fast_case_pack: float  # units; expedited orders are rounded up to whole packs; 0: none
    incremental: float  # 1: a lower price is that of the units past its break; 0: of all units of the order
    break_at: tuple[float, ...]  # (n,) units from which on the next unit cost holds
    break_cost: tuple[float, ...]  # (n,) currency per unit from there on
    fast_break_at: tuple[float, ...]  # (k,) as `break_at`, of an expedited order
    fast_break_cost: tuple[float, ...]


def price_of(
    quantity: float, unit_cost: float, breaks: tuple[float, ...], costs: tuple[float, ...], incremental: float
) -> float:
    """Currency for the units of an order, whose unit cost depends on its size."""
    total = unit_cost * quantity
    before = unit_cost
    for i in range(len(breaks)):
        if quantity * WIDER >= breaks[i]:
            if incremental == 0.0:
                total = costs[i] * quantity
            else:
                total = total + (costs[i] - before) * (quantity - breaks[i])
            before = costs[i]
    return total


def spend(s: Any, a: float, p: Any) -> float:
    """Currency spent on the order, its fixed cost included."""
    quantity = ordered(s, a, p)
    cost = price_of(quantity, p.unit_cost, p.break_at, p.break_cost, p.incremental)
    if quantity > 0.0:
        cost = cost + p.fixed_cost
    return cost


def feasible(s: Any, a: float, p: Any) -> bool:
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


def placed(pipeline: tuple[float, ...], slot: float, quantity: float) -> tuple[float, ...]:
    """The same open orders with `quantity` more at place `slot`."""
    out = pipeline
    for i in range(len(pipeline)):
        here = out[0]
        if slot == float(i):
            here = here + quantity
        out = out[1:] + (here,)
    return out


def issued(s: Any, arriving: float, y: float, p: Any) -> tuple[float, ...]:
    """(n + 2,) what is left of each age after the demand of the period, the first of which is discarded, and what could
    not be served."""
    need = 0.0 if y < 0.0 else y
    on_hand = s.on_hand
    if on_hand < 0.0:
        need = need - on_hand
        on_hand = 0.0
    stock = s.ages + (arriving,)
    if p.life == 0.0:
        stock = s.ages + (on_hand + arriving,)
    if p.life == 1.0:
        stock = (arriving,) + s.ages
    for _ in range(len(stock)):
        if p.lifo == 0.0:
            taken = need if need < stock[0] else stock[0]
            stock = stock[1:] + (stock[0] - taken,)
        else:
            taken = need if need < stock[-1] else stock[-1]
            stock = (stock[-1] - taken,) + stock[:-1]
        need = need - taken
    return stock + (need,)


def arriving_of(pipeline: tuple[float, ...], s: Any, p: Any) -> float:
    """Units that arrive in this period, today's order included where it does."""
    return pipeline[0] if p.due[floor(s.clock)] != 0.0 else 0.0


def tomorrow(s: Any, arriving: float, waiting: tuple[float, ...], quantity: float, y: float, p: Any) -> State:
    """The state after demand `y`, where `arriving` units came before it and the open orders `waiting` are left."""
    today = floor(s.clock)
    found = issued(s, arriving, y, p)
    left = 0.0
    for i in range(1, len(found) - 1):
        left = left + found[i]
    left = p.keep * left
    if p.backorders != 0.0 and found[-1] > 0.0:
        left = -found[-1]
    ages = found[1:-1]
    if p.life == 0.0:
        ages = s.ages
    clock = s.clock + 1.0
    if clock >= p.periods:
        clock = 0.0
    last = 0.0
    if p.ramp < NO_LIMIT:
        last = quantity if p.open[today] != 0.0 else s.last
    return State(left, waiting, last, ages, clock)


def moved(s: Any, pipeline: tuple[float, ...], quantity: float, y: float, p: Any) -> State:
    """The state after demand `y`; `pipeline` has today's order of `quantity` units and one place more than the
    state's."""
    waiting = pipeline[:-1]
    if p.due[floor(s.clock)] != 0.0:
        waiting = pipeline[1:]
    new = tomorrow(s, arriving_of(pipeline, s, p), waiting, quantity, y, p)
    if p.merge != 0.0 and p.due[floor(new.clock)] != 0.0:
        return State(new.on_hand + waiting[0], (0.0,) + waiting[1:], new.last, new.ages, new.clock)
    return new


def earned_from(s: Any, arriving: float, y: float, p: Any) -> float:
    """Revenue less the costs of a period, its orders aside."""
    found = issued(s, arriving, y, p)
    left = 0.0
    for i in range(1, len(found) - 1):
        left = left + found[i]
    demand = 0.0 if y < 0.0 else y
    owed = 0.0 if s.on_hand > 0.0 else -s.on_hand
    short = found[-1]
    missed = short if short < demand else demand
    cost = p.holding * left + p.shortage * short + p.disposal * found[0] + p.missed_unit * missed
    if missed > 0.0:
        cost = cost + p.missed_period
    return p.price * (demand + owed - short) - cost


def step(s: Any, a: float, y: float, p: Any) -> State:
    quantity = ordered(s, a, p)
    pipeline = placed(s.pipeline + (0.0,), p.slot[floor(s.clock)], quantity)
    return moved(s, pipeline, quantity, y, p)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    quantity = ordered(s, a, p)
    pipeline = placed(s.pipeline + (0.0,), p.slot[floor(s.clock)], quantity)
    return earned_from(s, arriving_of(pipeline, s, p), y, p) - spend(s, a, p)


def invariant(s: Any, p: Any) -> bool:
    """As of plain inventories; the ages add up to the stock, and the clock is in the calendar."""
    total = 0.0
    for x in s.ages:
        if x < 0.0:
            return False
        total = total + x
    if p.life > 1.0 and total != (s.on_hand if s.on_hand > 0.0 else 0.0):
        return False
    if not 0.0 <= s.clock < p.periods:
        return False
    return invariant_of_stock(s, p)


def fallback(s: Any, p: Any) -> float:
    """The feasible action that orders closest to `fallback_order`, or to the order of the last order day, the smaller
    on ties; nothing on other days."""
    target = s.last if p.fallback_order < 0.0 else p.fallback_order
    best = p.grid[0]
    nearest = -1.0
    for a in p.grid:
        if feasible(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest = gap
                best = a
    return best


def level_of(s: Any, p: Any) -> float:
    """The level that a fallback orders up to: `fallback_order`, or the critical fractile of demand until the next order
    can arrive."""
    span = floor(p.span[floor(s.clock)])
    if span > len(p.levels):
        span = len(p.levels)
    level: float = p.fallback_order if p.fallback_order >= 0.0 else p.levels[span - 1]
    return level


def fallback_to_level(s: Any, p: Any) -> float:
    """The feasible action that brings stock and open orders closest to a level, the smaller on ties."""
    target = max(level_of(s, p) - position_of(s), 0.0)
    best = p.grid[0]
    nearest = -1.0
    for a in p.grid:
        if feasible(s, a, p):
            gap = abs(ordered(s, a, p) - target)
            if nearest < 0.0 or gap < nearest:
                nearest = gap
                best = a
    return float(best)
