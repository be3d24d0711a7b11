"""Newsvendor formulas against scipy and brute force; backorder classics against enumerated chains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from ucsearch.errors import InputError
from ucsearch.replay.classics.backorder import backorder_base_stock, optimise_s_s, s_s_cost
from ucsearch.replay.classics.demand import Demand, geometric, poisson
from ucsearch.replay.classics.newsvendor import (
    critical_ratio,
    newsvendor_discrete,
    newsvendor_discrete_cost,
    newsvendor_normal,
    newsvendor_normal_cost,
)

# The last value is likely: a formula that drops it cannot pass.
SEVEN = [0.1, 0.2, 0.15, 0.1, 0.15, 0.1, 0.2]


def brute_cost(pmf: np.ndarray, h: float, p: float, y: int) -> float:
    return math.fsum(
        mass * (h * max(y - d, 0) + p * max(d - y, 0)) for d, mass in enumerate(np.asarray(pmf, dtype=float))
    )


@pytest.mark.parametrize("penalty", [0.5, 4.0, 39.0])
@pytest.mark.parametrize("demand", [Demand.from_pmf(SEVEN), poisson(5.0), geometric(5.0)], ids=lambda d: d.name)
def test_discrete_newsvendor_is_the_best_of_all_orders(demand: Demand, penalty: float) -> None:
    best = newsvendor_discrete(demand, 1.0, penalty)
    costs = [brute_cost(demand.pmf, 1.0, penalty, y) for y in range(demand.pmf.size)]
    assert best.quantity == int(np.argmin(np.round(costs, 10)))
    assert best.cost == pytest.approx(min(costs), abs=1e-9)
    assert newsvendor_discrete_cost(demand, 1.0, penalty, 2) == pytest.approx(costs[2], abs=1e-9)


def test_discrete_newsvendor_agrees_with_scipy_fractile() -> None:
    for penalty in (1.0, 4.0, 9.0, 19.0, 39.0):
        ratio = critical_ratio(1.0, penalty)
        assert newsvendor_discrete(poisson(12.5), 1.0, penalty).quantity == stats.poisson.ppf(ratio, 12.5)


def test_normal_newsvendor_is_the_integral_and_its_minimum() -> None:
    mean, sd, h, p = 50.0, 8.0, 0.18, 0.70
    density = stats.norm(mean, sd).pdf

    def cost(y: float) -> float:
        left, _ = integrate.quad(lambda d: (y - d) * density(d), mean - 12 * sd, y)
        short, _ = integrate.quad(lambda d: (d - y) * density(d), y, mean + 12 * sd)
        return h * left + p * short

    for y in (40.0, 50.0, 61.5):
        assert newsvendor_normal_cost(mean, sd, h, p, y) == pytest.approx(cost(y), rel=1e-8)
    best = newsvendor_normal(mean, sd, h, p)
    found = optimize.minimize_scalar(cost, bounds=(30.0, 80.0), method="bounded", options={"xatol": 1e-8})
    assert best.quantity == pytest.approx(stats.norm.ppf(p / (p + h), mean, sd), rel=1e-12)
    assert best.quantity == pytest.approx(found.x, abs=1e-4)
    assert best.cost == pytest.approx(found.fun, rel=1e-9)


@pytest.mark.parametrize(("h", "p"), [(0.0, 1.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_bad_costs_are_refused(h: float, p: float) -> None:
    with pytest.raises(InputError, match="a finite number above 0"):
        critical_ratio(h, p)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_lone_number_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(InputError, match=r"^mean: saw"):
        newsvendor_normal(bad, 1.0, 1.0, 4.0)
    with pytest.raises(InputError, match=r"^quantity: saw"):
        newsvendor_normal_cost(5.0, 1.0, 1.0, 4.0, bad)


def test_backorder_base_stock_is_a_newsvendor_on_three_periods() -> None:
    # With backorders the stock at the end of a period is S minus the demand of L + 1 periods.
    demand, lead, h, p = Demand.from_pmf(SEVEN), 2, 1.0, 9.0
    three = np.convolve(np.convolve(SEVEN, SEVEN), SEVEN)
    costs = [brute_cost(three, h, p, y) for y in range(three.size)]
    best = backorder_base_stock(demand, lead, h, p)
    assert best.quantity == int(np.argmin(costs))
    assert best.cost == pytest.approx(min(costs), rel=1e-12)


def chain_cost(s: int, level: int, pmf: list[float], h: float, p: float, k: float, lead: int = 0) -> float:
    """Average cost of an (s, S) policy from the stationary law of the position, by a dense solve."""
    positions = list(range(level - (level - s - 1) - (len(pmf) - 1), level + 1))
    row = {position: i for i, position in enumerate(positions)}
    size = len(positions)
    move = np.zeros((size, size))
    paid = np.zeros(size)
    ahead = np.ones(1)
    for _ in range(lead + 1):
        ahead = np.convolve(ahead, pmf)
    for position in positions:
        raised = level if position <= s else position
        paid[row[position]] = (k if raised != position else 0.0) + math.fsum(
            mass * (h * max(raised - d, 0) + p * max(d - raised, 0)) for d, mass in enumerate(ahead)
        )
        for d, mass in enumerate(pmf):
            move[row[position], row[raised - d]] += mass
    system = np.vstack([move.T - np.eye(size), np.ones(size)])
    law, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    return float(law @ paid)


@pytest.mark.parametrize(("s", "level"), [(0, 1), (2, 8), (3, 20), (-2, 5), (-4, -1)])
@pytest.mark.parametrize("lead", [0, 2])
def test_s_s_cost_equals_the_enumerated_chain_with_the_last_demand_value(s: int, level: int, lead: int) -> None:
    demand = Demand.from_pmf(SEVEN)
    exact = chain_cost(s, level, SEVEN, 1.0, 9.0, 5.0, lead)
    assert s_s_cost(s, level, demand, 1.0, 9.0, 5.0, lead) == pytest.approx(exact, rel=1e-10)


def test_the_last_demand_value_matters_in_this_case() -> None:
    # The case above can tell: without the last value, the recursion for m(j) gives another cost.
    exact = s_s_cost(2, 12, Demand.from_pmf(SEVEN), 1.0, 9.0, 5.0)
    cut = np.array(SEVEN[:-1])
    m = [1.0 / (1.0 - cut[0])]
    for j in range(1, 10):
        top = min(j, cut.size - 1)
        m.append(sum(cut[i] * m[j - i] for i in range(1, top + 1)) / (1.0 - cut[0]))
    stage = [brute_cost(np.array(SEVEN), 1.0, 9.0, 12 - j) for j in range(10)]
    holed = (5.0 + float(np.dot(m, stage))) / sum(m)
    assert abs(exact - holed) > 0.1


@pytest.mark.slow  # the published table is compared by default
def test_best_s_s_policy_is_the_best_of_all() -> None:
    rng = np.random.default_rng(20)
    for _ in range(12):
        pmf = rng.dirichlet(np.ones(rng.integers(2, 7)))
        demand = Demand.from_pmf(pmf)
        h, p, k, lead = 1.0, float(rng.uniform(1, 20)), float(rng.uniform(0, 30)), int(rng.integers(0, 3))
        best = optimise_s_s(demand, h, p, k, lead)
        everything = [
            s_s_cost(s, level, demand, h, p, k, lead) for level in range(-3, 45) for s in range(level - 40, level)
        ]
        assert best.cost == pytest.approx(min(everything), rel=1e-10)
        assert best.cost == s_s_cost(best.reorder_point, best.level, demand, h, p, k, lead)


def test_s_s_reproduces_the_published_poisson_example() -> None:
    # Zheng and Federgruen (1991), table 1: K = 64, h = 1, p = 9.
    best = optimise_s_s(poisson(10.0), 1.0, 9.0, 64.0)
    assert (best.reorder_point, best.level, round(best.cost, 3)) == (6, 40, 35.022)
    best = optimise_s_s(poisson(25.0), 1.0, 9.0, 64.0)
    assert (best.reorder_point, best.level, round(best.cost, 3)) == (19, 56, 54.262)


@pytest.mark.parametrize(
    "arguments",
    [(5, 5, 5.0), (0.5, 5, 5.0), (0, 5, -1.0), (0, 5, math.nan)],
    ids=["level", "whole", "negative", "nan"],
)
def test_bad_s_s_arguments_are_refused(arguments: tuple[int, int, float]) -> None:
    s, level, fixed = arguments
    with pytest.raises(InputError):
        s_s_cost(s, level, Demand.from_pmf(SEVEN), 1.0, 9.0, fixed)
