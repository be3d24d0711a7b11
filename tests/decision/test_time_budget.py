"""The time budget ends a search that runs, and the record of it is valid."""

from __future__ import annotations

import itertools
import sys
from typing import Any, Literal

import numpy as np
import pytest
from test_final_check import MEMBERS, POLICIES, S, changed, judged, task_of

import ucsearch as uc
from ucsearch.certificate.api import certify_panel
from ucsearch.decision.api import Stopwatch
from ucsearch.decision.gate import Reason
from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Status
from ucsearch.verify import verify_record
from ucsearch.verify.decision.gate import NOTES

GATE = uc.Gate(time_budget_s=10.0)


def jumping(readings: int) -> Any:
    """A clock that stands still for so many readings, and is a minute further from then on."""
    return itertools.chain(itertools.repeat(0.0, readings), itertools.repeat(60.0)).__next__


def readings_of(policy: Any, trace: uc.Trace) -> int:
    """How often a whole decision asks for the time."""
    count = itertools.count()
    uc.decide(task_of(), S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=lambda: 0.0 * next(count), engine="python"))
    return next(count)


def policy_of(name: str) -> tuple[Any, uc.Trace]:
    more = {
        "mcts": uc.MCTS(depth=3, simulations=30),
        "beam": uc.UCBeam(depth=3, width=2),
        "closed": uc.Exact(depth=3, mode="closed"),
        "risky": uc.Exact(depth=3, mode="closed", risk=0.5),
    }
    coupling: Any = "independent" if name in ("closed", "risky") else "joint"
    return {**POLICIES, **more}[name], uc.Trace.from_members(MEMBERS[0], coupling=coupling)


@pytest.mark.parametrize("name", ["mean", "members", "protected", "mcts", "beam", "closed", "risky"])
def test_a_search_is_ended_wherever_it_is_and_its_record_is_valid(name: str) -> None:
    policy, trace = policy_of(name)
    whole = readings_of(policy, trace)
    assert whole > 5
    task = task_of()
    for at in {1, 2, whole // 2, whole - 2}:
        found = uc.decide(task, S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=jumping(at), engine="python"))
        assert (found.outcome, found.cause) == (uc.Outcome.FALLBACK, Reason.TIME_BUDGET)
        assert found.certificate is not None
        assert found.certificate.plan.status is Status.OUT_OF_TIME
        assert "60, limit 10" in found.sentence
        _record, _blobs, verdict = judged(found, task)
        assert (verdict.code, verdict.message) == (0, NOTES["search_in_time"]), verdict


def test_a_search_that_ends_in_time_and_a_clock_that_does_not() -> None:
    policy, trace = policy_of("mean")
    task, whole = task_of(), readings_of(policy, trace)
    found = uc.decide(task, S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=jumping(whole - 1), engine="python"))
    assert found.cause is Reason.TIME_BUDGET
    assert "search_in_time" not in [row.name for row in found.rows]
    record, _blobs, verdict = judged(found, task)
    assert (verdict.code, verdict.message) == (0, "")
    assert record["rivals"]
    assert uc.decide(task, S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=jumping(whole), engine="python")).released


def test_the_record_of_an_ended_search_says_nothing_else() -> None:
    policy, trace = policy_of("beam")
    task = task_of()
    record, blobs, _ = judged(
        uc.decide(task, S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=jumping(3), engine="python")), task
    )
    whole, _, _ = judged(
        uc.decide(task, S(0.0), trace, policy, gate=GATE, run=uc.Run(clock=lambda: 0.0, engine="python")), task
    )
    lies: list[dict[str, Any]] = [
        {"outcome__outcome": "RELEASED", "outcome__action": 1},
        {"outcome__reason": "none", "outcome__cause": "none"},
        {"gate__elapsed_s": 9.0},
        {"gate__elapsed_s": 9.0, "gate__rows__4": lambda row: {**row, "left": 9, "pass": True}},
        {"gate__settings__time_budget_s": None},
        {"gate__rows__1__pass": True},
        {"gate__rows__1__left": 1},
        {"gate__rows": lambda rows: [rows[0], *rows[2:]]},
        {"rivals": whole["rivals"]},
        {"rivals": whole["rivals"], "claim": whole["claim"]},
        {"claim__counters__expansions": 3},
        {"claim__certificate_pass": True},
        {"claim__search_pass": True},
        {"claim__member_feasible": 1},
    ]
    for lie in lies:
        assert verify_record(changed(record, **lie), blobs, task).code == 1, lie


def test_windows_that_were_done_keep_what_was_found() -> None:
    trace = uc.Trace.from_members(MEMBERS)
    count = itertools.count()
    whole = uc.decide_panel(
        task_of(),
        [S(0.0)] * 4,
        trace,
        POLICIES["mean"],
        gate=GATE,
        run=uc.Run(clock=lambda: 0.0 * next(count), engine="python"),
    )
    readings = next(count)
    half = uc.decide_panel(
        task_of(),
        [S(0.0)] * 4,
        trace,
        POLICIES["mean"],
        gate=GATE,
        run=uc.Run(clock=jumping(readings - 20), engine="python"),
    )
    status = half.certified.plan.status
    assert set(status.tolist()) == {int(Status.PROVED), int(Status.OUT_OF_TIME)}
    assert set(half.cause) == {Reason.TIME_BUDGET}
    for w in range(4):
        record, _blobs, verdict = judged(half[w], task_of())
        assert verdict.code == 0, verdict
        done = status[w] == Status.PROVED
        assert bool(record["rivals"]) == done
        assert not done or half[w].certificate.to_dict()["gap"] == whole[w].certificate.to_dict()["gap"]


def test_compiled_windows_are_left_out_chunk_by_chunk() -> None:
    calls = itertools.count()
    found = search_panel(
        task_of(), [S(0.0)] * 64, np.tile(MEMBERS[:1], (64, 1, 1)), uc.UCBeam(depth=2, width=2), engine="compiled",
        threads=1, stop=lambda: next(calls) >= 8,
    )  # fmt: skip
    assert found.engine == "compiled"
    late = found.status == Status.OUT_OF_TIME
    assert late.tolist() == [False] * 32 + [True] * 32
    assert np.isnan(found.action[late]).all()
    assert not np.isnan(found.action[~late]).any()


@pytest.mark.parametrize(("kind", "late"), [("bound", True), ("oracle", False)])
def test_only_a_bound_that_is_still_to_come_is_ended(kind: Literal["bound", "oracle"], late: bool) -> None:
    """The searches are over, their budget of nodes is spent, and then time is up: a proof by every path has nothing
    more to do and says what it found; the members bound would begin now."""

    def stop() -> bool:
        return sys._getframe(1).f_code.co_name == "_end"

    found = certify_panel(
        task_of(),
        [S(0.0)],
        MEMBERS[:1],
        POLICIES["members"],
        proof=uc.Proof(kind=kind, node_budget=1),
        run=uc.Run(engine="python"),
        stop=stop,
    )
    ended = found.plan.status == Status.OUT_OF_TIME
    assert ended.tolist() == [late]


def test_a_watch_that_was_over_stays_over() -> None:
    clock = iter([0.0, 1.0, 11.0, 2.0, 3.0]).__next__
    watch = Stopwatch(clock, 10.0)
    assert not watch.is_over()
    assert watch.is_over()
    assert watch.is_over()
    assert watch.elapsed() == 11.0
    assert Stopwatch(iter([0.0, float("nan")]).__next__, 10.0).is_over()
