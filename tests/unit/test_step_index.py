"""Rules that take the step index by one more argument: as a task that carries the step in its state, everywhere."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import InputError
from ucsearch.lab.comparators import DelayAwareGreedy
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record

COMPILED = [pytest.mark.compiled, pytest.mark.slow]


class Level(NamedTuple):
    level: float


class LevelAndStep(NamedTuple):
    level: float
    at: float


class Costs(NamedTuple):
    top: float
    fee: float


def feasible(s: Any, a: float, h: int, p: Any) -> bool:
    if h == 1 and a > 0.0:  # no buying in the second step
        return False
    return bool(0.0 <= s.level + a <= p.top)


def step(s: Any, a: float, y: float, h: int, p: Any) -> Level:
    return Level(s.level + a - (0.25 * h if s.level > 1.0 else 0.0))


def reward(s: Any, a: float, y: float, h: int, p: Any) -> float:
    return float(-a * y - p.fee * abs(a) * (h + 1))


def fallback(s: Any, p: Any) -> float:
    return 0.0


def terminal(s: Any, p: Any) -> float:
    return float(0.5 * s.level)


def carried_feasible(s: Any, a: float, p: Any) -> bool:
    if s.at == 1.0 and a > 0.0:
        return False
    return bool(0.0 <= s.level + a <= p.top)


def carried_step(s: Any, a: float, y: float, p: Any) -> LevelAndStep:
    return LevelAndStep(s.level + a - 0.25 * s.at * (s.level > 1.0), s.at + 1.0)


def carried_reward(s: Any, a: float, y: float, p: Any) -> float:
    return float(-a * y - p.fee * abs(a) * (s.at + 1.0))


ACTIONS = (-1.0, 0.0, 1.0, 2.0)
TASK = uc.Task(
    name="timed tank", state=Level, actions=ACTIONS, feasible=feasible, step=step, reward=reward, fallback=fallback,
    params=Costs(4.0, 0.1), terminal=terminal,
)  # fmt: skip
CARRIED = uc.Task(
    name="tank with a step", state=LevelAndStep, actions=ACTIONS, feasible=carried_feasible, step=carried_step,
    reward=carried_reward, fallback=fallback, params=Costs(4.0, 0.1), terminal=terminal,
)  # fmt: skip
WHERE = f"{__file__}:TASK"
MEMBERS = np.random.default_rng(5).normal(1.0, 0.8, (5, 4))


def policies() -> list[uc.Policy]:
    return [
        uc.Exact(depth=4, risk=0.5),
        uc.UCBeam(depth=4, width=3, top_k=2, risk=0.5),
        uc.MCTS(depth=4, simulations=8, risk=0.5),
        uc.UCBeam(depth=4, width=3, top_k=2, risk=0.5, mode="members"),
        uc.Exact(depth=3, risk=0.5, mode="members"),
        DelayAwareGreedy(delay=1, depth=4),
    ]


@pytest.mark.parametrize("policy", policies(), ids=lambda p: f"{type(p).__name__}-{p.mode}")
def test_the_plain_engine_plans_as_with_a_step_in_the_state(policy: uc.Policy) -> None:
    trace = uc.Trace.from_members(MEMBERS)
    for level in (0.0, 1.0, 3.0):
        timed = uc.search(TASK, Level(level), trace, policy, engine="python")
        carried = uc.search(CARRIED, LevelAndStep(level, 0.0), trace, policy, engine="python")
        assert timed.path == carried.path
        assert timed.score == carried.score
        assert timed.path[1:2] != (1.0,)


def test_closed_mode_plans_as_with_a_step_in_the_state() -> None:
    trace = uc.Trace.from_members(np.round(MEMBERS[:3]), coupling="independent")
    policy = uc.Exact(depth=3, mode="closed")
    timed = uc.search(TASK, Level(1.0), trace, policy, engine="python")
    carried = uc.search(CARRIED, LevelAndStep(1.0, 0.0), trace, policy, engine="python")
    assert timed.action == carried.action
    assert timed.score == carried.score


@pytest.mark.parametrize("mode", ["mean", "members", pytest.param("members", marks=COMPILED)])
def test_both_engines_give_the_same_bytes(mode: Any) -> None:
    trace = uc.Trace.from_members(np.stack([MEMBERS, MEMBERS[::-1] + 0.3, 0.5 * MEMBERS]))
    states = [Level(0.0), Level(1.5), Level(4.0)]
    policy = uc.UCBeam(depth=4, width=3, top_k=3, risk=0.5, mode=mode)
    plain, compiled = (uc.search_panel(TASK, states, trace, policy, engine=e) for e in ("python", "compiled"))
    assert plain.engine == "python"
    assert compiled.engine == "compiled"
    for a, b in zip(plain.outputs, compiled.outputs, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_records_verify_and_a_wrong_index_would_be_seen(tmp_path: Path) -> None:
    policy = uc.ConstrainedBeam(depth=3, width=4, risk=0.5)
    decided = uc.decide(
        TASK,
        Level(1.0),
        uc.Trace.from_members(MEMBERS),
        policy,
        gate=uc.Gate(certificate=True),
        run=uc.Run(engine="python"),
    )
    assert decided.outcome == uc.Outcome.RELEASED
    with uc.AuditLog(tmp_path / "log.db") as log:
        log.write(decided, series="S", where="here:TASK")
        log.export_jsonl(tmp_path / "out.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "ucsearch.verify", str(tmp_path / "out.jsonl"), "--task", WHERE],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.compiled
def test_the_simulator_and_gym_count_steps() -> None:
    layout = TASK.layout(Level(1.0))
    rows = np.array([[1.0], [2.0]])
    for engine in ("python", "compiled"):
        simulator = Simulator(TASK, layout, engine=engine)
        assert simulator.engine == engine
        assert simulator.mask(rows).tolist() == [[True, True, True, True]] * 2
        assert simulator.mask(rows, np.array([1, 0])).tolist() == [[True, True, False, False], [True] * 4]
        done = simulator.advance(rows, np.array([2, 2]), np.ones((2, 1)), np.array([0, 2]))
        assert done.states.tolist() == [[2.0], [2.5]]
        assert done.rewards.tolist() == pytest.approx([-1.1, -1.3])
        assert done.mask.tolist() == [[True, True, False, False], [True, True, True, False]]
    gymnasium = pytest.importorskip("gymnasium")
    assert gymnasium is not None
    from ucsearch.lab.gym import TaskEnv

    env = TaskEnv(TASK, Level(1.0), [np.ones(6)], length=3, engine="python")
    env.reset(seed=1)
    assert env.action_masks().tolist() == [True, True, True, True]
    env.step(1)
    assert env.action_masks().tolist() == [True, True, False, False]
    _, paid, *_ = env.step(0)
    assert paid == pytest.approx(1.0 - 0.1 * 2)
    assert env.action_masks().tolist() == [False, True, True, True]


def test_check_task_takes_them_and_other_arities_are_refused() -> None:
    uc.check_task(TASK, Level(1.0), MEMBERS.ravel().tolist())
    with pytest.raises(InputError, match=r"\(s, a, p\) or \(s, a, h, p\)"):
        uc.Task(name="t", state=Level, actions=(0.0,), feasible=lambda s, a: True, step=step, reward=reward,
                fallback=fallback)  # fmt: skip
    with pytest.raises(InputError, match="fallback"):
        uc.Task(name="t", state=Level, actions=(0.0,), feasible=feasible, step=step, reward=reward,
                fallback=lambda s, h, p: 0.0)  # fmt: skip


def test_an_argument_with_a_default_is_not_taken_for_the_step() -> None:
    """`lambda s, a, y, p, k=k: ...` keeps a value in Python; here it was handed the step for p and p for k."""

    def task_of(worth: Any) -> uc.Task:
        return uc.Task(name="t", state=Level, actions=(0.0, 1.0), feasible=lambda s, a, p: True,
                       step=lambda s, a, y, p: Level(s.level + a), reward=worth, fallback=fallback)  # fmt: skip

    rules = (
        lambda s, a, y, p, k=2.0: -k * a,
        lambda s, a, y, h=0, p=None: -a,
        lambda s, a, y, p, *more: -a,
        lambda *given: -given[1],
    )
    for rule in rules:
        with pytest.raises(InputError, match=r"task.reward: .*\(s, a, y, p\) or \(s, a, y, h, p\)"):
            task_of(rule)
    for rule in (partial(lambda s, a, y, p, k: k * a, k=2.0), lambda s, a, y, p, *, k=2.0: k * a):
        decision = uc.decide(task_of(rule), Level(0.0), MEMBERS[:, :2], uc.Exact(depth=2), run=uc.Run(engine="python"))
        assert (decision.outcome, decision.action) == ("RELEASED", 1.0)
        record, blobs = decision_record(decision, where="here:task")
        assert verify_record(record, blobs, task_of(rule)).status == "valid"
