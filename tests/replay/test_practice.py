"""What practice would do: each rule against figures worked out by hand, on the table of orders and free of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.policies import Exact
from ucsearch.replay.choosers import Deterministic, Searched, point_forecast
from ucsearch.replay.ordering import ItemState, SpanDemand, critical_ratio_of, stock_left
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.practice import CalendarStaffing, PriceRule, QuantileStaffing
from ucsearch.replay.roster import Budget, Entry, ordering_rules, practitioners, roster
from ucsearch.replay.tune import tune
from ucsearch.replay.walk import Choice, Seen, parts_of, walk
from ucsearch.task import Task
from ucsearch.tasks import CapacityPlan, LeadTimeInventory, Storage
from ucsearch.tasks.inventory import rules
from ucsearch.trace import Trace

PYTHON = uc.Run(engine="python", threads=1)
ITEM = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), unit_cost=0.5)


def panel_of(config: Any, states: list[Any], members: Any, realised: Any = None, history: Any = ()) -> Panel:
    """One decision for each state unless `realised` (N, T) says more; the same members (J, H) at all of them."""
    task, layout = config.task(), config.task().layout(states[0])
    count = len(states)
    outcome = np.zeros((count, 1)) if realised is None else np.asarray(realised, float)
    paths = np.asarray(members, float)
    return Panel(
        task, config, layout, np.array([layout.flatten(s, "state") for s in states]),
        tuple(Stretch("", f"s{n}", 0, 9, outcome.shape[1], 4, np.zeros(9), 1.0) for n in range(count)),
        np.broadcast_to(paths, (count, outcome.shape[1], *paths.shape)), outcome,
        np.zeros((count, outcome.shape[1], paths.shape[1])), (np.asarray(history, float),) * count, "made",
    )  # fmt: skip


def first(panel: Panel, chooser: Any) -> list[float]:
    return [float(x) for x in walk(panel, chooser, engine="python").actions[:, 0]]


def rule(panel: Panel, name: str, **knobs: Any) -> list[float]:
    return first(panel, {e.name: e for e in ordering_rules(panel, how=PYTHON)}[name].make(**knobs))


def states(config: LeadTimeInventory, *rows: tuple[float, float]) -> list[Any]:
    return [config.state(on_hand, [due]) for on_hand, due in rows]


def test_the_critical_ratio_counts_the_margin() -> None:
    assert critical_ratio_of(LeadTimeInventory(shortage=9.0).params()) == pytest.approx(0.9)
    assert critical_ratio_of(LeadTimeInventory(shortage=1.0, price=4.0, unit_cost=2.0).params()) == pytest.approx(0.75)
    assert critical_ratio_of(LeadTimeInventory(shortage=0.0, holding=0.0).params()) == 0.5
    assert critical_ratio_of(LeadTimeInventory(shortage=0.0).params()) == 0.01


def test_base_stock_orders_up_to_the_fractile() -> None:
    members = [[5.0, 5.0, 9.0], [10.0, 10.0, 9.0]]  # two periods count: 10 or 20, the 90 % fractile is 20
    panel = panel_of(ITEM, states(ITEM, (3.0, 2.0), (9.0, 5.0), (19.0, 5.0)), members)
    assert rule(panel, "base-stock") == [15.0, 5.0, 0.0]  # of 6 wanted 5 is nearest
    assert rule(panel, "base-stock", ratio=0.5) == [5.0, 0.0, 0.0]


def test_the_newsvendor_looks_at_what_is_short_at_arrival() -> None:
    members = [[5.0, 5.0, 9.0], [10.0, 10.0, 9.0]]
    panel = panel_of(ITEM, states(ITEM, (3.0, 2.0), (9.0, 5.0), (19.0, 5.0)), members)
    # Of 5 nothing is left after a demand of 10, so that 10 are short; of 14 there are 4 left. Stockouts are lost.
    free = {e.name: e for e in ordering_rules(panel, how=PYTHON)}["newsvendor, free"].make()
    assert first(panel, free) == [10.0, 6.0, 0.0]
    assert rule(panel, "newsvendor") == [10.0, 5.0, 0.0]
    spoiling = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), spoilage=0.5)
    made = panel_of(spoiling, states(spoiling, (9.0, 5.0)), members)
    assert first(made, {e.name: e for e in ordering_rules(made, how=PYTHON)}["newsvendor, free"].make()) == [8.0]


@pytest.mark.parametrize("options", [{}, {"unmet": "backordered"}, {"spoilage": 0.3}, {"orders": "level"}])
@pytest.mark.parametrize("lead", [0, 1, 3])
def test_stock_before_the_arrival_is_what_the_rules_leave(lead: int, options: dict[str, Any]) -> None:
    config = LeadTimeInventory(lead_time=lead, order_sizes=(0.0, 5.0), **options)
    rng = np.random.default_rng(lead)
    s, p = config.state(float(rng.gamma(4.0, 3.0)), rng.gamma(2.0, 2.0, lead).tolist()), config.params()
    members = rng.gamma(1.0, 9.0, (200, lead + 1))
    weights = np.full(200, 1 / 200)
    item = ItemState(s, p, members, weights, lambda: members[0], SpanDemand(members, weights))
    left = []
    for demand in members.tolist():
        after = s
        for y in demand[:lead]:
            after = rules.step(after, rules.position_of(after) if p.by_level else 0.0, y, p)
        left.append(after.on_hand)
    assert stock_left(item).tolist() == left


def test_reorder_point_waits_and_then_orders_more() -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=tuple(float(x) for x in range(61)), fixed_cost=50.0)
    members = np.random.default_rng(1).normal(10.0, 2.0, (400, 3))
    mean, total, spread = members[:, :2].mean(), members[:, :2].sum(axis=1).mean(), members[:, :2].sum(axis=1).std()
    batch = 1.3 * mean**0.494 * 50.0**0.506 * (1.0 + (spread / mean) ** 2) ** 0.116
    z = math.sqrt(batch / (9.0 * spread))
    low = 0.973 * total + spread * (0.183 / z + 1.063 - 2.192 * z)
    above, below = math.ceil(low) + 1.0, math.floor(low) - 1.0
    panel = panel_of(config, states(config, (above, 0.0), (below, 0.0)), members)
    assert rule(panel, "(s,S) by formula") == [0.0, round(low + batch - below)]
    level = np.sort(members[:, :2].sum(axis=1))[199]
    size = 0.5 * math.sqrt(2.0 * 50.0 * mean)  # half an economic order quantity at a holding cost of 1
    tuned = rule(panel, "(s,S)", ratio=0.5, eoq=0.5)
    assert tuned == [0.0 if above > level else round(level + size - above), round(level + size - below)]


def test_without_a_fixed_cost_reorder_point_is_base_stock() -> None:
    members = np.random.default_rng(2).gamma(4.0, 2.0, (50, 3))
    panel = panel_of(ITEM, states(ITEM, (0.0, 1.0), (5.0, 1.0), (12.0, 1.0)), members)
    assert rule(panel, "(s,S)") == rule(panel, "(s,S) by formula") == rule(panel, "base-stock")


def test_batches_are_whole() -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=tuple(6.0 * x for x in range(11)), case_pack=6.0)
    members = [[10.0, 10.0, 9.0]] * 3
    panel = panel_of(config, states(config, (3.0, 4.0), (20.0, 0.0), (20.0, 1.0)), members)
    assert rule(panel, "(s,nQ)") == [18.0, 6.0, 0.0]  # at the reorder point itself a batch is ordered
    plain = LeadTimeInventory(lead_time=1, order_sizes=tuple(float(x) for x in range(61)), fixed_cost=5.0)
    eoq = panel_of(plain, states(plain, (3.0, 4.0)), members)
    assert rule(eoq, "(s,nQ)") == [20.0]  # sqrt(2 * 5 * 10 / 1) = 10, twice
    assert rule(eoq, "(s,nQ)", eoq=1.5) == [15.0]


def test_rolling_quantile_and_constant_order_look_at_the_past_only() -> None:
    panel = panel_of(ITEM, states(ITEM, (0.0, 0.0)), [[99.0, 99.0]] * 2, history=[1.0, 9.0] * 10)
    assert rule(panel, "rolling quantile") == [10.0]
    assert rule(panel, "constant order") == [5.0]


def test_limits_bind_the_rules_too() -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), capacity=12.0)
    panel = panel_of(config, states(config, (3.0, 2.0)), np.full((3, 3), 20.0))
    assert rule(panel, "base-stock") == [5.0]
    free = {e.name: e for e in ordering_rules(panel, free=True)}["base-stock"].make()
    assert first(panel, free) == [7.0]


def test_planning_on_a_quantile_is_exact_search_on_one_member() -> None:
    config = LeadTimeInventory(lead_time=0, order_sizes=tuple(float(x) for x in range(31)))
    members = [[float(x), float(x)] for x in range(1, 11)]
    panel = panel_of(config, [config.state(0.0)], members)
    policy = Exact(depth=2, risk=0.0)
    assert first(panel, Deterministic(config.task(), policy, how=PYTHON)) == [6.0]  # the mean is 5.5
    assert first(panel, Deterministic(config.task(), policy, quantile=0.8, how=PYTHON)) == [8.0]
    with pytest.raises(InputError, match="quantile"):
        Deterministic(config.task(), policy, quantile=1.0)
    weighted = Trace.from_members([[1.0], [2.0], [9.0]], [0.2, 0.5, 0.3])
    assert point_forecast(weighted, 0.7).members.ravel().tolist() == [2.0]
    assert point_forecast(weighted, 0.71).members.ravel().tolist() == [9.0]


def test_the_price_rule_buys_low_and_sells_high() -> None:
    config = Storage()
    start = config.state(level=2.0)
    cheap = panel_of(config, [start], [[1.0, 5.0, 9.0, 7.0]])
    dear = panel_of(config, [start], [[9.0, 5.0, 1.0, 2.0]])
    middle = panel_of(config, [start], [[5.0, 1.0, 9.0, 4.0]])
    flat = panel_of(config, [start], [[5.0, 5.0, 5.0, 5.0]])
    assert first(cheap, PriceRule()) == [2.0]
    assert first(dear, PriceRule())[0] < 0.0
    assert first(middle, PriceRule()) == first(flat, PriceRule()) == [0.0]
    with pytest.raises(InputError, match="low, high"):
        PriceRule(0.7, 0.3)


def test_staffing_follows_the_forecast_or_the_calendar() -> None:
    config = CapacityPlan()
    start = config.state(online=2)
    members = [[0.0, 3.0], [0.0, 4.0], [0.0, 9.0]]
    history = [0.0, 1.0, 2.0, 3.0] * 5  # the next value repeats 0, the one after it 1
    panel = panel_of(config, [start], members, history=history)
    assert first(panel, QuantileStaffing(config, 0.5)) == [2.0]
    assert first(panel, CalendarStaffing(config, 4, 0.5)) == [-1.0]


def test_the_roster_knows_what_practice_does_on_each_task() -> None:
    def names(config: Any, start: Any) -> set[str]:
        return set(roster(panel_of(config, [start], np.ones((3, 3))), Budget(depth=2), seeds=2, how=PYTHON))

    common = {"uc-beam", "cem", "mppi", "risk-random", "planning on the mean", "planning on a quantile"}
    item = names(ITEM, ITEM.state(1.0))
    assert common | {"newsvendor", "newsvendor, free", "base-stock", "(s,S)", "(s,nQ)", "myopic"} <= item
    assert common | {"price rule"} <= names(Storage(), Storage().state(1.0))
    assert common | {"quantile staffing", "calendar staffing"} <= names(CapacityPlan(), CapacityPlan().state(1))
    for entry in practitioners(panel_of(ITEM, [ITEM.state(1.0)], np.ones((3, 3))), Budget(depth=2)):
        made = list(entry.settings())
        assert made[0] == {k: v[0] for k, v in entry.knobs.items()}
        assert len({str(x) for x in made}) == len(made)


def test_tuning_finds_the_setting_that_costs_least() -> None:
    """Demand is always 10; members say 6. The default fractile never covers it, a plain level of 10 does."""
    config = LeadTimeInventory(lead_time=0, order_sizes=tuple(float(x) for x in range(21)))
    panel = panel_of(config, [config.state(0.0)] * 2, [[4.0], [6.0], [10.0]], realised=np.full((2, 5), 10.0))
    entry = {e.name: e for e in ordering_rules(panel, how=PYTHON)}["base-stock"]
    found = tune(entry, panel, {"ratio": (0.3, 0.6, 0.9)}, engine="python")
    assert found.knobs == {"ratio": 0.9}
    assert [t.reward for t in found.trials] == pytest.approx([-270.0, -180.0, 0.0])
    few = tune(entry, panel, tries=3, engine="python").trials
    assert len(few) == 3
    assert few[0].knobs == {"ratio": None}
    # A tie goes to the default.
    same = tune(entry, panel, {"ratio": (0.9, 0.95)}, engine="python")
    assert same.knobs == {"ratio": 0.9}
    with pytest.raises(InputError, match="grid"):
        tune(entry, panel, {"speed": (1,)})
    with pytest.raises(InputError, match="tries"):
        tune(entry, panel, tries=0)


def test_only_free_choosers_may_leave_the_table() -> None:
    panel = panel_of(ITEM, [ITEM.state(0.0)], [[5.0, 5.0]])

    class Odd:
        def __init__(self, free: bool) -> None:
            self.free = free

        def __call__(self, seen: Seen) -> Choice:
            return Choice(np.array([7.0]), np.zeros(1, np.int64))

    bound, free = (walk(panel, Odd(x), engine="python") for x in (False, True))
    assert bound.violations.tolist() == [1]
    assert bound.actions.tolist() == [[0.0]]
    assert free.violations.tolist() == [0]
    assert free.actions.tolist() == [[7.0]]


def test_parts_add_up_to_the_reward() -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0, 10.0), unit_cost=0.5, price=2.0, fixed_cost=1.0)
    panel = panel_of(config, states(config, (3.0, 2.0)), [[5.0, 5.0]], realised=[[4.0, 9.0, 1.0]])
    entry: Entry = {e.name: e for e in ordering_rules(panel, how=PYTHON)}["base-stock"]
    done = walk(panel, entry.make(), engine="python")
    parts = parts_of(panel, done)
    paid = parts["holding"] + parts["shortage"] + parts["ordering"]
    np.testing.assert_allclose(parts["revenue"] - paid, done.rewards)
    assert parts["demand"].tolist() == [[4.0, 9.0, 1.0]]
    assert (parts["served"] <= parts["demand"]).all()


class Hour(NamedTuple):
    price: float
    load: float


class Tank(NamedTuple):
    level: float


def tank_feasible(s: Any, a: float, p: Any) -> bool:
    return bool(0.0 <= s.level + a <= 3.0)


def tank_step(s: Any, a: float, y: Any, p: Any) -> Tank:
    return Tank(s.level + a)


def tank_bill(s: Any, a: float, y: Any, p: Any) -> float:
    return float(-y.price * (y.load + a))


def tank_wait(s: Any, p: Any) -> float:
    return 0.0


def test_outcomes_of_several_fields_go_through_walk_tuning_and_point_forecasts() -> None:
    task = Task(
        name="metered", state=Tank, actions=(-1.0, 0.0, 1.0), outcome=Hour, feasible=tank_feasible, step=tank_step,
        reward=tank_bill, fallback=tank_wait,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    count, steps, horizon = 3, 4, 3
    members = rng.uniform(1.0, 9.0, (count, steps, 5, horizon, 2))
    realised = rng.uniform(1.0, 9.0, (count, steps, 2))
    future = np.stack([[realised[n, np.minimum(t + np.arange(horizon), steps - 1)] for t in range(steps)]
                       for n in range(count)])  # fmt: skip
    layout = task.layout(Tank(1.0))
    stretches = tuple(Stretch("", f"s{n}", 0, 9, steps, 1, np.zeros(9), 1.0) for n in range(count))
    panel = Panel(task, None, layout, np.ones((count, 1)), stretches, members, realised, future,
                  (np.zeros((0, 2)),) * count, "made")  # fmt: skip
    told = walk(panel, Searched(task, Exact(depth=3, risk=0.0), PYTHON, foresees=True), engine="python")
    for n in range(count):
        level = 1.0
        for t in range(steps):
            a = told.actions[n, t]
            assert told.rewards[n, t] == -realised[n, t, 0] * (realised[n, t, 1] + a)
            level += a
        assert told.states[n, -1, 0] == level
    found = roster(panel, Budget(depth=2, width=3), seeds=1, how=PYTHON)
    for name in ("uc-beam", "cem", "planning on the mean", "planning on a quantile"):
        done = walk(panel, found[name].choosers()[0](), engine="python")
        assert done.violations.tolist() == [0] * count
    assert tune(found["planning on a quantile"], panel, tries=2, engine="python").knobs["quantile"] > 0.0
    assert panel.past(0, 2).shape == (2, 2)
