"""Nothing is released that the plain rules do not confirm."""

from __future__ import annotations

import copy
import functools
import itertools
import os
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.certificate import api as certificate_api
from ucsearch.certificate import replay
from ucsearch.decision.gate import Reason
from ucsearch.planner.recorded.explain import retell
from ucsearch.records.canonical import seal
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record
from ucsearch.verify.decision.gate import NOTES


class S(NamedTuple):
    x: float


LIMIT, PRICE = 3.0, 2.0


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(s.x + a <= LIMIT)


def step(s: Any, a: float, y: float, p: Any) -> S:
    return S(s.x + a)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return PRICE * a * y - 0.3 * s.x


def fallback(s: Any, p: Any) -> float:
    return 0.0


def terminal(s: Any, p: Any) -> float:
    return 0.1 * s.x


def task_of(**changes: Any) -> uc.Task:
    parts: dict[str, Any] = dict(feasible=feasible, step=step, reward=reward, fallback=fallback, terminal=terminal)
    return uc.Task(name="look", state=S, actions=[0.0, 1.0], **{**parts, **changes})


MEMBERS = np.random.default_rng(5).gamma(4.0, 0.5, (4, 3, 3))
POLICIES: dict[str, Any] = {
    "mean": uc.Exact(depth=3, risk=0.1),
    "discounted": uc.Exact(depth=3, risk=0.1, discount=0.9),
    "members": uc.Exact(depth=3, risk=0.1, mode="members"),
    "protected": uc.CertifiedBeam(depth=3, width=4, protect=True),
}


@pytest.mark.parametrize("name", POLICIES)
def test_what_the_rules_confirm_is_released_at_the_first_glance(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_path_doubt", lambda certified, w: pytest.fail("nothing is in doubt"))
    trace = uc.Trace.from_members(MEMBERS)
    panel = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES[name], run=uc.Run(engine="python"))
    assert "RELEASED" in panel.outcome.tolist()
    assert not panel.doubts


def test_scores_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uc.Trace.from_scores([[0.0, 1.0]] * 3, [[0.1, 0.1]] * 3, [1.0, 1.0, 1.0])
    policy = uc.Exact(depth=3, mode="scores")
    assert uc.decide(task_of(terminal=None), S(0.0), trace, policy, run=uc.Run(engine="python")).released
    found = changed_after_search(monkeypatch, task_of(terminal=None), trace, policy, "LIMIT", 0.5)
    assert found.cause is Reason.TASK_ERROR


def changed_after_search(monkeypatch: Any, task: uc.Task, trace: Any, policy: Any, name: str, value: float) -> Any:
    """The decision when a constant of the rules changes between search and release, as a stale kernel would see it."""
    searched = certificate_api.certify_panel

    def stale(*args: Any, **options: Any) -> Any:
        found = searched(*args, **options)
        monkeypatch.setitem(globals(), name, value)
        return found

    monkeypatch.setattr("ucsearch.decision.api.certify_panel", stale)
    return uc.decide(task, S(0.0), trace, policy, run=uc.Run(engine="python"))


@pytest.mark.parametrize(
    ("name", "constant", "value"),
    [(name, "LIMIT", 0.5) for name in POLICIES] + [(name, "PRICE", 2.5) for name in POLICIES if name != "members"],
)
def test_rules_that_are_no_longer_those_searched_release_nothing(
    name: str, constant: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = uc.Trace.from_members(MEMBERS[0])
    found = changed_after_search(monkeypatch, task_of(), trace, POLICIES[name], constant, value)
    assert found.outcome is uc.Outcome.FALLBACK
    assert found.cause is Reason.TASK_ERROR
    assert "the plain rules" in found.sentence


@pytest.mark.parametrize("mode", ["mean", "members", "closed"])
def test_a_rule_with_a_clock_in_it_releases_nothing(mode: Any) -> None:
    ticks = itertools.count()

    def ticking(s: Any, a: float, y: float, p: Any) -> float:
        return a * y + 1e-3 * next(ticks)

    policy = uc.Exact(depth=2, mode=mode)
    gate = uc.Gate(certificate=False, regret_limit=1e9)
    trace = uc.Trace.from_members(MEMBERS[0], coupling="independent")
    found = uc.decide(task_of(reward=ticking), S(0.0), trace, policy, gate=gate, run=uc.Run(engine="python"))
    assert found.cause is Reason.TASK_ERROR
    assert "not deterministic" in found.sentence


def test_one_doubtful_window_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uc.Trace.from_members(MEMBERS)
    good = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES["mean"], run=uc.Run(engine="python"))
    monkeypatch.setattr(replay._Paths, "__call__", lambda self, w: w != 2)
    monkeypatch.setattr(replay, "_path_doubt", lambda certified, w: "doubtful" if w == 2 else pytest.fail("no doubt"))
    panel = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES["mean"], run=uc.Run(engine="python"))
    assert panel.doubts == {2: "doubtful"}
    for w in (0, 1, 3):
        assert panel[w].outcome == good[w].outcome
        assert panel[w].action == good[w].action
    assert "doubtful" in panel[2].sentence


