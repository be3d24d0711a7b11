"""One closed-loop solve for many states: the values, actions and errors of searches of their own."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Clock
from ucsearch.errors import BudgetError, InputError, TaskError
from ucsearch.tasks import LeadTimeInventory

INVENTORY = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0), capacity=20.0, fixed_cost=3.0)
TASK = INVENTORY.task()
STATES = [INVENTORY.state(float(x), (float(y),)) for x, y in itertools.product(range(0, 16, 3), (0, 4))]
MEMBERS = np.random.default_rng(7).poisson(4.0, (6, 4)).astype(float)
LAW = uc.Trace.from_members(MEMBERS, coupling="independent")


def search(state: Any, law: uc.Trace = LAW, **options: Any) -> uc.Plan:
    policy = uc.Exact(mode="closed", **{"depth": 4, **options})
    return uc.search(TASK, state, law, policy, engine="python")


@pytest.mark.parametrize("options", [{}, {"risk": 0.4, "tail": 0.3, "discount": 0.9}])
def test_every_state_is_worth_what_a_search_of_its_own_says(options: dict[str, Any]) -> None:
    policy = uc.solve(TASK, LAW, 4, states=STATES, **options)
    for state in STATES:
        alone = search(state, **options)
        assert (policy.action(state), policy.value(state)) == (alone.action, alone.score)
        worth = policy.action_values(state)
        assert worth == {f.action: f.score for f in alone.first_actions if f.retained}
    assert policy.actions(STATES).tolist() == [policy.action(s) for s in STATES]
    assert policy.depth == 4


def test_later_steps_are_answered_as_a_search_from_there_would() -> None:
    policy = uc.solve(TASK, LAW, states=STATES)  # the whole law
    rest = uc.Trace.from_members(MEMBERS[:, 1:], coupling="independent")
    state, y = STATES[1], float(MEMBERS[0, 0])
    after = TASK.step_at(state, policy.action(state), y, 0, TASK.params)
    alone = search(after, rest, depth=3)
    assert (policy.action(after, 1), policy.value(after, 1)) == (alone.action, alone.score)
    last = after
    for h in range(1, 4):
        last = TASK.step_at(last, policy.action(last, h), float(MEMBERS[0, h]), h, TASK.params)
    assert policy.value(last, 4) == (0.0 if TASK.terminal is None else TASK.terminal(last, TASK.params))


def test_a_state_that_was_not_asked_for_is_solved_when_it_is() -> None:
    policy = uc.solve(TASK, LAW, 4, states=STATES[0])
    before, new = policy.transitions, INVENTORY.state(7.0, (2.0,))
    assert policy.value(new) == search(new).score
    assert policy.transitions > before
    spent = policy.transitions
    assert policy.action(new) == search(new).action
    assert policy.actions([STATES[0], new, new]).tolist() == [policy.action(STATES[0])] + [policy.action(new)] * 2
    assert policy.transitions == spent  # remembered
    assert "states over 4 steps" in repr(policy)
    with pytest.raises(InputError, match="a state that can be reached at step 2"):
        policy.action(INVENTORY.state(1234.0, (0.0,)), 2)


def test_under_a_tree_or_a_chain_the_outcomes_seen_decide() -> None:
    members = np.array([[1.0, 0.0], [1.0, 8.0], [5.0, 8.0], [5.0, 9.0]])
    tree = uc.Trace.from_members(members, coupling="tree", node=[[0, 0], [0, 1], [1, 2], [1, 3]])
    state = INVENTORY.state(6.0, (0.0,))
    policy = uc.solve(TASK, tree, states=state)
    alone = uc.search(TASK, state, tree, uc.Exact(depth=2, mode="closed"), engine="python")
    assert (policy.action(state), policy.value(state)) == (alone.action, alone.score)
    for seen in (1.0, 5.0):
        after = TASK.step_at(state, policy.action(state), seen, 0, TASK.params)
        rest = members[members[:, 0] == seen, 1:]
        law = uc.Trace.from_members(rest, coupling="independent")
        assert policy.value(after, 1, [seen]) == pytest.approx(search(after, law, depth=1).score, rel=1e-14)
    with pytest.raises(InputError, match="seen: saw 0 outcomes, expected 1"):
        policy.action(state, 1)
    with pytest.raises(InputError, match="an outcome of the law"):
        policy.action(state, 1, [2.0])


def test_a_dead_end_has_no_action_and_is_worth_nothing_there_is() -> None:
    class At(NamedTuple):
        x: float

    task = uc.Task(
        name="cliff", state=At, actions=[0.0, 1.0], feasible=lambda s, a, p: s.x < 3.0, fallback=lambda s, p: 0.0,
        step=lambda s, a, y, p: At(s.x + a + y), reward=lambda s, a, y, p: a,
    )  # fmt: skip
    law = uc.Trace.from_members([[1.0, 1.0]], coupling="independent")
    policy = uc.solve(task, law, states=[At(0.0), At(2.0)])
    assert (policy.action(At(0.0)), policy.value(At(0.0))) == (1.0, 2.0)
    assert (policy.action(At(2.0)), policy.value(At(2.0))) == (None, -math.inf)
    assert policy.action_values(At(2.0)) == {0.0: -math.inf, 1.0: -math.inf}
    assert np.isnan(policy.actions([At(2.0), At(0.0)])).tolist() == [True, False]
    table = policy.table(None, "pandas")
    assert ((table["label"] == "") == table["action"].isna()).all()
    assert table["action"].isna().sum() == (table["value"] == -math.inf).sum() > 0


def test_a_table_has_a_row_for_each_state() -> None:
    policy = uc.solve(TASK, LAW, 2, states=STATES)
    table = policy.table(backend="pandas")
    assert list(table.columns) == ["step", *TASK.layout(STATES[0]).names, "action", "label", "value"]
    assert len(table) == len(STATES)
    row = table.iloc[3]
    assert (row["action"], row["value"]) == (policy.action(STATES[3]), policy.value(STATES[3]))
    assert row["label"] == TASK.label(0, row["action"])
    assert set(policy.table(None, "pandas")["step"]) == {0, 1}
    with pytest.raises(InputError, match="step"):
        policy.table(2)


def test_parameters_and_actions_may_be_others() -> None:
    dear = TASK.params._replace(shortage=99.0)
    policy = uc.solve(TASK, LAW, 3, states=STATES, params=dear, actions=[0.0, 6.0, math.nan, math.nan])
    plan = uc.search(
        TASK, STATES[2], LAW, uc.Exact(depth=3, mode="closed"), params=dear, actions=[0.0, 6.0, math.nan, math.nan],
        engine="python",
    )  # fmt: skip
    assert (policy.action(STATES[2]), policy.value(STATES[2])) == (plan.action, plan.score)


@pytest.mark.parametrize(
    ("given", "error", "why"),
    [
        (dict(law=uc.Trace.from_members(MEMBERS)), InputError, "trace.coupling"),
        (dict(law=MEMBERS), InputError, "law"),
        (dict(law=uc.Trace.from_members(np.stack([MEMBERS] * 2))), InputError, "one window"),
        (dict(depth=9), InputError, "policy.depth"),
        (dict(node_budget=10), BudgetError, "node_budget.*states were met by step"),
        (dict(states=[]), InputError, "states"),
        (dict(states=[Clock(0.0)]), InputError, "state"),
        (dict(task="shop"), InputError, "task"),
        (dict(law=uc.Trace.from_members([[1.0, 2.0]], coupling="tree", node=[[0, 0]]), depth=2), InputError, "tree"),
    ],
)  # fmt: skip
def test_what_cannot_be_solved_is_refused(given: dict[str, Any], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        uc.solve(**{"task": TASK, "law": LAW, "depth": 3, "states": STATES, **given})


def test_steps_and_states_of_other_kinds_are_refused() -> None:
    policy = uc.solve(TASK, LAW, 3, states=STATES)
    for step in (-1, 3, True, 1.0):
        with pytest.raises(InputError, match="step"):
            policy.action(STATES[0], step)  # type: ignore[arg-type]
    assert policy.value(STATES[0], 0) == policy.value(STATES[0])
    with pytest.raises(InputError, match="as long as those solved"):
        policy.action(STATES[0]._replace(pipeline=(1.0, 2.0)))


def test_a_rule_that_fails_names_step_and_action() -> None:
    clock = TEMPLATES["clock"].task
    task = uc.Task(
        name="broken", state=Clock, actions=clock.actions, feasible=lambda s, a, p: True, fallback=clock.fallback,
        step=clock.step, reward=lambda s, a, y, p: 1.0 / s.t,
    )  # fmt: skip
    law = uc.Trace.from_members([[1.0]], coupling="independent")
    with pytest.raises(TaskError, match=r"reward is not a finite number.*step 0"):
        uc.solve(task, law, states=Clock(0.0))
