"""Parts of a step's cost add up to its reward, for every task that a planner has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucsearch.tasks import CapacityPlan, Intervention, LeadTimeInventory, Storage

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "orders": (
        LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 7.0), unit_cost=0.5, price=2.0, fixed_cost=1.0),
        {"on_hand": 4.0, "open_orders": (2.0,)},
    ),
    "orders at once": (
        LeadTimeInventory(lead_time=0, order_sizes=(0.0, 12.0), unmet="backordered", unit_cost=0.2),
        {"on_hand": -2.0},
    ),
    "fresh": (
        LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 7.0), unit_cost=0.5, price=2.0, shelf_life=2),
        {"on_hand": 4.0, "open_orders": (2.0,), "ages": (4.0,)},
    ),
    "store": (Storage(power=2.0, fee=0.3, wear=0.4, level_step=0.25), {"level": 2.0}),
    "tank": (Storage(powers=(-1.0, 0.0, 1.0), fee=0.3, wear=0.4), {"level": 2.0}),
    "units": (CapacityPlan(running=0.7, start_cost=3.0, unit_output=2.5), {"online": 3}),
    "doses": (Intervention(doses=(0.0, 1.0, 2.0), cost=2.0, fixed_cost=1.0, effect=(0.3,), delay=0), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_of_the_cost_add_up_to_the_reward(name: str) -> None:
    config, start = CASES[name]
    task, words, p = config.task(), config.words("", ""), config.params()
    state, rng, moved = config.state(**start), np.random.default_rng(2), set()
    for _ in range(60):
        action = float(rng.choice([a for a in task.actions if task.feasible_at(state, a, 0, p)]))
        outcome = float(rng.uniform(0.0, 9.0))
        parts = config.parts(state, action, outcome, p)
        paid = sum(parts[part] for part in words.money)
        earned = parts.get(words.income, 0.0)
        assert earned - paid == pytest.approx(task.reward(state, action, outcome, p), abs=1e-9)
        moved |= {part for part in words.money if parts[part] != 0.0}
        for part, whole, _ in words.shares.values():
            assert 0.0 <= parts[part] <= (parts[whole] if whole else 1.0)
        state = task.step_at(state, action, outcome, 0, p)
    # Every part of the cost was seen, but for those whose price is 0 here.
    assert len(moved) >= len(words.money) - 1
