"""Calendar, shelf life, uncertain lead time, price breaks, penalties and two suppliers, alone and combined, against a
naive simulator."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

import ucsearch as uc
from tests.tasks import shop as naive
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import verify_record

LEADS = (((0, 0.25), (1, 0.75)), ((1, 0.5), (2, 0.5)), ((1, 0.2), (2, 0.3), (3, 0.5)), ((2, 0.7), (3, 0.3)))
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONDAY = datetime.date(2024, 5, 20)


class Case:
    """A random combination of rules, as a task and as a shop."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        on = {name: rng.random() < 0.5 for name in ("calendar", "life", "fast", "backorders", "missed", "limits")}
        on["level"] = not on["fast"] and rng.random() < 0.2
        extra = np.random.default_rng([seed, 37])
        on["leads"] = not on["fast"] and extra.random() < 0.4
        on["breaks"] = extra.random() < 0.4
        self.depth = 3 if on["fast"] or on["leads"] else 4
        lead = int(rng.integers(1 if on["fast"] else 0, 4))
        start = int(rng.integers(0, 7))
        shop: dict = {"lead": lead, "backorders": bool(on["backorders"])}
        task: dict = {"lead_time": lead, "unmet": "backordered" if on["backorders"] else "lost"}
        for name, top in (("holding", 3), ("shortage", 9), ("price", 4), ("unit_cost", 3), ("fixed_cost", 4)):
            shop[name] = task[name] = float(rng.integers(0, top))
        if on["leads"]:
            shop["leads"] = LEADS[int(extra.integers(len(LEADS)))]
            lead = shop["lead"] = task["lead_time"] = shop["leads"][-1][0]
            task["lead_time"] = dict(shop["leads"])
        if on["breaks"]:
            task["unit_cost"] = shop["unit_cost"] = task["unit_cost"] + 2.0
            shop["breaks"] = ((2.0, task["unit_cost"] - 1.0), (4.0, task["unit_cost"] - 1.5))[: extra.integers(1, 3)]
            task["price_breaks"] = dict(shop["breaks"])
            shop["incremental"] = bool(extra.random() < 0.5)
            task["discount"] = "incremental" if shop["incremental"] else "all-units"
        if rng.random() < 0.5:
            shop["salvage"] = task["salvage"] = min([task["unit_cost"], *(c for _, c in shop.get("breaks", ()))])
        how = rng.integers(0, 3) if on["calendar"] else 3
        first = MONDAY + datetime.timedelta(days=start)
        if how == 0:
            shop["open"] = tuple(c == 0 for c in range(3))
            task |= {"review_periods": 3, "review_start": str(MONDAY), "calendar_period": "day"}
        elif how < 3:
            shop["open"], shop["due"] = self._days(rng), self._days(rng)
            task |= {"order_days": [d for d, f in zip(DAYS, shop["open"], strict=True) if f]}
            task |= {"delivery_days": [d for d, f in zip(DAYS, shop["due"], strict=True) if f]}
            task |= {"calendar_period": "day"}
            if how == 2:
                shop["closed"] = frozenset(int(x) for x in rng.integers(0, 14, 3))
                task["holidays"] = [str(MONDAY + datetime.timedelta(days=d)) for d in sorted(shop["closed"])]
            self._review(np.random.default_rng([seed, 41]), shop, task)
        task["first_day"] = str(first) if how < 3 else ""
        if on["life"]:
            shop["life"] = task["shelf_life"] = int(rng.integers(1, 5))
            shop["lifo"] = bool(rng.random() < 0.5)
            task["issuing"] = "lifo" if shop["lifo"] else "fifo"
            shop["disposal"] = task["disposal"] = float(rng.integers(0, 4))
        if on["missed"]:
            shop["missed_unit"] = task["missed_unit"] = float(rng.integers(0, 6))
            shop["missed_period"] = task["missed_period"] = float(rng.integers(0, 6))
        if on["limits"]:
            shop["capacity"] = task["capacity"] = float(rng.integers(6, 12))
            shop["largest"] = task["largest_order"] = float(rng.integers(2, 6))
            if rng.random() < 0.5:
                shop["ramp"] = task["ramp"] = float(rng.integers(1, 4))
            if rng.random() < 0.5:
                shop["minimum"] = task["minimum_order"] = 2.0
                shop["pack"] = task["case_pack"] = float(rng.integers(0, 3))
            if rng.random() < 0.5:
                shop["budget"] = task["order_budget"] = float(rng.integers(5, 12))
        if on["fast"]:
            shop["fast_lead"] = task["expedited_lead_time"] = int(rng.integers(0, lead))
            for name, key, top in (
                ("unit_cost", "fast_unit_cost", 5), ("fixed_cost", "fast_fixed_cost", 3),
                ("minimum_order", "fast_minimum", 3), ("case_pack", "fast_pack", 3),
            ):  # fmt: skip
                shop[key] = task[f"expedited_{name}"] = float(rng.integers(0, top))
        sizes = [0.0, 1.0, 3.0] if not on["level"] else [0.0, 2.0, 5.0]
        if on["fast"] and on["breaks"]:
            shop["fast_unit_cost"] = task["expedited_unit_cost"] = task["expedited_unit_cost"] + 1.0
            shop["fast_breaks"] = ((3.0, task["expedited_unit_cost"] - 1.0),)
            task["expedited_price_breaks"] = dict(shop["fast_breaks"])
        shop["by_level"] = bool(on["level"])
        if on["level"]:
            task["orders"] = "level"
        self.shop = naive.Shop(**shop)
        self.config = LeadTimeInventory(order_sizes=sizes, **task)
        self.is_general = self.config.is_general
        self.actions = list(self.config.task().actions)
        self._begin(rng, start)
        points = sorted(rng.choice(5, 2, replace=False).tolist())
        share = float(rng.integers(1, 8)) / 8.0
        self.law = [(float(points[0]), share), (float(points[1]), 1.0 - share)]

    @staticmethod
    def _review(rng: np.random.Generator, shop: dict, task: dict) -> None:
        """Every few days beside the days of the week and holidays, where the two ever meet."""
        every, start = int(rng.integers(2, 5)), int(rng.integers(0, 7))
        both = tuple(shop["open"][day % 7] and (day - start) % every == 0 for day in range(7 * every))
        if rng.random() < 0.6 and any(both):
            shop["open"] = both
            task |= {"review_periods": every, "review_start": str(MONDAY + datetime.timedelta(days=start))}

    @staticmethod
    def _days(rng: np.random.Generator) -> tuple[bool, ...]:
        while True:
            flags = tuple(bool(x) for x in rng.random(7) < 0.45)
            if any(flags):
                return flags

    def _begin(self, rng: np.random.Generator, start: int) -> None:
        shop = self.shop
        orders, due = [], []
        for i in range(shop.lead if shop.leads else 0):
            orders.append(float(rng.integers(0, 3)))
            due += [(start - 1 - i, orders[-1])] if orders[-1] else []
        for i in range(0 if shop.leads else max(naive.arrival(shop, start - 1, shop.lead) - start + 1, 0)):
            units = float(rng.integers(0, 3)) if naive.is_due(shop, start + i) else 0.0
            orders.append(units)
            if units:
                due.append((start + i, units))
        batches, ages, stock, owed = [], [], 0.0, 0.0
        if shop.life:
            ages = [float(x) for x in rng.integers(0, 3, shop.life - 1)]
            batches = [(start + i, units) for i, units in enumerate(ages) if units]
            stock = sum(ages)
        else:
            stock = float(rng.integers(0, 4))
            batches = [(10**9, stock)] if stock else []
        if shop.backorders and rng.random() < 0.4:
            stock, owed, batches, ages = -1.0, 1.0, [], [0.0] * len(ages)
        last = float(rng.integers(0, 3))
        if not self.is_general:  # plain inventories know so many open orders
            orders = orders[: shop.lead]
            due = [(day, units) for day, units in due if day < start + shop.lead]
        self.now = naive.Day(start, tuple(batches), tuple(sorted(due)), owed, last if shop.ramp < math.inf else 0.0)
        self.state = self.config.state(stock, orders, last, ages=ages)

    def trace(self) -> uc.Trace:
        members = np.array([[[y] * self.depth for y, _ in self.law]])[0]
        trace = uc.Trace.from_members(members, weights=[w for _, w in self.law]).declare("independent")
        return self.config.with_draws(trace)


