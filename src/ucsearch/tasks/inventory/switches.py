"""Rules that not every inventory has, as fields of `LeadTimeInventory`: a calendar, a shelf life, an uncertain lead
time, price breaks, a second supplier, penalties for missed demand. All are off by default; with any of them on, the
task is made of `general_rules`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.layout import unpacked
from ucsearch.policies import Policy
from ucsearch.tasks.base import OnSeries, Purchase
from ucsearch.tasks.checks import NO_LIMIT, ascending, choice, number, whole
from ucsearch.tasks.inventory import general_rules, rules, supplier_rules, uncertain_rules
from ucsearch.tasks.inventory.calendar import Calendar, CalendarRules, Period
from ucsearch.tasks.inventory.lead_times import Shares, lead_time_shares, table_words

__all__ = ["OrderPair", "Switches"]

Floats = NDArray[np.float64]
Breaks = tuple[tuple[float, float], ...]  # units from which on, and currency per unit


@dataclass(frozen=True)
class OrderPair:
    """Names of actions that order from two suppliers: "order 3 from Genoa and 2 from Lyon"."""

    regular: str
    expedited: str

    def __call__(self, action: tuple[float, float]) -> str:
        amounts = zip(action, (self.regular, self.expedited), strict=True)
        parts = [f"{figure(units)} from {name}" for units, name in amounts if units]
        return f"order {' and '.join(parts) or '0'}"


@dataclass(frozen=True, kw_only=True)
class Switches(OnSeries):
    """Fields of an inventory that are off by default."""

    if TYPE_CHECKING:  # those of `LeadTimeInventory` that they go with
        lead_time: int
        order_sizes: Sequence[float]
        orders: Literal["quantity", "level"]
        unmet: Literal["lost", "backordered"]
        shortage: float
        unit_cost: float
        spoilage: float
        ramp: float | None

    order_days: Sequence[str] = ()  # weekdays on which orders may be placed; none: all
    delivery_days: Sequence[str] = ()  # weekdays on which orders arrive; none: all
    review_periods: int = 1  # orders may be placed every so many periods
    review_start: str = ""  # date of one of these periods
    holidays: Sequence[str] = ()  # dates without orders and deliveries
    calendar_period: Period = "any"  # what a period of the calendar is; in settings the settings' period
    calendar_length: int = 0  # periods that a calendar with holidays reaches; 0: 64
    first_day: str = ""  # date of the first period that is planned, for calendars
    shelf_life: int | None = None  # periods in which a unit can be sold; None: it keeps
    issuing: Literal["fifo", "lifo"] = "fifo"  # with a shelf life: the oldest or the newest units leave first
    disposal: float = 0.0  # currency per unit discarded at the end of its shelf life
    missed_unit: float = 0.0  # currency per unit of demand that is not served in its own period, besides shortage
    missed_period: float = 0.0  # currency per period in which demand is not served
    fill_rate: float | None = None  # share of demand to serve in its own period; `tune` finds missed_unit for it
    service_level: float | None = None  # share of periods to serve all demand in; `tune` finds missed_period for it
    lead_times: Mapping[Any, float] | Shares = ()  # probabilities of lead times in periods; none: lead_time is certain
    price_breaks: Mapping[Any, float] | Breaks = ()  # order size in units and the unit cost from there on, falling
    discount: Literal["all-units", "incremental"] = "all-units"  # incremental: only units past a break cost less

    expedited_lead_time: int | None = None  # periods; None: one supplier. Shorter than lead_time, the regular one's
    expedited_unit_cost: float = 0.0  # currency per unit expedited
    expedited_fixed_cost: float = 0.0  # currency per expedited order
    expedited_minimum_order: float = 0.0  # units; smaller expedited orders are raised to it
    expedited_case_pack: float = 0.0  # units; expedited orders are rounded up to whole packs
    expedited_sizes: Sequence[float] = ()  # whole units; none: the regular order_sizes
    expedited_price_breaks: Mapping[Any, float] | Breaks = ()  # as price_breaks, of expedited orders
    suppliers: Sequence[str] = ()  # names of the regular and the expedited supplier; none: regular, expedited

    @property
    def has_two_suppliers(self) -> bool:
        """Whether orders can be expedited, so that an action is a pair."""
        return self.expedited_lead_time is not None

    @property
    def has_calendar(self) -> bool:
        """Whether periods differ in whether orders may be placed or arrive."""
        return bool(self.order_days or self.delivery_days or self.holidays or self.review_periods != 1)

    @property
    def is_general(self) -> bool:
        """Whether any switch is on, so that the task is made of `general_rules`."""
        missed = self.missed_unit > 0.0 or self.missed_period > 0.0 or self.target is not None
        terms = bool(self.lead_times or self.price_breaks)
        return self.has_calendar or self.shelf_life is not None or self.has_two_suppliers or missed or terms

    @property
    def lead_shares(self) -> Shares:
        """Lead times in periods with their probabilities; none where it is certain."""
        return tuple(self.lead_times)

    @property
    def lowest_cost(self) -> float:
        """Currency for a unit of the largest order: what a unit that is left need not cost again."""
        return min([float(self.unit_cost), *(cost for _, cost in self.breaks)])

    def price_notes(self, bought: Sequence[Purchase]) -> list[str]:
        """At which of its prices an order is."""
        notes = []
        for purchase, breaks in zip(bought, (self.breaks, tuple(self.expedited_price_breaks)), strict=False):
            reached = [(size, cost) for size, cost in breaks if purchase.units * rules.WIDER >= size]
            if reached:
                size, cost = reached[-1]
                past = " for the units past it" if self.discount == "incremental" else " a unit"
                who = f" from {purchase.supplier}" if purchase.supplier else ""
                notes.append(f"the price from {figure(size)} on holds{who}: {figure(cost)}{past}")
        return notes

    @property
    def breaks(self) -> Breaks:
        """Order sizes from which on a unit costs less, and what it costs."""
        return tuple(self.price_breaks)

    @property
    def target(self) -> float | None:
        """What a penalty for missed demand is to reach; None where costs are given."""
        return self.fill_rate if self.service_level is None else self.service_level

    @property
    def penalty(self) -> str:
        """The penalty that a target is reached by."""
        return "missed_unit" if self.service_level is None else "missed_period"

    @property
    def calendar(self) -> Calendar:
        """When orders may be placed and arrive; of one place where every period is alike."""
        return self._calendar_of(self.lead_time)

    def _calendar_of(self, lead: int) -> Calendar:
        return self._days.calendar(lead, self.first_day)

    @property
    def _days(self) -> CalendarRules:
        return CalendarRules(
            tuple(self.order_days), tuple(self.delivery_days), self.review_periods, self.review_start,
            tuple(self.holidays), self.calendar_period, self.calendar_length,
        )  # fmt: skip

    @property
    def clock(self) -> int | None:
        """The calendar's place of the first period that is planned; None where nothing says which."""
        return self._days.place(self.first_day) if self.has_calendar else 0

    @property
    def span(self) -> int:
        """Periods until the order after today's can arrive, at most: those that an order has to cover."""
        return self.calendar.longest

    @property
    def review(self) -> float:
        """Periods between two order days, on average."""
        flags = self.calendar.open
        return len(flags) / max(1.0, sum(flags))

    @property
    def ages(self) -> int:
        """Ages that are told apart at the start of a period; 0 without a shelf life."""
        return 0 if self.shelf_life is None else self.shelf_life - 1

    def unused(self) -> frozenset[str]:
        """What belongs to a switch that is off; a shelf life may differ by item, so it is never hidden."""
        names = {"calendar_period", "calendar_length", "issuing"}
        if not self.has_calendar:
            names |= {"review_periods", "clock"}
        if self.lead_times:
            names |= {"lead_time"}
        if not self.has_two_suppliers:
            names |= {name for name in self.__dataclass_fields__ if name.startswith("expedited_")}
        if not (self.missed_unit or self.missed_period or self.target is not None):
            names |= {"missed_unit", "missed_period"}
        return frozenset(names)

    @property
    def first_arrival(self) -> int:
        """Periods from the first one that is planned until what is ordered in it arrives; without a date the least."""
        calendar, place = self.calendar, self.clock
        if place is not None:
            return calendar.arrival(place)
        return min(calendar.arrival(c) for c, open_ in enumerate(calendar.open) if open_)

    def check_plan(self, policy: Policy, sizes: Any) -> None:
        """Refuse a plan that ends before the order after today's has been of use, and sizes that do not fit pairs."""
        least = self.calendar.least_depth if self.has_calendar else 0
        if policy.depth < least:
            raise InputError(
                "policy.depth", policy.depth, f"at least {least}: one period past the arrival of the second order day"
            )
        if self.lead_times and policy.mode != "closed":
            raise InputError("policy.mode", repr(policy.mode), "'closed', because task.lead_time is uncertain")
        if self.has_two_suppliers and sizes.multiples is not None:
            raise InputError("actions.multiples", "a list", "lots, or order_sizes and expedited_sizes: two suppliers")
        if self.target is not None:
            name = "fill_rate" if self.service_level is None else "service_level"
            if policy.mode != "closed":
                raise InputError("policy.mode", repr(policy.mode), f"'closed', because task.{name} is given")
            if policy.risk != 0.0 or policy.discount != 1.0:
                seen = f"risk {policy.risk:g}, discount {policy.discount:g}"
                raise InputError("policy.risk, policy.discount", seen, f"0 and 1, because task.{name} is given")

    def check_switches(self) -> None:
        """Refuse what contradicts itself or another field."""
        self._check_lead_times()
        choice("discount", self.discount, ("all-units", "incremental"))
        for name in ("price_breaks", "expedited_price_breaks"):
            first = getattr(self, name.replace("price_breaks", "unit_cost"))
            object.__setattr__(self, name, _breaks(name, getattr(self, name), first))
        if self.discount != "all-units" and not (self.price_breaks or self.expedited_price_breaks):
            raise InputError("price_breaks", "nothing", "order sizes with their unit costs, because discount is given")
        for name in ("order_days", "delivery_days", "holidays"):
            days = getattr(self, name)
            object.__setattr__(self, name, (days,) if isinstance(days, str) else tuple(days))
        whole("review_periods", self.review_periods, 1, 370)
        whole("calendar_length", self.calendar_length, 0, 10_000)
        choice("calendar_period", self.calendar_period, ("day", "weekday", "week", "month", "any"))
        choice("issuing", self.issuing, ("fifo", "lifo"))
        if self.shelf_life is not None:
            whole("shelf_life", self.shelf_life, 1, 370)
        elif self.disposal or self.issuing != "fifo":
            raise InputError("shelf_life", "nothing", "periods, because disposal or issuing is given")
        costs = ("disposal", "missed_unit", "missed_period", "expedited_unit_cost", "expedited_fixed_cost")
        for name in (*costs, "expedited_minimum_order", "expedited_case_pack"):
            number(name, getattr(self, name))
        for name in ("fill_rate", "service_level"):
            value = getattr(self, name)
            if value is None:
                continue
            if not 0.0 < value < 1.0:
                raise InputError(name, value, "a share between 0 and 1, such as 0.95")
            if self.shortage > 0.0:
                raise InputError("shortage", self.shortage, f"0 with {name}, which takes its place")
        if self.fill_rate is not None and self.service_level is not None:
            raise InputError("fill_rate, service_level", "both", "one of them")
        if self.has_calendar:
            self._days.check()
            _ = self.calendar, self.clock
        self._check_suppliers()
        if not self.is_general:
            return
        if self.shelf_life is not None and self.spoilage > 0.0:
            raise InputError("spoilage", self.spoilage, "0 together with shelf_life")
        for name in ("base_stock_levels", "order_caps", "order_cycles", "is_planned"):
            if getattr(self, name):
                other = "stability_cost or change_budget" if name == "is_planned" else name
                raise InputError(
                    other,
                    "a setting",
                    "none together with a calendar, a shelf life, an uncertain lead time, price breaks or a target",
                )

    def _check_lead_times(self) -> None:
        """A table of lead times is one under which orders do not cross; `lead_time` is then the longest."""
        lead_time: Any = self.lead_time
        if isinstance(lead_time, Mapping):
            if self.lead_times:
                raise InputError("lead_time, lead_times", "both", "one of them")
            object.__setattr__(self, "lead_times", lead_time)
        shares = lead_time_shares("lead_time", self.lead_times) if self.lead_times else ()
        if shares:
            if not isinstance(lead_time, Mapping) and lead_time not in (2, shares[-1][0]):  # 2: the default
                raise InputError("lead_time", lead_time, f"nothing beside the table {table_words(shares)}")
            object.__setattr__(self, "lead_time", shares[-1][0])
        object.__setattr__(self, "lead_times", shares if len(shares) > 1 else ())
        if self.lead_times and self.expedited_lead_time is not None:
            raise InputError(
                "lead_time", "several", "one with two suppliers: leave out lead_times or the second supplier"
            )

    def _check_suppliers(self) -> None:
        if self.expedited_lead_time is None:
            others = [name for name in self.__dataclass_fields__ if name.startswith("expedited_")]
            for name in (*others, "suppliers"):
                if getattr(self, name):
                    raise InputError("expedited_lead_time", "nothing", f"periods, because {name} is given")
            return
        lead, sizes = self.lead_time, self.order_sizes
        if not whole("expedited_lead_time", self.expedited_lead_time, 0, 12) < lead:
            raise InputError("expedited_lead_time", self.expedited_lead_time, f"less than lead_time, {lead}")
        if self.orders != "quantity":
            raise InputError("orders", "'level'", "'quantity' with two suppliers")
        object.__setattr__(self, "expedited_sizes", ascending("expedited_sizes", self.expedited_sizes or sizes, 0.0))
        names = tuple(self.suppliers) or ("regular", "expedited")
        if len(names) != 2 or len(set(names)) != 2 or not all(isinstance(x, str) and x.strip() for x in names):
            raise InputError(
                "suppliers", list(names), "two names that differ: the regular and the expedited supplier's"
            )
        object.__setattr__(self, "suppliers", names)
        for name, values in (("order_sizes", sizes), ("expedited_sizes", self.expedited_sizes)):
            for i, x in enumerate(values):
                if x != int(x):
                    raise InputError(name, x, "a whole number with two suppliers", index=i)

    @property
    def pairs(self) -> tuple[tuple[float, float], ...]:
        """Every regular order with every expedited one, as actions."""
        regular = self.order_sizes
        return tuple((slow, fast) for slow in regular for fast in self.expedited_sizes)

    @property
    def _fast(self) -> Calendar:
        """The calendar of expedited orders."""
        return self._calendar_of(self.expedited_lead_time or 0)

    @property
    def places(self) -> int:
        """Open orders that can be told apart."""
        if self.lead_times:
            return self.lead_time
        return max(self.calendar.places, self._fast.places) if self.has_two_suppliers else self.calendar.places

    @property
    def is_merged(self) -> bool:
        """Whether what arrives next counts as stock: the costs are the same, and there are fewer states."""
        return self.unmet == "lost" and self.shelf_life is None

    def general_params(self, plain: rules.Params) -> general_rules.Params:
        """The parameters as `general_rules` read them."""
        calendar = self.calendar
        (at, costs), (fast_at, fast_costs) = _columns(self.price_breaks), _columns(self.expedited_price_breaks)
        return general_rules.Params(
            *plain,
            life=float(self.shelf_life or 0),
            lifo=float(self.issuing == "lifo"),
            disposal=float(self.disposal),
            missed_unit=float(self.missed_unit),
            missed_period=float(self.missed_period),
            merge=float(self.is_merged),
            periods=float(len(calendar.open)),
            open=calendar.open,
            due=calendar.due,
            slot=calendar.slot,
            span=calendar.span,
            levels=(0.0,) * self._spans,
            fast_slot=self._fast.slot,
            fast_unit_cost=float(self.expedited_unit_cost),
            fast_fixed_cost=float(self.expedited_fixed_cost),
            fast_minimum_order=float(self.expedited_minimum_order),
            fast_case_pack=float(self.expedited_case_pack),
            incremental=float(self.discount == "incremental"),
            break_at=at,
            break_cost=costs,
            fast_break_at=fast_at,
            fast_break_cost=fast_costs,
        )

    @property
    def _spans(self) -> int:
        """Length of `levels`: the same for every calendar with the same days, whatever holidays make of it."""
        apart = self._days.cycle if self.order_days and self.review_periods > 1 else self.review_periods
        return 2 * apart + self.lead_time + (21 if self.holidays else 14)

    def general_state(
        self, on_hand: float, open_orders: Sequence[float], last: float | None, ages: Sequence[float],
        clock: int | None,
    ) -> general_rules.State:  # fmt: skip
        """The starting state: `open_orders[i]` arrives i periods from now (where the lead time is uncertain: was placed
        i + 1 periods ago), `ages[i]` units have i + 1 periods left."""
        calendar, place = self.calendar, self.clock if clock is None else whole("clock", clock, 0, 10_000)
        if place is None:
            raise InputError("clock", "nothing", "a date of the period, or the place in the calendar")
        if place >= len(calendar.open):
            raise InputError("clock", place, f"a place of the calendar, from 0 to {len(calendar.open) - 1}")
        low = 0.0 if self.unmet == "lost" else -NO_LIMIT
        stock = number("on_hand", on_hand, low, NO_LIMIT)
        pipeline = [0.0] * self.places
        for i, units in enumerate(open_orders):
            units = number(f"open_orders[{i}]", units, 0.0, NO_LIMIT)
            if units == 0.0:
                continue
            if self.lead_times:  # by age: nobody knows when they arrive
                pipeline[min(i, len(pipeline) - 1)] += units
                continue
            if not calendar.due[(place + i) % len(calendar.due)]:
                near = calendar.delivery(place, int(sum(_due(calendar, place, i))))
                raise InputError(
                    f"open_orders[{i}]", f"{units:g} units {i} periods from now",
                    f"nothing on a day without deliveries; the next is {near} periods from now",
                )  # fmt: skip
            before = int(sum(_due(calendar, place, i)))
            if before >= len(pipeline):
                raise InputError("open_orders", f"{units:g} units {i} periods from now", "no later than today's order")
            pipeline[before] += units
        by_age = [number(f"ages[{i}]", x, 0.0, NO_LIMIT) for i, x in enumerate(ages)]
        if len(by_age) > self.ages:
            expected = f"at most {self.ages}: shelf_life less one" if self.ages else "none without a longer shelf_life"
            raise InputError("ages", f"{len(by_age)} values", expected)
        by_age += [0.0] * (max(1, self.ages) - len(by_age))
        if self.shelf_life is not None and sum(by_age) != max(stock, 0.0):
            raise InputError(
                "ages", f"{sum(by_age):g} units with periods left and on_hand {stock:g}", "the same number",
                hint="ages_1 can be sold in one more period, ages_2 in two, ...",
            )  # fmt: skip
        if last is None:
            newest_first = list(open_orders) if self.lead_times else list(reversed(list(open_orders)))
            last = next((x for x in newest_first if x), 0.0)
        previous = number("last", last, 0.0, NO_LIMIT)
        has_ramp = self.ramp is not None
        return general_rules.State(stock, tuple(pipeline), previous if has_ramp else 0.0, tuple(by_age), float(place))

    def general_parts(self, s: Any, a: Any, y: Any, p: Any) -> dict[str, float]:
        """What a period cost and moved: as of plain inventories, with what was discarded, and the costs by kind."""
        if self.has_two_suppliers:
            quantity, paid = supplier_rules.ordered(s, a, p), supplier_rules.spend(s, a, p)
            pipeline = supplier_rules.with_orders(s, a, p)
        else:
            quantity, paid = float(rules.ordered(s, a, p)), general_rules.spend(s, a, p)
            pipeline = general_rules.placed((*s.pipeline, 0.0), p.slot[int(s.clock)], quantity)
        if self.lead_times:
            arriving = uncertain_rules.arriving_of(uncertain_rules.by_age(s, quantity), y.draw, s, p)
            y = y.demand
        else:
            arriving = general_rules.arriving_of(pipeline, s, p)
        by_age = general_rules.issued(s, arriving, y, p)
        demand, owed, short = max(float(y), 0.0), max(-s.on_hand, 0.0), by_age[-1]
        missed, left = min(short, demand), sum(by_age[1:-1])
        revenue = p.price * (demand + owed - short)
        parts = {
            "holding": p.holding * left,
            "shortage": p.shortage * short + p.missed_unit * missed + (p.missed_period if missed > 0.0 else 0.0),
            "ordering": paid,
            "revenue": revenue,
            "demand": float(y),
            "served": demand - missed,
            "in_full": float(missed <= 0.0),
            "stock": p.keep * left,
            "order": quantity,
            "orders": float(quantity > 0.0),
        }
        if self.has_two_suppliers:
            parts["expedited"] = supplier_rules.expedited_of(a, p)
        if p.life > 0.0:
            parts |= {"waste": by_age[0], "disposal": p.disposal * by_age[0]}
        return parts

    def general_figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Fill rate: share of demand served from stock in its own period."""
        calendar = self.calendar
        clock = states[:, :, -1].astype(np.int64)
        due, slot = np.array(calendar.due)[clock], np.array(calendar.slot)[clock]
        orders = np.nan_to_num(actions)
        if self.has_two_suppliers:
            orders, slot = unpacked(orders, 2)[..., 1], np.array(self._fast.slot)[clock]
        arriving = due * (states[:, :, 1] + np.where(slot == 0.0, orders, 0.0))
        if self.lead_times:
            outcomes, draw = outcomes[..., 0], outcomes[..., 1]
            ages = np.arange(1, self.places + 1)
            old = states[:, :, 1 : self.places + 1] * (ages >= draw[..., None])
            arriving = due * (old.sum(axis=2) + np.where(draw == 0.0, orders, 0.0))
        served = np.minimum(np.maximum(states[:, :, 0] + arriving, 0.0), outcomes).sum(axis=1)
        demand = outcomes.sum(axis=1)
        return {"fill_rate": np.where(demand > 0.0, served / np.where(demand > 0.0, demand, 1.0), 1.0)}

    def at_level(self, level: float) -> Any:
        """Where a replay begins: `level` units in stock, and as much for every period until today's order arrives."""
        if not self.is_general:
            lead = self.lead_time
            return self.state(level, [level] * lead, level)
        if self.lead_times:
            usual = round(math.fsum(lead * share for lead, share in self.lead_shares))
            ages = [level] * (self.ages and 1)
            stock = level if self.ages or self.shelf_life is None else 0.0
            return self.state(stock, [level] * usual, level, ages=[0.0] * (self.ages - len(ages)) + ages,
                              clock=self.clock or 0)  # fmt: skip
        calendar, place = self.calendar, self.clock or 0
        ahead = calendar.arrival(place)
        orders = [0.0] * ahead
        waiting = 0.0
        for i in range(ahead):
            waiting += level
            if calendar.due[(place + i) % len(calendar.due)]:
                orders[i], waiting = waiting, 0.0
        ages = [0.0] * self.ages
        if ages:
            ages[-1] = level
        stock = level if self.ages or self.shelf_life is None else 0.0
        return self.state(stock, orders, level, ages=ages, clock=place)

    def dated(self, first: str) -> Any:
        """The same inventory, whose calendar begins with another day."""
        return dataclasses.replace(self, first_day=first) if self.has_calendar else self

    def covering(self, periods: int) -> Any:
        """The same inventory, whose calendar with holidays reaches so many periods at least."""
        if not self.holidays or len(self.calendar.open) >= periods:
            return self
        return dataclasses.replace(self, calendar_length=periods)


