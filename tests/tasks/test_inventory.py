"""LeadTimeInventory against enumeration, the newsvendor and an independent oracle; both engines against each other."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from bench.peers.common import first_action_values, make_instances, window
from tests.kit.counts import sizes, some
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import InputError
from ucsearch.records.canonical import canonical
from ucsearch.records.record import decision_record
from ucsearch.replay.classics.backorder import backorder_base_stock
from ucsearch.replay.classics.demand import Demand, poisson
from ucsearch.replay.classics.newsvendor import newsvendor_discrete
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory import rules
from ucsearch.verify import verify_record

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "lead-time-inventory.md"
SPREADS = ("std", "variance", "downside")


def random_case(rng: np.random.Generator, depth: int = 5) -> tuple[LeadTimeInventory, Any, np.ndarray, float, str]:
    by_level = rng.random() < 0.3
    backorders = rng.random() < 0.4
    unit_cost = float(rng.choice([0.0, 0.5, 3.0]))
    sizes = np.sort(rng.choice(np.arange(24 if by_level else 9), 3, replace=False)).astype(float)
    made = LeadTimeInventory(
        lead_time=int(rng.integers(0, 4)),
        orders="level" if by_level else "quantity",
        order_sizes=sizes.tolist(),
        unmet="backordered" if backorders else "lost",
        holding=float(rng.choice([0.0, 0.5, 1.0])),
        shortage=float(rng.choice([0.0, 1.0, 9.0])),
        price=float(rng.choice([0.0, 2.0, 10.0])),
        unit_cost=unit_cost,
        fixed_cost=float(rng.choice([0.0, 2.0])),
        salvage=float(rng.choice([0.0, 0.5, 1.0])) * unit_cost,
        spoilage=float(rng.choice([0.0, 0.5])),
        capacity=(None, 12.0, 20.0)[rng.integers(3)],
        ramp=(None, 3.0, 2.0)[rng.integers(3)],
        minimum_order=float(rng.choice([0.0, 0.0, 3.0])),
        case_pack=float(rng.choice([0.0, 0.0, 2.0])),
        order_budget=(None, 10.0)[rng.integers(2)],
        largest_order=(None, 6.0)[rng.integers(2)],
        stability_cost=float(rng.choice([0.0, 0.0, 0.7])),
        change_budget=(None, None, 5.0)[rng.integers(3)],
        plan_steps=3,
    )
    planned = [float(x) for x in rng.integers(0, 8, 2)] if made.is_planned else None
    state = made.state(
        float(rng.integers(-3 if backorders else 0, 9)),
        [float(x) for x in rng.integers(0, 6, made.lead_time)],
        float(rng.integers(0, 7)),
        planned,
    )
    shape = (int(rng.choice([1, 2, 4, 18])), int(rng.integers(1, depth + 1)))
    members = np.maximum(rng.normal(4.0, 2.5, shape), -1.0 if rng.random() < 0.2 else 0.0)
    if rng.random() < 0.5:
        members = np.round(members * 4.0) / 4.0
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


def test_instances_pass_check_task() -> None:
    found = LeadTimeInventory.instances()
    assert len(found) == 20
    for name in ("bench", "newsvendor", "packs", "zipkin-p4-l1"):
        made = found[name]
        start = made.state(3.0, [made.case_pack or 2.0] * made.lead_time)
        with warnings.catch_warnings():
            # Capacity and a two-sided ramp make dead ends in the benchmark; everything else must pass without a word.
            warnings.simplefilter("ignore" if name == "bench" else "error")
            uc.check_task(made.task(), start, outcomes=[0.0, 3.5, 12.0])


def test_exact_search_equals_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(some(600)):
        made, state, members, risk, kind = random_case(rng)
        check_exact(made.task(), state, members, risk, kind)


def test_bound_is_never_below_enumeration() -> None:
    rng = np.random.default_rng(2)
    for _ in range(some(600)):
        made, state, members, risk, kind = random_case(rng)
        check_bound(made.task(), state, members, rng, risk, kind)


def test_search_and_bound_hold_with_the_order_cycle_at_the_end() -> None:
    rng = np.random.default_rng(12)
    for _ in range(60):
        made, state, members, risk, kind = random_case(rng, depth=4)
        level, demand = float(rng.integers(0, 9)), float(rng.choice([0.0, 0.5, 4.0]))
        made = replace(made, end_stock="cycle", level_scale=(level, 1.0), cap_scale=(demand, 1.0), fixed_cost=2.0)
        check_exact(made.task(), state, members, risk, kind)
        check_bound(made.task(), state, members, rng, risk, kind)


@pytest.mark.parametrize("kind", ["std", "variance"])
def test_bound_is_exact_where_open_orders_fix_everything(kind: str) -> None:
    rng = np.random.default_rng(3)
    made = LeadTimeInventory(lead_time=3, order_sizes=(0.0, 2.0, 4.0), unit_cost=0.5, ramp=2.0)
    for _ in range(30):
        state = made.state(float(rng.integers(0, 9)), [float(x) for x in rng.integers(0, 6, 3)], 6.0)
        members = rng.normal(4.0, 1.0, (4, 3))
        gaps = check_bound(made.task(), state, members, rng, 0.5, kind)  # the ramp forces orders of 4, 2 and 0
        assert max(gaps) < 1e-7


def test_bound_is_tight_on_the_benchmark() -> None:
    """Counts, not times: at least 30 children lie on the way to one path of six steps."""
    made = LeadTimeInventory.instances()["bench"]
    data = make_instances(0, 100, 6)
    states = np.column_stack([data["on_hand"], data["pipeline"], data["last"]])
    found = uc.search_panel(
        made.task(), states, uc.Trace.from_members(data["members"]), uc.Exact(depth=6, risk=0.25), engine="python"
    )
    assert set(found.status.tolist()) <= {uc.Status.PROVED, uc.Status.DEAD_END}
    assert found.expansions.mean() < 60.0


def test_orders_that_arrive_too_late_are_not_searched_one_by_one() -> None:
    made = LeadTimeInventory.instances()["zipkin-p9-l4"]
    trace = uc.Trace.from_members(np.random.default_rng(4).poisson(5.0, (8, 6)).astype(float))
    policy = uc.Exact(depth=6, risk=0.25, node_budget=1_000)
    plan = uc.search(made.task(), made.state(9.0, [5.0] * 4), trace, policy, engine="python")
    assert plan.proved
    assert plan.expansions < 200  # 14 order sizes, of which four in a row make no difference: 38,416 ties


@pytest.mark.parametrize("lead_time", [0, 1, 2])
@pytest.mark.parametrize(
    ("holding", "price", "unit_cost"), [(0.0, 0.0, 0.0), (0.0, 3.0, 1.0), (0.0, 3.0, 3.0), (1.0, 3.0, 1.0)]
)
def test_orders_that_tie_at_nothing_are_not_called_worse(
    lead_time: int, holding: float, price: float, unit_cost: float
) -> None:
    """What prunes ties is a share of 1: where all costs are 0, or earnings make up for them, that is more than the
    tolerance. The first of the ties was called unique, and the record did not verify."""
    made = LeadTimeInventory(
        lead_time=lead_time, order_sizes=(0.0, 5.0, 10.0, 15.0), holding=holding, shortage=9.0, price=price,
        unit_cost=unit_cost,
    )  # fmt: skip
    task, params, ties = made.task(), made.params(), 0
    for stock, members in itertools.product(
        (0.0, 12.0, 100.0), ([[0.0] * 3] * 2, [[2.0, 3.0, 1.0], [4.0, 1.0, 2.0]], [[0.0, 5.0, 0.0]] * 2)
    ):
        state, trace = made.state(stock, [5.0] * lead_time), uc.Trace.from_members(members)
        for policy in (uc.Exact(depth=2), uc.CertifiedBeam(depth=3, width=4)):
            known: dict[str, Any] = dict(params=params, run=uc.Run(engine="python"))
            decided = uc.decide(task, state, trace, policy, **known)
            record, blobs = decision_record(decided, series="A")
            assert verify_record(canonical(record), blobs, task).status == "valid"
            certificate = decided.certificate
            assert certificate is not None
            values = [
                r.upper for r in uc.certify(task, state, trace, policy, proof=uc.Proof(kind="oracle"), **known).rivals
            ]
            best = max(values)
            ties += (tied := values.count(best) > 1)
            assert certificate.optimal
            assert not (tied and certificate.unique), (stock, members, policy)
    assert ties > 0 or unit_cost > 0.0


def test_what_is_spent_and_comes_back_is_not_called_worse() -> None:
    """An order of 3,000 that earns 3,000 later ties with none at all, whose path knows no such amounts."""
    made = LeadTimeInventory(
        lead_time=2, order_sizes=(0.0, 3.0, 5.0, 40.0), holding=0.5, shortage=0.0, price=1_000.0, unit_cost=1_000.0,
        capacity=20.0,
    )  # fmt: skip
    trace = uc.Trace.from_members([[0.0, 1.0, 1.0, 10.0], [0.0, 0.0, 5.0, 2.0]])
    policy, known = uc.UCBeam(depth=3, width=3), dict(params=made.params(), run=uc.Run(engine="python"))
    decided = uc.decide(made.task(), made.state(0.0, [0.0, 0.0]), trace, policy, **known)  # type: ignore[arg-type]
    record, blobs = decision_record(decided, series="A")
    assert verify_record(canonical(record), blobs, made.task()).status == "valid"


def test_agrees_with_the_independent_oracle_of_the_benchmark() -> None:
    made = LeadTimeInventory.instances()["bench"]
    for depth in (3, 5):
        data = make_instances(depth, 25, depth)
        states = np.column_stack([data["on_hand"], data["pipeline"], data["last"]])
        trace = uc.Trace.from_members(data["members"])
        found = uc.search_panel(made.task(), states, trace, uc.Exact(depth=depth, risk=0.25), engine="python")
        for w in range(25):
            values = first_action_values(window(data, w))
            if np.isfinite(values.max()):
                assert found.score[w] == pytest.approx(values.max(), abs=1e-9)
                assert values[int(found.action[w])] == pytest.approx(values.max(), abs=1e-9)
            else:
                assert found.status[w] == uc.Status.DEAD_END


# -------------------------------------------------------------------- textbook results


@pytest.mark.parametrize("penalty", [0.5, 4.0, 19.0])
@pytest.mark.parametrize("stock", [0.0, 3.0, 15.0])
def test_lead_time_zero_is_the_newsvendor(penalty: float, stock: float) -> None:
    demand = poisson(5.0)
    values = np.arange(len(demand.pmf), dtype=float)
    seen = demand.pmf > 0.0
    trace = uc.Trace.from_distribution(pmf=(values[seen], demand.pmf[seen]), horizon=1)
    made = LeadTimeInventory(lead_time=0, order_sizes=range(31), shortage=penalty)
    plan = uc.search(made.task(), made.state(stock), trace, uc.Exact(depth=1, mode="members"), engine="python")
    best = newsvendor_discrete(demand, 1.0, penalty)
    assert plan.action == max(best.quantity - stock, 0.0)
    if stock <= best.quantity:
        assert -plan.score == pytest.approx(best.cost, abs=1e-9)


def test_price_and_unit_cost_move_the_critical_ratio() -> None:
    demand = poisson(5.0)
    values = np.arange(len(demand.pmf), dtype=float)
    seen = demand.pmf > 0.0
    trace = uc.Trace.from_distribution(pmf=(values[seen], demand.pmf[seen]), horizon=1)
    made = LeadTimeInventory(
        lead_time=0, order_sizes=range(31), shortage=1.0, price=10.0, unit_cost=4.0, salvage=1.0, holding=0.5
    )
    plan = uc.search(made.task(), made.state(0.0), trace, uc.Exact(depth=1, mode="members"), engine="python")
    underage, overage = 10.0 + 1.0 - 4.0, 0.5 + 4.0 - 1.0
    assert plan.action == demand.quantile(underage / (underage + overage))


def test_backorders_with_lead_time_are_a_newsvendor_over_lead_time_plus_one() -> None:
    pmf = np.array([0.1, 0.3, 0.3, 0.2, 0.1])
    pairs = np.array([(a, b) for a in range(5) for b in range(5)], dtype=float)
    weights = np.array([pmf[int(a)] * pmf[int(b)] for a, b in pairs])
    trace = uc.Trace.from_members(pairs, weights, normalise=True)
    demand = Demand.from_pmf(pmf)
    for penalty in (1.5, 6.0, 19.0):
        made = LeadTimeInventory(lead_time=1, order_sizes=range(12), unmet="backordered", shortage=penalty)
        plan = uc.search(made.task(), made.state(1.0, [1.0]), trace, uc.Exact(depth=2, mode="members"), engine="python")
        level = backorder_base_stock(demand, 1, 1.0, penalty).quantity
        assert plan.action == max(level - 2.0, 0.0)


# -------------------------------------------------------------------- rules


def test_a_period_by_hand() -> None:
    made = LeadTimeInventory(
        lead_time=2, price=10.0, unit_cost=2.0, fixed_cost=3.0, holding=1.0, shortage=5.0, spoilage=0.5
    )
    task, p, s = made.task(), made.params(), made.state(4.0, [3.0, 6.0])
    assert task.reward(s, 2.0, 5.0, p) == 10.0 * 5.0 - 1.0 * 2.0 - (3.0 + 2.0 * 2.0)
    assert task.step(s, 2.0, 5.0, p) == rules.State(1.0, (6.0, 2.0), 2.0)
    assert task.reward(s, 0.0, 9.0, p) == 10.0 * 7.0 - 5.0 * 2.0
    assert task.step(s, 0.0, 9.0, p) == rules.State(0.0, (6.0, 0.0), 0.0)
    assert task.reward(s, 0.0, -1.0, p) == -7.0  # a negative forecast is no demand


def test_backorders_are_owed_and_paid_when_served() -> None:
    made = LeadTimeInventory(lead_time=1, unmet="backordered", price=10.0, holding=1.0, shortage=5.0)
    task, p, s = made.task(), made.params(), made.state(-2.0, [3.0])
    assert task.reward(s, 0.0, 4.0, p) == 10.0 * 3.0 - 5.0 * 3.0
    assert task.step(s, 0.0, 4.0, p) == rules.State(-3.0, (0.0,), 0.0)


def test_limits() -> None:
    made = LeadTimeInventory(
        lead_time=1, order_sizes=range(13), capacity=12.0, ramp=4.0, order_budget=20.0, unit_cost=2.0, fixed_cost=2.0,
        largest_order=8.0,
    )  # fmt: skip
    task, p = made.task(), made.params()

    def allowed(state: Any) -> list[float]:
        return [a for a in task.actions if task.feasible(state, a, p)]

    assert allowed(made.state(0.0, [0.0], 7.0)) == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]  # ramp and largest order
    assert allowed(made.state(5.0, [3.0], 3.0)) == [0.0, 1.0, 2.0, 3.0, 4.0]  # room for 12 - 8
    assert allowed(made.state(20.0, [0.0], 2.0)) == [0.0]  # overfull: ordering nothing is always allowed
    dear = LeadTimeInventory(lead_time=1, order_sizes=range(13), order_budget=11.0, unit_cost=2.0, fixed_cost=2.0)
    task, p = dear.task(), dear.params()
    assert allowed(dear.state(0.0)) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_decimal_limits_are_met_exactly() -> None:
    made = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 0.1), capacity=0.3)
    assert made.task().feasible(made.state(0.1, [0.1]), 0.1, made.params())


def test_packs_and_minimum_merge_actions() -> None:
    made = LeadTimeInventory(lead_time=1, order_sizes=range(0, 25, 3), case_pack=6.0, minimum_order=10.0)
    assert [rules.ordered(made.state(0.0), a, made.params()) for a in made.task().actions] == [
        0.0, 12.0, 12.0, 12.0, 12.0, 18.0, 18.0, 24.0, 24.0,
    ]  # fmt: skip
    trace = uc.Trace.from_members([[5.0, 6.0], [7.0, 2.0]])
    plan = uc.search(made.task(), made.state(0.0), trace, uc.Exact(depth=2), engine="python")
    assert [f.action for f in plan.first_actions if f.stands_for] == [0.0, 3.0, 15.0, 21.0]


def test_levels_order_the_difference() -> None:
    made = LeadTimeInventory(lead_time=2, orders="level", order_sizes=(5.0, 10.0, 15.0))
    s = made.state(4.0, [1.0, 2.0])
    assert [rules.ordered(s, a, made.params()) for a in made.task().actions] == [0.0, 3.0, 8.0]
    assert made.task().labels[1] == "order up to 10"


def test_scaled_grids_fit_a_series_of_any_scale() -> None:
    rng = np.random.default_rng(5)
    paths = np.maximum(rng.normal(50.0, 10.0, (1, 20, 5)), 0.0)
    members = np.concatenate([paths, paths * 1000.0, paths / 1000.0])
    multiples = (-8.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
    for orders in ("quantity", "level"):
        made = LeadTimeInventory(lead_time=1, orders=orders, order_sizes=range(7), shortage=19.0)
        trace = uc.Trace.from_members(members)
        actions, params = made.scaled(trace, multiples)
        states = [made.state(x, [x]) for x in (40.0, 40_000.0, 0.04)]
        policy = uc.Exact(depth=4, risk=0.5)
        found = uc.search_panel(made.task(), states, trace, policy, actions=actions, params=params, engine="python")
        assert set(found.status.tolist()) == {uc.Status.PROVED}
        index = found.outputs.out_i[:, 1]
        assert index[0] == index[1] == index[2]
        assert found.score[1] == pytest.approx(found.score[0] * 1000.0)
        if orders == "quantity":
            assert actions[0, 0] == 0.0
            assert np.isnan(made.scaled(uc.Trace.from_members(paths), (-9.0, *multiples[:6]))[0][0, 1])


# -------------------------------------------------------------------- fallback, continuations, stable plans


def test_fallback_is_feasible_wherever_an_action_is_and_repeats_the_last_order() -> None:
    rng = np.random.default_rng(6)
    for _ in range(150):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    made = LeadTimeInventory(lead_time=1)
    assert made.task().fallback(made.state(0.0, last=4.4), made.params()) == 4.0
    calm = LeadTimeInventory(lead_time=1, fallback_order=2.0)
    assert calm.task().fallback(calm.state(0.0, last=7.0), calm.params()) == 2.0


def test_random_walks_keep_the_invariant() -> None:
    rng = np.random.default_rng(7)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        task = made.task()
        assert task.invariant is not None
        if task.invariant(state, task.params):
            assert all(task.invariant(now, task.params) for now, _ in reachable(task, state, members, rng, 2))


def test_base_stock_orders_exactly_up_to_the_level_and_stays_feasible() -> None:
    rng = np.random.default_rng(8)
    free = LeadTimeInventory(lead_time=2)
    s = free.state(3.25, [1.0, 2.0])
    assert rules.base_stock(s, 0, free.params(), (10.0,)) == 3.75
    assert rules.capped_base_stock(s, 0, free.params(), (10.0, 2.5)) == 2.5
    assert rules.base_stock(s, 0, free.params(), (1.0,)) == 0.0
    checked = 0
    for _ in range(400):
        made, state, _, _, _ = random_case(rng)
        feasible, p = made.task().feasible, made.params()
        if not made.is_planned and any(feasible(state, a, p) for a in np.arange(0.0, 25.0, 0.5)):
            a = rules.base_stock(state, 0, p, (float(rng.uniform(0.0, 20.0)),))
            if made.case_pack == 0.0 and made.minimum_order == 0.0:
                assert feasible(state, a, p)
                checked += 1
    assert checked > 50


@pytest.mark.parametrize("width", sizes(24, 64))
def test_continuation_beats_a_plan_that_cannot_react(width: int) -> None:
    rng = np.random.default_rng(9)
    members = rng.poisson(5.0, (32, 8)).astype(float)
    trace, state = uc.Trace.from_members(members), (4.0, [5.0])
    plain = LeadTimeInventory(lead_time=1, order_sizes=range(11))
    follow = LeadTimeInventory(
        lead_time=1, order_sizes=range(11), base_stock_levels=(10, 12, 14, 16), order_caps=(6, 8, 10)
    )
    policy = uc.Exact(depth=1, mode="members", spread="std")
    found = uc.search(follow.task(), follow.state(*state), trace, policy, engine="python")
    open_loop = uc.search(
        plain.task(), plain.state(*state), trace, uc.UCBeam(depth=8, width=width, mode="members", spread="std"),
        engine="python",
    )  # fmt: skip
    assert found.proved
    assert found.score > open_loop.score


def test_stable_plans() -> None:
    rng = np.random.default_rng(10)
    trace = uc.Trace.from_members(rng.normal(5.0, 1.0, (6, 4)))
    previous = [3.0, 4.0, 5.0]
    dear = LeadTimeInventory(lead_time=1, stability_cost=1000.0)
    plan = uc.search(dear.task(), dear.state(2.0, [2.0], planned=previous), trace, uc.Exact(depth=4), engine="python")
    assert plan.path[:3] == (3.0, 4.0, 5.0)
    hard, previous = LeadTimeInventory(lead_time=1, change_budget=2.0), [3.0, 3.0, 3.0]
    state = hard.state(2.0, [2.0], planned=previous)
    plan = uc.search(hard.task(), state, trace, uc.Exact(depth=4), engine="python")
    departures = [abs(a - b) for a, b in zip(plan.path[:3], previous, strict=True)]
    assert 0.0 < sum(departures) <= 2.0
    free = LeadTimeInventory(lead_time=1)
    assert uc.search(free.task(), free.state(2.0, [2.0]), trace, uc.Exact(depth=4), engine="python").score > plan.score
    held = hard.task().step(state, 4.0, 5.0, hard.params())
    assert (held.planned[:2], held.planned_left, held.allowance) == ((3.0, 3.0), 2.0, 1.0)


# -------------------------------------------------------------------- settings and engines


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(lead_time=13), "lead_time"),
        (dict(lead_time=True), "lead_time"),
        (dict(order_sizes=(-1.0, 0.0)), "order_sizes"),
        (dict(order_sizes=(1.0, 1.0)), "order_sizes"),
        (dict(order_sizes=()), "order_sizes"),
        (dict(orders="both"), "orders"),
        (dict(unmet="kept"), "unmet"),
        (dict(holding=float("nan")), "holding"),
        (dict(shortage=-1.0), "shortage"),
        (dict(unit_cost=1.0, salvage=2.0), "salvage"),
        (dict(spoilage=1.5), "spoilage"),
        (dict(capacity=float("inf")), "capacity"),
        (dict(order_caps=(1.0,)), "order_caps"),
        (dict(base_stock_levels=5), "base_stock_levels"),
        (dict(base_stock_levels=range(101), order_caps=range(1, 101)), "at most 10,000 pairs"),
        (dict(base_stock_levels=(1.0,), change_budget=1.0), "base_stock_levels"),
        (dict(level_scale=(1.0,)), "level_scale"),
        (dict(change_budget=-1.0), "change_budget"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        LeadTimeInventory(**settings)


def test_bad_states_are_refused_by_name() -> None:
    made = LeadTimeInventory(lead_time=1)
    with pytest.raises(uc.InputError, match="open_orders"):
        made.state(1.0, [1.0, 2.0])
    with pytest.raises(uc.InputError, match=r"open_orders\[0\]"):
        made.state(1.0, [-1.0])
    with pytest.raises(uc.InputError, match="on_hand"):
        made.state(-1.0)
    with pytest.raises(uc.InputError, match="planned"):
        made.state(1.0, planned=[1.0])
    with pytest.raises(uc.InputError, match="multiples"):
        made.scaled(uc.Trace.from_members(np.ones((2, 3))), (0.0,))


def test_equal_settings_give_the_same_task() -> None:
    assert LeadTimeInventory(order_sizes=[0, 1]).task() is LeadTimeInventory(order_sizes=(0.0, 1.0)).task()


@pytest.mark.parametrize("windows", [40, pytest.param(300, marks=[pytest.mark.compiled, pytest.mark.slow])])
def test_compiled_engine_gives_the_same_bytes(windows: int) -> None:
    """Every window has its own parameters, so that one kernel meets all the rules."""
    rng = np.random.default_rng(11)
    cases = list[tuple[LeadTimeInventory, Any]]()
    while len(cases) < windows:
        made, state, _, _, _ = random_case(rng)
        if made.lead_time == 2 and not made.is_planned:
            cases.append((made, state))
    made = LeadTimeInventory(lead_time=2, order_sizes=(0.0, 3.0, 7.0), unit_cost=1.0, salvage=0.5)
    params = [c.params()._replace(grid=made.params().grid) for c, _ in cases]
    rows = rules.Params._make([np.array(column) for column in zip(*params, strict=True)])
    members = np.round(rng.normal(4.0, 2.5, (windows, 5, 5)), 2)
    trace = uc.Trace.from_members(members)
    policy = uc.Exact(depth=5, risk=0.5)
    plain, fast = (
        uc.search_panel(made.task(), [s for _, s in cases], trace, policy, params=rows, engine=engine, keep_paths=True)
        for engine in ("python", "compiled")
    )
    assert fast.engine == "compiled"
    for name in plain.outputs._fields:
        assert getattr(plain.outputs, name).tobytes() == getattr(fast.outputs, name).tobytes(), name


@pytest.mark.compiled
def test_compiled_rules_give_the_same_bytes_whatever_the_parameters() -> None:
    rng = np.random.default_rng(13)
    cases = list[tuple[LeadTimeInventory, Any]]()
    while len(cases) < 300:
        made, state, _, _, _ = random_case(rng)
        if made.lead_time == 2 and not made.is_planned:
            cases.append((made, state))
    made = LeadTimeInventory(lead_time=2, order_sizes=(0.0, 3.0, 7.0), unit_cost=1.0, salvage=0.5)
    task = made.task()
    assert task.params_layout is not None
    own = [c.params()._replace(grid=made.params().grid) for c, _ in cases]
    params = np.array([task.params_layout.flatten(p, "params") for p in own])
    layout = task.layout(cases[0][1])
    rows = np.array([layout.flatten(s, "state") for _, s in cases])
    plain, fast = (Simulator(task, layout, params=params, engine=engine) for engine in ("python", "compiled"))
    assert (plain.engine, fast.engine) == ("python", "compiled")
    for _ in range(4):
        mask = plain.mask(rows)
        assert mask.tobytes() == fast.mask(rows).tobytes()
        index = np.array([rng.choice(np.flatnonzero(row)) if row.any() else -1 for row in mask])
        y = np.round(rng.normal(4.0, 2.5, (len(rows), 1)), 2)
        one, other = (s.advance(rows, index, y) for s in (plain, fast))
        for field in one._fields:
            assert getattr(one, field).tobytes() == getattr(other, field).tobytes(), field
        rows = one.states


def test_compiled_continuations_give_the_same_bytes() -> None:
    rng = np.random.default_rng(12)
    made = LeadTimeInventory(
        lead_time=2, order_sizes=(0.0, 3.0, 7.0), capacity=20.0, ramp=6.0, base_stock_levels=(8, 12, 16),
        order_caps=(4, 9),
    )  # fmt: skip
    states = [made.state(float(x), [2.0, 3.0]) for x in rng.integers(0, 12, 40)]
    trace = uc.Trace.from_members(rng.poisson(4.0, (40, 6, 6)).astype(float))
    policy = uc.UCBeam(depth=2, width=4, risk=0.5, mode="members")
    plain, fast = (
        uc.search_panel(made.task(), states, trace, policy, engine=engine, keep_paths=True)
        for engine in ("python", "compiled")
    )
    assert fast.engine == "compiled"
    for name in plain.outputs._fields:
        assert getattr(plain.outputs, name).tobytes() == getattr(fast.outputs, name).tobytes(), name


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for code, shown in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S):
        exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
        assert capsys.readouterr().out == shown


@pytest.mark.parametrize("lead_time", [0, 1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("ramp", [None, 3.0])
def test_merged_arrivals_change_no_cost_and_leave_fewer_states(lead_time: int, ramp: float | None) -> None:
    settings = {
        "lead_time": lead_time,
        "order_sizes": (0.0, 2.0, 3.0),
        "ramp": ramp,
        "fixed_cost": 2.0,
        "spoilage": 0.1,
    }
    plain = LeadTimeInventory(**settings)
    merged = LeadTimeInventory(**settings, merge_arrivals=True)
    trace = uc.Trace.from_members(np.random.default_rng(1).poisson(2.0, (6, 5)).astype(float)).declare("independent")
    state = plain.state(3.0, [2.0] * lead_time)
    policy = uc.Exact(depth=5, mode="closed")
    found = [uc.certify(c.task(), state, trace, policy, run=uc.Run(engine="python")) for c in (plain, merged)]
    assert [r.score for r in found[0].rivals] == [r.score for r in found[1].rivals]
    if lead_time:
        assert found[1].plan.reached < found[0].plan.reached


def test_merged_arrivals_are_for_lost_sales_only() -> None:
    with pytest.raises(uc.InputError, match="merge_arrivals"):
        LeadTimeInventory(unmet="backordered", merge_arrivals=True)
    with pytest.raises(uc.InputError, match="merge_arrivals"):
        LeadTimeInventory(stability_cost=1.0, merge_arrivals=True)


@pytest.mark.parametrize(
    ("pack", "action"), [(0.0, 3.0), (-1.0, 3.0), (1e-300, 3.0), (0.4, 3.0), (5.0, 1.0), (7.0, 0.0), (1e308, 0.0)]
)
def test_packs_that_params_bring_past_the_settings(pack: float, action: float) -> None:
    """None below 0; in packs of 5 the smallest of the sizes that order one pack; what does not fit is not ordered."""
    made = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 1.0, 2.0, 3.0), capacity=6.0)
    trace = uc.Trace.from_members([[2.0, 3.0], [4.0, 2.0]])
    params = made.params()._replace(case_pack=pack)
    found = uc.decide(
        made.task(), made.state(0.0), trace, uc.Exact(depth=2), params=params, run=uc.Run(engine="python")
    )
    assert (found.outcome, found.action) == (uc.Outcome.RELEASED, action)
    assert found.final_check == ""


@pytest.mark.parametrize("pack", [math.nan, math.inf, -math.inf])
def test_packs_that_are_no_number_are_refused(pack: float) -> None:
    made = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0))
    params = made.params()._replace(case_pack=pack)
    with pytest.raises(InputError, match=r"params\.case_pack"):
        uc.decide(
            made.task(), made.state(0.0), [[2.0, 3.0]], uc.Exact(depth=2), params=params, run=uc.Run(engine="python")
        )


@pytest.mark.parametrize("unit", [1e-9, 1e9, *(pytest.param(x, marks=pytest.mark.slow) for x in (1e-4, 1e-12))])
def test_a_proof_holds_in_any_unit(unit: float) -> None:
    """Amounts far below one unit of money: the bound must not mistake them for rounding."""
    rng = np.random.default_rng(0)
    for k in range(3):
        made = LeadTimeInventory(
            lead_time=k, order_sizes=[x * unit for x in (0.0, 2.0, 4.0, 6.0, 8.0)], shortage=4.0 + k
        )
        trace = uc.Trace.from_members(rng.poisson(3.0, (8, 4)) * unit)
        state = made.state(2.0 * unit, [2.0 * unit] * k)
        for policy in (uc.Exact(depth=4), uc.Exact(depth=3, mode="members", risk=0.3), uc.CertifiedBeam(depth=4)):
            decision = uc.decide(made.task(), state, trace, policy, run=uc.Run(engine="python"))
            record, blobs = decision_record(decision)
            assert verify_record(record, blobs, made.task()).status == "valid"


@pytest.mark.parametrize("given", ["sizes", "sizes and params", "money"])
def test_a_proof_holds_in_the_amounts_of_the_call(given: str) -> None:
    """The task's own amounts are large, those of the call small: which bound holds is seen in the call."""
    rng = np.random.default_rng(0)
    sizes = (0.0, 2.0, 4.0, 6.0, 8.0)
    for unit in (1e-4, 1e-9):
        shop = LeadTimeInventory(lead_time=1, order_sizes=sizes, shortage=5.0)
        scale = 1.0 if given == "money" else unit
        own = LeadTimeInventory(lead_time=1, order_sizes=[x * scale for x in sizes], shortage=5.0)
        if given == "money":
            own = LeadTimeInventory(lead_time=1, order_sizes=sizes, shortage=5.0 * unit, holding=unit)
        params = None if given == "sizes" else own.params()
        trace = uc.Trace.from_members(rng.poisson(3.0, (8, 4)) * scale)
        for policy in (uc.Exact(depth=4), uc.CertifiedBeam(depth=4)):
            decision = uc.decide(
                shop.task(), shop.state(2.0 * scale, [2.0 * scale]), trace, policy,
                actions=[own.params().grid], params=params, run=uc.Run(engine="python"),
            )  # fmt: skip
            record, blobs = decision_record(decision)
            assert verify_record(record, blobs, shop.task()).status == "valid"


