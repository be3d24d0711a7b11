"""A broken rule is an outcome, in both engines, of its own window alone: never a guess, never an exception."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.gate import Reason
from ucsearch.errors import TaskError


class S(NamedTuple):
    x: float


class OddState(NamedTuple):
    x: float
    y: float


class Hostile:
    def __bool__(self) -> bool:
        raise RuntimeError("neither")

    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


def feasible(s: Any, a: float, p: Any) -> Any:
    return True


def step(s: Any, a: float, y: float, p: Any) -> Any:
    return S(s.x + a)


def reward(s: Any, a: float, y: float, p: Any) -> Any:
    return a * y - 0.1 * s.x


def fallback(s: Any, p: Any) -> float:
    return 0.0


def deeper(n: int) -> int:
    return deeper(n + 1) + 1


def raises(error: BaseException) -> Callable[..., Any]:
    def rule(*args: Any) -> Any:
        if args[0].x > 0.5:  # from the second window on, and in the first after a step
            raise error
        return reward(*args) if len(args) == 4 else True

    return rule


def gives(value: Any) -> Callable[..., Any]:
    return lambda *args: value if args[0].x > 0.5 else (reward(*args) if len(args) == 4 else True)


def task_of(**parts: Any) -> uc.Task:
    whole: dict[str, Any] = dict(feasible=feasible, step=step, reward=reward, fallback=fallback)
    whole.update({k: _with_arity(v, {"feasible": 3, "step": 4, "reward": 4}.get(k)) for k, v in parts.items()})
    return uc.Task(name="broken", state=S, actions=[0.0, 1.0], **whole)


def _with_arity(f: Any, n: int | None) -> Any:
    if n == 3:
        return lambda s, a, p: f(s, a, p)
    return (lambda s, a, y, p: f(s, a, y, p)) if n == 4 else f


TRACE = uc.Trace.from_members([[1.0, 2.0, 3.0], [1.5, 2.5, 2.0]])
PANEL = uc.Trace.from_members(np.array([[[1.0, 2.0], [1.5, 2.5]]] * 3))
POLICIES: dict[str, Any] = {
    "beam": uc.UCBeam(depth=2, risk=0.1),
    "exact": uc.Exact(depth=2, risk=0.1),
    "members": uc.UCBeam(depth=2, risk=0.1, mode="members"),
    "mcts": uc.MCTS(depth=2, simulations=8),
}
ERRORS = [
    KeyError("k"), IndexError("i"), TypeError("t"), AssertionError("a"), RecursionError("r"), ValueError("v"),
    ZeroDivisionError("z"), AttributeError("n"), MemoryError("m"), StopIteration("s"), SystemExit(0),
GeneratorExit(), asyncio.CancelledError()]  # fmt: skip


@pytest.mark.parametrize("role", ["feasible", "reward", "step"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_every_exception_is_a_task_error(role: str, error: BaseException) -> None:
    task = task_of(**{role: raises(error)})
    with pytest.raises(TaskError):
        uc.search(task, S(1.0), TRACE, POLICIES["beam"], engine="python")
    decision = uc.decide(task, S(1.0), TRACE, POLICIES["beam"], run=uc.Run(engine="python"))
    assert decision.cause is Reason.TASK_ERROR
    assert not decision.released


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("role", ["feasible", "reward", "step"])
def test_one_broken_window_stops_no_other(role: str, policy: str) -> None:
    def broken(*args: Any) -> Any:
        if args[0].x > 5.0:
            raise KeyError("only here")
        return {"feasible": feasible, "reward": reward, "step": step}[role](*args)

    states = [S(0.0), S(10.0), S(0.0)]
    panel = uc.decide_panel(task_of(**{role: broken}), states, PANEL, POLICIES[policy], run=uc.Run(engine="python"))
    good = uc.decide_panel(task_of(), states, PANEL, POLICIES[policy], run=uc.Run(engine="python"))
    assert [c is Reason.TASK_ERROR for c in panel.cause] == [False, True, False]
    assert panel.action[0] == good.action[0]
    assert panel.action[2] == good.action[2]
    assert f"{role} raised KeyError: 'only here'" in panel[1].sentence


@pytest.mark.parametrize(
    "answer",
    [math.nan, "no", "", None, 2, 0.5, [], (), np.array([True]), Hostile(), math.inf],
    ids=lambda a: str(type(a)),
)
def test_what_is_neither_yes_nor_no_is_no_answer(answer: Any) -> None:
    decision = uc.decide(task_of(feasible=gives(answer)), S(1.0), TRACE, POLICIES["beam"], run=uc.Run(engine="python"))
    assert decision.cause is Reason.TASK_ERROR
    assert decision.outcome is uc.Outcome.HOLD  # the fallback is asked the same question


@pytest.mark.parametrize("answer", [True, 1, 1.0, np.True_, np.int64(1)])
def test_one_and_true_are_yes(answer: Any) -> None:
    assert uc.search(task_of(feasible=gives(answer)), S(1.0), TRACE, POLICIES["beam"], engine="python").found


@pytest.mark.parametrize(
    "value", [None, "3", b"3", 10**400, math.nan, math.inf, 1j, [1.0], np.array([1.0]), Hostile()],
    ids=lambda v: str(v)[:9] if not isinstance(v, Hostile) else "hostile",
)  # fmt: skip
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_what_is_no_number_is_no_reward(value: Any, policy: str) -> None:
    decision = uc.decide(task_of(reward=gives(value)), S(1.0), TRACE, POLICIES[policy], run=uc.Run(engine="python"))
    assert decision.cause is Reason.TASK_ERROR
    assert decision.outcome is uc.Outcome.FALLBACK


@pytest.mark.parametrize("new", [None, 3.0, S, OddState(1.0, 2.0), ("a",), (None,), S((1.0,)), S(10**400)], ids=repr)
def test_what_is_no_state_is_no_step(new: Any) -> None:
    decision = uc.decide(task_of(step=gives(new)), S(1.0), TRACE, POLICIES["beam"], run=uc.Run(engine="python"))
    assert decision.cause is Reason.TASK_ERROR


def test_a_rule_that_never_comes_back_from_itself() -> None:
    task = task_of(reward=lambda s, a, y, p: float(deeper(0)))
    assert uc.decide(task, S(0.0), TRACE, POLICIES["beam"], run=uc.Run(engine="python")).cause is Reason.TASK_ERROR
