"""Tasks that say that their bound looks at nothing but the steps ahead: the same bytes with the first step left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tasks.test_compiled import drawn
from ucsearch.task import View
from ucsearch.tasks import TASKS

LOOK_AHEAD = ("capacity_plan", "delayed_exposure", "lead_time_inventory")


def bounds(task: Any, states: list[Any], members: Any, weights: Any, risk: float, spread: int, since: int) -> list[str]:
    """Of every state at every step from 1 on, from the table of the steps from `since` on."""
    own = np.ascontiguousarray(members[:, since:])
    mean = np.array([sum(w * y for w, y in zip(weights, column, strict=True)) for column in own.T])
    table = task.prepare(mean, task.params, View(own, weights, risk, spread))
    steps = range(1, members.shape[1] + 1)
    return [float(task.bound(s, h - since, table, task.params)).hex() for h in steps for s in states]


@pytest.mark.parametrize("name", LOOK_AHEAD)
@pytest.mark.parametrize("spread", [0, 1, 2])
def test_the_first_step_is_nothing_to_a_later_bound(name: str, spread: int) -> None:
    made, states, outcomes = drawn(name, 20)
    assert all(one.task().by_rest for one in TASKS[name].kind.instances().values())
    weights = np.array([0.31, 0.17, 0.23, 0.29])
    for risk in (0.0, 0.37):
        for w in range(len(outcomes)):
            given = (made.task(), states, np.round(outcomes[w], 3), weights, risk, spread)
            assert bounds(*given, since=0) == bounds(*given, since=1)
