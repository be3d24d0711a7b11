"""Answers that are none: planner and verifier agree on what they mean, in every mode, for the fallback and for uses."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record
from ucsearch.verify.allocation_later import amount_used
from ucsearch.verify.verdict import Invalid

ARRAYS = (np.array(1.0), np.array(True), np.array(1.0, object))  # of no dimension
COMPLEX = (1 + 0j, np.complex128(1 + 5j), np.complex64(1))
ODD = (math.nan, "no", None, 2, [], 0.5, -1, np.array([True]), np.float64("nan"), *ARRAYS, *COMPLEX)
FINE = (0, 1.0, np.bool_(False), np.int64(1))


class S(NamedTuple):
    x: float


def task_with(answer: Any, at: float, fallback: Any = 0.0) -> uc.Task:
    def feasible(s: Any, a: float, p: Any) -> Any:
        return answer if a == at else True

    def falls_back(s: Any, p: Any) -> Any:
        if fallback == "exits":
            raise SystemExit(0)
        if fallback == "raises":
            raise RuntimeError("x")
        return fallback

    return uc.Task(
        name="odd", version="1", state=S, actions=(0.0, 1.0, 2.0), feasible=feasible,
        step=lambda s, a, y, p: S(s.x + a - y), reward=lambda s, a, y, p: a - y, fallback=falls_back,
    )  # fmt: skip


def status(task: uc.Task, mode: str) -> tuple[str, str]:
    trace = uc.Trace.from_members([[1.0, 2.0], [2.0, 1.0]], coupling="independent")
    made = uc.decide(task, S(0.0), trace, uc.Exact(depth=1, mode=mode), run=uc.Run(engine="python"))
    return made.cause, verify_record(*decision_record(made, series="s"), task).status


@pytest.mark.parametrize("mode", ["closed", "members", "mean"])
@pytest.mark.parametrize("answer", ODD, ids=repr)
def test_what_is_neither_yes_nor_no_is_a_broken_rule_for_both(answer: Any, mode: str) -> None:
    assert status(task_with(answer, 2.0), mode) == ("task_error", "valid")
    assert status(task_with(answer, 0.0), mode) == ("task_error", "valid")  # the fallback's own action: on hold


@pytest.mark.parametrize("answer", FINE, ids=repr)
def test_numbers_and_numpy_say_yes_and_no(answer: Any) -> None:
    assert status(task_with(answer, 2.0), "closed") == ("none", "valid")


@pytest.mark.parametrize("fallback", ["0", None, 7.0, math.nan, "exits", "raises"], ids=repr)
def test_a_fallback_that_is_none_is_none_for_both(fallback: Any) -> None:
    assert status(task_with(math.nan, 2.0, fallback), "mean") == ("task_error", "valid")


@pytest.mark.parametrize("part", ["reward", "step", "terminal", "fallback"])
@pytest.mark.parametrize("answer", [*ARRAYS, *COMPLEX], ids=repr)
def test_arrays_and_complex_numbers_are_no_numbers_for_both(answer: Any, part: str) -> None:
    """Even where NumPy would make a float of them."""
    parts: dict[str, Any] = {
        "reward": lambda s, a, y, p: answer if a > 1.0 else a - y,
        "step": lambda s, a, y, p: S(answer) if a > 1.0 else S(s.x + a - y),
        "terminal": lambda s, p: answer if s.x > 0.0 else 0.0,
        "fallback": lambda s, p: answer,
    }
    task = dataclasses.replace(task_with(True, 2.0), **{part: parts[part]})
    assert status(task, "mean") == ("none" if part == "fallback" else "task_error", "valid")


@pytest.mark.parametrize("answer", [None, "3", [], math.nan, -1.0, math.inf, SystemExit(0), KeyError("x")], ids=repr)
def test_a_use_that_is_no_amount_is_false_and_no_internal_error(answer: Any) -> None:
    def use(s: Any, a: float, p: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with pytest.raises(Invalid, match="use"):
        amount_used(use, S(0.0), 1.0, None, 1.0, "shared[0].use")


@pytest.mark.parametrize("mode", ["closed", "members"])
@pytest.mark.parametrize("seed", [3, 9])
def test_money_so_small_that_numbers_have_few_digits(mode: Any, seed: int) -> None:
    """Sums in another order differ by more than a share of them, and no genuine record is called false for it."""
    rng = np.random.default_rng(seed)
    coupling: Any = {"coupling": "independent"} if mode == "closed" else {}
    trace = uc.Trace.from_members(rng.integers(0, 4, (3, 2)) * 0.7, rng.random(3) + 0.1, **coupling, normalise=True)
    task = uc.Task(
        name="tiny", state=S, actions=[0.0, 1.0, 2.0], feasible=lambda s, a, p: True, fallback=lambda s, p: 0.0,
        step=lambda s, a, y, p: S(max(s.x + a - y, -3.0)), reward=lambda s, a, y, p: -abs(s.x + a - y) * 1e-320,
    )  # fmt: skip
    made = uc.decide(task, S(1.0), trace, uc.Exact(depth=2, mode=mode, risk=0.3), run=uc.Run(engine="python"))
    assert made.released
    assert verify_record(*decision_record(made, series="A"), task).status == "valid"


class Counted(NamedTuple):
    x: float
    step: float


WORTH = ((0.0, 0.5, 0.0), (0.9999999999, 1.0, 1.000000001), (0.9999999999, 1.0, 1.0))
ALIKE = ((1.000000001, 0.9999999999, 2.0), (2.0, 1.0000000000000002, 0.0), (1.000000001, 0.5, 0.0))


@pytest.mark.parametrize(
    ("worth", "sunk", "unit", "demand", "policy"),
    [
        (WORTH, 1e15, 1.0, [0.0, 0.0, 0.0], uc.UCBeam(depth=3, width=2, top_k=2, risk=1.0)),
        (
            ALIKE, -1000.0, 1e-12, [0.0, 0.0, 1.0],
            uc.CertifiedBeam(depth=3, width=9, top_k=3, risk=0.3, mode="members"),
        ),
    ],
    ids=["mean", "members"],
)  # fmt: skip
def test_which_action_earns_most_where_a_common_cost_eats_the_digits(
    worth: Any, sunk: float, unit: float, demand: list[float], policy: Any
) -> None:
    """Several paths are worth the same but for the rounding of their sums, and the verifier may find another one."""
    task = uc.Task(
        name="sunk", state=Counted, actions=[0.0, 1.0, 2.0], fallback=lambda s, p: 0.0,
        feasible=lambda s, a, p: s.x + a <= (100.0 if sunk > 0.0 else 3.0) and not (s.x == 1.0 and sunk < 0.0 < a),
        step=lambda s, a, y, p: Counted(max(s.x + a - y, -3.0), s.step + 1.0),
        reward=lambda s, a, y, p: (worth[int(a)][int(s.step) % 3] - 0.25 * abs(s.x + a - y)) * unit + sunk,
        terminal=lambda s, p: 0.25 * s.x * unit,
    )  # fmt: skip
    made = uc.decide(task, Counted(2.0, 0.0), uc.Trace.from_members([demand]), policy, run=uc.Run(engine="python"))
    assert made.released
    assert verify_record(*decision_record(made, series="A"), task).status == "valid"
