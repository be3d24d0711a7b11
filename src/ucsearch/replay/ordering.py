"""What a planner would order by rule, from the same members and under the same rules. One name, one definition.

A rule wishes for a number of units. It becomes the nearest order that the table allows (the smaller on ties; nothing on
a day without orders), or, where orders are `free`, the order itself as far as limits, packs and minimum orders let it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.layout import own_row, unpacked
from ucsearch.replay.classics.adaptive import Distribution, forecast_level, fractile, recent_sums
from ucsearch.replay.walk import Choice, Seen
from ucsearch.task import Task
from ucsearch.tasks.inventory import general_rules, rules, supplier_rules, uncertain_rules
from ucsearch.tasks.inventory.calendar import Calendar

__all__ = [
    "ItemState",
    "LeadTime",
    "Ordering",
    "PairOrdering",
    "SpanDemand",
    "base_stock",
    "base_surge",
    "batches",
    "capped_base_stock",
    "constant_order",
    "critical_ratio_of",
    "dual_index",
    "expected_waste",
    "lead_time_of",
    "newsvendor",
    "power_approximation",
    "reorder_point",
    "rolling_quantile",
    "safety_stock",
    "stock_left",
]

Floats = NDArray[np.float64]


class SpanDemand(Distribution):
    """Demand of one item until the order after this one can arrive, over members, and what it was of late; the same
    for every rule."""

    def __init__(self, span: Floats, weights: Floats) -> None:
        totals = span.sum(axis=1)
        super().__init__(totals, weights)
        self._recent: dict[int, Distribution] = {}
        self.total = float(weights @ totals)
        self.spread = math.sqrt(float(weights @ (totals - self.total) ** 2))
        self.period_mean = float(weights @ span.mean(axis=1))

    def recent(self, past: Callable[[], Floats], lead: int, window: int) -> Distribution:
        """Sums of lead + 1 demands within the last `window` periods."""
        if window not in self._recent:
            self._recent[window] = recent_sums(np.maximum(past(), 0.0), lead, window=window)
        return self._recent[window]


class ItemState(NamedTuple):
    """One item at one decision. J members, H steps."""

    state: Any
    params: Any
    members: Floats  # (J, H) demand, not below 0
    weights: Floats  # (J,)
    past: Callable[[], Floats]  # demand before now, oldest first
    demand: SpanDemand

    @property
    def lead(self) -> int:
        return int(self.params.lead_time)

    @property
    def position(self) -> float:
        return rules.position_of(self.state)

    def ratio(self, given: float | None) -> float:
        return critical_ratio_of(self.params) if given is None else given

    def level(self, ratio: float | None) -> float:
        """The fractile of demand over lead time + 1 periods."""
        return self.demand.fractile(self.ratio(ratio))

    @property
    def span(self) -> int:
        """Periods until the order after this one can arrive."""
        return span_of(self.state, self.params)

    @property
    def periods_between_orders(self) -> int:
        """Periods to the next order day."""
        flags, place = self.params.open, int(self.state.clock)
        return next(k for k in range(1, len(flags) + 1) if flags[(place + k) % len(flags)])

    @property
    def period_demand(self) -> float:
        """Mean demand of a period until the next order can arrive."""
        return self.demand.period_mean

    @property
    def economic_quantity(self) -> float:
        """EOQ, sqrt(2 K D / h); 0 where an order costs nothing or stock does."""
        p = self.params
        return math.sqrt(2.0 * p.fixed_cost * self.period_demand / p.holding) if p.holding > 0.0 else 0.0


Wish = Callable[[ItemState], float]


def span_of(state: Any, p: Any) -> int:
    """Periods until the order after the next one can arrive: lead time + 1, or what the calendar says."""
    return int(p.span[int(state.clock)]) if hasattr(p, "span") else int(p.lead_time) + 1


def critical_ratio_of(p: Any) -> float:
    """Underage over underage and overage, from the params `p` of a lead-time inventory: a unit short costs the penalty
    and the margin of its sale, a unit too many a period's holding. Kept within [0.01, 0.999], where members can
    tell."""
    under, over = underage(p), p.holding
    ratio = under / (under + over) if under + over > 0.0 else 0.5
    return float(min(max(ratio, 0.01), 0.999))


def underage(p: Any) -> float:
    """Currency lost per unit short."""
    return float(p.shortage + max(p.price - p.unit_cost, 0.0) + getattr(p, "missed_unit", 0.0))


# -------------------------------------------------------------------- the rules


def base_stock(item: ItemState, ratio: float | None = None) -> float:
    """Order up to the critical fractile of the members' demand until the next order can arrive."""
    return item.level(ratio) - item.position


