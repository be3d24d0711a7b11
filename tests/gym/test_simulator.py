"""The simulator plays by the rules in force."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import TaskError


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
def test_a_constant_that_changes_asks_for_a_new_task(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator = Simulator(TASK, TASK.layout(S(0.0)), engine=engine)
    rows, chosen, y = np.array([[2.0]]), np.array([1]), np.array([[1.5]])
    assert simulator.engine == engine
    assert simulator.step(rows, chosen, y).rewards.tolist() == [3.0]
    monkeypatch.setitem(globals(), "PRICE", 4.0)
    with pytest.raises(TaskError, match="PRICE has changed since the task was made; make the task again"):
        simulator.on(None, None).step(rows, chosen, y)
    again = dataclasses.replace(TASK)
    assert Simulator(again, again.layout(S(0.0)), engine=engine).step(rows, chosen, y).rewards.tolist() == [6.0]
