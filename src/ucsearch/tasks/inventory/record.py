"""LeadTimeInventory: periodic review of one item whose orders arrive some periods later.

A period runs: decide the order, receive what was ordered `lead_time` periods ago, serve demand, pay. Stock on hand is
net of backorders (negative: owed to customers). Quantities are in units of the item, money in one currency.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.formatting import Labelled, figure
from ucsearch.policies import Policy
from ucsearch.task import Continuation, Fill, Task
from ucsearch.tasks.base import ALLOWANCE, SERVICE, Changes, Fit, Foreseen, Limit, Purchase, Sent, Words
from ucsearch.tasks.checks import (
    NO_LIMIT,
    ascending,
    choice,
    fractile,
    limit,
    number,
    planned_actions,
    scale,
    share,
    whole,
)
from ucsearch.tasks.inventory import general_rules, rules, supplier_rules, uncertain_rules
from ucsearch.tasks.inventory.bound import bound, fill, prepare, room
from ucsearch.tasks.inventory.foresight import foreseen
from ucsearch.tasks.inventory.lead_times import draws
from ucsearch.tasks.inventory.planning import CYCLE_STEPS, needs_cycles, refined_plans, ways_to_plan, with_cycles
from ucsearch.tasks.inventory.refit import OrdersRefit
from ucsearch.tasks.inventory.sizes import (
    Lattice,
    Lots,
    at_breaks,
    critical,
    demand_over,
    distinct,
    divided,
    lots,
    mean_demand,
    moments,
    most_transitions,
    offered_sizes,
    offered_tables,
    on_lattice,
    pair_lots,
    scaled_columns,
)
from ucsearch.tasks.inventory.switches import OrderPair, Switches
from ucsearch.tasks.inventory.words import advice_on, general_situation, notes_of, purchases
from ucsearch.trace import Trace

__all__ = [
    "LeadTimeInventory",
    "named_instances",
]


Floats = NDArray[np.float64]


# Order levels, in spreads of demand over lead time + 1 periods from where an order is due, and economic batches; last:
# no more orders, where they cost more than the sales.
_CYCLES = (*((level, batch) for level in (-0.6, 0.0, 0.6) for batch in (0.6, 1.0, 1.5)), (0.0, -1.0))
_LEVELS = 14  # planning steps that have order levels of their own: as far as order cycles are compared
_PEAK = 0.99  # fractile of demand that the largest order covers where stock does not keep
_MOST_PACKS = 2.0**50  # of one order: beyond it a pack more or less is lost to rounding
_MOST_PAIRS = 10_000  # of a level and a cap; every member follows each, and a record's task may name any
_CLOSE = 1e-9  # relative: a level minus a stock is rarely the quantity to the last digit
_LEAST_PACK = 1e-8  # of a pack, the smallest order that is told from rounding (1e-9, in the rules) with room to spare


@dataclass(frozen=True, kw_only=True)
class LeadTimeInventory(Switches):
    """One item under periodic review. Series with different lead times are different tasks (the pipeline's length
    is part of the state); series that differ in costs, limits or scale share one and bring their own params."""

    form: ClassVar[Literal["cost", "reward"]] = "cost"
    places_orders: ClassVar[bool] = True
    left_counts: ClassVar[Literal["daily", "at the end"]] = "at the end"

    lead_time: int = 2  # periods, 0..12; 0: the order arrives before this period's demand
    order_sizes: Sequence[float] = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)  # units, or levels
    orders: Literal["quantity", "level"] = "quantity"  # level: order up to so much in stock and on order
    unmet: Literal["lost", "backordered"] = "lost"  # what becomes of demand that stock cannot serve
    holding: float = 1.0  # currency per unit left at the end of a period
    shortage: float = 9.0  # currency per unit short at the end of a period
    price: float = 0.0  # currency per unit sold; 0: costs only
    unit_cost: float = 0.0  # currency per unit ordered
    fixed_cost: float = 0.0  # currency per order
    salvage: float = 0.0  # currency per unit in stock or on order at the end of the horizon; at most unit_cost
    end_stock: Literal["salvage", "unit_cost", "cycle"] = "salvage"  # cycle: unit cost, and the order a unit puts off
    spoilage: float = 0.0  # share of leftovers lost overnight
    capacity: float | None = None  # units in stock and on order together
    ramp: float | None = None  # units by which an order may differ from the one before
    order_budget: float | None = None  # currency for one period's order
    largest_order: float | None = None  # units
    minimum_order: float = 0.0  # units; smaller orders are raised to it
    case_pack: float = 0.0  # units; orders are rounded up to whole packs
    fallback_order: float | None = None  # units to fall back to; None: repeat the previous order. Rule level: a level
    fallback_rule: Literal["last", "level"] = "last"  # level: order up to a level, by default that of the forecast
    stability_cost: float = 0.0  # currency per unit by which an order departs from the previous plan
    change_budget: float | None = None  # units of departure allowed over the whole previous plan
    plan_steps: int = 12  # periods of the previous plan that are compared, if either of the two is set
    base_stock_levels: Sequence[float] = ()  # continuation in members mode: levels to try
    order_caps: Sequence[float] = ()  # caps to try with each level (capped base-stock)
    order_cycles: bool = False  # continuation in members mode: batches at order levels that come from the forecast
    level_scale: tuple[float, float] = (0.0, 1.0)  # a level is mean + level * spread of these
    cap_scale: tuple[float, float] = (0.0, 1.0)  # likewise for caps
    merge_arrivals: bool = False  # plan with fewer states of the same costs; lost sales only, for mode "closed"

    def __post_init__(self) -> None:
        low = 0.0 if self.orders == "quantity" else -NO_LIMIT
        object.__setattr__(self, "order_sizes", ascending("order_sizes", self.order_sizes, low))
        for name in ("base_stock_levels", "order_caps"):
            values = getattr(self, name)
            empty = isinstance(values, Sequence) and not values
            object.__setattr__(self, name, () if empty else ascending(name, values))
        for name in ("level_scale", "cap_scale"):
            object.__setattr__(self, name, scale(name, getattr(self, name)))
        whole("plan_steps", self.plan_steps, 1, 1000)
        limit("change_budget", self.change_budget)
        if not isinstance(self.order_cycles, bool):
            raise InputError("order_cycles", repr(self.order_cycles), "true or false")
        if self.order_cycles and (self.base_stock_levels or self.change_budget is not None):
            raise InputError("order_cycles", "true", "false together with base_stock_levels or change_budget")
        if self.order_caps and not self.base_stock_levels:
            raise InputError("order_caps", "caps", "base_stock_levels beside them")
        if len(self.base_stock_levels) * max(1, len(self.order_caps)) > _MOST_PAIRS:
            seen = f"{len(self.base_stock_levels)} levels with {len(self.order_caps)} caps each"
            raise InputError("base_stock_levels", seen, f"at most {_MOST_PAIRS:,} pairs of a level and a cap")
        if self.base_stock_levels and self.change_budget is not None:
            raise InputError("base_stock_levels", "levels", "none together with change_budget")
        if not isinstance(self.merge_arrivals, bool):
            raise InputError("merge_arrivals", repr(self.merge_arrivals), "true or false")
        if self.merge_arrivals and (self.unmet != "lost" or self.is_planned):
            raise InputError("merge_arrivals", "true", "false with backorders, stability_cost or change_budget")
        self.check_switches()
        self.params()

    @property
    def is_planned(self) -> bool:
        """Whether the previous plan is part of the state."""
        return self.stability_cost > 0.0 or self.change_budget is not None

    def params(self) -> Any:
        """The parameters as the rules read them; also the base of per-window parameters."""
        plain = self._params()
        if self.is_general:
            return self.general_params(plain)
        return rules.CycleParams(*plain, levels=(0.0,) * _LEVELS) if self.order_cycles else plain

    def _params(self) -> rules.Params:
        by_level = choice("orders", self.orders, ("quantity", "level")) == "level"
        choice("fallback_rule", self.fallback_rule, ("last", "level"))
        unit_cost = number("unit_cost", self.unit_cost)
        salvage = number("salvage", self.salvage)
        if choice("end_stock", self.end_stock, ("salvage", "unit_cost", "cycle")) != "salvage" and salvage == 0.0:
            salvage = self.lowest_cost  # a unit that is there need not be bought
        if not salvage <= self.lowest_cost:
            name = "the lowest of price_breaks" if self.price_breaks else "unit_cost"
            expected = f"at most {name}, {self.lowest_cost:g}"
            raise InputError("salvage", salvage, expected, hint="Else hoarding would pay.")
        return rules.Params(
            lead_time=float(whole("lead_time", self.lead_time, 0, 12)),
            backorders=float(choice("unmet", self.unmet, ("lost", "backordered")) == "backordered"),
            by_level=float(by_level),
            holding=number("holding", self.holding),
            shortage=number("shortage", self.shortage),
            price=number("price", self.price),
            unit_cost=unit_cost,
            fixed_cost=number("fixed_cost", self.fixed_cost),
            salvage=salvage,
            keep=1.0 - share("spoilage", self.spoilage),
            capacity=limit("capacity", self.capacity),
            ramp=limit("ramp", self.ramp),
            budget=limit("order_budget", self.order_budget),
            largest_order=limit("largest_order", self.largest_order),
            minimum_order=number("minimum_order", self.minimum_order, 0.0, NO_LIMIT),
            case_pack=self._pack(by_level),
            fallback_order=-1.0 if self.fallback_order is None else number("fallback_order", self.fallback_order),
            level_mean=self.level_scale[0],
            level_spread=self.level_scale[1],
            cap_mean=self.cap_scale[0],
            cap_spread=self.cap_scale[1],
            stability_cost=number("stability_cost", self.stability_cost),
            grid=tuple(self.order_sizes),
        )

    def _pack(self, by_level: bool) -> float:
        """Of which an order is a number of packs that can be counted: the rules take less than a billionth of a pack
        for rounding, and that would make an order of nothing."""
        pack = number("case_pack", self.case_pack, 0.0, NO_LIMIT)
        sizes = [x for x in self.order_sizes if x > 0.0] if pack > 0.0 else []
        if sizes and not max(sizes) / pack <= _MOST_PACKS:
            raise InputError("case_pack", pack, f"0, or at least {max(sizes) / _MOST_PACKS:g}: an order in whole packs")
        if sizes and not by_level and not min(sizes) / pack >= _LEAST_PACK:
            raise InputError("case_pack", pack, f"at most {min(sizes) / _LEAST_PACK:g}, by the smallest order size")
        return pack

    def task(self) -> Task:
        """The task; equal settings give the same object, so that it is compiled once."""
        return _task(self)

    def state(
        self,
        on_hand: float,
        open_orders: Sequence[float] = (),
        last: float | None = None,
        planned: Sequence[float] | None = None,
        allowance: float | None = None,
        ages: Sequence[float] = (),
        clock: int | None = None,
    ) -> Any:
        """The starting state. `on_hand` units are in stock, below 0 what is owed to customers; `open_orders[i]` arrives
        i periods from now (missing ones are 0); `last` is the previous order, by default the newest open order;
        `planned` the previous plan's orders from this period on. With a shelf life `ages[i]` units have i + 1 periods
        left; `clock` is the place in the calendar, by default that of `first_day`."""
        if self.is_general:
            if planned is not None:
                raise InputError("planned", "a plan", "none without stability_cost or change_budget")
            return self.general_state(on_hand, open_orders, last, ages, clock)
        if ages or clock:
            name = "ages" if ages else "clock"
            raise InputError(name, "a value", "none without shelf_life" if ages else "none without a calendar")
        length = max(1, self.lead_time)
        if len(open_orders) > self.lead_time:
            raise InputError("open_orders", f"{len(open_orders)} orders", f"at most {self.lead_time}, the lead time")
        pipeline = tuple(number(f"open_orders[{i}]", x, 0.0, NO_LIMIT) for i, x in enumerate(open_orders))
        pipeline += (0.0,) * (length - len(pipeline))
        stock = number("on_hand", on_hand, 0.0 if self.unmet == "lost" else -NO_LIMIT, NO_LIMIT)
        previous = pipeline[-1] if last is None else number("last", last, 0.0, NO_LIMIT)
        if not self.is_planned:
            if planned is not None:
                raise InputError("planned", "a plan", "none without stability_cost or change_budget")
            return rules.State(stock, pipeline, previous)
        actions, count = planned_actions(planned, self.plan_steps)
        budget = self.change_budget if allowance is None else allowance
        return rules.PlannedState(stock, pipeline, previous, actions, count, limit("allowance", budget))

    def forecast_columns(self, trace: Trace, p: Any) -> dict[str, Floats]:
        """Per-window params from the same forecast. Of the fallback: the base-stock level, that is the critical
        fractile of demand over lead time + 1 periods (beyond the forecast's horizon its last period goes on). Of the
        end value: mean demand, and the level at which an economic order would be due."""
        level = self.fallback_rule == "level" and not self.is_planned
        cycle = self.end_stock == "cycle" or self.order_cycles
        if trace.is_scores or not (level or cycle):
            return {}
        covered = round(float(np.mean(self.calendar.span))) if self.is_general else self.lead_time + 1
        total = demand_over(trace, covered)
        under = np.asarray(p.shortage) + np.maximum(np.asarray(p.price) - np.asarray(p.unit_cost), 0.0)
        columns: dict[str, Floats] = {}
        if self.is_general:
            under = (
                under
                + np.asarray(p.missed_unit)
                + np.asarray(p.missed_period) / (1.0 + mean_demand(trace).mean(axis=1))
            )
        if level and self.is_general:
            columns["levels"] = self._span_levels(trace, critical(under, np.asarray(p.holding)))
        elif level:
            order_up_to = fractile(total, trace.weights, critical(under, np.asarray(p.holding)))
            fixed_order = np.asarray(p.fallback_order, dtype=np.float64)
            columns["fallback_order"] = np.where(fixed_order >= 0.0, fixed_order, order_up_to)
        if cycle:
            usual = mean_demand(trace).mean(axis=1)
            batch = np.sqrt(2.0 * divided(p.fixed_cost, p.holding, len(usual)) * usual)
            # A unit less at the order point is short once a cycle; a unit more is held for the whole of it.
            ratio = critical(under * usual, np.asarray(p.holding) * np.maximum(batch, usual))
            columns |= {"level_mean": fractile(total, trace.weights, ratio), "cap_mean": usual}
        if self.order_cycles:
            columns["level_spread"] = moments(total, trace.weights)[1]
            columns["levels"] = self._levels(trace, ratio)
        return columns

    def _span_levels(self, trace: Trace, ratio: Any) -> Floats:
        """(W, n) the critical fractile of demand over 1, 2, ... periods; the longest span of the calendar last."""
        places = len(self.params().levels)
        spans = range(1, min(self.span, places) + 1)  # holidays may keep order days further apart
        levels = [fractile(demand_over(trace, k), trace.weights, ratio) for k in spans]
        return np.stack(levels + levels[-1:] * (places - len(levels)), axis=1)

    def _levels(self, trace: Trace, ratio: Floats) -> Floats:
        """(W, _LEVELS) the fractile of demand from each step until what is ordered there has arrived and been sold
        for a period; past the horizon every member's mean goes on. A week that is far from even needs other levels on
        other days."""
        demand = np.maximum(trace.members[:, :, :, 0], 0.0)
        usual, span = demand.mean(axis=2), self.lead_time + 1
        levels = []
        for h in range(_LEVELS):
            within = demand[:, :, h : h + span]
            levels.append(fractile(within.sum(axis=2) + (span - within.shape[2]) * usual, trace.weights, ratio))
        return np.stack(levels, axis=1)

    def lots(self, trace: Trace, params: Any, count: int, step: float = 0.0, *, fitted: bool = False) -> Lots:
        """No order and up to `count` sizes that fit each window's forecast, and their lattice, for
        `trace.on_lattice(found.unit)` and mode "closed". Quantities are rounded to `step` units (0: not at all) and to
        whole packs. `fitted`: items whose demand is steady get sizes and a lattice fine enough for it."""
        if self.has_two_suppliers:
            return self.lots_of_pairs(trace, params, step)[0]
        spread = None
        if fitted and not self.lead_times:  # orders that arrive together add up: even sizes keep their sums few
            demand = np.maximum(trace.members[:, :, : self.lead_time + 1, 0], 0.0).sum(axis=2)
            spread = moments(demand, trace.weights)[1]
        if self.is_general:
            most, peak = self._most_and_peak(trace)
            mean, first = mean_demand(trace), min(self.lead_time, trace.horizon - 1)
            fitted_lots = lots(
                mean, first, params, count, step, spread=spread, span=self.span, apart=self.review, most=most, peak=peak
            )
            return at_breaks(fitted_lots, self.breaks, params) if self.price_breaks else fitted_lots
        return lots(mean_demand(trace), self.lead_time, params, count, step, spread=spread)

    def lots_of_pairs(self, trace: Trace, params: Any, step: float) -> tuple[Lots, Floats]:
        """As `lots`, with two suppliers: sizes of the regular one with their lattice, and (W, n) of the expedited."""
        count, fast = len(self.order_sizes) - 1, len(self.expedited_sizes) - 1
        return pair_lots(
            mean_demand(trace), params, max(count, 1), max(fast, 1), max(step, 1.0), self.review,
            *self._most_and_peak(trace),
        )  # fmt: skip

    def _most_and_peak(self, trace: Trace) -> tuple[float, Floats]:
        """Periods of mean demand that an order is for at most, and (W,) what the largest must cover all the same: what
        does not keep does not add up over several orders, so one has to do for a peak."""
        if self.shelf_life is None:
            return np.inf, np.zeros(trace.windows)
        peak = fractile(demand_over(trace, min(self.shelf_life, self.span)), trace.weights, _PEAK)
        return self.shelf_life + 1.0, peak

    def scaled(self, trace: Trace, multiples: Sequence[float], arrivals: int = 1) -> tuple[Floats, rules.Params]:
        """Actions (W, m) and per-window params whose grid fits each series: forecast plus `multiples` of its spread.

        Quantities are placed around one period's demand at the arrival of an order, levels around the demand of lead
        time + 1 periods; what falls below zero becomes zero. A plan uses one grid at all its steps, so where demand
        moves within the horizon let the grid hold the orders of several `arrivals`: of this period's order, the next
        one's and so on. Continuation levels and caps get the same scales. Needs `arrivals` times as many order_sizes
        as multiples. Pass both results to `search_panel`.
        """
        steps = ascending("multiples", multiples)
        whole("arrivals", arrivals, 1, 1000)
        if len(steps) * arrivals != len(self.order_sizes):
            each = "one per order size" if arrivals == 1 else f"so that {arrivals} arrivals give one per order size"
            raise InputError("multiples", f"{len(steps)} values", f"{len(self.order_sizes) / arrivals:g}, {each}")
        columns = self.scaled_columns(trace, steps, arrivals)
        return distinct(columns["grid"])[0], self.params()._replace(**columns)

    def scaled_columns(self, trace: Trace, multiples: Sequence[float], arrivals: int = 1) -> dict[str, Floats]:
        """What `scaled` puts into params, of any number of ascending `multiples` and for as many `arrivals`."""
        last = self.lead_time + arrivals
        if trace.is_scores or trace.horizon < last:
            raise InputError("trace", f"{trace!r}", f"members over at least {last} steps, lead time and arrivals")
        return scaled_columns(trace, multiples, self.lead_time, arrivals, self.orders == "level")

    @property
    def effect_delay(self) -> int:
        return self.first_arrival if self.has_calendar else self.lead_time

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """Demand is what the series says; below 0 counts as none."""
        return np.maximum(values, 0.0)

    def starts(self, trace: Trace) -> list[Any]:
        """At target: what arrives is the forecast, and what is there covers the critical ratio of its spread."""
        mean = np.maximum(trace.mean[:, :, 0], 0.0)  # (N, H)
        _, spread = moments(np.maximum(trace.members[:, :, 0, 0], 0.0), trace.weights)
        cover = NormalDist().inv_cdf(self.shortage / (self.shortage + self.holding))
        return [
            self.state(max(cover, 0.0) * float(spread[n]), mean[n, : self.lead_time].tolist(), float(mean[n, 0]))
            for n in range(len(mean))
        ]

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Fill rate: share of demand served from stock in its own period."""
        if self.is_general:
            return self.general_figures(states, actions, outcomes)
        arriving = states[:, :, 1] if self.lead_time > 0 else actions
        served = np.minimum(np.maximum(states[:, :, 0] + arriving, 0.0), outcomes).sum(axis=1)
        demand = outcomes.sum(axis=1)
        return {"fill_rate": np.where(demand > 0.0, served / np.where(demand > 0.0, demand, 1.0), 1.0)}

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """Currency: holding, shortage and ordering costs, revenue; units: demand, served from stock in its own period,
        stock that is left and paid for (not below 0), ordered; whether demand was served in full, and whether there was
        an order."""
        if self.is_general:
            return self.general_parts(s, a, y, p)
        task, quantity, demand = self.task(), float(rules.ordered(s, a, p)), float(y)
        available = s.on_hand + (s.pipeline[0] if p.lead_time > 0.0 else quantity)
        sold, served = min(available, demand), min(max(available, 0.0), demand)
        cost = -float(task.reward(s, a, y, p._replace(price=0.0)))
        return {
            "holding": p.holding * (available - sold),
            "shortage": p.shortage * (demand - sold),
            "ordering": p.unit_cost * quantity + p.fixed_cost * (quantity > 0.0),
            "revenue": float(task.reward(s, a, y, p)) + cost,
            "demand": demand,
            "served": served,
            "in_full": float(served >= demand),
            "stock": p.keep * max(available - sold, 0.0),
            "order": quantity,
            "orders": float(quantity > 0.0),
        }

    # ---------------------------------------------------------------- for people

    def words(self, units: str = "", currency: str = "") -> Words:
        """What outcomes, actions, state fields and parts are called."""
        more = {} if self.shelf_life is None else {"waste": ("discarded", units)}
        paid = {} if self.shelf_life is None else {"disposal": "disposal"}
        if self.has_two_suppliers:
            more["expedited"] = ("expedited", units)
        return Words(
            "demand", units, "order", units, {"on_hand": ("stock", units), "pipeline": ("on order", units)},
            {"orders": ("orders", ""), "order": ("ordered", units)} | more, {"stock": ("average stock", units)},
            {"holding": "holding", "shortage": "shortage", "ordering": "ordering"} | paid, SERVICE, "revenue",
        )  # fmt: skip

    def situation(self, s: Any, p: Any, units: str, currency: str) -> str:
        """Stock and open orders, and when an order arrives."""
        if self.is_general:
            return general_situation(s, p, units, self.suppliers, self.lead_shares)
        text = f"In stock: {figure(s.on_hand)} {units}"
        if p.lead_time > 0.0:
            due = ", ".join(f"{figure(x)} {_when(i)}" for i, x in enumerate(s.pipeline) if x)
            text += f"; on order: {due}" if due else "; nothing on order"
        return f"{text}. An order arrives {_when(int(p.lead_time))}"

    def notes(self, sent: Sent, units: str) -> list[str]:
        """Whether the order is another number than the action, the largest offered, longer than the plan, or coarse."""
        bought = self.purchases(sent.state, sent.action, sent.params)
        return notes_of(sent, bought, self.task().terminal, units) + self.price_notes(bought)

    def advice(self, policy: Policy) -> dict[str, str]:
        return advice_on(policy)

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return (
            Limit("capacity", "capacity", 1), Limit("ramp", "ramp", 1), Limit("budget", "order_budget", 1),
            Limit("largest_order", "largest_order", 1), Limit("minimum_order", "minimum_order", -1), ALLOWANCE,
        )  # fmt: skip

    # ---------------------------------------------------------------- actions and the units that they order

    def is_quantity(self, p: Any) -> bool:
        """Not where actions are levels or pairs, or orders are raised to a minimum or to whole packs."""
        if self.has_two_suppliers:
            return False
        return not (np.any(p.by_level) or np.any(p.minimum_order) or np.any(p.case_pack))

    def quantity(self, s: Any, a: Any, p: Any) -> float:
        """Units ordered: levels depend on the stock, small orders are raised, packs are whole; from both suppliers."""
        if self.has_two_suppliers:
            return supplier_rules.ordered(s, a, p)
        return float(rules.ordered(s, a, p))

    def purchases(self, s: Any, a: Any, p: Any) -> tuple[Purchase, ...]:
        """What is ordered from each supplier."""
        if not self.is_general:
            return (Purchase("", float(rules.ordered(s, a, p)), int(p.lead_time)),)
        return purchases(s, a, p, self.suppliers, self.lead_shares)

    def action_for(self, s: Any, quantity: float, p: Any) -> Any:
        """The order, or the level, of so many units; with two suppliers a regular order."""
        if not 0.0 <= quantity < math.inf:
            raise InputError("QUANTITY", figure(quantity), "units to order, at least 0")
        action: Any = quantity + rules.position_of(s) if p.by_level != 0.0 else quantity
        if self.has_two_suppliers:
            action = (quantity, 0.0)
        order = self.quantity(s, action, p)
        if not math.isclose(order, quantity, rel_tol=_CLOSE, abs_tol=0.0):
            why = [f"the minimum order is {figure(p.minimum_order)}"] if quantity < p.minimum_order else []
            why += [f"packs hold {figure(p.case_pack)}"] if p.case_pack > 0.0 else []
            raise InputError(
                "QUANTITY", figure(quantity), f"what can be ordered: {figure(order)} is the next",
                hint=f"{' and '.join(why) or 'It would be rounded'}.".capitalize(),
            )  # fmt: skip
        return action

    # ---------------------------------------------------------------- planning

    @classmethod
    def defaults(cls, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The fallback orders up to the forecast's level. Stock that is left counts at what a unit costs and, in closed
        loop, at the order that it puts off."""
        task, policy = content["task"], content.get("policy")
        more: dict[str, Any] = {}
        if task.get("salvage") != 0:
            closed = isinstance(policy, dict) and policy.get("mode") == "closed"
            more["end_stock"] = "cycle" if closed and "shelf_life" not in task else "unit_cost"
        if "shortage" not in task and {"fill_rate", "service_level"} & set(task):
            more["shortage"] = 0.0
        if "fallback_order" not in task:
            more["fallback_rule"] = "level"
        if content.get("period") in ("day", "weekday", "week", "month"):
            more["calendar_period"] = content["period"]
        return {"task": more}

    def for_planning(self, policy: Policy, sizes: Any) -> Any:
        """Followed by order cycles where the lead time is too long for closed loop."""
        if self.is_general:
            self.check_plan(policy, sizes)
            return self.covering(policy.depth + 1)
        return with_cycles(self, sizes.lots) if self._is_too_long(policy, sizes) else self

    def policy_for(self, policy: Policy, sizes: Any) -> Policy:
        """Each order that could be placed now, followed by order cycles, where the lead time asks for them."""
        if not (self.order_cycles and self._is_too_long(policy, sizes)):
            return policy
        return dataclasses.replace(policy, mode="members", depth=1)

    def steps_needed(self, policy: Policy, sizes: Any) -> int:
        """Sizes around the forecast look at the period in which an order arrives."""
        if sizes.multiples or self.order_cycles:
            return max(policy.depth, self.lead_time + 1)
        return policy.depth

    def steps_wanted(self, policy: Policy, sizes: Any) -> int:
        """As far as a plan looks, and an order placed now can arrive."""
        if self._is_too_long(policy, sizes):
            return max(policy.depth, self.lead_time + CYCLE_STEPS)
        return max(policy.depth, self.span if self.is_general else self.lead_time + 1)

    def _is_too_long(self, policy: Policy, sizes: Any) -> bool:
        return sizes.lots > 0 and needs_cycles(self, policy)

    def offered(self, trace: Trace, params: Any, sizes: Any) -> tuple[Any, Floats | None]:
        """Sizes that fit each item, in whole packs, as [actions] of the settings say."""
        return offered_sizes(self, trace, params, sizes)

    def most_transitions(
        self, states: Sequence[Any], trace: Trace, params: Any, actions: Floats | None, policy: Policy, sizes: Any
    ) -> Floats | None:
        """By how many values each part of a state can have, of inventories with a switch on."""
        if not self.is_general or self.orders == "level":
            return None
        unit = self.lots(trace, params, max(sizes.lots, 1), sizes.round_to, fitted=sizes.lots > 0).unit
        tables = offered_tables(self, len(states), actions)
        rooms = np.broadcast_to(np.asarray(params.capacity, np.float64), (len(states),)).tolist()
        return np.array([
            most_transitions(self, state, table, step, room, policy.depth, 2 * sizes.points)
            for state, table, step, room in zip(states, tables, unit.tolist(), rooms, strict=True)
        ])  # fmt: skip

    @property
    def drawn(self) -> tuple[str, ...]:  # type: ignore[override]
        """Of an uncertain lead time, which open orders arrive."""
        return ("draw",) if self.lead_times else ()

    def with_drawn(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Demand, and from which age on open orders arrive."""
        if not self.lead_times:
            return values
        ages, shares = draws(self.lead_shares)
        return np.stack([values, rng.choice(ages, len(values), p=np.array(shares) / sum(shares))], axis=1)

    def planned_trace(self, trace: Trace, params: Any, policy: Policy, sizes: Any) -> Trace:
        """In closed loop, members without a law of their own become independent steps on the item's lattice."""
        if policy.mode != "closed" or self.order_cycles:
            return trace
        if not trace.has_law:
            fitted = self.lots(trace, params, max(sizes.lots, 1), sizes.round_to, fitted=sizes.lots > 0)
            trace = trace.on_lattice(fitted.unit, sizes.points)
        return self.with_draws(trace)

    def with_draws(self, trace: Trace) -> Trace:
        """A forecast of demand as this inventory plans on it: with what is drawn for its lead time, if that is
        uncertain. Needs a law of independent steps (`trace.on_lattice`, `trace.declare`)."""
        if not self.lead_times or trace.members.shape[3] > 1:
            return trace
        return trace.with_draws(*draws(self.lead_shares))

    def refit(self, trace: Trace, params: Any, round_to: float | None) -> OrdersRefit:
        return OrdersRefit(self, trace, params, round_to)

    def opening(self, past: Floats) -> Any:
        """A mean period's demand in stock and in every open order; the warm-up takes it from there."""
        return self.at_level(float(np.ceil(past.mean())))

    def idle_knobs(self, params: Sequence[Any]) -> frozenset[str]:
        """Batches are for fixed costs."""
        return frozenset() if any(p.fixed_cost > 0.0 for p in params) else frozenset({"eoq", "shortage", "batch"})

    def hindsight(self, p: Any, outcomes: Floats, starts: Sequence[Any], *, free: bool) -> Foreseen | str:
        """By the exact programme of `foresight`."""
        if self.is_general:
            return "the programme knows no calendar, shelf life, penalty for missed demand or second supplier"
        return foreseen(self.task(), p, outcomes, starts, free=free, sizes=self.order_sizes)

    def candidates(self, settings: Any) -> list[tuple[str, Changes]]:
        """Closed loop, fixed plans over the members and on the mean."""
        return ways_to_plan(settings)

    def refinements(self, settings: Any, changed: Changes) -> list[tuple[str, Changes]]:
        """Depth, order sizes, recalibration, risk."""
        return refined_plans(settings)

    def fit(self) -> Fit:
        """The mean of a series becomes the middle of the order sizes, and so do stock and open orders at first."""
        level = float(self.order_sizes[len(self.order_sizes) // 2])
        mean = level / (self.lead_time + 1) if self.orders == "level" else level
        start = {"on_hand": mean, "open_orders": (mean,) * self.lead_time, "last": mean}
        return Fit("relative", mean, 0.0, start)

    def lattice(self, trace: Trace, *, unit: float | None = None, points: int = 9, orders: int = 9) -> Lattice:
        """What closed mode needs: the trace on a lattice of `unit`, and this inventory with `orders` order sizes on
        multiples of it (of the case pack, where there is one), so that states merge: start + k * unit, and k * unit
        after a stock-out. Without a `unit` one that fits, as `lots` finds it."""
        return on_lattice(self, trace, unit, points, orders)

    @classmethod
    def instances(cls) -> dict[str, LeadTimeInventory]:
        """Named instances, for tests, documents and benchmarks."""
        return named_instances(cls)


def _when(periods: int) -> str:
    return ("in this period", "in the next period")[periods] if periods < 2 else f"in {periods} periods"


def _terminal(config: LeadTimeInventory, p: rules.Params) -> Any:
    if config.end_stock == "cycle":
        return rules.terminal_cycle
    return rules.terminal if p.salvage > 0.0 else None


def _fallback(config: LeadTimeInventory) -> Any:
    """The previous plan while there is one; else the level or the previous order."""
    if config.is_planned:
        return rules.fallback_planned
    return rules.fallback_to_level if config.fallback_rule == "level" else rules.fallback


def _general_task(config: LeadTimeInventory) -> Task:
    """The task of an inventory with a switch on."""
    params = config.params()
    by_level, terminal = config.orders == "level", _terminal(config, params)
    if config.has_two_suppliers:
        return Task(
            config=config,
            name="lead_time_inventory",
            state=general_rules.State,
            actions=config.pairs,
            limits=(0.0, NO_LIMIT),
            params=params,
            feasible=supplier_rules.feasible,
            step=supplier_rules.step,
            reward=supplier_rules.reward,
            fallback=supplier_rules.fallback,
            invariant=general_rules.invariant,
            terminal=terminal,
            label_of=OrderPair(*config.suppliers),
            called="pairs of sizes",
            counted=True,
            unjudged=config.span,
            uses={"units": supplier_rules.ordered, "spend": supplier_rules.spend, "lines": supplier_rules.lines},
        )
    return Task(
        config=config,
        name="lead_time_inventory",
        state=general_rules.State,
        actions=params.grid,
        limits=(-NO_LIMIT if by_level else 0.0, NO_LIMIT),
        params=params,
        outcome=uncertain_rules.Outcome if config.lead_times else None,
        feasible=general_rules.feasible,
        step=uncertain_rules.step if config.lead_times else general_rules.step,
        reward=uncertain_rules.reward if config.lead_times else general_rules.reward,
        fallback=general_rules.fallback_to_level if config.fallback_rule == "level" else general_rules.fallback,
        invariant=general_rules.invariant,
        terminal=terminal,
        label_of=Labelled("order up to" if by_level else "order"),
        called="levels" if by_level else "sizes",
        counted=True,
        unjudged=config.span,
        pack="" if by_level else "case_pack",
        uses={"units": rules.units, "spend": general_rules.spend, "lines": rules.lines},
    )


@lru_cache(maxsize=256)
def _task(config: LeadTimeInventory) -> Task:
    if config.is_general:
        return _general_task(config)
    params = config.params()
    continuations = []
    if config.order_caps:
        pairs = tuple((x, c) for x in config.base_stock_levels for c in config.order_caps)
        continuations.append(Continuation(rules.capped_base_stock, pairs))
    elif config.order_cycles:
        continuations.append(Continuation(rules.order_cycle, _CYCLES))
    elif config.base_stock_levels:
        continuations.append(Continuation(rules.base_stock, tuple((x,) for x in config.base_stock_levels)))
    stable = config.is_planned
    return Task(
        config=config,
        name="lead_time_inventory",
        state=rules.PlannedState if stable else rules.State,
        actions=params.grid,
        limits=(0.0 if config.orders == "quantity" else -NO_LIMIT, NO_LIMIT),  # the rules know the largest order
        params=params,
        feasible=rules.feasible_planned if stable else rules.feasible,
        step=rules.step_planned if stable else rules.step_merged if config.merge_arrivals else rules.step,
        reward=rules.reward_planned if stable else rules.reward,
        fallback=_fallback(config),
        invariant=rules.invariant_planned if stable else rules.invariant,
        terminal=_terminal(config, params),
        prepare=prepare,
        prepare_into=Fill(room, fill, unchecked=True),
        by_step=True,
        by_rest=True,
        bound=bound,
        continuations=continuations,
        label_of=Labelled("order up to" if config.orders == "level" else "order"),
        called="levels" if config.orders == "level" else "sizes",
        counted=True,
        unjudged=config.lead_time + 1,  # they arrive past the horizon, or in its last period
        pack="" if config.orders == "level" else "case_pack",
        uses={"units": rules.units, "spend": rules.spend, "lines": rules.lines},
    )


def named_instances(cls: type[LeadTimeInventory]) -> dict[str, LeadTimeInventory]:
    """Those of the documents, and the sixteen of Zipkin (2008) with continuations around their best levels."""
    instances = {
        "bench": cls(capacity=20.0, ramp=3.0, unit_cost=0.5),
        "newsvendor": cls(lead_time=0, order_sizes=tuple(float(x) for x in range(21))),
        "fresh": cls(lead_time=1, shortage=19.0, spoilage=0.5, capacity=30.0),
        "packs": cls(
            lead_time=3, order_sizes=(0.0, 6.0, 12.0, 18.0, 24.0), case_pack=6.0, minimum_order=12.0,
            unmet="backordered", fixed_cost=8.0, price=5.0, unit_cost=2.0, salvage=1.0, capacity=80.0,
            order_budget=60.0,
        ),
    }  # fmt: skip
    for penalty in (4, 9, 19, 39):
        for lead in (1, 2, 3, 4):
            instances[f"zipkin-p{penalty}-l{lead}"] = cls(
                lead_time=lead,
                order_sizes=tuple(float(x) for x in range(14)),
                shortage=float(penalty),
                base_stock_levels=tuple(float(5 * (lead + 1) + x) for x in range(-3, 13)),
                order_caps=(4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 13.0),
            )
    return instances