def test_stock_left_counts_by_the_order_it_puts_off() -> None:
    """One batch above the order level nothing is missing, at the level a whole fixed cost, and never more is gained."""
    made = LeadTimeInventory(lead_time=1, fixed_cost=20.0, holding=0.1, shortage=5.0, end_stock="cycle")
    p = made.params()._replace(level_mean=3.0, cap_mean=1.0)
    worth = made.task().terminal
    assert worth is not None
    assert worth(made.state(7.0), made.params()) == 0.0  # without a forecast nothing is known of demand
    batch = math.sqrt(2.0 * 20.0 * 1.0 / 0.1)
    assert worth(made.state(3.0 + batch), p) == pytest.approx(0.0, abs=1e-12)
    assert worth(made.state(3.0), p) == pytest.approx(-20.0)
    assert worth(made.state(1.0), p) == pytest.approx(-20.0 - 2.0 * math.sqrt(2.0 * 20.0 * 0.1))
    assert worth(made.state(3.0 + 2.0 * batch), p) == pytest.approx(-20.0)  # held too long
    # No unit is worth more than the sale it saves: then a smaller batch is whole.
    cheap = p._replace(shortage=0.5)
    assert worth(made.state(3.0 + 5.0), cheap) == pytest.approx(0.0, abs=1e-12)
    assert worth(made.state(3.0), cheap) == pytest.approx(-0.5 * 0.5 / 0.2 * 1.0)
    # With a unit cost it comes on top of what the units cost.
    bought = LeadTimeInventory(lead_time=1, unit_cost=2.0, end_stock="cycle")
    assert bought.task().terminal(bought.state(4.0), bought.params()) == 8.0  # type: ignore[misc]


