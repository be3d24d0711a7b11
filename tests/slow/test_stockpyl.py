"""LeadTimeInventory and the textbook policies against stockpyl's exact functions, and both against enumeration.

Where demand has a custom pmf, stockpyl 1.0.2's (s, S) cost leaves out the last demand value (`range(demand_hi)`); a
pmf that ends in zeros is not affected, so that is how it is asked here.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import ucsearch as uc
from ucsearch.replay.classics import Demand, backorder_base_stock, optimise_s_s, poisson, s_s_cost
from ucsearch.tasks import LeadTimeInventory

newsvendor = pytest.importorskip("stockpyl.newsvendor", reason="stockpyl is not installed")
ss = pytest.importorskip("stockpyl.ss")

pytestmark = pytest.mark.slow

PMF = (0.1, 0.25, 0.2, 0.15, 0.12, 0.05, 0.13)  # two humps, mass on the last value


def one_period(pmf: NDArray[np.float64]) -> uc.Trace:
    seen = pmf > 0.0
    return uc.Trace.from_distribution(pmf=(np.arange(pmf.size, dtype=float)[seen], pmf[seen]), horizon=1)


@pytest.mark.parametrize("penalty", [0.5, 1.0, 4.0, 19.0, 99.0])
@pytest.mark.parametrize("holding", [0.3, 1.0])
def test_lead_time_zero_is_the_newsvendor(penalty: float, holding: float) -> None:
    """One period, exact search over the whole distribution: the level and the cost of the newsvendor formula."""
    made = LeadTimeInventory(lead_time=0, order_sizes=range(41), holding=holding, shortage=penalty)
    policy = uc.Exact(depth=1, mode="members")
    plan = uc.search(made.task(), made.state(0.0), one_period(poisson(6.0).pmf), policy, engine="python")
    level, cost = newsvendor.newsvendor_poisson(holding, penalty, 6.0)
    assert plan.action == level
    assert -plan.score == pytest.approx(cost, rel=1e-9)
    plan = uc.search(made.task(), made.state(0.0), one_period(np.array(PMF)), policy, engine="python")
    level, cost = newsvendor.newsvendor_discrete(holding, penalty, demand_pmf=dict(enumerate(PMF)))
    assert plan.action == level
    assert -plan.score == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize("lead_time", [0, 1, 2, 5])
@pytest.mark.parametrize("penalty", [1.0, 4.0, 19.0])
def test_backorders_are_a_newsvendor_over_lead_time_plus_one(lead_time: int, penalty: float) -> None:
    best = backorder_base_stock(poisson(5.0), lead_time, 1.0, penalty)
    level, cost = newsvendor.newsvendor_poisson(1.0, penalty, 5.0 * (lead_time + 1))
    assert best.quantity == level
    assert best.cost == pytest.approx(cost, rel=1e-9)


def chain_cost(s: int, big_s: int, pmf: NDArray[np.float64], holding: float, penalty: float, fixed: float) -> float:
    """Long-run cost per period of (s, S) by enumeration: the task's own step and reward, and a linear system.

    A state is the stock on hand before ordering; s is the highest at which an order is placed.
    """
    made = LeadTimeInventory(
        lead_time=0, order_sizes=range(2), unmet="backordered", holding=holding, shortage=penalty, fixed_cost=fixed
    )
    task, params = made.task(), made.params()
    low = s + 1 - (pmf.size - 1)
    states = list(range(low, big_s + 1))
    move, cost = np.zeros((len(states), len(states))), np.zeros(len(states))
    for i, stock in enumerate(states):
        order = float(big_s - stock) if stock <= s else 0.0
        state = made.state(float(stock))
        for demand, mass in enumerate(pmf.tolist()):
            if mass > 0.0:
                after = task.step(state, order, float(demand), params).on_hand
                move[i, round(after) - low] += mass
                cost[i] -= mass * task.reward(state, order, float(demand), params)
    # Stationary shares: balance, with one equation replaced by their sum.
    system = np.vstack([(move.T - np.eye(len(states)))[1:], np.ones(len(states))])
    shares = np.linalg.solve(system, np.r_[np.zeros(len(states) - 1), 1.0])
    return float(shares @ cost)


@pytest.mark.parametrize(("s", "big_s"), [(4, 10), (0, 12), (6, 7), (-2, 9)])
def test_the_cost_of_s_s(s: int, big_s: int) -> None:
    demand, (h, p, k) = poisson(6.0), (1.0, 4.0, 5.0)
    theirs = ss.s_s_cost_discrete(s, big_s, h, p, k, True, 6.0)
    assert s_s_cost(s, big_s, demand, h, p, k) == pytest.approx(theirs, rel=1e-9)
    assert chain_cost(s, big_s, demand.pmf, h, p, k) == pytest.approx(theirs, rel=1e-9)
    padded = [*PMF, *[0.0] * (big_s - s)]
    theirs = ss.s_s_cost_discrete(s, big_s, h, p, k, False, demand_hi=len(padded) - 1, demand_pmf=padded)
    assert s_s_cost(s, big_s, Demand.from_pmf(PMF), h, p, k) == pytest.approx(theirs, rel=1e-12)
    assert chain_cost(s, big_s, np.array(PMF), h, p, k) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("penalty", "fixed"), [(4.0, 5.0), (9.0, 64.0), (1.5, 20.0), (19.0, 1.0)])
def test_the_best_s_s(penalty: float, fixed: float) -> None:
    ours = optimise_s_s(poisson(6.0), 1.0, penalty, fixed)
    s, big_s, cost = ss.s_s_discrete_exact(1.0, penalty, fixed, True, 6.0)
    assert ours.cost == pytest.approx(cost, rel=1e-9)
    assert (ours.reorder_point, ours.level) == (s, big_s)
    custom = Demand.from_pmf(PMF)
    best = optimise_s_s(custom, 1.0, penalty, fixed)
    every = min(
        chain_cost(s, big_s, np.array(PMF), 1.0, penalty, fixed) for big_s in range(1, 26) for s in range(-6, big_s)
    )  # fmt: skip
    assert best.cost == pytest.approx(every, rel=1e-9)