def test_integers_and_plain_tuples_are_no_doubt() -> None:
    def plain_tuple(s: Any, a: float, y: float, p: Any) -> tuple[int]:
        return (int(s.x + a),)

    task = task_of(step=plain_tuple, reward=lambda s, a, y, p: int(a) if s.x < 9 else 0)
    assert uc.decide(task, S(0.0), MEMBERS[0], uc.Exact(depth=3), run=uc.Run(engine="python")).released


def changed(record: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A sealed copy with other values; `a__b__0` is the path a.b[0]. A callable gets the old value."""
    copied = copy.deepcopy({k: v for k, v in record.items() if k != "id"})
    for path, value in values.items():
        *parts, last = [int(x) if x.isdigit() else x for x in path.split("__")]
        at: Any = copied
        for part in parts:
            at = at[part]
        at[last] = value(at[last]) if callable(value) else value
    return seal(copied)


def judged(decision: Any, task: uc.Task) -> Any:
    record, blobs = decision_record(decision)
    return record, blobs, verify_record(record, blobs, task)


@pytest.mark.parametrize("name", [*POLICIES, "constrained", "closed"])
def test_the_record_of_a_stale_constant_is_valid_and_can_release_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {
        "constrained": uc.ConstrainedBeam(depth=3, width=4, risk=0.1),
        "closed": uc.Exact(depth=3, mode="closed"),
    }
    trace = uc.Trace.from_members(MEMBERS[0])
    if name == "closed":
        trace = uc.Trace.from_members(MEMBERS[0], coupling="independent")
    task = task_of()
    found = changed_after_search(monkeypatch, task, trace, {**POLICIES, **more}[name], "LIMIT", 0.5)
    monkeypatch.undo()
    assert [row.name for row in found.rows if not row.passed] == ["final_check"]
    assert found.final_check in found.sentence
    record, blobs, verdict = judged(found, task)
    assert (verdict.code, verdict.message) == (0, NOTES["final_check"])
    assert record["outcome"]["outcome"] == "FALLBACK"
    assert found.final_check in " ".join(retell(record, None))
    last = len(record["gate"]["rows"]) - 1
    best = record["claim"]["action_index"]
    lies: list[dict[str, Any]] = [
        {"outcome__outcome": "RELEASED", "outcome__action": record["rivals"][0]["action"]},
        {f"gate__rows__{last}__pass": True},
        {f"gate__rows__{last}__left": 1},
        {f"gate__rows__{last}": {"name": "final_check", "left": 1, "operator": "==", "right": 1, "pass": True}},
        {"gate__rows": lambda rows: rows[:-1]},
        {"gate__rows": lambda rows: [rows[-1], *rows[:-1]]},
        {"outcome__action": 1, "outcome__fallback_action": 1},
        {"claim__action_index": best + 1},
        {"claim__certificate_pass": False},
    ]
    for lie in lies:
        assert verify_record(changed(record, **lie), blobs, task).code == 1, lie
    wordless = changed(record, gate=lambda gate: {k: v for k, v in gate.items() if k != "final_check"})
    assert verify_record(wordless, blobs, task).where == "gate.final_check"


def test_words_of_a_final_check_need_its_row() -> None:
    decision = uc.decide(task_of(), S(0.0), MEMBERS[0], POLICIES["mean"], run=uc.Run(engine="python"))
    record, blobs, verdict = judged(decision, task_of())
    assert verdict.code == 0
    more = changed(record, gate=lambda gate: {**gate, "final_check": "so it is"})
    assert verify_record(more, blobs, task_of()).where == "gate.final_check"


def by_chance(s: Any, a: float, y: float, p: Any) -> float:
    return a * y + 1e-3 * os.urandom(1)[0]


def by_the_clock(s: Any, a: float, y: float, p: Any) -> float:
    return a * y + time.perf_counter()


@pytest.mark.parametrize("mode", ["mean", "members"])
@pytest.mark.parametrize("rule", [by_chance, by_the_clock])
def test_records_of_rules_that_are_none_are_valid_fallbacks(rule: Any, mode: Any) -> None:
    task = task_of(reward=rule)
    gate = uc.Gate(certificate=False, min_member_feasible=0.0)  # nothing about values, which would not hold anyway
    found = uc.decide(task, S(0.0), MEMBERS[0], uc.Exact(depth=2, mode=mode), gate=gate, run=uc.Run(engine="python"))
    assert (found.outcome, found.cause) == (uc.Outcome.FALLBACK, Reason.TASK_ERROR)
    record, _, verdict = judged(found, task)
    assert record["gate"]["rows"][-1]["name"] == "final_check"
    assert verdict.code == 0, verdict


def kept(s: Any, a: float, y: float, p: Any, seen: dict[float, int]) -> float:
    """Worth as much as its number among the actions asked about."""
    seen.setdefault(a, len(seen))
    return float(seen[a])


@pytest.mark.parametrize("mode", ["mean", "members", "closed"])
def test_rules_that_keep_what_they_saw_release_nothing(mode: Any) -> None:
    """Their answers are the same when they are asked again, but they were made by the order of the questions."""
    seen: dict[float, int] = {}

    def remembering(s: Any, a: float, y: float, p: Any) -> float:
        return kept(s, a, y, p, seen)

    trace = uc.Trace.from_members(MEMBERS[0], coupling="independent")
    found = uc.decide(
        task_of(reward=remembering), S(0.0), trace, uc.Exact(depth=1, mode=mode), run=uc.Run(engine="python")
    )
    assert (found.outcome, found.cause) == (uc.Outcome.FALLBACK, Reason.TASK_ERROR)
    assert "has changed while they were asked" in found.sentence
    again = uc.decide(
        task_of(reward=remembering), S(0.0), trace, uc.Exact(depth=1, mode=mode), run=uc.Run(engine="python")
    )
    assert again.released  # nothing changes any more


@pytest.mark.parametrize("mode", ["mean", "members", "closed"])
def test_a_count_of_calls_in_a_step_releases_nothing(mode: Any) -> None:
    calls = [0]

    def counting(s: Any, a: float, y: float, p: Any) -> S:
        calls[0] += 1
        return S(s.x + a + 1e-3 * calls[0])

    trace = uc.Trace.from_members(MEMBERS[0], coupling="independent")
    policy = uc.Exact(depth=2, mode=mode)
    assert not uc.decide(task_of(step=counting), S(0.0), trace, policy, run=uc.Run(engine="python")).released


class Tariff:
    """An object of the rules whose figure is computed once."""

    def __init__(self, price: float) -> None:
        self.price = price

    @functools.cached_property
    def twice(self) -> float:
        return 2.0 * self.price


def test_an_answer_that_python_keeps_is_no_change_of_the_rules() -> None:
    tariff = Tariff(2.0)

    def priced(s: Any, a: float, y: float, p: Any) -> float:
        return a * tariff.twice

    task = task_of(reward=priced)
    before = task.source_hash
    assert uc.decide(task, S(0.0), MEMBERS[0], uc.Exact(depth=1), run=uc.Run(engine="python")).released
    assert "twice" in vars(tariff)
    task.check_unchanged()
    assert task_of(reward=priced).source_hash == before


@pytest.mark.parametrize("role", ["step", "terminal"])
@pytest.mark.parametrize("mode", ["mean", "members", "closed"])
def test_rules_that_no_walk_can_see_are_asked_twice(mode: Any, role: str) -> None:
    """Their first rewards are the same each time; what comes later is not."""
    ticks = itertools.count()

    def ticking_step(s: Any, a: float, y: float, p: Any) -> S:
        return S(s.x + a + 1e-3 * next(ticks))

    def ticking_end(s: Any, p: Any) -> float:
        return 1e-3 * next(ticks)

    task = task_of(**{role: ticking_step if role == "step" else ticking_end})
    trace, gate = (
        uc.Trace.from_members(MEMBERS[0], coupling="independent"),
        uc.Gate(certificate=False, regret_limit=1e9),
    )
    found = uc.decide(task, S(0.0), trace, uc.Exact(depth=3, mode=mode), gate=gate, run=uc.Run(engine="python"))
    assert found.cause is Reason.TASK_ERROR
    assert "not deterministic" in found.sentence
