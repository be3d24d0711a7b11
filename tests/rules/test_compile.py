"""A task's functions as a kernel calls them: the same answers, and what Python refuses raises."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from numba import njit

import ucsearch as uc
from ucsearch.rules.compile import Compiler
from ucsearch.rules.source import Unreadable, captured, function_of, parsed
from ucsearch.tasks import LeadTimeInventory

SCALE = 2.0


class Level(NamedTuple):
    x: float


class Numba:
    compiles = True

    def user(self, function: Any) -> Any:
        return njit(function, error_model="python", boundscheck=True)

    def inline(self, function: Any) -> Any:
        return njit(function, error_model="python")


class Plain:
    compiles = False

    def user(self, function: Any) -> Any:
        return function

    inline = user


def scaled(x: float) -> float:
    return x * SCALE


def feasible(s: Any, a: float, p: Any) -> bool:
    return scaled(s.x) + a < 9.0


def step(s: Any, a: float, y: float, p: Any) -> Level:
    return Level(min(s.x + a, math.sqrt(y)))


def task(weight: float) -> uc.Task:
    def reward(s: Any, a: float, y: float, p: Any) -> float:
        return weight * scaled(a) - y / s.x

    return uc.Task("line", Level, (0.0, 1.0), feasible, step, reward, lambda s, p: 0.0)


def compiler(jit: Any, weight: float = 3.0) -> Compiler:
    made = task(weight)
    return Compiler(made, made.layout(Level(0.0)), jit)


@pytest.mark.compiled
def test_helpers_and_captured_values_are_compiled_with_the_rule() -> None:
    compiled = compiler(Numba(), 3.0)
    assert compiled.rule("feasible")(Level(1.0), 6.5, None) is True
    assert compiled.rule("feasible")(Level(4.0), 1.0, None) is False
    assert compiled.rule("reward")(Level(1.0), 2.0, 5.0, None) == 7.0
    assert compiler(Numba(), 1.0).rule("reward")(Level(1.0), 2.0, 5.0, None) == -1.0
    assert compiled.rule("step") is compiled.rule("step")


@pytest.mark.compiled
def test_what_raises_in_python_raises() -> None:
    compiled = compiler(Numba())
    with pytest.raises(ZeroDivisionError):
        compiled.rule("reward")(Level(0.0), 2.0, 5.0, None)
    with pytest.raises(ArithmeticError):
        compiled.rule("step")(Level(0.0), 2.0, -1.0, None)


def test_plain_rules_are_the_user_s_own_functions() -> None:
    compiled = compiler(Plain())
    assert compiled.rule("feasible") is feasible
    assert compiled.rule("step") is step


def nested(a: float) -> float:
    return max([scaled(x) for x in (a, SCALE)])


def test_what_a_function_captures() -> None:
    def inner(a: float) -> float:
        return scaled(a) * factor

    factor = 3.0
    assert captured(inner) == {"scaled": scaled, "factor": 3.0}
    assert captured(nested) == {"scaled": scaled, "SCALE": 2.0}
    assert function_of(njit(scaled)) is scaled
    with pytest.raises(Unreadable, match="<built-in function len> is not a plain Python function"):
        function_of(len)


def test_threads_that_parse_at_once_do_not_trip_the_parser() -> None:
    text = "\n".join(
        f"def f{i}(a, b):\n    return (a + {i}) * (b - {i}) if a > {i} else [x for x in (a, b)]" for i in range(200)
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            trees = list(pool.map(parsed, [text] * 24))
    finally:
        sys.setswitchinterval(before)
    assert [len(tree.body) for tree in trees] == [200] * 24


@pytest.mark.compiled
def test_rules_of_the_library() -> None:
    config = LeadTimeInventory(lead_time=2)
    own, state = config.task(), config.state(3.0, (1.0, 2.0))
    compiled = Compiler(own, own.layout(state), Numba())
    for a in own.actions:
        assert compiled.rule("feasible")(state, a, own.params) == own.feasible(state, a, own.params)
        assert compiled.rule("step")(state, a, 1.0, own.params) == own.step(state, a, 1.0, own.params)