def test_a_slow_item_is_ordered_for_its_cycle_and_not_for_the_steps_planned() -> None:
    """One unit a period, 20 an order: the batch is 20. Four steps see a use for three units only."""
    members = np.ones((1, 3, 4))
    trace = uc.Trace.from_members(members)
    sizes = (0.0, 3.0, 10.0, 20.0, 40.0)

    def chosen(end: Any) -> float:
        made = LeadTimeInventory(
            lead_time=1, order_sizes=sizes, fixed_cost=20.0, holding=0.1, shortage=8.0, end_stock=end
        )
        params = made.params()._replace(
            **{k: float(v[0]) for k, v in made.forecast_columns(trace, made.params()).items()}
        )
        return float(
            uc.search(made.task(), made.state(1.0), trace, uc.Exact(depth=4), params=params, engine="python").action
        )

    assert chosen("unit_cost") == 3.0
    assert chosen("cycle") == 20.0


def _by_max(s: Any, a: float, y: float, p: Any) -> tuple[float, tuple[float, ...], float, float]:
    """Stock left, open orders, units ordered and reward as one would write them down, with `max` and `min`."""
    quantity = 0.0 if a <= 0.0 else max(a, p.minimum_order)
    if quantity > 0.0 and p.case_pack > 0.0:
        quantity = math.ceil(quantity / p.case_pack - 1e-9) * p.case_pack
    demand, owed = max(y, 0.0), max(-s.on_hand, 0.0)
    available = s.on_hand + (s.pipeline[0] if p.lead_time > 0.0 else quantity)
    sold = min(available, demand)
    cost = p.holding * (available - sold) + p.shortage * (demand - sold) + p.unit_cost * quantity
    cost += p.fixed_cost if quantity > 0.0 else 0.0
    left = available - demand
    left = p.keep * left if not left < 0.0 else left if p.backorders else 0.0
    pipeline = (*s.pipeline[1:], quantity) if p.lead_time > 0.0 else s.pipeline
    return left, pipeline, quantity, p.price * (sold + owed) - cost