def capped_base_stock(item: ItemState, ratio: float | None = None) -> float:
    """Base-stock, but never more than the fractile of one period's demand at the arrival."""
    arrival = item.members[:, item.lead : item.lead + 1]
    return min(base_stock(item, ratio), forecast_level(arrival, item.ratio(ratio), item.weights))


def newsvendor(item: ItemState, ratio: float | None = None) -> float:
    """The critical fractile of what will be short in the period of arrival: every member runs down stock and pipeline
    by the task's own rules, without further orders, and its demand of that period is set against what is left."""
    return fractile(item.members[:, item.lead] - stock_left(item), item.weights, item.ratio(ratio))


def stock_left(item: ItemState) -> Floats:
    """(J,) stock of every member before the period of arrival, as the task's rules (`rules.step`) have it."""
    s, p = item.state, item.params
    stock = np.full(len(item.members), s.on_hand)
    for arriving, demand in zip(s.pipeline[: item.lead], item.members.T, strict=False):
        stock = stock + arriving - demand
        stock = np.where(stock < 0.0, stock if p.backorders != 0.0 else 0.0, p.keep * stock)
    return stock


def reorder_point(item: ItemState, ratio: float | None = None, eoq: float = 1.0) -> float:
    """(s, S): at or below s, order up to S. s is the members' fractile at `ratio`, S lies `eoq` economic order
    quantities above it; without a fixed cost that is base-stock."""
    low, position = item.level(ratio), item.position
    return low + eoq * item.economic_quantity - position if position <= low else 0.0


def power_approximation(item: ItemState, shortage: float = 1.0, batch: float = 1.0) -> float:
    """(s, S) by the revised power approximation (Ehrhardt and Mosier 1984, Management Science 30(5)) with the members'
    moments, the shortage cost and the order quantity multiplied by `shortage` and `batch`; without a fixed cost that is
    base-stock."""
    p, position, demand = item.params, item.position, item.demand
    mean, under = item.period_demand, shortage * underage(p)
    ratio = under / (under + p.holding) if under + p.holding > 0.0 else 0.5
    top = item.level(min(max(ratio, 0.01), 0.999))
    if not (mean > 0.0 and demand.spread > 0.0 and p.holding > 0.0 and p.fixed_cost > 0.0):
        return top - position
    size = 1.30 * mean**0.494 * (p.fixed_cost / p.holding) ** 0.506 * (1.0 + (demand.spread / mean) ** 2) ** 0.116
    z = math.sqrt(size * p.holding / (under * demand.spread)) if under > 0.0 else math.inf
    low = 0.973 * demand.total + demand.spread * (0.183 / z + 1.063 - 2.192 * z)
    size *= batch
    high = low + size
    if size <= 1.5 * mean:
        low, high = min(low, top), min(high, top)
    return high - position if position <= low else 0.0


def batches(item: ItemState, ratio: float | None = None, packs: int = 1, eoq: float = 1.0) -> float:
    """(s, nQ): at or below s, the fewest whole batches Q that lift stock and orders above it. Q is a number of case
    packs, or, where there are none, `eoq` economic order quantities."""
    size = packs * float(item.params.case_pack) if item.params.case_pack > 0.0 else eoq * item.economic_quantity
    gap = item.level(ratio) - item.position
    if not gap >= 0.0:
        return 0.0
    return (math.floor(gap / size) + 1.0) * size if size > 0.0 else gap


def rolling_quantile(item: ItemState, ratio: float | None = None, periods: int | None = None) -> float:
    """Base-stock without a forecast: the critical fractile of recent sums of L + 1 demands, by default of the last
    8 (L + 1) periods."""
    window = 8 * (item.lead + 1) if periods is None else max(periods, item.lead + 1)
    return item.demand.recent(item.past, item.lead, window).fractile(item.ratio(ratio)) - item.position


