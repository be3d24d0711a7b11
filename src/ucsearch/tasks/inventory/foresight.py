"""The least an item could have cost over a whole window, had its demand been known: an exact programme, or none.

With known demand an order matters from its arrival on, so the stock before an arrival is all there is to remember.
Stock lies on a lattice that holds every demand, start and order size; there the best plan on the lattice is a best
plan (with demand known, costs are those of a network whose amounts are all multiples of one unit). The programme does
not look at capacity and ramp: its plan counts only if it keeps them, else there is no figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.task import Task
from ucsearch.tasks.base import Foreseen
from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.tasks.inventory import rules

__all__ = ["foreseen"]

Floats = NDArray[np.float64]
_STATES = 200_000  # levels of stock beyond which no figure is given
_DECIMALS = 6  # of the finest lattice
_SAME = 1e-12  # relative; a dearer plan by less is the same


def foreseen(
    task: Task, p: Any, demand: Floats, starts: Sequence[Any], *, free: bool, sizes: Sequence[float] = ()
) -> Foreseen | str:
    """The cheapest way through `demand` (T,) from any of `starts`; a text says why there is none to show. Orders are
    `free`, any that the rules allow, or one of `sizes`."""
    if p.keep < 1.0:
        return "spoilage takes stock off every lattice"
    if not free and p.by_level != 0.0:
        return "levels from a table depend on stock and open orders"
    lead, demand = int(p.lead_time), np.maximum(demand, 0.0)
    placed = sorted({rules.ordered(starts[0], x, p) for x in sizes if x == x} - {0.0}) if not free else []
    limits = [x for x in (p.largest_order, p.minimum_order, p.case_pack) if 0.0 < x < NO_LIMIT]
    if free and p.unit_cost > 0.0 and p.budget < NO_LIMIT:
        limits.append(max(p.budget - p.fixed_cost, 0.0) / p.unit_cost)
    amounts = [s.on_hand for s in starts] + [x for s in starts for x in s.pipeline] + limits + placed
    unit = _unit([*demand.tolist(), *amounts])
    if unit is None:
        return "amounts are not multiples of one unit"
    top = max(max(rules.position_of(s) for s in starts), 0.0) + float(demand.sum())
    top += max([*placed, p.minimum_order, p.case_pack])
    low = float(demand.sum()) - min(min(s.on_hand for s in starts), 0.0) if p.backorders != 0.0 else 0.0
    if (top + low) / unit > _STATES:
        return f"more than {_STATES:,} levels of stock"
    programme = _Programme(p, demand, unit, round(low / unit), round(top / unit), placed, free)
    costs = [programme.cost_from(s) for s in starts]
    worth = [0.0 if task.terminal is None else float(task.terminal(s, p)) for s in starts]
    best = int(np.argmin(np.add(costs, worth)))  # what a start holds is not for nothing
    s, states, actions = starts[best], [starts[best]], []
    orders = programme.orders_from(s)
    for y, quantity in zip(demand.tolist(), orders, strict=True):
        action = quantity + rules.position_of(s) if p.by_level != 0.0 else quantity
        off = abs(rules.ordered(s, action, p) - quantity)
        if not (task.feasible_at(s, action, 0, p) and off <= 1e-9 * max(unit, quantity)):
            return "capacity, ramp or another rule binds, and the programme does not know it"
        s = task.step_at(s, action, y, 0, p)
        actions.append(action)
        states.append(s)
    cost = -math.fsum(task.reward(a, b, y, p) for a, b, y in zip(states, actions, demand.tolist(), strict=False))
    cost -= 0.0 if task.terminal is None else float(task.terminal(s, p))
    if not abs(cost - costs[best]) <= 1e-9 * (abs(cost) + abs(costs[best]) + unit) * (1 + lead):
        return "the plan's cost is not that of the programme"
    return Foreseen(best, np.array(actions), states, cost)


def _unit(values: Sequence[float]) -> float | None:
    """The largest number of which all are multiples."""
    for decimals in range(_DECIMALS + 1):
        scaled = [x * 10.0**decimals for x in values]
        whole = [round(x) for x in scaled]
        if all(abs(a - b) <= 1e-9 * max(1.0, abs(a)) for a, b in zip(scaled, whole, strict=True)):
            return float((math.gcd(*whole) or 1) / 10.0**decimals)
    return None


class _Programme:
    """Backward over periods in which something arrives. Index k of a value is stock (k - below) * unit."""

    def __init__(
        self, p: Any, demand: Floats, unit: float, below: int, above: int, placed: Sequence[float], free: bool
    ) -> None:
        self.p, self.demand, self.unit, self.below = p, demand, unit, below
        self.lead = int(p.lead_time)
        self.count = below + above + 1
        self.stock = (np.arange(self.count) - below) * unit
        self.moves = None if free else [round(x / unit) for x in placed if self._may(x)]
        self.least, self.stride, self.most = self._range() if free else (0, 1, 0)
        value = -p.salvage * np.maximum(self.stock, 0.0)
        self.after: list[Floats] = []  # by period, cost from what is available there
        for t in range(len(demand) - 1, self.lead - 1, -1):
            after = self._after(t, value)
            self.after.append(after)
            value = np.minimum(after, self._ordered(after)) - p.price * np.maximum(-self.stock, 0.0)
        self.after.reverse()
        self.value = value  # before the first order arrives

    def _may(self, quantity: float) -> bool:
        p = self.p
        spent = p.fixed_cost + p.unit_cost * quantity
        return bool(quantity <= p.largest_order * rules.WIDER and spent <= p.budget * rules.WIDER)

    def _range(self) -> tuple[int, int, int]:
        """Least order, step between orders and how many there are, in units."""
        p, unit = self.p, self.unit
        stride = max(1, round(p.case_pack / unit))
        least = max(1, math.ceil(p.minimum_order / unit - 1e-9))
        least = math.ceil(least / stride) * stride
        most = self.count * unit
        most = min(most, p.largest_order)
        if p.fixed_cost > p.budget:
            most = 0.0
        elif p.unit_cost > 0.0:
            most = min(most, (p.budget - p.fixed_cost) / p.unit_cost)
        many = math.floor((most / unit - least) / stride + 1e-9) + 1
        return least, stride, max(0, many)

    def _after(self, t: int, value: Floats) -> Floats:
        """Cost of period t and later from what is available in it; revenue for what was owed before is not in it."""
        p, y = self.p, self.demand[t]
        sold = np.minimum(self.stock, y)
        cost = p.holding * (self.stock - sold) + p.shortage * (y - sold) - p.price * sold
        step = round(y / self.unit)
        nearest = np.arange(self.count) - step
        # Under lost sales nothing is below zero, and index 0 is zero.
        return np.asarray(
            cost + np.where(nearest >= 0, value[np.maximum(nearest, 0)], np.inf if self.below else value[0])
        )

    def _ordered(self, after: Floats) -> Floats:
        """The least cost with an order, for every level of stock before it."""
        p, total = self.p, after + self.p.unit_cost * self.stock
        best = np.full(self.count, np.inf)
        if self.moves is not None:
            for move in self.moves:
                best[: self.count - move] = np.minimum(best[: self.count - move], total[move:])
        elif self.most > 0 and self.least < self.count:
            rows = -(-self.count // self.stride)
            padded = np.full(rows * self.stride, np.inf)
            padded[: self.count - self.least] = total[self.least :]
            best = _window_least(padded.reshape(rows, self.stride), min(self.most, rows)).ravel()[: self.count]
        return np.asarray(best + p.fixed_cost - p.unit_cost * self.stock)

    # ---------------------------------------------------------------- from one start

    def cost_from(self, s: Any) -> float:
        """Until an order of ours can arrive only open ones do."""
        cost, at = 0.0, s.on_hand
        for t, y in enumerate(self.demand[: self.lead].tolist()):
            spent, at = self._period(at, s.pipeline[t], y)
            cost += spent
        if len(self.demand) <= self.lead:
            left = at + math.fsum(s.pipeline[len(self.demand) :])
            return cost - float(self.p.salvage * max(left, 0.0))
        return cost + float(self.value[self._index(at)])

    def orders_from(self, s: Any) -> list[float]:
        """(T,) quantities; what could not arrive in time is not ordered."""
        at, orders = s.on_hand, []
        for t, y in enumerate(self.demand[: self.lead].tolist()):
            _, at = self._period(at, s.pipeline[t], y)
        for after, y in zip(self.after, self.demand[self.lead :].tolist(), strict=True):
            quantity = self._best(after, self._index(at)) * self.unit
            orders.append(quantity)
            _, at = self._period(at, quantity, y)
        return orders + [0.0] * (len(self.demand) - len(orders))

    def _best(self, after: Floats, k: int) -> int:
        """Units to order at index k: nothing unless that is dearer, then the least of the cheapest."""
        if self.moves is not None:
            moves = np.array([m for m in self.moves if k + m < self.count], np.int64)
        else:
            moves = self.least + self.stride * np.arange(self.most)
            moves = moves[k + moves < self.count]
        if not moves.size:
            return 0
        costs = after[k + moves] + self.p.fixed_cost + self.p.unit_cost * self.unit * moves
        least = float(costs.min())
        margin = _SAME * (abs(least) + abs(float(after[k])))
        if after[k] <= least + margin:
            return 0
        return int(moves[int(np.argmax(costs <= least + margin))])

    def _index(self, stock: float) -> int:
        return round(stock / self.unit) + self.below

    def _period(self, at: float, arrives: float, y: float) -> tuple[float, float]:
        p, available = self.p, at + arrives
        sold = min(available, y)
        cost = p.holding * (available - sold) + p.shortage * (y - sold) - p.price * (sold + max(-at, 0.0))
        left = available - y
        return float(cost), float(left if left >= 0.0 or p.backorders != 0.0 else 0.0)


def _window_least(rows: Floats, width: int) -> Floats:
    """For every row the least of it and the `width - 1` rows that follow, by doubling."""

    def later(x: Floats, by: int) -> Floats:
        out = np.full(x.shape, np.inf)
        out[: len(x) - by] = x[by:]
        return out

    best, length = rows, 1
    while 2 * length <= width:
        best = np.minimum(best, later(best, length))
        length *= 2
    return np.minimum(best, later(best, width - length)) if width > length else best
