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
def test_rough_numbers_give_the_same_bytes_in_kernel_text(name: str) -> None:
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
    layout = [task.state(float(a), (float(b), float(c)), float(d)) for a, b, c, d in states]
    there = uc.search_panel(task, layout, trace, policy, engine="compiled", threads=1, keep_paths=True)
    assert there.engine == "compiled"
    assert_same_bytes(there, uc.search_panel(task, layout, trace, policy, engine="python", keep_paths=True))