def _breaks(field: str, value: Any, first: float) -> Breaks:
    """Sizes of orders, ascending, and the unit costs from there on, which fall."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    breaks: list[tuple[float, float]] = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(field, repr(value), "a unit cost for each order size, such as {100 = 4.5, 500 = 4.2}")
        try:
            size = float(pair[0])
        except (TypeError, ValueError):
            raise InputError(field, repr(pair[0]), "units of an order") from None
        breaks.append((number(field, size, 0.0, NO_LIMIT), number(f"{field}[{size:g}]", pair[1])))
    breaks.sort()
    before = (0.0, first)
    for size, cost in breaks:
        if not size > before[0]:
            raise InputError(field, f"{size:g}", "order sizes above 0, each once")
        if not cost < before[1]:
            raise InputError(f"{field}[{size:g}]", cost, f"less than {before[1]:g}, the unit cost of smaller orders")
        before = (size, cost)
    return tuple(breaks)


def _columns(breaks: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes and unit costs as parameters; a size that no order reaches where there are none."""
    pairs = tuple(breaks) or ((NO_LIMIT, 0.0),)
    return tuple(size for size, _ in pairs), tuple(cost for _, cost in pairs)


def _due(calendar: Calendar, place: int, periods: int) -> list[float]:
    return [calendar.due[(place + k) % len(calendar.due)] for k in range(periods)]
