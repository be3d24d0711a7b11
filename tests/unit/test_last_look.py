"""Nothing is released that the plain rules do not confirm."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.certificate import api as certificate_api
from ucsearch.dispatch import last_look as looks
from ucsearch.dispatch.gate import Reason


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
    monkeypatch.setattr(looks._Look, "careful", lambda self, w: pytest.fail("nothing is in doubt"))
    trace = uc.Trace.from_members(MEMBERS)
    panel = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES[name], engine="python")
    assert "RELEASED" in panel.outcome.tolist()
    assert not panel.doubts


def test_scores_are_looked_at_too(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uc.Trace.from_scores([[0.0, 1.0]] * 3, [[0.1, 0.1]] * 3, [1.0, 1.0, 1.0])
    policy = uc.Exact(depth=3, mode="scores")
    assert uc.decide(task_of(terminal=None), S(0.0), trace, policy, engine="python").released
    found = changed_after_search(monkeypatch, task_of(terminal=None), trace, policy, "LIMIT", 0.5)
    assert found.cause is Reason.TASK_ERROR


def changed_after_search(monkeypatch: Any, task: uc.Task, trace: Any, policy: Any, name: str, value: float) -> Any:
    """The decision when a constant of the rules changes between search and release, as a stale kernel would see it."""
    searched = certificate_api.certify_panel

    def stale(*args: Any, **options: Any) -> Any:
        found = searched(*args, **options)
        monkeypatch.setitem(globals(), name, value)
        return found

    monkeypatch.setattr("ucsearch.dispatch.api.certify_panel", stale)
    return uc.decide(task, S(0.0), trace, policy, engine="python")


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


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_a_rule_with_a_clock_in_it_releases_nothing(mode: Any) -> None:
    ticks = itertools.count()

    def ticking(s: Any, a: float, y: float, p: Any) -> float:
        return a * y + 1e-3 * next(ticks)

    policy = uc.Exact(depth=2, mode=mode)
    gate = uc.Gate(certificate=False, regret_limit=1e9)
    found = uc.decide(task_of(reward=ticking), S(0.0), MEMBERS[0], policy, gate=gate, engine="python")
    assert found.cause is Reason.TASK_ERROR
    assert "not deterministic" in found.sentence


def test_one_doubtful_window_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uc.Trace.from_members(MEMBERS)
    good = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES["mean"], engine="python")
    genuine = looks._Look.careful
    monkeypatch.setattr(looks._Look, "quick", lambda self, k, w: w != 2)
    monkeypatch.setattr(looks._Look, "careful", lambda self, w: "doubtful" if w == 2 else genuine(self, w))
    panel = uc.decide_panel(task_of(), [S(0.0)] * 4, trace, POLICIES["mean"], engine="python")
    assert panel.doubts == {2: "doubtful"}
    for w in (0, 1, 3):
        assert panel[w].outcome == good[w].outcome
        assert panel[w].action == good[w].action
    assert "doubtful" in panel[2].sentence


def test_integers_and_plain_tuples_are_no_doubt() -> None:
    def plain_tuple(s: Any, a: float, y: float, p: Any) -> tuple[int]:
        return (int(s.x + a),)

    task = task_of(step=plain_tuple, reward=lambda s, a, y, p: int(a) if s.x < 9 else 0)
    assert uc.decide(task, S(0.0), MEMBERS[0], uc.Exact(depth=3), engine="python").released
