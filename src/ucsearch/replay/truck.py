"""One truck a day for many items: who gets how much, by proved values and by the rules that planners use.

Every chooser here keeps the limits on each day. What an item orders is a quantity in whole packs (whole pieces where
there is no pack), so the task's actions are quantities.

>>> load = Trucks(group=np.array([0, 0, 1]), litres=np.array([1.0, 2.0, 5.0]), limits=np.array([40.0, 60.0]))
>>> load.used(np.array([10.0, 5.0, 4.0])).tolist()
[20.0, 20.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.api import Terms, allocate_cases
from ucsearch.allocation.cases import Case, cases_of
from ucsearch.allocation.problem import Shared
from ucsearch.decision.api import decide_panel
from ucsearch.decision.decision import DecisionPanel
from ucsearch.decision.gate import Calibration, Gate
from ucsearch.errors import InputError
from ucsearch.policies import PROOF, Policy, Proof, Run
from ucsearch.replay.choosers import COMPILED
from ucsearch.replay.panel import Panel
from ucsearch.replay.roster import Entry
from ucsearch.replay.walk import Choice, Seen
from ucsearch.trace import Trace

__all__ = [
    "Demand",
    "Items",
    "TruckRule",
    "TruckValues",
    "Trucks",
    "by_days_of_cover",
    "by_expected_loss",
    "by_gain",
    "in_proportion",
    "newsvendor",
    "order_up_to",
    "reorder_point",
    "truck_rules",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LEAST_RATIO, _MOST_RATIO = 0.01, 0.999  # fractiles that sample paths can tell
_ROUNDING = 1e-9  # of a limit or a pack: decimals that binary numbers miss
_HALVINGS = 60  # of an interval of days of cover
BEST = Terms(serve="best")


@dataclass(frozen=True, eq=False)
class Trucks:
    """Which items share a truck, and how much it carries each day."""

    group: Ints  # (N,) number of each item's truck, from 0
    litres: Floats  # (N,) volume of a unit
    limits: Floats  # (G,) litres a day, or (T, G) by day

    def __post_init__(self) -> None:
        for name, values in (("litres", self.litres), ("limits", self.limits)):
            wrong = ~(np.isfinite(values) & (values >= 0.0))
            if wrong.any():
                place = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise InputError(name, float(values[place]), "finite numbers of at least 0", index=place)
        if len(self.group) != len(self.litres):
            raise InputError("litres", len(self.litres), f"one for each of {len(self.group)} items")
        if self.group.min() < 0 or self.group.max() >= self.limits.shape[-1]:
            raise InputError("group", int(self.group.max()), f"numbers from 0 to {self.limits.shape[-1] - 1}")

    @property
    def items(self) -> list[Ints]:
        """The items of every truck."""
        return [np.flatnonzero(self.group == g) for g in range(self.limits.shape[-1])]

    def limit(self, day: int) -> Floats:
        """(G,) litres on a `day`, from 0."""
        return np.asarray(self.limits if self.limits.ndim == 1 else self.limits[day])

    def used(self, quantity: Floats) -> Floats:
        """(G,) litres that the orders take."""
        litres = np.bincount(self.group, np.nan_to_num(quantity) * self.litres, self.limits.shape[-1])
        return np.asarray(litres, np.float64)


class Demand:
    """Demand of all items of a panel until the order after this one can arrive, sorted by sample path; made once a day
    for all rules."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Floats, Floats, Floats]] = {}

    def at(self, seen: Seen, lead: int) -> tuple[Floats, Floats, Floats]:
        """(N, J) totals over `lead` + 1 periods ascending, the weights that each reaches, (N,) mean of a period."""
        if seen.t not in self._known:
            span = np.maximum(seen.trace.members[:, :, : lead + 1, 0], 0.0)
            totals = span.sum(axis=2)
            weights = np.broadcast_to(seen.trace.weights, totals.shape)
            order = np.argsort(totals, axis=1, kind="stable")
            reached = np.take_along_axis(weights, order, axis=1).cumsum(axis=1)
            mean = (weights * span.mean(axis=2)).sum(axis=1)
            self._known[seen.t] = (np.take_along_axis(totals, order, axis=1), reached, mean)
        return self._known[seen.t]


