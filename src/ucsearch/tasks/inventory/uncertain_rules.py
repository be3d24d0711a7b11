"""The rules of an inventory whose lead time is uncertain, on the state and parameters of `general_rules`.

Every period draws a number: all open orders of at least that age arrive together, before demand. So orders never cross
(Kaplan 1970). An open order is a place in a tuple by its age: `pipeline[k]` was ordered k + 1 periods ago, the last
place so long ago or longer. On days without deliveries nothing arrives, whatever is drawn.
"""

from __future__ import annotations

from math import floor
from typing import Any, NamedTuple

from ucsearch.tasks.inventory.general_rules import State, earned_from, spend, tomorrow
from ucsearch.tasks.inventory.rules import ordered

__all__ = ["Outcome", "arriving_of", "by_age", "reward", "step", "waiting_of"]


class Outcome(NamedTuple):
    """What a period brings."""

    demand: float  # units
    draw: float  # periods; open orders that were placed so long ago, or longer, arrive


def by_age(s: Any, quantity: float) -> tuple[float, ...]:
    """Open orders by age, the order of this period first."""
    orders: tuple[float, ...] = (quantity,) + s.pipeline
    return orders


def arriving_of(orders: tuple[float, ...], draw: float, s: Any, p: Any) -> float:
    """Units that arrive in this period, of open `orders` by age."""
    total = 0.0
    if p.due[floor(s.clock)] != 0.0:
        for age in range(len(orders)):
            if float(age) >= draw:
                total = total + orders[age]
    return total


def waiting_of(orders: tuple[float, ...], draw: float, s: Any, p: Any) -> tuple[float, ...]:
    """What has not arrived, by age at the start of the next period; the two oldest places become one."""
    due = p.due[floor(s.clock)]
    left = orders
    for age in range(len(orders)):
        here = left[0]
        if due != 0.0 and float(age) >= draw:
            here = 0.0
        left = left[1:] + (here,)
    return left[:-2] + (left[-2] + left[-1],)


def step(s: Any, a: float, y: Any, p: Any) -> State:
    quantity = ordered(s, a, p)
    orders = by_age(s, quantity)
    waiting = waiting_of(orders, y.draw, s, p)
    new = tomorrow(s, arriving_of(orders, y.draw, s, p), waiting, quantity, y.demand, p)
    if p.merge != 0.0 and p.due[floor(new.clock)] != 0.0:
        # Orders of the greatest age arrive for certain, so they count as stock.
        return State(new.on_hand + waiting[-1], waiting[:-1] + (0.0,), new.last, new.ages, new.clock)
    return new


def reward(s: Any, a: float, y: Any, p: Any) -> float:
    return earned_from(s, arriving_of(by_age(s, ordered(s, a, p)), y.draw, s, p), y.demand, p) - spend(s, a, p)
