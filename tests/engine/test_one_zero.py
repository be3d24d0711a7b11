"""-0.0 becomes 0.0 on the way in and in every state that `step` returns: rules that tell two zeros apart see one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.arrays import OutI
from ucsearch.engine.simulate import Simulator
from ucsearch.layout import Layout
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record


class Angle(NamedTuple):
    turn: float
    lags: tuple[float, ...]


class Signs(NamedTuple):
    sign: float
    rest: tuple[float, ...]


def feasible(s: Any, a: float, p: Any) -> bool:
    # All four zeros: one that is negative forbids the action.
    return (
        math.copysign(1.0, s.turn) > 0.0
        and math.copysign(1.0, s.lags[1]) > 0.0
        and math.copysign(1.0, p.sign) > 0.0
        and math.copysign(1.0, p.rest[0]) > 0.0
    )


def step(s: Any, a: float, y: float, p: Any) -> Angle:
    return Angle(-0.0 * (1.0 + a), (s.lags[1] + a, -0.0 * y))


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return math.atan2(s.turn, -1.0) + math.atan2(p.sign, -1.0) + math.copysign(1.0, s.lags[1]) + math.copysign(a, y)


def terminal(s: Any, p: Any) -> float:
    return math.copysign(2.0, s.turn) + math.atan2(s.lags[1], -1.0)


def fallback(s: Any, p: Any) -> float:
    return 0.0 if math.copysign(1.0, s.turn) > 0.0 else 1.0


def allowed_end(s: Any, p: Any) -> bool:
    return math.copysign(1.0, s.turn) > 0.0


def timed_step(s: Any, a: float, y: float, h: int, p: Any) -> Angle:
    return Angle(-0.0 * (1.0 + a + h), (s.lags[1] + a, -0.0 * y))


def stay(s: Any, h: int, p: Any) -> float:
    return 0.0 if math.copysign(1.0, s.turn) > 0.0 else 1.0


def task(zero: float = -0.0, **more: Any) -> uc.Task:
    parts: dict[str, Any] = {"step": step, "terminal": terminal, "allowed_end": allowed_end, **more}
    return uc.Task(
        "signs", Angle, (zero, 1.0), feasible, reward=reward, fallback=fallback, params=Signs(zero, (zero, 1.0)),
        **parts,
    )  # fmt: skip


MEMBERS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 2.0, 0.0]])
NEGATIVE, PLAIN = Angle(-0.0, (0.5, -0.0)), Angle(0.0, (0.5, 0.0))
POLICIES = {
    "mean": uc.Exact(depth=3, mode="mean"),
    "members": uc.Exact(depth=3, mode="members"),
    "beam": uc.UCBeam(depth=3, width=4),
    "closed": uc.Exact(depth=3, mode="closed"),
}


def trace(zero: float, name: str) -> uc.Trace:
    members = uc.Trace.from_members(np.where(MEMBERS == 0.0, zero, MEMBERS))
    return members.declare("independent") if name == "closed" else members


def signs(value: Any) -> list[float]:
    return [math.copysign(1.0, x) for item in value for x in (item if isinstance(item, tuple) else (item,)) if x == 0.0]


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("name", POLICIES)
def test_a_negative_zero_decides_as_zero_does_and_its_record_is_valid(name: str, timed: bool) -> None:
    more = {"step": timed_step} if timed else {}
    rules = task(**more)
    decision = uc.decide(rules, NEGATIVE, trace(-0.0, name), POLICIES[name], run=uc.Run(engine="python"))
    plain = uc.decide(task(0.0, **more), PLAIN, trace(0.0, name), POLICIES[name], run=uc.Run(engine="python"))
    assert decision.released
    assert plain.released
    assert (decision.action, decision.certificate.plan.score) == (plain.action, plain.certificate.plan.score)
    record, blobs = decision_record(decision)
    assert verify_record(record, blobs, rules).status == "valid"


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name", [name if name == "beam" else pytest.param(name, marks=pytest.mark.slow) for name in POLICIES]
)
def test_both_engines_give_the_same_bytes(name: str) -> None:
    rules, policy = task(), POLICIES[name]
    states = [NEGATIVE, PLAIN]
    traces = [trace(-0.0, name), trace(0.0, name)]
    plain, compiled = (
        uc.search_panel(rules, states, traces, policy, engine=engine, keep_paths=True)
        for engine in ("python", "compiled")
    )
    assert (plain.outputs.out_i[:, OutI.FIRST] >= 0).all()
    for one, other in zip(plain.outputs, compiled.outputs, strict=True):
        assert one.tobytes() == other.tobytes()
    for outputs in (plain.outputs, compiled.outputs):  # the two windows are one problem
        assert outputs.out_f[0].tobytes() == outputs.out_f[1].tobytes()


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["python", pytest.param("compiled", marks=pytest.mark.slow)])
def test_continuations_and_simulations_see_one_zero(engine: Any) -> None:
    rules = task(continuations=(stay,))
    plan = uc.search(
        rules, NEGATIVE, trace(-0.0, "members"), uc.UCBeam(depth=1, width=2, mode="members"), engine=engine
    )
    assert plan.found
    assert plan.continuation == 0
    simulator = Simulator(
        rules, Layout.of(NEGATIVE, "state"), engine=engine, params=np.array([[-0.0, -0.0, 1.0]]),
        actions=np.array([[-0.0, 1.0]]),
    )  # fmt: skip
    assert simulator.engine == engine
    assert simulator.mask(np.array([[-0.0, 0.5, -0.0]])).all()
    done = simulator.step(np.array([[-0.0, 0.5, -0.0]]), np.array([0]), np.array([-0.0]))
    assert signs(done.states[0].tolist()) == [1.0, 1.0, 1.0]
    assert done.mask.all()
    assert done.rewards[0] == math.pi + math.pi + 1.0
    after = simulator.advance(done.states, np.array([1]), np.array([[-0.0]]))
    assert after.mask.all()
    assert after.rewards[0] == math.pi + math.pi + 1.0 + 1.0


def test_every_way_in_takes_one_zero() -> None:
    rules = task()
    assert signs(rules.params) == [1.0, 1.0]
    assert signs(rules.actions) == [1.0]
    layout = rules.layout(NEGATIVE)
    assert signs(layout.flatten(NEGATIVE, "state")) == [1.0, 1.0]
    assert signs(layout.flatten(Angle(np.float64(-0.0), (1, -0.0)), "state")) == [1.0, 1.0]
    columns = Angle(np.array([-0.0, 1.0]), (np.array([1.0, -0.0]), np.array([-0.0, -0.0])))
    for given in (np.array([[-0.0, 1.0, -0.0]]), columns, Angle([-0.0], ([-0.0], [-0.0])), [NEGATIVE]):
        assert set(signs(layout.rows(given, "states").ravel().tolist())) == {1.0}
    assert signs(rules.step_at(PLAIN, 0.0, 1.0, 0, rules.params)) == [1.0, 1.0, 1.0]


def test_plans_that_are_shown_go_through_the_same_states() -> None:
    rules = task()
    plan = uc.search(rules, NEGATIVE, trace(-0.0, "mean"), POLICIES["mean"], engine="python")
    assert set(signs(tuple(x for s in plan.states for x in s))) == {1.0}


@pytest.mark.filterwarnings("error")
def test_check_task_sees_one_zero() -> None:
    uc.check_task(task(), NEGATIVE, outcomes=[-0.0, 1.0])