@dataclass(frozen=True, eq=False)
class Items:
    """What a rule knows of some items on a day. N items, J sample paths."""

    position: Floats  # (N,) units in stock and on order
    totals: Floats  # (N, J) demand until the order after this one can arrive, ascending
    reached: Floats  # (N, J) weight of the paths up to each
    mean: Floats  # (N,) demand of a period
    under: Floats  # (N,) currency per unit short
    holding: Floats  # (N,) currency per unit and period
    fixed_cost: Floats  # (N,) currency per order
    pack: Floats  # (N,) units
    room: Floats  # (N,) units that may be ordered at most, in whole packs
    litres: Floats  # (N,) volume of a unit

    def __getitem__(self, which: Ints) -> Items:
        return Items(**{name: values[which] for name, values in vars(self).items()})

    def fractile(self, ratio: Floats | float) -> Floats:
        """(N,) the smallest total that weights of at least `ratio` do not exceed."""
        ratios = np.broadcast_to(np.asarray(ratio, np.float64), self.position.shape)
        at = np.minimum((self.reached < ratios[:, None] - 1e-12).sum(axis=1), self.totals.shape[1] - 1)
        return np.asarray(self.totals[np.arange(len(at)), at])

    def ratio(self, scale: float) -> Floats:
        """(N,) each item's critical fractile, its odds times `scale`."""
        odds = scale * self.under / np.maximum(self.holding, 1e-300)
        return np.clip(odds / (1.0 + odds), _LEAST_RATIO, _MOST_RATIO)

    @property
    def economic_quantity(self) -> Floats:
        """(N,) EOQ, sqrt(2 K D / h); 0 where stock or an order costs nothing."""
        holding = np.where(self.holding > 0.0, self.holding, np.inf)
        return np.sqrt(2.0 * self.fixed_cost * self.mean / holding)

    def shortage_cost(self, stock: Floats) -> Floats:
        """(N,) currency expected short when `stock` units serve demand until the order after this one can arrive."""
        weights = np.diff(self.reached, axis=1, prepend=0.0)
        return np.asarray(self.under * (weights * np.maximum(self.totals - stock[:, None], 0.0)).sum(axis=1))

    def in_packs(self, quantity: Floats) -> Floats:
        """(N,) rounded up to whole packs, as far as an order may go."""
        packs = np.ceil(np.maximum(quantity, 0.0) / self.pack - _ROUNDING)
        return np.minimum(packs * self.pack, self.room)


Wish = Callable[[Items], Floats]
Fill = Callable[[Items, Floats, float], Floats]


# -------------------------------------------------------------------- what an item would order alone


def order_up_to(items: Items, ratio: float | Floats) -> Floats:
    """Base-stock: order up to the fractile of demand until the order after this one can arrive."""
    return items.in_packs(items.fractile(ratio) - items.position)


def reorder_point(items: Items, ratio: float | Floats, eoq: float = 1.0) -> Floats:
    """(s,S): at or below the fractile, order up to `eoq` economic order quantities above it."""
    low = items.fractile(ratio)
    quantity = low + eoq * items.economic_quantity - items.position
    return items.in_packs(np.where(items.position <= low, quantity, 0.0))


def newsvendor(items: Items, scale: float = 1.0) -> Floats:
    """Packs as long as one more is expected to save money (a single-period newsvendor for every item)."""
    return items.in_packs(np.floor(order_up_to(items, items.ratio(scale)) / items.pack + _ROUNDING) * items.pack)


# -------------------------------------------------------------------- who gets how much when the truck is too small


def in_proportion(items: Items, wish: Floats, limit: float) -> Floats:
    """Every order cut by the same share, rounded down to whole packs."""
    share = limit / float((wish * items.litres).sum())
    return np.floor(wish * share / items.pack + _ROUNDING) * items.pack


def by_days_of_cover(items: Items, wish: Floats, limit: float) -> Floats:
    """Fair share: all items are lifted to the same days of cover, none above its wish."""
    mean = np.maximum(items.mean, 1e-12)

    def lifted(cover: float) -> Floats:
        quantity = np.minimum(wish, np.maximum(cover * mean - items.position, 0.0))
        return np.asarray(np.floor(quantity / items.pack + _ROUNDING) * items.pack)

    low, high = 0.0, float(((items.position + wish) / mean).max())
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = float((lifted(middle) * items.litres).sum()) <= limit
        low, high = (middle, high) if fits else (low, middle)
    return lifted(low)


def by_expected_loss(items: Items, wish: Floats, limit: float) -> Floats:
    """Orders in the descending order of the shortage they are expected to avoid per litre; who does not fit whole gets
    the packs that do."""
    avoided = items.shortage_cost(items.position) - items.shortage_cost(items.position + wish)
    volume = np.maximum(wish * items.litres, 1e-300)
    return _loaded(items, wish, limit, avoided / volume)


