"""Optimal and policy costs against published values, dense linear algebra and plain enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError
from ucsearch.replay.classics import (
    BaseStock,
    CappedBaseStock,
    Demand,
    LostSales,
    MyopicOne,
    MyopicTwo,
    ReorderPoint,
    VectorBaseStock,
    average_cost,
    geometric,
    load_instance,
    poisson,
    solve,
    zipkin_instances,
)
from ucsearch.replay.classics.lost_sales import OrderPolicy, StateSpace

State = tuple[int, ...]
SEVEN = [0.1, 0.2, 0.15, 0.1, 0.15, 0.1, 0.2]
SMALL = [0.3, 0.4, 0.1, 0.2]


def step(state: State, order: int, demand: int) -> State:
    """The dynamics, written out: what is left, plus the next arrival, then the pipeline moves up."""
    moved = (*state, order)
    return (max(moved[0] - demand, 0) + moved[1], *moved[2:])


def dense_cost(model: LostSales, order: Callable[[State], int]) -> float:
    """Average cost of a policy from its stationary law: states by a plain search, law by a dense solve."""
    pmf = [(d, float(mass)) for d, mass in enumerate(model.demand.pmf) if mass > 0.0]
    states: list[State] = [(0,) * model.lead_time]
    row = {states[0]: 0}
    moves: list[dict[int, float]] = []
    paid: list[float] = []
    for state in states:  # grows while it is read
        move: dict[int, float] = {}
        cost = 0.0
        for d, mass in pmf:
            after = step(state, order(state), d)
            if after not in row:
                row[after] = len(states)
                states.append(after)
            move[row[after]] = move.get(row[after], 0.0) + mass
            left = state[0] - d
            cost += mass * (model.holding_cost * max(left, 0) + model.penalty_cost * max(-left, 0))
        moves.append(move)
        paid.append(cost)
    size = len(states)
    system = np.zeros((size + 1, size))
    for i, move in enumerate(moves):
        for j, mass in move.items():
            system[j, i] += mass
    system[:size] -= np.eye(size)
    system[size] = 1.0
    law, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    return float(law @ np.array(paid))


@pytest.mark.parametrize("instance", [i for i in zipkin_instances() if i.lead_time <= 2], ids=lambda i: i.name)
def test_published_optimal_costs(instance: object) -> None:
    found = solve(instance.model())  # type: ignore[attr-defined]
    assert found.cost.upper - found.cost.lower <= 1e-9
    published = instance.published  # type: ignore[attr-defined]
    if published is not None:
        assert round(found.cost.value, 2) == published


def test_every_poisson_instance_and_four_geometric_ones_have_a_published_cost() -> None:
    known = [i for i in zipkin_instances() if i.published is not None]
    assert len([i for i in known if i.family == "poisson"]) == 16
    assert [i.name for i in known if i.family == "geometric"] == [
        "zipkin-geometric-p4-L1",
        "zipkin-geometric-p4-L2",
        "zipkin-geometric-p9-L1",
        "zipkin-geometric-p9-L2",
    ]
    with pytest.raises(InputError, match="zipkin-poisson-p4-L2"):
        load_instance("zipkin")


@pytest.mark.parametrize(
    ("lead_time", "penalty", "policy", "published"),
    [
        (2, 4, MyopicOne, 4.56),
        (2, 4, MyopicTwo, 4.41),
        (2, 4, VectorBaseStock, 4.80),
        (4, 4, MyopicOne, 5.06),
        (4, 4, MyopicTwo, 4.82),
        (4, 4, VectorBaseStock, 5.83),
    ],
)
def test_published_costs_of_classics(lead_time: int, penalty: int, policy: type, published: float) -> None:
    # Zipkin (2008), table 3(a): "Myopic", "Myopic-2" and "Standard vector base-stock".
    model = load_instance(f"zipkin-poisson-p{penalty}-L{lead_time}").model()
    chosen = policy(model.morton_levels) if policy is VectorBaseStock else policy(model)
    assert round(average_cost(model, chosen).value, 2) == published


@pytest.mark.parametrize("lead_time", [1, 2, 3])
@pytest.mark.parametrize(
    "policy",
    [BaseStock(7), CappedBaseStock(8, 3), ReorderPoint(4, 9), "vector", "myopic-1", "myopic-2", "optimal"],
    ids=str,
)
def test_policy_cost_equals_a_dense_solve(policy: OrderPolicy | str, lead_time: int) -> None:
    model = LostSales(Demand.from_pmf(SMALL), lead_time, 1.0, 6.0)
    if policy == "vector":
        policy = VectorBaseStock(model.morton_levels)
    elif policy == "optimal":
        policy = solve(model)
    elif isinstance(policy, str):
        policy = MyopicOne(model) if policy == "myopic-1" else MyopicTwo(model)
    cost = average_cost(model, policy)
    exact = dense_cost(model, policy)  # type: ignore[arg-type]
    assert cost.lower - 1e-9 <= exact <= cost.upper + 1e-9
    assert cost.upper - cost.lower <= 1e-9


def test_reorder_point_cost_counts_the_last_demand_value() -> None:
    model = LostSales(Demand.from_pmf(SEVEN), 2, 1.0, 9.0)
    policy = ReorderPoint(9, 14)
    assert average_cost(model, policy).value == pytest.approx(dense_cost(model, policy), abs=1e-9)
    cut = np.array([*SEVEN[:-2], SEVEN[-2] + SEVEN[-1]])
    without = LostSales(Demand.from_pmf(cut), 2, 1.0, 9.0)
    assert abs(average_cost(without, policy).value - average_cost(model, policy).value) > 0.1


@pytest.mark.parametrize("lead_time", [1, 2])
def test_optimum_equals_policy_iteration_on_a_wider_space(lead_time: int) -> None:
    """An independent optimum: Howard's policy iteration, dense, positions beyond Morton's bound allowed."""
    model = LostSales(Demand.from_pmf(SMALL), lead_time, 1.0, 6.0)
    top = model.morton_levels[0] + 5
    states = [s for s in np.ndindex(*(top + 1,) * lead_time) if sum(s) <= top]
    row = {s: i for i, s in enumerate(states)}
    paid = np.array([sum(m * (max(s[0] - d, 0) + 6.0 * max(d - s[0], 0)) for d, m in enumerate(SMALL)) for s in states])
    chosen = np.zeros(len(states), dtype=int)
    previous = math.inf
    for _ in range(50):
        # Unknowns: the average cost, and relative values with the empty state at 0.
        system = np.eye(len(states))
        for i, s in enumerate(states):
            for d, mass in enumerate(SMALL):
                system[i, row[step(s, int(chosen[i]), d)]] -= mass
        system[:, 0] = 1.0
        answer = np.linalg.solve(system, paid)
        cost, values = answer[0], np.append(0.0, answer[1:])
        if previous - cost < 1e-12:
            break
        previous = cost
        for i, s in enumerate(states):
            ahead = [
                sum(mass * values[row[step(s, z, d)]] for d, mass in enumerate(SMALL)) for z in range(top - sum(s) + 1)
            ]
            if min(ahead) < ahead[chosen[i]] - 1e-12:
                chosen[i] = int(np.argmin(ahead))
    found = solve(model)
    assert found.cost.value == pytest.approx(cost, abs=1e-8)
    assert average_cost(model, found).value == pytest.approx(cost, abs=1e-8)


@pytest.mark.parametrize("penalty", [4.0, 39.0])
@pytest.mark.parametrize("demand", [poisson(5.0), geometric(2.0)], ids=lambda d: d.name)
@pytest.mark.parametrize("lead_time", [1, 2])
def test_morton_levels_lose_nothing(demand: Demand, penalty: float, lead_time: int) -> None:
    model = LostSales(demand, lead_time, 1.0, penalty)
    wide = (model.morton_levels[0] + 12,) * (lead_time + 1)
    assert solve(model, levels=wide).cost.value == pytest.approx(solve(model).cost.value, abs=2e-9)
    tight = (
        model.morton_levels[0] - 5,
        *(min(s, model.morton_levels[0] - 5) for s in model.morton_levels[1:]),
    )
    assert solve(model, levels=tight).cost.lower > solve(model).cost.upper + 1e-3


def test_optimum_is_below_every_classic_and_the_backorder_optimum_is_above_it() -> None:
    from ucsearch.replay.classics import backorder_base_stock, optimise_base_stock, optimise_capped_base_stock

    model = load_instance("zipkin-geometric-p9-L2").model()
    best = solve(model).cost
    capped, plain = optimise_capped_base_stock(model).cost, optimise_base_stock(model).cost
    assert best.upper < capped.lower < capped.upper < plain.lower
    assert best.value < backorder_base_stock(model.demand, 2, 1.0, 9.0).cost


@pytest.mark.parametrize("pmf", [[0.0, 1.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
def test_demand_that_is_never_zero_still_converges(pmf: list[float]) -> None:
    # Such chains can be periodic: undamped value iteration would oscillate for ever.
    model = LostSales(Demand.from_pmf(pmf), 2, 1.0, 5.0)
    policy = ReorderPoint(3, 9)
    assert average_cost(model, policy).value == pytest.approx(dense_cost(model, policy), abs=1e-8)
    assert solve(model).cost.value <= average_cost(model, policy).value + 1e-9


def test_certain_demand_costs_nothing_under_the_right_base_stock() -> None:
    model = LostSales(Demand.from_pmf([0.0, 0.0, 1.0]), 3, 1.0, 5.0)
    assert average_cost(model, BaseStock(8)).value == pytest.approx(0.0, abs=1e-8)
    assert average_cost(model, BaseStock(9)).value == pytest.approx(1.0, abs=1e-8)
    assert solve(model).cost.value == pytest.approx(0.0, abs=1e-8)


def test_costs_scale_with_money() -> None:
    small, large = (LostSales(poisson(3.0), 2, m, 9.0 * m) for m in (1.0, 1000.0))
    assert solve(large, tolerance=1e-6).cost.value == pytest.approx(1000.0 * solve(small).cost.value, abs=2e-6)


@dataclass(frozen=True)
class Tabled:
    """A policy for lead time 1 given as a list, with a level for the position."""

    table: tuple[int, ...]
    top: int

    def levels(self, lead_time: int) -> tuple[int, ...]:
        return (self.top,) * (lead_time + 1)

    def orders(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(self.table, dtype=np.int64)[states[:, 0]]


def test_a_chain_with_two_recurrent_classes_is_refused() -> None:
    # From 2, demand decides for ever between {4, 5} and {6, 7}.
    model = LostSales(Demand.from_pmf([0.5, 0.5]), 1, 1.0, 5.0)
    policy = Tabled((2, 0, 4, 0, 1, 0, 1, 0), 7)
    with pytest.raises(UCSearchError, match="several recurrent classes"):
        average_cost(model, policy, max_sweeps=2000)


@pytest.mark.parametrize(
    ("table", "state", "order"),
    [((1, -1, 0), "[1]", -1), ((1, 1, 1), "[2]", 1), ((3, 0, 0), "[0]", 3)],
    ids=["negative", "above level", "above order cap"],
)
def test_an_impossible_order_is_refused_by_state(table: tuple[int, ...], state: str, order: int) -> None:
    model = LostSales(Demand.from_pmf([0.5, 0.5]), 1, 1.0, 5.0)
    with pytest.raises(InputError) as error:
        average_cost(model, Tabled(table, 2))
    assert f"policy.orders{state}: saw an order of {order}" in str(error.value)


def test_an_order_above_the_level_is_refused_with_a_pipeline_too() -> None:
    model = LostSales(Demand.from_pmf([0.5, 0.5]), 2, 1.0, 5.0)
    # One unit every period, whatever the stock: (3, 0) is the first full state.
    with pytest.raises(InputError, match=r"policy\.orders\[3, 0\]: saw an order of 1"):
        average_cost(model, Tabled((1, 1, 1, 1), 3))


def test_abandoned_evaluation_reports_a_proved_lower_bound() -> None:
    model = load_instance("zipkin-poisson-p4-L2").model()
    exact = average_cost(model, BaseStock(24)).value
    stopped = average_cost(model, BaseStock(24), abandon_above=5.0)
    assert 5.0 < stopped.lower <= exact <= stopped.upper
    assert stopped.sweeps < 30


def test_state_space_is_every_state_within_the_levels() -> None:
    space = StateSpace.build(3, (7, 5, 4, 2))
    expected = {
        (a, b, c) for a in range(8) for b in range(3) for c in range(3) if a + b + c <= 7 and b + c <= 5 and c <= 4
    }
    assert {tuple(int(x) for x in s) for s in space.states} == expected
    assert len(space.states) == len(expected)
    np.testing.assert_array_equal(space.index(space.states), np.arange(len(expected)))
    outside = np.array([[8, 0, 0], [0, 3, 0], [-1, 0, 0], [0, 0, -1]])
    np.testing.assert_array_equal(space.index(outside), -1)


@pytest.mark.parametrize(("lead_time", "levels"), [(2, (5, 4)), (2, (5, 6, 2)), (2, (5, 4, -1)), (8, (200,) * 9)])
def test_bad_levels_are_refused(lead_time: int, levels: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="levels"):
        StateSpace.build(lead_time, levels)


@pytest.mark.parametrize(("lead_time", "h", "p"), [(0, 1.0, 4.0), (1.5, 1.0, 4.0), (1, 0.0, 4.0), (1, 1.0, math.nan)])
def test_bad_systems_are_refused(lead_time: int, h: float, p: float) -> None:
    with pytest.raises(InputError):
        LostSales(poisson(5.0), lead_time, h, p)
