"""Walks side by side: what they make does not depend on how many run at a time, and one that fails ends the others."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pytest

from ucsearch.planner.backtest.resume import Kept, Parts
from ucsearch.replay.panel import Panel, SharedPanel
from ucsearch.tasks import LeadTimeInventory


def parts() -> Parts:
    return Parts(Kept(None, "", {}), None)


def test_results_come_in_the_order_of_the_jobs() -> None:
    first = threading.Event()

    def late() -> str:
        assert first.wait(10.0)  # the job after this one is done before it
        return "late"

    def early() -> str:
        first.set()
        return "early"

    assert parts().side_by_side([late, early], 2) == ["late", "early"]
    assert parts().side_by_side([early, late], 1) == ["early", "late"]


def test_a_job_that_fails_ends_the_others_at_their_next_decision() -> None:
    one, begun = parts(), threading.Event()

    def fails() -> None:
        assert begun.wait(10.0)
        raise ValueError("no order is allowed")

    def goes_on() -> None:
        for _ in range(200):
            one.tick(1)
            begun.set()
            threading.Event().wait(0.05)
        pytest.fail("it was not ended")

    with pytest.raises(ValueError, match="no order"):
        one.side_by_side([fails, goes_on, partial(pytest.fail, "it was begun")], 2)
    one.tick(1)  # and the next stage may begin


def test_what_is_known_at_a_decision_is_made_once() -> None:
    made = []
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0))

    def grid(trace: object) -> tuple[None, None]:
        made.append(trace)
        return None, None

    members = np.random.default_rng(3).poisson(4.0, (2, 3, 5, 4)).astype(float)
    layout = config.task().layout(config.state(1.0, [2.0], 0.0))
    own = (config.task(), config, layout, np.zeros((2, layout.size)), (), members, members[:, :, 0, 0],
           members[:, :, 0], (), "m", grid)  # fmt: skip
    shared = SharedPanel(*own)
    for t in (0, 1, 0, 1):
        shared.grids(shared.trace(t))
    assert len(made) == 2
    assert np.array_equal(shared.trace(1).members, Panel(*own).trace(1).members)