def by_gain(items: Items, wish: Floats, limit: float) -> Floats:
    """Pack by pack, the one that is expected to save most per litre first (Hadley and Whitin 1963, section 6-3)."""
    most = int(np.max(np.round(wish / items.pack), initial=0.0))
    if most == 0:
        return np.zeros(len(wish))
    steps = np.arange(most + 1)
    stock = items.position[:, None] + steps * items.pack[:, None]
    short = np.stack([items.shortage_cost(stock[:, k]) for k in steps], axis=1)
    # What is held is what was there and what came, less what was served.
    holding_cost = items.holding[:, None] * (stock + short / np.maximum(items.under, 1e-300)[:, None])
    gain = -np.diff(short + holding_cost, axis=1)
    gain = np.where(steps[1:] <= np.round(wish / items.pack)[:, None], gain, -np.inf)
    volume = np.maximum(items.pack * items.litres, 1e-300)
    rank = np.argsort(-(gain / volume[:, None]), axis=None, kind="stable")
    packs, room, closed = np.zeros(len(wish)), limit * (1.0 + _ROUNDING), np.zeros(len(wish), np.bool_)
    for place in rank.tolist():
        item = place // most
        if not gain.flat[place] > 0.0:
            break
        if not closed[item] and volume[item] <= room:
            packs[item] += 1.0
            room -= volume[item]
        else:
            closed[item] = True  # its later packs are worth less and are not smaller
    return packs * items.pack


def _loaded(items: Items, wish: Floats, limit: float, rank: Floats) -> Floats:
    """Wishes in descending `rank`, each as many whole packs as fit."""
    out, room = np.zeros(len(wish)), limit * (1.0 + _ROUNDING)
    for i in np.argsort(-rank, kind="stable").tolist():
        pack = float(items.pack[i])
        volume = pack * float(items.litres[i])
        packs = round(float(wish[i]) / pack)
        fitting = packs if volume == 0.0 else min(packs, math.floor(room / volume))
        out[i] = fitting * pack
        room -= fitting * volume
    return out


# -------------------------------------------------------------------- as choosers


class TruckRule:
    """A rule for every item, then a way to fill the truck where their wishes do not fit."""

    free = True

    def __init__(self, panel: Panel, trucks: Trucks, wish: Wish, fill: Fill, demand: Demand | None = None) -> None:
        self.panel, self.trucks, self.wish, self.fill = panel, trucks, wish, fill
        self.demand = Demand() if demand is None else demand
        self._places = trucks.items

    def __call__(self, seen: Seen) -> Choice:
        items = _items(self.panel, seen, self.trucks, self.demand)
        order = self.wish(items)
        limits = self.trucks.limit(seen.t)
        for g in np.flatnonzero(self.trucks.used(order) > limits * (1.0 + _ROUNDING)).tolist():
            which = self._places[g]
            order[which] = self.fill(items[which], order[which], float(limits[g]))
        return Choice(order, np.zeros(len(order), np.int64))


class TruckValues:
    """Proved values of every order size of every item (closed mode), then the truck: by the price of a litre with a
    proved gap, or greedily by value per litre. `law` makes a law of the outcomes out of the forecast."""

    def __init__(
        self, panel: Panel, trucks: Trucks, policy: Policy, law: Callable[[Seen], Trace], *,
        fill: Literal["price", "greedy"] = "price", proof: Proof = PROOF, how: Run | None = None,
        gate: Gate | None = None, calibration: Calibration | None = None,
        keep: Callable[[int, DecisionPanel], None] | None = None, terms: Terms = BEST,
    ) -> None:  # fmt: skip
        self.panel, self.trucks, self.policy, self.law = panel, trucks, policy, law
        self.fill, self.proof, self.how = fill, proof, how or COMPILED
        self.gate, self.calibration, self.keep, self.terms = gate, calibration, keep, terms
        self.gaps: list[float] = []  # of every truck and day that was full, as a share of what the limit costs
        self.released = np.zeros(len(panel), np.int64)  # decisions of each item that were proved
        self._places = trucks.items

    def __call__(self, seen: Seen) -> Choice:
        decided = decide_panel(
            self.panel.task, seen.state, self.law(seen), self.policy, params=seen.params, actions=seen.actions,
            run=self.how, proof=self.proof, gate=self.gate, calibration=self.calibration,
        )  # fmt: skip
        if self.keep is not None:
            self.keep(seen.t, decided)
        released = decided.outcome == "RELEASED"
        self.released += released
        cases = cases_of(decided, [str(n) for n in range(len(self.panel))])
        order = np.nan_to_num(np.array(decided.action, np.float64))  # on hold nothing is sent
        limits = self.trucks.limit(seen.t)
        for g in np.flatnonzero(self.trucks.used(order) > limits).tolist():
            which = self._places[g].tolist()
            chosen = self._priced if self.fill == "price" else self._greedy
            order[which] = chosen([cases[i] for i in which], float(limits[g]))
        return Choice(
            order, np.array(decided.certified.plan.expansions, np.int64),
            certificate={"released": np.asarray(released, np.float64)},
        )  # fmt: skip

    def _priced(self, cases: Sequence[Case], limit: float) -> Floats:
        litres = {case.series: float(self.trucks.litres[int(case.series)]) for case in cases}
        truck = Shared(name="truck", limit=limit, use="units", times=litres)
        allocation = allocate_cases(cases, truck, self.terms)
        if allocation.result is not None:
            cost = allocation.result.cost_of_budget
            self.gaps.append(allocation.result.gap / cost if cost > 0.0 else 0.0)
        return np.array([0.0 if share.action is None else share.action for share in allocation.shares])

    def _greedy(self, cases: Sequence[Case], limit: float) -> Floats:
        out, room, rank = np.zeros(len(cases)), limit, []
        for i, case in enumerate(cases):
            litres = float(self.trucks.litres[int(case.series)])
            wish = 0.0 if case.action is None else case.action
            if case.action is None or 0.0 not in case.actions:
                room -= wish * litres
                out[i] = wish
                continue
            gain = case.lower[case.actions.index(wish)] - case.lower[case.actions.index(0.0)]
            rank.append((-gain / max(wish * litres, 1e-300), i, wish, litres))
        for _, i, wish, litres in sorted(rank):
            values = zip(cases[i].actions, cases[i].lower.tolist(), strict=True)
            sizes = [a for a, value in values if a <= wish and a * litres <= room and not math.isnan(value)]
            out[i] = max(sizes, default=0.0)
            room -= out[i] * litres
        return out


