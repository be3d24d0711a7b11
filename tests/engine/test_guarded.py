"""Numbers that a machine takes otherwise than Python: a kernel hands such windows over, and rivals are valued right."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import UnsupportedError

import ucsearch as uc
from ucsearch.engine.compiled import loading
from ucsearch.engine.compiled.guarded import GUARDED_ONLY
from ucsearch.engine.compiled.head import HEAD

pytestmark = pytest.mark.compiled
VALUES = [0.0, -0.0, 1.0, -2.5, 3.0, 5e-324, 1e300, 4e9, 2.0**53 + 2, 2.0**62, -(2.0**63), 800.0]
KINDS = 27


class State(NamedTuple):
    kind: float
    x: float
    z: float


def worth(k: float, x: float, z: float) -> float:
    """Answers that were wrong in a kernel, without a word: finite, and others than Python's or where Python raises."""
    if k < 12.0:
        if k == 0.0:
            return float(int(x) * int(z))
        if k == 1.0:
            return float(int(x) + int(z))
        if k == 2.0:
            return float(int(x) - int(z))
        if k == 3.0:
            return float(math.floor(x / 0.1))
        if k == 4.0:
            return float(round(x) % 7)
        if k == 5.0:
            return float(-int(x))
        if k == 6.0:
            return float(int(x) // int(z))
        if k == 7.0:
            return float(int(x) % int(z))
        if k == 8.0:
            return 1.0 if int(x) + 1 > z else 2.0
        if k == 9.0:
            return (int(x) + 1) / (int(z) + 3)
        if k == 10.0:
            return float(int(x) ** 3)
        return float(abs(int(x)) >> int(z))
    if k == 12.0:
        return min(10.0, 1.0 / x)
    if k == 13.0:
        return min(1e6, math.exp(x))
    if k == 14.0:
        return max(0.0, math.log(x))
    if k == 15.0:
        return max(0.0, math.sqrt(x))
    if k == 16.0:
        return min(5.0, x**z) if abs(x) < 1e9 else 0.0
    if k == 17.0:
        return 1.0 if x % z > 0.5 else 0.0
    if k == 18.0:
        return 1.0 if x // z > 0.5 else 0.0
    if k == 19.0:
        n = 1
        for _ in range(70):
            n *= 3
        return n - x
    if k == 20.0:
        return float(10 ** -int(min(abs(x), 3.0)))
    if k == 21.0:
        return float(max(x, int(z) + 1))
    if k == 22.0:
        return 1.0 / (1.0 + math.exp(-x))
    if k == 23.0:
        return max(0.0, math.sin(x * 1e200 * 1e200)) + max(0.0, math.log(abs(x) * -1e200 * 1e200))
    if k == 24.0:
        return 1e-3 * min(abs(x), 8.0) ** int(min(abs(z), 40.0))
    if k == 25.0:
        n = int(x) + 1
        if z == 3.0:
            n = 0.5
        return float(n - int(x))
    return min(x, z) * 0.5 - abs(z) + x * z * 1e-200


def feasible(s: State, a: float, p: Any) -> bool:
    return True


def step(s: State, a: float, y: float, p: Any) -> State:
    return s


def reward(s: State, a: float, y: float, p: Any) -> float:
    return 1.0 if a == 0.0 else worth(s.kind, s.x, s.z)


def fallback(s: State, p: Any) -> float:
    return 0.0


TASK = uc.Task(
    name="odd numbers", state=State, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward, fallback=fallback
)
POLICY = uc.Exact(depth=1)


def test_a_rival_whose_value_wraps_around_is_not_passed_over() -> None:
    """16e18 has more than 63 bits: it came out below zero, and the other action left as proved."""
    made = uc.decide(TASK, State(0.0, 4e9, 4e9), uc.Trace.from_members([[1.0]]), POLICY, run=uc.Run(engine="compiled"))
    assert made.outcome is uc.Outcome.RELEASED
    assert made.action == 1.0


def test_a_rival_that_python_cannot_value_stops_the_window() -> None:
    """Dividing by zero is no 10."""
    made = uc.decide(TASK, State(12.0, 0.0, 0.0), uc.Trace.from_members([[1.0]]), POLICY, run=uc.Run(engine="compiled"))
    assert made.outcome is uc.Outcome.FALLBACK
    assert made.reason is uc.Reason.TASK_ERROR


def test_engines_agree_wherever_numbers_differ() -> None:
    states = np.array([(float(k), x, z) for k in range(KINDS) for x in VALUES for z in VALUES])
    outcomes = np.ones((len(states), 1, 1))
    fast = uc.search_panel(TASK, states, outcomes, POLICY, engine="compiled", threads=1)
    plain = uc.search_panel(TASK, states, outcomes, POLICY, engine="python", threads=1)
    assert fast.engine == "compiled"
    for w in range(len(states)):
        assert fast.status[w] == plain.status[w], states[w]
        assert fast.outputs.table[w].tobytes() == plain.outputs.table[w].tobytes(), states[w]


OTHERWISE = [
    lambda x: round(x, 2),
    lambda x: math.ldexp(x, int(x)),
    lambda x: np.floor_divide(x, 0.1),
    lambda x: float(np.left_shift(int(x), 70)),
    lambda x: float(np.right_shift(int(x), 70)),
    lambda x: float(np.power(int(x), 41)),
    lambda x: float(np.median(np.array([x, 1.0]))),
    lambda x: float(hash(x) % 7),
]


@pytest.mark.parametrize("rule", OTHERWISE)
def test_what_is_another_number_in_a_kernel_is_not_compiled(rule: Any) -> None:
    """2.68 for 2.675, 10 for 1 / 0.1: no exception tells, so such rules stay with Python."""
    with pytest.raises(UnsupportedError, match="in a kernel"):
        njit(**GUARDED_ONLY["user"])(rule).compile((types.float64,))


def test_rules_without_guards_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loads a kernel brings the guards; where numba can have none, only the library's own tasks are compiled."""
    space: dict[str, Any] = {}
    exec(HEAD.format(cache=False), space)
    with pytest.raises(KeyError, match="guards"):
        space["uc_user"](fallback).compile((types.float64, types.none))
    space["uc_own"](fallback).compile((types.float64, types.none))
    monkeypatch.setitem(sys.modules, "ucsearch.engine.compiled.split", None)
    assert loading._ways() is GUARDED_ONLY
    monkeypatch.setitem(sys.modules, "ucsearch.engine.compiled.guarded", None)
    assert loading._ways() is None
