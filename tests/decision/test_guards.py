"""Checks that a forger or a hurried caller meets first, each asked by itself."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import clock, stock
from ucsearch.certificate import api as warming
from ucsearch.certificate.replay import Path, Replay
from ucsearch.engine.compiled import engine as kernels
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.verify import monitor
from ucsearch.verify.allocation_later import amount_used
from ucsearch.verify.decision.gate import _nothing_found
from ucsearch.verify.verdict import Invalid


class S(NamedTuple):
    x: float


@pytest.mark.parametrize(
    ("amount", "times"), [(-1.0, 1.0), (1.0, -1.0), (math.inf, 1.0), (math.nan, 1.0), (1e308, 1e9)]
)
def test_a_shared_use_is_a_finite_amount_of_at_least_nothing(amount: float, times: float) -> None:
    assert amount_used(lambda s, a, p: 2.0, S(0.0), 1.0, None, 1.5, "use") == 3.0
    with pytest.raises(Invalid):
        amount_used(lambda s, a, p: amount, S(0.0), 1.0, None, times, "use")


ENDED: dict[str, Any] = {
    "claim": {
        "member_feasible": None,
        "counters": {"expansions": 0},
        "states": 0,
        "transitions": 0,
        "open_value": None,
    },
    "gate": {"settings": {"time_budget_s": 1.0}, "elapsed_s": 2.0},
    "rivals": [],
}


@pytest.mark.parametrize("name", ["states", "transitions", "open_value", "flexibility", "member_feasible"])
def test_a_search_that_was_ended_has_counted_nothing(name: str) -> None:
    _nothing_found(ENDED)
    forged = copy.deepcopy(ENDED)
    forged["claim"][name] = 5
    with pytest.raises(Invalid) as found:
        _nothing_found(forged)
    assert found.value.where == f"claim.{name}"


def test_warming_takes_the_given_trace_and_asks_for_a_state_with_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[uc.Trace] = []
    monkeypatch.setattr(kernels, "find_kernel", lambda *_: None)
    monkeypatch.setattr(warming, "_needed", lambda task, policy, trace, certify: seen.append(trace) or {})
    given, policy = uc.Trace.from_members([[1.0, 2.0, 3.0]]), uc.UCBeam(depth=2)
    uc.warm(clock, policy, trace=given)
    uc.warm(clock, policy)
    assert seen[0] is given
    assert (seen[1].horizon, np.abs(seen[1].members).max()) == (2, 0.0)
    with pytest.raises(InputError, match="its fields hold tuples"):
        uc.warm(stock, policy)


def test_a_figure_of_the_monitor_is_close_or_false() -> None:
    monitor._close("figure", 2.0 + 1e-9, 2.0)
    for claimed in (2.0 + 1e-8, 1.9, None, "inf"):
        with pytest.raises(Invalid):
            monitor._close("figure", claimed, 2.0)


# -------------------------------------------------------------------- the short way through the rules


class Pair(NamedTuple):
    x: float
    tail: tuple[float, ...]


GOOD = Pair(1.0, (2.0, 3.0))


def kept(feasible: Any = True, states: Any = GOOD, end: Any = None, actions: Any = (5.0, 6.0)) -> tuple[bool, int]:
    """What is said of a path of two steps, and how often it moved; answers by step, or one for all."""
    moved = []

    def at(answers: Any, h: int) -> Any:
        answer = answers[h] if type(answers) is list else answers
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def step(s: Any, a: float, y: float, h: int, p: Any) -> Any:
        assert (a, y) == ((5.0, 10.0), (6.0, 20.0))[h]
        moved.append(h)
        return at(states, h)

    task: Any = SimpleNamespace(
        feasible_at=lambda s, a, h, p: at(feasible, h), bare_step_at=step,
        allowed_end=None if end is None else lambda s, p: at(end, 0),
    )  # fmt: skip
    path = Path(GOOD, actions, (10.0, 20.0), None)
    return Replay(task, Layout(Pair, (0, 2))).keeps(path), len(moved)


def test_a_path_is_kept_by_yes_and_by_states_alone() -> None:
    assert kept() == (True, 1)  # where nobody asks about the end, the last move is not made
    assert kept(end=[True]) == (True, 2)
    assert kept(end=[False]) == (False, 2)
    assert kept([False, True]) == (False, 0)
    assert kept([True, False]) == (False, 1)
    assert kept(actions=(5.0,)) == (True, 0)
    for yes in (1, 1.0, np.True_):
        assert kept([yes, True], end=[yes]) == (True, 2)
    for answer in (0, None, "yes", 2, np.False_, math.nan, ValueError(), SystemExit()):
        assert kept([answer, True]) == (False, 0)
        assert kept([True, answer]) == (False, 1)
        assert kept(end=[answer]) == (False, 2)
    for state in ((1.0, (2.0, 3.0)), Pair(1, (2.0, 3)), Pair(np.float64(1.0), (2.0, 3.0))):  # type: ignore[arg-type]
        assert kept(states=[state, GOOD], end=[True]) == (True, 2)
    for state in (
        Pair(math.inf, (2.0, 3.0)), Pair(-math.inf, (2.0, 3.0)), Pair(math.nan, (2.0, 3.0)),
        Pair(1.0, [2.0, 3.0]), Pair(1.0, (2.0,)), Pair(1.0, ()), Pair("1", (2.0, 3.0)), Pair(1.0, (2.0, None)),  # type: ignore[arg-type]
        Pair(1.0, (2.0, math.inf)), Pair(1.0, (-math.inf, 3.0)), Pair(1.0, (2.0, math.nan)), Pair((1.0,), (2.0, 3.0)),  # type: ignore[arg-type]
        Pair((), (2.0, 3.0)), Pair(1.0, 2.0), None, KeyError(), SystemExit(),  # type: ignore[arg-type]
    ):  # fmt: skip
        assert kept(states=[state, GOOD]) == (False, 1)
        assert kept(states=[GOOD, state], end=[True]) == (False, 2)
    with pytest.raises(KeyboardInterrupt):
        kept(KeyboardInterrupt())
