"""One rule chooses the engine; bounds are computed only where they are needed, on all threads."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Charge, Clock
from ucsearch.certificate.members import bound
from ucsearch.engine import api, choose
from ucsearch.engine.api import thread_count
from ucsearch.engine.compiled import engine
from ucsearch.lab.comparators.policies import DelayAwareGreedy

CLOCK, BATTERY = TEMPLATES["clock"].task, TEMPLATES["battery"].task


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that would have been compiled."""
    found: list[str] = []
    monkeypatch.setattr(engine, "on_disk", lambda *_: False)
    monkeypatch.setattr(engine, "ready_kernel", lambda *_: None)
    monkeypatch.setattr(engine, "find_kernel", lambda task, *_: found.append(task.name))
    monkeypatch.setattr(choose, "_spent", {})
    monkeypatch.setattr(choose, "_beside", {})
    return found


def test_work_done_before_counts(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small panels are worth a kernel as one large one is, also from task objects of their own."""
    trace = uc.Trace.from_members(np.ones((4, 2, 2)))
    policy = uc.UCBeam(depth=2, width=2)
    once = 4 * 3 * len(CLOCK.actions) * choose._MEAN_EDGE
    monkeypatch.setattr(choose, "WORTH_COMPILING", 3 * once)
    for turn in range(3):
        plan = uc.search_panel(CLOCK, [Clock(0.0)] * 4, trace, policy)
        assert plan.engine == "python"
        choose.wait_for_kernels()
        assert len(asked) == (turn == 2)


@pytest.mark.parametrize("single", [True, False])
def test_the_plain_engine_answers_while_a_kernel_is_compiled(single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small calls that add up start one compilation, and none of them waits for it."""
    begun, go_on = threading.Event(), threading.Event()
    made: list[str] = []

    def slow(task: Any, layout: Any, settings: Any, meanwhile: str) -> None:
        begun.set()
        assert go_on.wait(30.0)
        made.append(f"{task.name}{meanwhile}")

    monkeypatch.setattr(engine, "on_disk", lambda *_: False)
    monkeypatch.setattr(engine, "find_kernel", slow)
    monkeypatch.setattr(choose, "_spent", {})
    monkeypatch.setattr(choose, "_beside", {})
    for place in (choose, api):
        monkeypatch.setattr(place, "WORTH_COMPILING", 100)
    policy = uc.UCBeam(depth=2, width=2)
    task = dataclasses.replace(CLOCK, name="counted")
    try:
        for _ in range(6):
            if single:
                assert uc.search(task, Clock(0.0), uc.Trace.from_members(np.ones((2, 2))), policy).engine == "python"
            else:
                trace = uc.Trace.from_members(np.ones((1, 2, 2)))
                assert uc.search_panel(task, [Clock(0.0)], trace, policy).engine == "python"
        assert begun.wait(30.0)
        assert made == []
    finally:
        go_on.set()
        choose.wait_for_kernels()
    assert made == ["counted while plain Python answers"]


def test_a_call_that_is_worth_a_kernel_waits_for_it(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "WORTH_COMPILING", 10)
    uc.search_panel(CLOCK, [Clock(0.0)] * 4, uc.Trace.from_members(np.ones((4, 2, 2))), uc.UCBeam(depth=2, width=2))
    assert asked == ["clock"]
    assert choose._beside == {}


def test_a_policy_says_how_much_work_it_is() -> None:
    assert uc.UCBeam(depth=4, width=8).work(5, False) == 25
    assert uc.MCTS(depth=4, simulations=10).work(5, False) == 40
    assert uc.Exact(depth=2).work(5, True) == 25
    assert uc.Exact(depth=9).work(5, True) == 500
    assert uc.Exact(depth=9, node_budget=70).work(5, False) == 70
    assert DelayAwareGreedy(depth=6, delay=2).work(5, False) == 6


@pytest.mark.parametrize(("decisions", "expected"), [(1, "python"), (50, "python"), (51, "compiled")])
def test_runs_of_known_length(decisions: int, expected: str) -> None:
    assert choose.engine_for(decisions) == expected


def test_members_are_bounded_only_where_the_proof_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []
    genuine = bound.members_bounds

    def watched(*args: Any, **options: Any) -> Any:
        seen.append((options["only"], options["threads"]))
        return genuine(*args, **options)

    monkeypatch.setattr(bound, "members_bounds", watched)
    trace = uc.Trace.from_members(np.random.default_rng(3).normal(40.0, 15.0, (3, 2, 3)))
    # The second window starts where few actions are allowed, so its proof ends within the budget.
    states = [Charge(4.0, 0.0), Charge(0.0, 0.0), Charge(4.0, 0.0)]
    policy = uc.UCBeam(depth=3, width=4, risk=0.2, mode="members")
    for budget in (20, 40, 80):
        found = uc.certify_panel(
            BATTERY,
            states,
            trace,
            policy,
            run=uc.Run(engine="python"),
            proof=uc.Proof(kind="bound", node_budget=budget),
        )
        assert len(found) == 3
    assert seen
    for only, threads in seen:
        assert only.dtype == bool
        assert only.any()
        assert threads == thread_count(None)
    assert any(not only.all() for only, _ in seen)