def decided(case: Case, engine: str = "python") -> uc.Decision:
    policy = uc.Exact(depth=case.depth, mode="closed")
    return uc.decide(
        case.config.task(), case.state, case.trace(), policy, run=uc.Run(engine=engine),
        proof=uc.Proof(node_budget=10**7),
    )  # fmt: skip


def scores(record: dict) -> dict:
    actions = [rival["action"] for rival in record["rivals"]]
    keys = [tuple(a) if isinstance(a, list) else a for a in actions]
    return {key: rival["upper"] for key, rival in zip(keys, record["rivals"], strict=True)}


def checked(seed: int) -> tuple[Case, dict]:
    """The record of a decision on a random combination, valid and worth what the simulator says."""
    case = Case(seed)
    wanted = naive.best(case.shop, case.now, case.actions, case.law, case.depth)
    decision = decided(case)
    record, blobs = decision_record(decision)
    if not wanted:
        assert record["outcome"]["cause"] == "dead_end"
        return case, record
    best = max(wanted.values())
    assert math.isclose(-decision_cost(record), best, rel_tol=1e-9, abs_tol=1e-9), (seed, best)
    for action, score in scores(record).items():
        assert math.isclose(score, wanted[action], rel_tol=1e-9, abs_tol=1e-9), (seed, action)
    assert verify_record(record, blobs, case.config.task()).status == "valid"
    return case, record


def decision_cost(record: dict) -> float:
    return -max(scores(record).values())


@pytest.mark.parametrize("part", [0, 1, 2, *(pytest.param(part, marks=pytest.mark.slow) for part in range(3, 10))])
def test_random_combinations_are_worth_what_a_naive_simulator_says(part):
    general = 0
    for seed in range(50 * part, 50 * part + 50):
        case, _ = checked(seed)
        general += case.is_general
    assert general >= 35


def test_holidays_that_close_three_order_days_leave_the_levels_their_length():
    closed = [str(MONDAY + datetime.timedelta(days=7 * k)) for k in (1, 2, 3)]
    shop = LeadTimeInventory(
        lead_time=1, order_days=["monday"], holidays=closed, calendar_period="day", first_day=str(MONDAY),
        order_sizes=[0.0, 4.0, 8.0], fallback_rule="level",
    )  # fmt: skip
    params = shop.params()
    assert shop.span > len(params.levels)
    columns = shop.forecast_columns(uc.Trace.from_members(np.full((5, 40), 2.0)), params)
    assert columns["levels"].shape == (1, len(params.levels))


SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))]


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_combinations_decide_the_same(seed):
    case, record = checked(seed)
    compiled, _ = decision_record(decided(case, "compiled"))
    assert scores(compiled) == scores(record)
    assert compiled["outcome"] == record["outcome"]
