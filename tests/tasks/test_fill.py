"""The inventory's `prepare_into` gives the table of its `prepare`, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucsearch.task import View
from ucsearch.tasks import LeadTimeInventory

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
def test_tables_are_those_of_prepare(members: int, spread: int) -> None:
    rng = np.random.default_rng(members)
    for risk in (0.0, 0.4):
        for inventory in PROBLEMS:
            task = inventory.task()
            assert task.prepare is not None
            assert task.prepare_into is not None
            for demand in forecasts(rng, members, 4):
                view = View(demand, rng.dirichlet(np.ones(members)), risk, spread)
                assert task.prepare_into.difference(task.prepare, demand.mean(axis=0), task.params, view) is None
