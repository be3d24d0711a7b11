"""The classic policies: their orders by definition, their best parameters by exhaustion, feasibility."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.replay.classics import (
    BaseStock,
    CappedBaseStock,
    ConstantOrder,
    Demand,
    LostSales,
    MyopicOne,
    MyopicTwo,
    ReorderPoint,
    VectorBaseStock,
    average_cost,
    constant_order_cost,
    forecast_level,
    geometric,
    load_instance,
    optimise_base_stock,
    optimise_capped_base_stock,
    optimise_constant_order,
    optimise_reorder_point,
    order_up_to,
    poisson,
    rolling_quantile_level,
)
from ucsearch.replay.classics.lost_sales import StateSpace

SMALL = (0.3, 0.4, 0.1, 0.2)
State = tuple[int, ...]


def step(state: State, order: int, demand: int) -> State:
    moved = (*state, order)
    return (max(moved[0] - demand, 0) + moved[1], *moved[2:])


@cache
def arrival_cost(state: State, order: int) -> float:
    """Expected cost of the period in which `order` arrives, demand by demand."""

    def later(stock: State, periods: int) -> float:
        if periods == 0:
            return sum(m * (max(stock[0] - d, 0) + 6.0 * max(d - stock[0], 0)) for d, m in enumerate(SMALL))
        # What is ordered after `order` arrives too late to matter.
        return sum(m * later(step(stock, 0, d), periods - 1) for d, m in enumerate(SMALL))

    return sum(m * later(step(state, order, d), len(state) - 1) for d, m in enumerate(SMALL))


def first_minimum(costs: list[float]) -> int:
    return next(i for i, cost in enumerate(costs) if cost <= min(costs) + 1e-11)


@pytest.mark.parametrize("lead_time", [1, 2, 3])
def test_myopic_orders_follow_their_definitions(lead_time: int) -> None:
    model = LostSales(Demand.from_pmf(SMALL), lead_time, 1.0, 6.0)
    one, two = MyopicOne(model), MyopicTwo(model)
    wide = range(model.morton_levels[0] + 3)  # orders beyond Morton's bound are offered and never taken
    for row in StateSpace.build(lead_time, model.morton_levels).states:
        state = tuple(int(x) for x in row)
        now = [arrival_cost(state, z) for z in wide]
        assert one(state) == first_minimum(now)
        both = [
            now[z] + sum(m * min(arrival_cost(step(state, z, d), y) for y in wide) for d, m in enumerate(SMALL))
            for z in wide
        ]
        assert two(state) == first_minimum(both)


def test_policies_never_order_less_than_nothing_on_20000_random_states() -> None:
    rng = np.random.default_rng(7)
    model = LostSales(Demand.from_pmf(SMALL), 3, 1.0, 6.0)
    states = rng.integers(0, 12, size=(20_000, 3))
    position = states.sum(axis=1)
    partial = np.cumsum(states[:, ::-1], axis=1)[:, ::-1]
    levels = np.array(model.morton_levels)
    bound = np.maximum(np.minimum((levels[:3] - partial).min(axis=1), levels[3]), 0)
    checks = [
        (BaseStock(14), np.maximum(14 - position, 0)),
        (CappedBaseStock(14, 4), np.minimum(np.maximum(14 - position, 0), 4)),
        (ReorderPoint(9, 14), np.where(position <= 9, 14 - position, 0)),
        (ConstantOrder(3), np.full(20_000, 3)),
        (VectorBaseStock(model.morton_levels), bound),
    ]
    for policy, expected in checks:
        orders = policy.orders(states)
        assert orders.min() >= 0
        np.testing.assert_array_equal(orders, expected)
    for policy in (MyopicOne(model), MyopicTwo(model)):
        orders = policy.orders(states)
        assert orders.min() >= 0
        assert np.all(orders <= bound)
        assert orders.max() > 0


def test_one_state_and_many_states_give_the_same_order() -> None:
    model = LostSales(Demand.from_pmf(SMALL), 2, 1.0, 6.0)
    states = np.array([[0, 0], [3, 1], [2, 4], [40, 0]])
    for policy in (
        BaseStock(6),
        CappedBaseStock(6, 2),
        ReorderPoint(3, 6),
        ConstantOrder(1),
        MyopicOne(model),
        MyopicTwo(model),
    ):
        assert [policy(s) for s in states.tolist()] == policy.orders(states).tolist()


@pytest.mark.parametrize(
    "build",
    [
        lambda: BaseStock(-1),
        lambda: BaseStock(2.5),  # type: ignore[arg-type]
        lambda: CappedBaseStock(5, -1),
        lambda: ReorderPoint(5, 5),
        lambda: ReorderPoint(-1, 5),
        lambda: ConstantOrder(math.nan),  # type: ignore[arg-type]
        lambda: VectorBaseStock((3, 4)),
        lambda: VectorBaseStock((3,)),
        lambda: BaseStock(5)([1, -1]),
        lambda: BaseStock(5)([]),
        lambda: MyopicOne(LostSales(poisson(1.0), 1, 1.0, 4.0)).levels(2),
        lambda: VectorBaseStock((9, 5)).levels(2),
    ],
)
def test_bad_parameters_are_refused(build: object) -> None:
    with pytest.raises(InputError):
        build()  # type: ignore[operator]


def small_models() -> list[LostSales]:
    rng = np.random.default_rng(3)
    models = [LostSales(Demand.from_pmf(SMALL), 2, 1.0, p) for p in (1.0, 6.0, 30.0)]
    for _ in range(5):
        demand = Demand.from_pmf(rng.dirichlet(np.ones(4)))
        models.append(LostSales(demand, int(rng.integers(1, 3)), 1.0, float(rng.uniform(0.5, 25))))
    return models


@pytest.mark.parametrize("model", small_models(), ids=lambda m: f"L{m.lead_time}-p{m.penalty_cost:.1f}")
def test_best_parameters_equal_those_of_an_exhaustive_grid(model: LostSales) -> None:
    top = 3 * model.morton_levels[0] + 4

    def cost(policy: object) -> float:
        return average_cost(model, policy).value  # type: ignore[arg-type]

    plain = optimise_base_stock(model)
    assert plain.cost.value == pytest.approx(min(cost(BaseStock(s)) for s in range(top)), abs=3e-9)
    assert cost(plain.policy) == pytest.approx(plain.cost.value, abs=3e-9)
    capped = optimise_capped_base_stock(model)
    every = [cost(CappedBaseStock(s, r)) for s in range(top) for r in range(min(s, 7) + 1)]
    assert capped.cost.value == pytest.approx(min(every), abs=3e-9)
    assert cost(capped.policy) == pytest.approx(capped.cost.value, abs=3e-9)
    reorder = optimise_reorder_point(model)
    every = [cost(ReorderPoint(s, level)) for level in range(1, top) for s in range(level)]
    assert reorder.cost.value == pytest.approx(min(every), abs=3e-9)
    assert cost(reorder.policy) == pytest.approx(reorder.cost.value, abs=3e-9)


def test_published_capped_base_stock_parameters() -> None:
    # Xin (2021), on Zipkin's instances with Poisson demand and p = 4.
    best = optimise_capped_base_stock(load_instance("zipkin-poisson-p4-L2").model())
    assert (best.policy.level, best.policy.cap, round(best.cost.value, 2)) == (17, 5, 4.41)
    best = optimise_capped_base_stock(load_instance("zipkin-poisson-p4-L4").model())
    assert (best.policy.level, best.policy.cap, round(best.cost.value, 2)) == (26, 5, 4.80)


@pytest.mark.parametrize(
    ("demand", "order"),
    [(poisson(5.0), 4), (poisson(5.0), 1), (geometric(3.0), 2), (Demand.from_pmf(SMALL), 1)],
    ids=["poisson-4", "poisson-1", "geometric-2", "small-1"],
)
def test_constant_order_cost_equals_the_walk_itself(demand: Demand, order: int) -> None:
    """Stationary law by brute multiplication, on far more stock than is ever reached."""
    model = LostSales(demand, 2, 1.0, 7.0)
    size = 700
    law = np.zeros(size)
    law[0] = 1.0
    reverse = demand.pmf[::-1]
    for _ in range(6000):
        # Index i of the convolution is stock i + order - cut, before it is cut off at 0.
        spread = np.convolve(law, reverse)
        below = demand.cut - order
        law = spread[below : below + size].copy() if below >= 0 else np.append(np.zeros(-below), spread)[:size]
        law[0] += spread[: max(below, 0)].sum()
    left = float(law @ np.arange(size))
    exact = left + 7.0 * (demand.mean - order)
    cost = constant_order_cost(model, order)
    assert cost.upper - cost.lower <= 1e-9
    assert cost.value == pytest.approx(exact, rel=1e-7)


def test_constant_order_that_never_leaves_stock_and_that_never_ends() -> None:
    always_two = LostSales(Demand.from_pmf([0.0, 0.0, 0.5, 0.5]), 1, 1.0, 4.0)
    assert constant_order_cost(always_two, 2).value == pytest.approx(4.0 * 0.5)
    assert constant_order_cost(always_two, 0).value == pytest.approx(4.0 * 2.5)
    with pytest.raises(InputError, match="below mean demand"):
        constant_order_cost(LostSales(poisson(5.0), 1, 1.0, 4.0), 5)


def test_best_constant_order_is_the_best_of_all() -> None:
    for demand, penalty in (
        (poisson(5.0), 4.0),
        (geometric(5.0), 4.0),
        (geometric(5.0), 1.0),
        (poisson(1.9), 9.0),
    ):
        model = LostSales(demand, 3, 1.0, penalty)
        costs = [constant_order_cost(model, r).value for r in range(math.ceil(demand.mean))]
        best = optimise_constant_order(model)
        assert best.cost.value == pytest.approx(min(costs), abs=1e-9)
        assert best.policy.quantity == int(np.argmin(costs))


def test_forecast_level_is_the_fractile_of_joint_sums() -> None:
    rng = np.random.default_rng(11)
    paths = rng.poisson(5.0, size=(401, 3)).astype(float)
    for ratio in (0.2, 0.5, 0.8, 0.975):
        sums = np.sort(paths.sum(axis=1))
        assert forecast_level(paths, ratio) == sums[math.ceil(ratio * 401 - 1e-9) - 1]
    # Weights act as counts; the order of members does not matter.
    counted = np.repeat(paths[:4], [1, 2, 3, 4], axis=0)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    assert forecast_level(paths[:4], 0.65, weights) == forecast_level(counted, 0.65)
    assert forecast_level(paths[::-1], 0.8) == forecast_level(paths, 0.8)


def test_forecast_level_of_the_true_distribution_is_the_backorder_level() -> None:
    grid = np.array(np.meshgrid(*[range(4)] * 3, indexing="ij")).reshape(3, -1).T.astype(float)
    weights = np.prod(np.array(SMALL)[grid.astype(int)], axis=1)
    model = LostSales(Demand.from_pmf(SMALL), 2, 1.0, 6.0)
    assert forecast_level(grid, model.critical_ratio, weights) == model.morton_levels[0]


def test_rolling_quantile_uses_the_window_only() -> None:
    history = [100.0, 100.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert rolling_quantile_level(history, 1, 0.5, window=5) == 5.0  # sums 3, 5, 7, 9
    assert rolling_quantile_level(history, 1, 0.99, window=5) == 9.0
    assert rolling_quantile_level(history, 1, 0.99, window=50) == 200.0
    assert rolling_quantile_level(history, 0, 0.5, window=1) == 5.0


def test_order_up_to_is_never_negative() -> None:
    assert order_up_to(7.5, [2.0, 1.0]) == 4.5
    assert order_up_to(2.0, [2.0, 1.0]) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: forecast_level([[1.0, math.nan]], 0.5),
        lambda: forecast_level([[1.0, -2.0]], 0.5),
        lambda: forecast_level([1.0, 2.0], 0.5),
        lambda: forecast_level([[1.0], [2.0]], 0.5, [0.5, 0.4]),
        lambda: forecast_level([[1.0], [2.0]], 0.5, [1.0]),
        lambda: forecast_level([[1.0]], 1.0),
        lambda: forecast_level([[1.0]], math.nan),
        lambda: rolling_quantile_level([1.0], 1, 0.5, window=5),
        lambda: rolling_quantile_level([1.0, 2.0, 3.0], 1, 0.5, window=1),
        lambda: rolling_quantile_level([1.0, math.inf], 1, 0.5, window=5),
        lambda: order_up_to(math.nan, [1.0]),
        lambda: order_up_to(1.0, [-1.0]),
    ],
)
def test_bad_forecasts_and_histories_are_refused(call: object) -> None:
    with pytest.raises(InputError):
        call()  # type: ignore[operator]
