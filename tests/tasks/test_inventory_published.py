"""Shelf life and two suppliers against published and independently computed figures."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

import ucsearch as uc
from examples.perishables import PRINTED
from ucsearch.tasks import LeadTimeInventory

GRID = range(9)


def gamma_law(steps: int) -> uc.Trace:
    """Gamma with shape 4 and mean 4, rounded to the nearest whole number up to 18."""

    def below(x: float) -> float:
        return 1.0 - math.exp(-x) * sum(x**k / math.factorial(k) for k in range(4))

    edges = [0.0, *(d + 0.5 for d in range(18)), math.inf]
    shares = [(1.0 if b == math.inf else below(b)) - below(a) for a, b in pairwise(edges)]
    return uc.Trace.from_distribution(pmf=(range(19), shares), horizon=steps).declare("independent")


def figure(issuing: str) -> list[list[int]]:
    """Rows of the figure, by units with two periods to live from 0 to 8."""
    return [[int(x) for x in row] for row in PRINTED[issuing].split()][::-1]


@pytest.mark.parametrize("issuing", ["fifo", "lifo"])
def test_orders_of_perishables_are_those_of_de_moor_et_al_2022(issuing):
    """Life 2, lead time 1: all 81 orders of the figure. Their units of two periods arrive in this period."""
    shop = LeadTimeInventory(
        lead_time=1, order_sizes=range(11), holding=1.0, shortage=5.0, unit_cost=3.0, shelf_life=2, issuing=issuing,
        disposal=7.0,
    )  # fmt: skip
    states = [[shop.state(float(old), [float(new)], ages=[float(old)]) for old in GRID] for new in GRID]
    policy = uc.solve(shop.task(), gamma_law(8), states=[s for row in states for s in row], discount=0.99)
    assert [[int(policy.action(s) or 0) for s in row] for row in states] == figure(issuing)


# Average cost of a period by a memoised recursion of another program.
DUAL = {(2, 105.0): 216.7698, (2, 110.0): 219.7333, (3, 105.0): 216.8767, (3, 110.0): 220.3411}


@pytest.mark.parametrize(("lead", "price"), [pytest.param(*k, marks=pytest.mark.slow) for k in DUAL])
def test_two_suppliers_cost_what_another_program_says(lead, price):
    """Demand uniform on 0 to 4, holding 5, backorders 495, regular 100, expedited units arrive at once."""
    shop = LeadTimeInventory(
        lead_time=lead, order_sizes=range(7), unmet="backordered", holding=5.0, shortage=495.0, unit_cost=100.0,
        expedited_lead_time=0, expedited_unit_cost=price,
    )  # fmt: skip
    law = uc.Trace.from_distribution(pmf=(range(5), [0.2] * 5), horizon=1).declare("independent")
    found = uc.average_cost(shop.task(), law, shop.state(4.0, [2.0] * lead), within={"on_hand": (-6.0, 14.0)})
    assert found.converged
    assert abs(found.cost - DUAL[lead, price]) < 2e-4
