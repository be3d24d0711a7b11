"""A name that has no value yet: Python raises, and a kernel hands the window over instead of going on with a zero."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

import ucsearch as uc
from ucsearch.engine.compiled.guarded import GUARDED_ONLY

pytestmark = pytest.mark.compiled
VALUES = (-2.0, 0.0, 0.5, 1.0, 3.0)


class State(NamedTuple):
    kind: float
    x: float


def in_a_branch(x: float, a: float) -> float:
    if a < 1.0 or x > 1.0:
        worth = 1.0 - 2.0 * a
    return worth


def by_a_loop(x: float, a: float) -> float:
    for i in range(int(x)):
        last = i * 0.5
    return last + a


def by_the_loop_itself(x: float, a: float) -> float:
    for i in range(int(x)):  # noqa: B007 - it is read below
        a += 1.0
    return a - i


def by_a_search(x: float, a: float) -> float:
    for y in (a, 2.0 * a, 3.0 * a):
        if y > x:
            best = y
            break
    return best


def as_a_pair(x: float, a: float) -> float:
    if x > 0.0:
        pair = (x, a)
    return pair[0] - pair[1]


def as_a_number_of_two_kinds(x: float, a: float) -> float:
    if x > 1.0:
        n = 2
    elif x < 0.0:
        n = 0.5
    return n * a


def in_an_array(x: float, a: float) -> float:
    if x > 0.0:
        table = np.zeros(2)
    table[1] = a
    return float(table[1])


def told_apart_by_the_same_test(x: float, a: float) -> float:
    if x > 0.0:
        worth = x
    if x > 0.0:
        return worth - a
    return a


def always_there(x: float, a: float) -> float:
    for i in range(3):
        last = i * x
    return last + a


RULES = (
    in_a_branch, by_a_loop, by_the_loop_itself, by_a_search, as_a_pair, as_a_number_of_two_kinds, in_an_array,
    told_apart_by_the_same_test, always_there,
)  # fmt: skip
LEGAL = (told_apart_by_the_same_test, always_there)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.__name__))
def test_what_has_no_value_is_no_zero(rule: Any) -> None:
    compiled = njit(error_model="numpy", boundscheck=True, **GUARDED_ONLY["user"])(rule)
    for x in VALUES:
        for a in VALUES:
            try:
                own = rule(x, a)
            except UnboundLocalError:
                own = math.nan
            if math.isnan(own) and rule not in LEGAL:
                with pytest.raises(ArithmeticError):
                    compiled(x, a)
            else:
                assert compiled(x, a) == own


def feasible(s: State, a: float, p: Any) -> bool:
    return True


def step(s: State, a: float, y: float, p: Any) -> State:
    return s


def reward(s: State, a: float, y: float, p: Any) -> float:
    if s.kind == 0.0:
        return in_a_branch(s.x, a)
    return by_a_search(s.x, a)


def fallback(s: State, p: Any) -> float:
    return 0.0


TASK = uc.Task(
    name="names", state=State, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward, fallback=fallback
)


def test_a_rival_without_a_value_is_not_beaten() -> None:
    """It was worth 0 in a kernel, so the other action left as proved, and the verifier called the record invalid."""
    states = np.array([(k, x) for k in (0.0, 1.0) for x in VALUES])
    panels = [
        uc.decide_panel(TASK, states, np.ones((len(states), 1, 1)), uc.Exact(depth=1), run=uc.Run(engine=engine))
        for engine in ("compiled", "python")
    ]
    fast, plain = ([(d.outcome, d.action, d.reason) for d in panel] for panel in panels)
    assert fast == plain
    assert (uc.Outcome.FALLBACK, 0.0, uc.Reason.TASK_ERROR) in fast
    assert any(outcome is uc.Outcome.RELEASED for outcome, _, _ in fast)