@pytest.mark.parametrize("seed", range(some(40)))
def test_rules_without_max_and_min_are_the_written_formulas_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = [0.0, -0.0, 1e-300, 0.1, 2.5, 7.3, 1e12]
    lead, lost = seed % 4, bool(rng.random() < 0.5)
    made = LeadTimeInventory(
        lead_time=lead, order_sizes=(0.0, 1.5, 7.0), unmet="lost" if lost else "backordered",
        price=float(rng.choice([0.0, 13.7])),
        unit_cost=rng.uniform(0.0, 5.0), holding=rng.uniform(0.01, 3.0), shortage=9.1, fixed_cost=3.7 * (seed % 2),
        minimum_order=float(rng.choice([0.0, 4.0])), case_pack=float(rng.choice([0.0, 6.0])),
    )  # fmt: skip
    task, p = made.task(), made.params()._replace(keep=float(rng.choice([1.0, 0.83])))
    for _ in range(200):
        on_hand, demand, last, *pipeline = (
            float(rng.choice(corners)) if rng.random() < 0.5 else rng.uniform(0.0, 20.0)
            for _ in range(3 + max(1, lead))
        )
        s = task.state(on_hand if lost or rng.random() < 0.5 else -on_hand, tuple(pipeline), last)
        a, y = float(rng.choice([0.0, 1.5, 7.0])), demand if rng.random() < 0.8 else -demand
        left, open_orders, quantity, earned = _by_max(s, a, y, p)
        after = task.step(s, a, y, p)
        found = [after.on_hand, *after.pipeline, after.last, task.reward(s, a, y, p)]
        assert [x.hex() for x in found] == [x.hex() for x in (left, *open_orders, quantity, earned)]