def _items(panel: Panel, seen: Seen, trucks: Trucks, demand: Demand) -> Items:
    layout = panel.task.params_layout
    if layout is None or not hasattr(panel.config, "lead_time"):
        raise InputError("task", repr(panel.task.name), "an inventory that orders quantities")
    rows = panel.task.params_row if seen.params is None else seen.params
    p: Any = layout.columns(np.broadcast_to(rows, (len(seen.rows), np.asarray(rows).shape[-1])))
    if bool(np.any(p.by_level)):
        raise InputError("task.orders", "level", "quantity, where items share a truck")
    state = seen.state
    position = np.asarray(state.on_hand, np.float64) + np.asarray(state.pipeline, np.float64).sum(axis=-1)
    totals, reached, mean = demand.at(seen, int(panel.config.lead_time))
    pack = np.where(p.case_pack > 0.0, p.case_pack, 1.0)
    price = np.where(p.unit_cost > 0.0, p.unit_cost, 1.0)
    affordable = np.where(p.unit_cost > 0.0, (p.budget - p.fixed_cost) / price, np.inf)
    most = np.minimum(np.minimum(p.largest_order, p.capacity - position), affordable)
    room = np.floor(np.maximum(most, 0.0) / pack + _ROUNDING) * pack
    under = p.shortage + np.maximum(p.price - p.unit_cost, 0.0)
    return Items(position, totals, reached, mean, under, p.holding, p.fixed_cost, pack, room, trucks.litres)


# -------------------------------------------------------------------- the opponents, each with its knobs

_SCALES = (1.0, 0.06, 0.12, 0.25, 0.5, 2.0, 4.0)  # of the odds of an item's own critical fractile
_RATIOS = (0.9, 0.6, 0.7, 0.8, 0.85, 0.94, 0.97, 0.985)
_EOQS = (1.0, 0.15, 0.25, 0.4, 0.65, 1.5, 2.2)


def truck_rules(panel: Panel, trucks: Trucks) -> list[Entry]:
    """What planners would use on these trucks, each with the values of its knobs, the default first."""
    demand = Demand()

    def entry(name: str, note: str, rule: Callable[..., Wish], fill: Fill, **knobs: tuple[float, ...]) -> Entry:
        def make(**setting: float) -> TruckRule:
            return TruckRule(panel, trucks, rule(**setting), fill, demand)

        return Entry(name, "classic", make, note, knobs)

    return [
        entry(
            "(s,S) by item, filled by loss", "item's own fractile; expected loss per litre first",
            lambda scale=1.0, eoq=1.0: lambda items: reorder_point(items, items.ratio(scale), eoq), by_expected_loss,
            scale=_SCALES, eoq=_EOQS,
        ),
        entry(
            "(s,S), filled by loss", "one fractile; expected loss per litre first",
            lambda ratio=0.9, eoq=1.0: lambda items: reorder_point(items, ratio, eoq), by_expected_loss,
            ratio=_RATIOS, eoq=_EOQS,
        ),
        entry(
            "newsvendor by the pack", "gain per litre, pack by pack",
            lambda scale=1.0: lambda items: newsvendor(items, scale), by_gain, scale=_SCALES,
        ),
        entry(
            "base-stock, fair share", "equal days of cover",
            lambda ratio=0.9: lambda items: order_up_to(items, ratio), by_days_of_cover, ratio=_RATIOS,
        ),
        entry(
            "base-stock, in proportion", "every order cut by the same share",
            lambda ratio=0.9: lambda items: order_up_to(items, ratio), in_proportion, ratio=_RATIOS,
        ),
    ]  # fmt: skip
