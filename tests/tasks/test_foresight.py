"""Hindsight is the true optimum: enumeration agrees, and no plan is cheaper."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.base import Foreseen
from ucsearch.tasks.inventory.foresight import foreseen

CASES: dict[str, dict[str, Any]] = {
    "plain": dict(lead_time=1),
    "no lead time": dict(lead_time=0, fixed_cost=4.0),
    "fixed cost": dict(lead_time=1, fixed_cost=7.0, unit_cost=0.5, salvage=0.25),
    "backorders": dict(lead_time=1, unmet="backordered", fixed_cost=5.0, price=3.0),
    "packs": dict(lead_time=0, case_pack=2.0, minimum_order=3.0, fixed_cost=2.0),
    "budget": dict(lead_time=1, unit_cost=1.0, order_budget=3.0, largest_order=4.0),
    "price": dict(lead_time=0, price=2.5, unit_cost=1.0, shortage=0.0),
}
SIZES = tuple(float(x) for x in range(9))


def cheapest(config: LeadTimeInventory, start: Any, demand: list[float]) -> float:
    """By trying every plan of whole units."""
    task, p, best = config.task(), config.params(), np.inf
    for plan in product(SIZES, repeat=len(demand)):
        s, cost = start, 0.0
        for a, y in zip(plan, demand, strict=True):
            if not task.feasible_at(s, a, 0, p):
                break
            cost -= task.reward(s, a, y, p)
            s = task.step(s, a, y, p)
        else:
            best = min(best, cost - (0.0 if task.terminal is None else task.terminal(s, p)))
    return float(best)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("free", [True, False])
def test_it_is_what_trying_all_plans_finds(name: str, free: bool) -> None:
    config = LeadTimeInventory(**{"holding": 1.0, "shortage": 4.0, **CASES[name]}, order_sizes=SIZES)
    for demand in ([2.0, 0.0, 3.0, 1.0], [0.0, 4.0, 0.0, 2.0]):
        start = config.state(1.0, [1.0] * config.lead_time, 1.0)
        found = foreseen(config.task(), config.params(), np.array(demand), [start], free=free, sizes=SIZES)
        assert isinstance(found, Foreseen), found
        assert found.cost == pytest.approx(cheapest(config, start, demand), abs=1e-9)


def test_the_best_of_several_starts() -> None:
    config = LeadTimeInventory(lead_time=1)
    starts = [config.state(x, [0.0], 0.0) for x in (0.0, 3.0, 9.0)]
    found = foreseen(config.task(), config.params(), np.array([3.0, 2.0, 2.0]), starts, free=True)
    assert isinstance(found, Foreseen)
    assert (found.start, found.cost, found.actions.tolist()) == (1, 0.0, [2.0, 2.0, 0.0])


def test_fractions_and_large_amounts_have_a_lattice_of_their_own() -> None:
    config = LeadTimeInventory(lead_time=0)
    for scale in (0.05, 2.5e5):
        start = config.state(0.0)
        found = foreseen(config.task(), config.params(), scale * np.array([3.0, 0.0, 4.0]), [start], free=True)
        assert isinstance(found, Foreseen)
        assert found.actions == pytest.approx(scale * np.array([3.0, 0.0, 4.0]))


def test_no_figure_rather_than_a_wrong_one() -> None:
    demand = np.array([3.0, 2.0, 6.0])

    def told(demand: Any = demand, free: bool = True, **kw: Any) -> str:
        config = LeadTimeInventory(**{"lead_time": 1, **kw})
        found = foreseen(config.task(), config.params(), demand, [config.state(0.0)], free=free, sizes=SIZES)
        assert isinstance(found, str)
        return found

    assert "rule binds" in told(capacity=4.0)
    assert "rule binds" in told(ramp=1.0)
    assert "spoilage" in told(spoilage=0.1)
    assert "levels" in told(orders="level", free=False)
    assert "one unit" in told(np.array([np.pi, 1.0, 2.0]))
    assert "levels of stock" in told(np.array([1e6, 1.0, 2.0]))