def constant_order(item: ItemState) -> float:
    """The mean of past demand, always."""
    return float(np.maximum(item.past(), 0.0).mean())


# -------------------------------------------------------------------- lead times that vary


class LeadTime(NamedTuple):
    """What is known of an uncertain lead time, in periods."""

    mean: float
    variance: float


def lead_time_of(shares: Sequence[tuple[int, float]]) -> LeadTime | None:
    """From the probabilities of lead times; None where it is certain."""
    if not shares:
        return None
    mean = math.fsum(share * lead for lead, share in shares)
    return LeadTime(mean, math.fsum(share * (lead - mean) ** 2 for lead, share in shares))


def safety_stock(item: ItemState, ratio: float | None = None, lead: LeadTime | None = None) -> float:
    """Order up to mean demand of lead time and review, and a safety stock of z sqrt((L + R) sd^2 + d^2 var(L)), where
    z is the normal quantile of the ratio (Silver, Pyke and Thomas 2017)."""
    lead_time = LeadTime(float(item.lead), 0.0) if lead is None else lead
    covered = lead_time.mean + item.periods_between_orders
    members = item.members[:, : item.span]
    mean = item.weights @ members
    demand, variance = float(mean.mean()), float((item.weights @ (members - mean) ** 2).mean())
    spread = math.sqrt(covered * variance + demand**2 * lead_time.variance)
    return covered * demand + NormalDist().inv_cdf(item.ratio(ratio)) * spread - item.position


# -------------------------------------------------------------------- shelf life


def expected_waste(item: ItemState, ratio: float | None = None, lead: LeadTime | None = None) -> float:
    """EWA (Broekmeulen and van Donselaar 2009): (R, S) with stock and orders less what is expected to be discarded
    before the order after this one can arrive, at mean demand and, where it is uncertain, the mean lead time."""
    p, s, waste = item.params, item.state, 0.0
    mean = item.weights @ item.members
    for h in range(item.span - 1):
        y = float(mean[min(h, mean.size - 1)])
        if lead is not None:
            orders, draw = uncertain_rules.by_age(s, 0.0), float(round(lead.mean))
            arriving, waiting = (
                uncertain_rules.arriving_of(orders, draw, s, p), uncertain_rules.waiting_of(orders, draw, s, p)
            )  # fmt: skip
            waste += general_rules.issued(s, arriving, y, p)[0]
            s = general_rules.tomorrow(s, arriving, waiting, 0.0, y, p)
            continue
        pipeline = (*s.pipeline, 0.0)
        waste += general_rules.issued(s, general_rules.arriving_of(pipeline, s, p), y, p)[0]
        s = general_rules.moved(s, pipeline, 0.0, y, p)
    return base_stock(item, ratio) + waste


# -------------------------------------------------------------------- as choosers


