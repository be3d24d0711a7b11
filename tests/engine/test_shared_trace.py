"""One forecast for many states: the same answers as with one for each; under one law what they share is valued once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Clock
from ucsearch.certificate import CertifiedPanel
from ucsearch.engine.arrays import Status
from ucsearch.engine.plain import run
from ucsearch.policies import Run
from ucsearch.tasks import LeadTimeInventory

INVENTORY = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0), capacity=20.0, fixed_cost=3.0)
TASK = INVENTORY.task()
STATES = [INVENTORY.state(float(x), (float(y),)) for x, y in itertools.product(range(0, 16, 3), (0, 4, 16))]
LAW = uc.Trace.from_members(np.random.default_rng(7).poisson(4.0, (6, 4)).astype(float), coupling="independent")
PLAIN = Run(engine="python")


def same(one: CertifiedPanel, other: CertifiedPanel) -> None:
    for name in ("evidence", "claims"):
        for a, b in zip(getattr(one, name), getattr(other, name), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    for a, b in zip(one.plan.outputs, other.plan.outputs, strict=True):
        assert a.tobytes() == b.tobytes()
    for w in (0, len(one) - 1):
        assert one[w].plan.trace.hash == other[w].plan.trace.hash
        assert str(one[w].to_dict()) == str(other[w].to_dict())


@pytest.mark.parametrize(
    "policy",
    [
        uc.UCBeam(depth=3, width=6, risk=0.3), uc.Exact(depth=3, risk=0.2, mode="members"),
        uc.Exact(depth=4, mode="closed", node_budget=300), uc.Exact(depth=4, mode="closed", risk=0.4, discount=0.9),
    ],
)  # fmt: skip
def test_a_shared_forecast_is_as_good_as_one_for_each(policy: Any) -> None:
    each = [LAW] * len(STATES)
    shared = uc.certify_panel(TASK, STATES, LAW, policy, run=PLAIN)
    assert shared.plan.trace.windows == 1
    same(shared, uc.certify_panel(TASK, STATES, each, policy, run=PLAIN))


def test_a_kernel_takes_a_shared_forecast_too() -> None:
    policy, compiled = uc.UCBeam(depth=3, width=6, risk=0.3), Run(engine="compiled", threads=2)
    same(
        uc.certify_panel(TASK, STATES, LAW, policy, run=compiled),
        uc.certify_panel(TASK, STATES, [LAW] * len(STATES), policy, run=compiled),
    )


def test_decisions_share_a_forecast_and_say_what_they_say_alone() -> None:
    policy = uc.Exact(depth=3, mode="closed")
    panel = uc.decide_panel(TASK, STATES, LAW, policy, run=PLAIN)
    for w, state in enumerate(STATES):
        alone = uc.decide(TASK, state, LAW, policy, run=PLAIN)
        assert (panel[w].outcome, panel[w].action, panel[w].sentence) == (alone.outcome, alone.action, alone.sentence)


def test_what_many_states_reach_is_valued_once() -> None:
    """Counters are those of each search alone; the rules are asked about each state once."""
    asked: list[Any] = []
    task = uc.Task(
        name="counted", state=TASK.state, actions=TASK.actions, params=TASK.params, feasible=TASK.feasible,
        step=TASK.step, fallback=TASK.fallback, reward=lambda s, a, y, p: asked.append(1) or TASK.reward(s, a, y, p),
    )  # fmt: skip
    policy = uc.Exact(depth=4, mode="closed")
    alone = sum(uc.search(task, s, LAW, policy, engine="python").expansions for s in STATES)
    assert len(asked) == alone
    asked.clear()
    panel = uc.search_panel(task, STATES, LAW, policy, engine="python")
    assert int(panel.expansions.sum()) == alone
    assert len(asked) < alone / 4


def test_a_state_that_exceeds_its_own_budget_is_not_proved_whoever_it_is_with() -> None:
    spent = uc.search_panel(TASK, STATES, LAW, uc.Exact(depth=4, mode="closed"), engine="python").expansions
    for budget in (int(spent.max()), int(spent.max()) - 1, int(spent.min()), 1):
        policy = uc.Exact(depth=4, mode="closed", node_budget=budget)
        panel = uc.search_panel(TASK, STATES, LAW, policy, engine="python")
        assert ((panel.status == Status.NOT_PROVED) == (spent > budget)).all()


def test_a_fault_stays_with_the_state_that_meets_it() -> None:
    clock = TEMPLATES["clock"].task
    broken = uc.Task(
        name="broken", state=Clock, actions=clock.actions, feasible=lambda s, a, p: True, fallback=clock.fallback,
        step=clock.step, reward=lambda s, a, y, p: 1.0 / (s.t - 5.0),
    )  # fmt: skip
    law = uc.Trace.from_members([[1.0, 1.0]], coupling="independent")
    panel = uc.search_panel(broken, [Clock(0.0), Clock(5.0)], law, uc.Exact(depth=1, mode="closed"), engine="python")
    assert panel.status.tolist() == [Status.PROVED, Status.TASK_ERROR]


def test_each_with_params_or_actions_of_its_own_is_searched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "closed_shared", lambda *given: pytest.fail("nothing is shared"))
    rows, policy = np.repeat(TASK.params_row, 2, axis=0), uc.Exact(depth=2, mode="closed")
    for states, own in (
        (STATES[:2], {"params": rows}),
        (STATES[:2], {"actions": [TASK.actions] * 2}),
        (STATES[:1], {}),
    ):
        found = uc.search_panel(TASK, states, LAW, policy, engine="python", **own)
        assert (found.status == Status.PROVED).all()


def test_states_and_forecasts_of_other_numbers_are_refused() -> None:
    two = uc.Trace.from_members(np.ones((2, 3, 4)))
    with pytest.raises(uc.InputError, match="3 rows, expected 2"):
        uc.search_panel(TASK, STATES[:3], two, uc.UCBeam(depth=2), engine="python")
