"""A search looks at the rules that are in its kernel, at every call; and at no others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc

PRICE = 2.0
LIFT = 50.0
CAUTIOUS = 0.0


class Level(NamedTuple):
    x: float


def feasible(s: Level, a: float, p: None) -> bool:
    return True


def step(s: Level, a: float, y: float, p: None) -> Level:
    return Level(s.x + a - y)


def reward(s: Level, a: float, y: float, p: None) -> float:
    return PRICE * a - abs(s.x + a - y)


def fallback(s: Level, p: None) -> float:
    return CAUTIOUS


def prepare(outcomes: Any, p: None) -> Any:
    return np.full(4, LIFT)


def bound(s: Level, h: int, table: Any, p: None) -> float:
    return float(table[h])


TASK = uc.Task(
    name="level", state=Level, actions=(0.0, 1.0), feasible=feasible, step=step, reward=reward, fallback=fallback,
    prepare=prepare, bound=bound,
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "plain", "bounded"), [("PRICE", True, True), ("LIFT", False, True), ("CAUTIOUS", False, False)]
)
def test_what_a_search_looks_at(name: str, plain: bool, bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    without, with_it = TASK.reach_of_search(False), TASK.reach_of_search(True)
    for _ in range(60):  # in both ways of asking
        assert without.unchanged()
        assert with_it.unchanged()
    kept = TASK.reach()
    monkeypatch.setitem(globals(), name, 7.0)
    assert without.unchanged() is not plain
    assert with_it.unchanged() is not bounded
    assert TASK.reach() is not kept  # which records are about


@pytest.mark.compiled
def test_a_search_follows_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = uc.Trace.from_members([[1.0, 2.0], [0.0, 1.0]])
    policy = uc.UCBeam(depth=2, width=2, risk=0.5, order="score")

    def score() -> float:
        plan = uc.search(TASK, Level(0.0), trace, policy, engine="compiled")
        assert plan.engine == "compiled"
        assert plan.score == uc.search(TASK, Level(0.0), trace, policy, engine="python").score
        return float(plan.score)

    before = [score() for _ in range(60)]
    monkeypatch.setitem(globals(), "LIFT", 7.0)
    assert score() == before[0]
    monkeypatch.setitem(globals(), "PRICE", -2.0)
    assert score() < before[0]