class Ordering:
    """A rule as a chooser: `wish(item)` says how many units it would order; several wishes are one for each episode.
    With `free` that may be any order within the limits, rounded up to multiples of `round_to` units (0: not at all);
    else the nearest of the table. `known` keeps the demand of items by decision, for other rules on the same panel."""

    def __init__(
        self, task: Task, wish: Wish | Sequence[Wish], *, free: bool = False, round_to: float = 0.0,
        known: dict[tuple[int, int], SpanDemand] | None = None,
    ) -> None:  # fmt: skip
        self.task, self.wish, self.free, self.round_to = task, wish, free, round_to
        self.known = {} if known is None else known
        self._params: dict[int, tuple[list[float], Any]] = {}  # of every episode, as they were last

    def __call__(self, seen: Seen) -> Choice:
        action = np.full(len(seen.rows), np.nan)
        members = np.maximum(seen.trace.members[..., 0], 0.0)
        weights = np.broadcast_to(seen.trace.weights, members.shape[:2])
        params_layout = self.task.params_layout
        if params_layout is None:
            raise TypeError("an ordering rule needs the parameters of lead_time_inventory")
        rows = (self.task.params_row if seen.params is None else seen.params).tolist()
        for n, row in enumerate(seen.rows.tolist()):
            params, state = own_row(rows, n), seen.layout.build(row)
            if n not in self._params or self._params[n][0] != params:
                self._params[n] = params, params_layout.build(params)
            p = self._params[n][1]
            demand = self.known.get((seen.t, n))
            if demand is None:
                demand = SpanDemand(members[n][:, : span_of(state, p)], weights[n])
                self.known[seen.t, n] = demand
            item = ItemState(state, p, members[n], weights[n], partial(seen.past, n), demand)
            wish = self.wish if callable(self.wish) else self.wish[n]
            action[n] = self._action(item, wish, seen.table[n], seen.mask[n])
        return Choice(action, np.zeros(len(action), np.int64))

    def _action(self, item: ItemState, wish: Wish, table: Floats, mask: NDArray[np.bool_]) -> float:
        return self._placed(item, float(wish(item)), table, mask)

    def _placed(self, item: ItemState, wanted: float, table: Floats, mask: NDArray[np.bool_]) -> float:
        """The action that orders about `wanted` units and is allowed; NaN where none is."""
        s, p = item.state, item.params
        if self.free:
            if self.round_to > 0.0:
                wanted = math.ceil(wanted / self.round_to - 1e-9) * self.round_to
            action = rules.order_towards(s, wanted, p)
            if self.task.feasible_at(s, action, 0, p):
                return float(action)
        allowed = table[mask].tolist()
        if not allowed:
            return math.nan
        return float(min(allowed, key=lambda a: (abs(rules.ordered(s, a, p) - max(wanted, 0.0)), a)))


# -------------------------------------------------------------------- two suppliers

PairWish = Callable[[ItemState], tuple[float, float]]


def base_surge(item: ItemState, share: float = 0.8, ratio: float | None = None) -> tuple[float, float]:
    """Tailored base-surge (Allon and van Mieghem 2010): a constant share of mean demand from the regular supplier, and
    from the expedited one what is missing to the critical fractile of demand until its next order can arrive."""
    constant = share * item.period_demand * item.periods_between_orders
    return constant, expedited_gap(item, ratio, constant)


def dual_index(item: ItemState, ratio: float | None = None, fast: float | None = None) -> tuple[float, float]:
    """Dual-index (Veeraraghavan and Scheller-Wolf 2008): expedite up to a fractile of demand over the expedited span,
    then order regularly up to the critical fractile of demand over the regular one."""
    quick = expedited_gap(item, fast, 0.0)
    return max(base_stock(item, ratio) - quick, 0.0), quick


def expedited_gap(item: ItemState, ratio: float | None, regular: float) -> float:
    """Units missing to the fractile of demand until the expedited order after this one can arrive, of stock and orders
    that arrive no later than an expedited order of now; `regular` is ordered now from the other supplier."""
    p, s = item.params, item.state
    place = int(s.clock)
    reach = int(p.fast_slot[place])
    arriving = sum(s.pipeline[: reach + 1]) + (regular if p.slot[place] <= reach else 0.0)
    after = item.periods_between_orders
    following = (place + after) % len(p.open)
    days = Calendar(p.open, p.due, p.fast_slot, p.span)
    span = after + days.arrival(following)
    level = SpanDemand(item.members[:, :span], item.weights).fractile(item.ratio(ratio))
    return float(max(level - s.on_hand - arriving, 0.0))


class PairOrdering(Ordering):
    """A rule of two suppliers as a chooser: `wish(item)` is a pair, and becomes the nearest one of the table."""

    def _action(self, item: ItemState, wish: Any, table: Floats, mask: NDArray[np.bool_]) -> float:
        slow, fast = wish(item)
        if not mask.any():
            return math.nan
        pairs = unpacked(table[mask], 2)
        p = item.params
        placed = [
            (supplier_rules.regular_of(a, p), supplier_rules.expedited_of(a, p)) for a in map(tuple, pairs.tolist())
        ]
        away = [abs(regular - slow) + abs(quick - fast) for regular, quick in placed]
        return float(table[mask][int(np.argmin(away))])
