"""The simulator plays by the rules in force."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.simulate import Simulator


class S(NamedTuple):
    x: float


PRICE, LIMIT = 2.0, 3.0


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(s.x + a <= LIMIT)


def step(s: Any, a: float, y: float, p: Any) -> S:
    return S(s.x + a)


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return PRICE * a * y


def fallback(s: Any, p: Any) -> float:
    return 0.0


TASK = uc.Task(
    name="played", state=S, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward, fallback=fallback
)


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_constant_that_changes_is_followed(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = Simulator(TASK, TASK.layout(S(0.0)), engine=engine)
    rows, chosen, y = np.array([[2.0]]), np.array([1]), np.array([[1.5]])
    assert simulator.engine == engine
    assert simulator.step(rows, chosen, y).rewards.tolist() == [3.0]
    monkeypatch.setitem(globals(), "PRICE", 4.0)
    monkeypatch.setitem(globals(), "LIMIT", 3.5)
    other = simulator.on(None, None)
    for one in (simulator, other):
        assert one.step(rows, chosen, y).rewards.tolist() == [6.0]
        assert one.engine == engine
    monkeypatch.setitem(globals(), "LIMIT", 2.5)
    assert simulator.mask(rows).tolist() == [[True, False]]
    kept = simulator._kernel
    assert simulator.mask(rows).tolist() == [[True, False]]
    assert simulator._kernel is kept
