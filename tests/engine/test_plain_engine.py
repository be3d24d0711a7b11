"""Corners of the plain engine that only brute force or a hand-made case tells apart."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.arrays import Fault
from ucsearch.engine.plain import outcome
from ucsearch.engine.plain import window as plain_window
from ucsearch.engine.plain.exact import _PerfectInformation, _Stop
from ucsearch.engine.plain.run import make_window


class S(NamedTuple):
    x: float


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(s.x + a <= 4.0)


def step(s: Any, a: float, y: float, p: Any) -> S:
    return S(s.x + a)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return 10.0 + a * y - 0.5 * a * a


def fallback(s: Any, p: Any) -> float:
    return 0.0


TASK = uc.Task(
    name="climb", state=S, actions=[0.0, 1.0, 2.0], feasible=feasible, step=step, reward=reward, fallback=fallback
)


def test_among_equal_ranks_the_less_uncertain_are_expanded() -> None:
    trace = uc.Trace.from_scores([[1.0, 1.0, 1.0]], [[0.3, 0.1, 0.2]], [1.0])
    policy = uc.ParetoBeam(depth=1, width=3, top_k=2, mode="scores", prune_risk=0.0)
    plan = uc.search_panel(TASK, [S(0.0)], trace, policy, engine="python")
    generated = plan.outputs.flags[0] & outcome.First.GENERATED
    assert generated.astype(bool).tolist() == [False, True, True]


@pytest.mark.parametrize(("cap", "answer"), [(3, True), (2, None)])
def test_a_completion_within_the_cap_is_found(cap: int, answer: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three moves lead to the end, so three are enough and two are not."""
    monkeypatch.setattr(outcome, "COMPLETION_CAP", cap)
    plan = uc.search_panel(TASK, [S(0.0)], uc.Trace.from_members([[1.0] * 3]), uc.UCBeam(depth=3), engine="python")
    window = make_window(plan.task, plan.settings, plan.layout, plan.inputs, 0)
    assert outcome.completable(window, S(0.0)) is answer


@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_the_best_fixed_plan_is_that_of_all_plans(discount: float) -> None:
    """Rewards above 0, and waiting is best: a limit of the wrong sign would end the search too early."""
    members = np.random.default_rng(3).integers(0, 4, (6, 3)).astype(float) + [1.0, 2.0, 9.0]
    trace = uc.Trace.from_members(members).declare("independent")
    policy = uc.Exact(depth=3, mode="closed", fixed_plan=True, discount=discount)
    found = uc.certify(TASK, S(2.0), trace, policy, run=uc.Run(engine="python"))
    best = max(
        sum(discount**h * (10.0 + a * float(members[:, h].mean()) - 0.5 * a * a) for h, a in enumerate(plan))
        for plan in itertools.product(TASK.actions, repeat=3)
        if sum(plan) <= 2.0
    )
    assert found.closed.open_value == pytest.approx(best, rel=1e-12)


def end(s: Any, p: Any) -> float:
    return -3.0 - s.x


def test_the_size_of_a_path_counts_what_the_end_is_worth() -> None:
    task = uc.Task(
        name="end", state=S, actions=[0.0, 1.0], feasible=feasible, step=step, reward=lambda s, a, y, p: a * y,
        fallback=fallback, terminal=end,
    )  # fmt: skip
    trace = uc.Trace.from_members([[1.0, 2.0], [3.0, 1.0]])
    plan = uc.search_panel(task, [S(0.0)], trace, uc.Exact(depth=2, mode="members"), engine="python")
    gross = plan.outputs.table[0, :, 6]
    # By action 0: then 1 (at most 2), end -4. By action 1: at most 3, then 1 (at most 2), end -5.
    assert gross.tolist() == [2.0 + 4.0, 3.0 + 2.0 + 5.0]


def test_perfect_information_counts_every_state_of_every_member_once() -> None:
    """From 0 by steps of 0, 1, 2 up to 4: 3, 5 and 5 levels after one, two and three steps."""
    trace = uc.Trace.from_members([[1.0] * 3, [2.0] * 3])
    plan = uc.search_panel(TASK, [S(0.0)], trace, uc.Exact(depth=3, mode="members"), engine="python")
    window = make_window(plan.task, plan.settings, plan.layout, plan.inputs, 0)
    perfect = _PerfectInformation(window, 26)
    perfect.solve(S(0.0))
    assert perfect.nodes == 26
    with pytest.raises(_Stop):
        _PerfectInformation(window, 25).solve(S(0.0))


@pytest.mark.parametrize("answer", [True, False])
def test_a_plain_truth_is_not_looked_at_twice(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_window, "as_allowed", None)
    assert plain_window._truth(answer, Fault.RAISED, 0, 0) is answer
