"""A naive simulator of a shop, written from the rules' words: days, batches with their last day, orders with their day
of arrival (where the lead time is uncertain: the day on which they were placed). It shares no code with the tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Shop:
    lead: int = 1
    open: tuple[bool, ...] = (True,)  # by day of the cycle
    due: tuple[bool, ...] = (True,)
    closed: frozenset[int] = frozenset()  # holidays, as days
    life: int = 0  # 0: keeps
    lifo: bool = False
    backorders: bool = False
    holding: float = 1.0
    shortage: float = 0.0
    price: float = 0.0
    unit_cost: float = 0.0
    fixed_cost: float = 0.0
    disposal: float = 0.0
    missed_unit: float = 0.0
    missed_period: float = 0.0
    salvage: float = 0.0
    capacity: float = math.inf
    ramp: float = math.inf
    largest: float = math.inf
    budget: float = math.inf
    minimum: float = 0.0
    pack: float = 0.0
    by_level: bool = False
    fast_lead: int | None = None
    fast_unit_cost: float = 0.0
    fast_fixed_cost: float = 0.0
    fast_minimum: float = 0.0
    fast_pack: float = 0.0
    leads: tuple[tuple[int, float], ...] = ()  # lead times and their probabilities, where they are uncertain
    breaks: tuple[tuple[float, float], ...] = ()  # order sizes and unit costs from there on
    fast_breaks: tuple[tuple[float, float], ...] = ()
    incremental: bool = False


@dataclass(frozen=True)
class Day:
    day: int
    batches: tuple[tuple[int, float], ...] = ()  # last day on which a batch can be sold, units; sorted
    orders: tuple[tuple[int, float], ...] = ()  # day of arrival, units
    owed: float = 0.0
    last: float = 0.0  # of the last order day
    waste: float = field(default=0.0, compare=False)

    @property
    def stock(self) -> float:
        return sum(units for _, units in self.batches)

    @property
    def position(self) -> float:
        return self.stock - self.owed + sum(units for _, units in self.orders)


def is_open(shop: Shop, day: int) -> bool:
    return shop.open[day % len(shop.open)] and day not in shop.closed


def is_due(shop: Shop, day: int) -> bool:
    return shop.due[day % len(shop.due)] and day not in shop.closed


def arrival(shop: Shop, day: int, lead: int) -> int:
    day += lead
    while not is_due(shop, day):
        day += 1
    return day


def placed(wanted: float, minimum: float, pack: float) -> float:
    if wanted <= 0:
        return 0.0
    wanted = max(wanted, minimum)
    return math.ceil(wanted / pack - 1e-9) * pack if pack else wanted


def quantities(shop: Shop, now: Day, action: Any) -> tuple[float, float]:
    if shop.fast_lead is not None:
        slow, fast = action
        return placed(slow, shop.minimum, shop.pack), placed(fast, shop.fast_minimum, shop.fast_pack)
    return placed(action - now.position if shop.by_level else action, shop.minimum, shop.pack), 0.0


def goods(units: float, first: float, breaks: tuple[tuple[float, float], ...], incremental: bool) -> float:
    """What the units of an order cost: all at the price of its size, or every unit at the price of its bracket."""
    brackets = [(0.0, first), *breaks]
    if not incremental:
        return [cost for size, cost in brackets if units >= size][-1] * units
    ends = [*(size for size, _ in breaks), math.inf]
    held = zip(brackets, ends, strict=True)
    return math.fsum(cost * max(0.0, min(units, end) - start) for (start, cost), end in held)


def draw_law(leads: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """The law of the age from which on open orders arrive, by what is left of the law of the lead time."""
    found, before = [], 0.0
    for lead, share in leads:
        reached = share / math.fsum(p for other, p in leads if other >= lead)
        found.append((lead, reached - before))
        before = reached
    return [(lead, p) for lead, p in found if p > 1e-12]


def bill(shop: Shop, slow: float, fast: float) -> float:
    paid = goods(slow, shop.unit_cost, shop.breaks, shop.incremental)
    paid += goods(fast, shop.fast_unit_cost, shop.fast_breaks, shop.incremental)
    return paid + (shop.fixed_cost if slow else 0.0) + (shop.fast_fixed_cost if fast else 0.0)


def allowed(shop: Shop, now: Day, action: Any) -> bool:
    slow, fast = quantities(shop, now, action)
    total = slow + fast
    if not is_open(shop, now.day):
        return total == 0.0
    if abs(total - now.last) > shop.ramp:
        return False
    fits = total <= shop.largest and bill(shop, slow, fast) <= shop.budget
    return total == 0.0 or (fits and now.position + total <= shop.capacity)


def after(shop: Shop, now: Day, action: Any, demand: float, draw: int = 0) -> tuple[Day, float]:
    """Tomorrow morning, and what today earned."""
    slow, fast = quantities(shop, now, action)
    orders = list(now.orders)
    for units, lead in ((slow, shop.lead), (fast, shop.fast_lead)):
        if units:
            orders.append((now.day if shop.leads else arrival(shop, now.day, lead or 0), units))
    batches = list(now.batches)
    if shop.leads:
        came = [is_due(shop, now.day) and now.day - day >= draw for day, _ in orders]
    else:
        came = [day == now.day for day, _ in orders]
    for (_, units), here in zip(orders, came, strict=True):
        if here:
            batches.append((now.day + shop.life - 1 if shop.life else 10**9, units))
    orders = [order for order, here in zip(orders, came, strict=True) if not here]
    asked = demand + now.owed
    served = 0.0
    left = []
    for last, units in sorted(batches, reverse=shop.lifo):
        taken = min(units, asked - served)
        served += taken
        left.append((last, units - taken))
    short = asked - served
    waste = sum(units for last, units in left if last <= now.day)
    kept = [(last, units) for last, units in left if last > now.day and units]
    missed = min(short, demand)
    cost = shop.holding * sum(units for _, units in kept) + shop.shortage * short + shop.disposal * waste
    cost += shop.missed_unit * missed + (shop.missed_period if missed > 0 else 0.0) + bill(shop, slow, fast)
    merged: dict[int, float] = {}
    for last, units in kept:
        merged[last] = merged.get(last, 0.0) + units
    waiting: dict[int, float] = {}
    for day, units in orders:
        waiting[day] = waiting.get(day, 0.0) + units
    tomorrow = Day(
        now.day + 1, tuple(sorted(merged.items())), tuple(sorted(waiting.items())),
        short if shop.backorders else 0.0,
        (slow + fast if is_open(shop, now.day) else now.last) if shop.ramp < math.inf else 0.0,
        waste,
    )  # fmt: skip
    return tomorrow, shop.price * served - cost


def best(shop: Shop, now: Day, actions: list[Any], law: list[tuple[float, float]], depth: int) -> dict[Any, float]:
    """The expected return of every first action that keeps the rules whatever happens, followed by the best ones."""
    drawn = draw_law(shop.leads) if shop.leads else [(0, 1.0)]
    known: dict[tuple[Day, int], float] = {}

    def value(state: Day, left: int) -> float:
        if left == 0:
            return shop.salvage * max(state.position, 0.0)
        key = (state, left)
        if key not in known:
            known[key] = max((worth(state, a, left) for a in actions if allowed(shop, state, a)), default=-math.inf)
        return known[key]

    def worth(state: Day, action: Any, left: int) -> float:
        total = 0.0
        for demand, share in law:
            for draw, chance in drawn:
                new, earned = after(shop, state, action, demand, draw)
                total += share * chance * (earned + value(replace(new, waste=0.0), left - 1))
        return total

    found = {a: worth(now, a, depth) for a in actions if allowed(shop, now, a)}
    return {a: v for a, v in found.items() if v > -math.inf}
