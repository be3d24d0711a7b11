"""Decimal costs and unequal weights, where every sum rounds: what whole numbers and quarters cannot show."""

from __future__ import annotations

import numpy as np
import pytest

import ucsearch as uc
from tests.conformance.test_engines import assert_same_bytes
from ucsearch.tasks import LeadTimeInventory

WINDOWS, DEPTH = 60, 4
RISK = 0.23


POLICIES = {
    "beam, by score": uc.UCBeam(depth=DEPTH, risk=RISK, width=4, top_k=3, order="score"),
    "beam, by bound": uc.UCBeam(depth=DEPTH, risk=RISK, width=4, top_k=3, order="bound"),
    "exact": uc.Exact(depth=DEPTH, risk=RISK),
    "exact, no bound": uc.Exact(depth=DEPTH, risk=RISK, order="score"),  # by states: 9 ** 4 paths are too many
    "exact, every action": uc.Exact(depth=DEPTH, risk=RISK, every_action=True),
    "tree": uc.MCTS(depth=DEPTH, risk=RISK, simulations=40, top_k=3),
}


@pytest.mark.parametrize("name", POLICIES)
def test_rough_numbers_give_the_same_bytes_in_kernels_as_python(name: str) -> None:
    same(name)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", POLICIES)
def test_rough_numbers_give_the_same_bytes_in_compiled_code(name: str) -> None:
    same(name)


def same(name: str) -> None:
    rng = np.random.default_rng(3)
    costs = dict(unit_cost=0.37, holding=0.83, shortage=9.1, capacity=20.3, ramp=3.1)
    task = LeadTimeInventory(lead_time=2, order_sizes=tuple(float(x) for x in range(9)), **costs).task()
    states = np.round(np.c_[rng.uniform(0, 8, WINDOWS), rng.uniform(0, 5, (WINDOWS, 3))], 3)
    demand = np.abs(rng.normal(4.0, 1.7, (WINDOWS, 4, DEPTH)))
    trace = uc.Trace.from_members(demand, np.array([0.31, 0.17, 0.23, 0.29]))
    policy = POLICIES[name]
    few = 8 if name == "exact, no bound" else WINDOWS  # plain Python takes a second for each window there
    states, trace = states[:few], uc.Trace.from_members(demand[:few], trace.weights[0])
    layout = [task.state(float(a), (float(b), float(c)), float(d)) for a, b, c, d in states]
    there = uc.search_panel(task, layout, trace, policy, engine="compiled", threads=1, keep_paths=True)
    assert there.engine == "compiled"
    assert_same_bytes(there, uc.search_panel(task, layout, trace, policy, engine="python", keep_paths=True))


@pytest.mark.parametrize("members", [16, 17, 64, 65, 131])
def test_members_sorted_for_a_bound_give_the_same_bytes_in_kernels_as_python(members: int) -> None:
    many(members)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("members", [17, 131])
def test_members_sorted_for_a_bound_give_the_same_bytes_in_compiled_code(members: int) -> None:
    many(members)


def many(members: int) -> None:
    """Ties, zeros of both signs and demands below 0 among them; with equal weights, which are sorted, and without."""
    rng = np.random.default_rng(members)
    task = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 2.3, 4.7, 8.1), unit_cost=0.37, holding=0.83).task()
    assert task.by_step
    demand = np.round(rng.normal(2.0, 2.5, (6, members, 3)), 1)
    demand[:, ::7] = -0.0
    demand[:, 3::9] = 0.0
    states = [task.state(float(x), (1.1,), 0.0) for x in np.round(rng.uniform(0.0, 6.0, 6), 2)]
    for weights in (None, rng.random(members) + 0.1):
        trace = uc.Trace.from_members(demand, weights, normalise=True)
        for policy in (uc.Exact(depth=3, risk=RISK), uc.Exact(depth=3, risk=0.0, every_action=True)):
            there = uc.search_panel(task, states, trace, policy, engine="compiled", threads=1, keep_paths=True)
            assert there.engine == "compiled"
            assert_same_bytes(there, uc.search_panel(task, states, trace, policy, engine="python", keep_paths=True))
