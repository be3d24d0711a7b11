"""A bound's table that is made in room of the kernel's own is the table that `prepare` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucsearch.task import View
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory.bound import fill, room

PROBLEMS = (
    LeadTimeInventory(lead_time=0, price=3.1, unit_cost=1.7, salvage=0.3),
    LeadTimeInventory(lead_time=1, unit_cost=0.5, holding=1.3, shortage=7.9),
    LeadTimeInventory(lead_time=1, unmet="backordered", price=0.2, unit_cost=9.0),
    LeadTimeInventory(lead_time=2, unmet="backordered", price=4.0, unit_cost=0.7),
)


def forecasts(rng: Any, members: int, steps: int) -> list[Any]:
    """Smooth, with ties, all equal, and nothing at all."""
    smooth = rng.gamma(2.0, 3.0, (members, steps))
    return [smooth, np.round(smooth), np.full((members, steps), 2.5), np.zeros((members, steps)), smooth * 1e12]


@pytest.mark.parametrize("members", [1, 4, 30])
@pytest.mark.parametrize("spread", [0, 1, 2])
def test_room_that_is_used_again_holds_the_table_of_prepare(members: int, spread: int) -> None:
    rng, steps = np.random.default_rng(members), 4
    table = np.zeros(room(steps, members))
    for risk in (0.0, 0.4):
        table[:] = 0.0  # a panel has one risk and one spread
        for inventory in PROBLEMS:
            task = inventory.task()
            for demand in forecasts(rng, members, steps):
                weights = rng.dirichlet(np.ones(members))
                view = View(demand, weights, risk, spread)
                p: Any = task.params
                expected = task.prepare(demand.mean(axis=0), p, view)  # type: ignore[misc]
                fill(table, demand.mean(axis=0), p, view)
                for h in range(steps):
                    for on_hand in (-3.0, 0.0, 1.25, 40.0):
                        state = task.state(on_hand, (2.0,) * max(1, inventory.lead_time), 3.0)
                        wanted = task.bound(state, h, expected, p)  # type: ignore[misc]
                        assert task.bound(state, h, table, p) == wanted  # type: ignore[misc]
