"""Tasks as Gymnasium environments: the checkers pass, only feasible actions are taken, both engines agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import Stock, stock, stock_reward, stock_step

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env

from ucsearch.engine.simulate import Simulator
from ucsearch.gym import TaskEnv, TaskVectorEnv

START = Stock(4.0, (2.0, 2.0), 2.0)


def series(count: int = 3, length: int = 60) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.poisson(2.0, length).astype(float) for _ in range(count)]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_checker_passes() -> None:
    found = series()
    features = [np.stack([y, y * 0.5], axis=1) for y in found]
    check_env(TaskEnv(stock, START, found, features=features, length=20, engine="python"))


def test_the_mask_is_the_feasible_set_and_rewards_are_the_tasks() -> None:
    env = TaskEnv(stock, START, series(), length=20, engine="python")
    observation, info = env.reset(seed=3)
    state = START
    for _ in range(20):
        expected = [stock.feasible(state, a, stock.params) for a in stock.actions]
        assert info["action_mask"].tolist() == expected
        assert env.action_masks().tolist() == expected
        action = int(np.flatnonzero(info["action_mask"])[-1])
        outcome = float(series()[info["series"]][info["at"]])
        observation, reward, terminated, truncated, info = env.step(action)
        assert reward == stock_reward(state, stock.actions[action], outcome, stock.params)
        state = stock_step(state, stock.actions[action], outcome, stock.params)
        flat = [state.on_hand, *state.pipeline, state.last]
        assert observation.tolist() == np.array(flat, np.float32).tolist()
        if terminated or truncated:
            break
    assert truncated


def test_an_infeasible_choice_is_replaced_and_said_or_refused() -> None:
    env = TaskEnv(stock, START._replace(last=6.0), series(), length=5, engine="python")
    _, info = env.reset(seed=0)
    bad = int(np.flatnonzero(~info["action_mask"])[0])
    assert env.step(bad)[4]["replaced"] is True
    strict = TaskEnv(stock, START._replace(last=6.0), series(), length=5, invalid="raise", engine="python")
    strict.reset(seed=0)
    with pytest.raises(uc.InputError, match="feasible action"):
        strict.step(bad)


def test_a_dead_end_terminates() -> None:
    tight = stock.params._replace(capacity=6.0, ramp=1.0)
    env = TaskEnv(stock, Stock(0.0, (0.0, 0.0), 3.0), series(), length=30, params=tight, engine="python")
    _, info = env.reset(seed=0)
    ended: dict[str, Any] = {}
    for _ in range(30):
        _, _, terminated, truncated, ended = env.step(int(np.flatnonzero(info["action_mask"])[-1]))
        info = ended
        if terminated or truncated:
            break
    assert terminated
    assert ended["dead_end"]
    assert not ended["action_mask"].any()


def test_the_vector_environment_equals_single_ones_and_both_engines_agree() -> None:
    found = series()
    fast = TaskVectorEnv(stock, START, found, num_envs=7, length=15)
    plain = TaskVectorEnv(stock, START, found, num_envs=7, length=15, engine="python")
    a, info = fast.reset(seed=11)
    b, other = plain.reset(seed=11)
    assert fast._world.simulator.engine == "compiled"
    for step in range(40):
        assert a.tobytes() == b.tobytes()
        assert info["action_mask"].tobytes() == other["action_mask"].tobytes()
        mask = info["action_mask"]
        chosen = np.array([np.flatnonzero(row)[step % row.sum()] if row.any() else 0 for row in mask])
        a, r, te, tr, info = fast.step(chosen)
        b, r2, te2, tr2, other = plain.step(chosen)
        assert r.tobytes() == r2.tobytes()
        assert (te == te2).all()
        assert (tr == tr2).all()


def test_windows_that_restart_at_once_say_what_they_ended_with() -> None:
    found = series()
    features = [np.arange(len(y), dtype=float)[:, None] + 100 * i for i, y in enumerate(found)]
    common: dict[str, Any] = dict(num_envs=3, features=features, length=60, engine="python")
    env = TaskVectorEnv(stock, START, found, autoreset="same_step", **common)
    later = TaskVectorEnv(stock, START, found, **common)
    seen, info = env.reset(seed=2)
    other, _ = later.reset(seed=2)
    which = (seen[:, -1] // 100).astype(int)
    for step in range(1, 61):
        mask = info["action_mask"]
        assert mask.any(axis=1).all()
        chosen = np.argmax(mask, axis=1)
        seen, rewards, _, over, info = env.step(chosen)
        other, expected, _, _, _ = later.step(chosen)
        assert rewards.tobytes() == expected.tobytes()
        assert over.all() == (step == 60)
        assert ("final_obs" in info) == (step == 60)
    assert info["_final_obs"].all()
    assert info["final_obs"].tobytes() == other.tobytes()
    # The series is over: its own last forecast stands in, not the next series' first.
    assert (info["final_obs"][:, -1] == 100 * which + 59).all()
    assert seen[:, :4].tolist() == [[4.0, 2.0, 2.0, 2.0]] * 3
    with pytest.raises(uc.InputError, match="autoreset"):
        TaskVectorEnv(stock, START, found, autoreset="never", num_envs=1)  # type: ignore[arg-type]
    with pytest.raises(uc.InputError, match="num_envs"):
        TaskVectorEnv(stock, START, found, num_envs=0)


def test_the_simulator_refuses_what_is_not_feasible() -> None:
    simulator = Simulator(stock, stock.layout(START), engine="python")
    rows = np.array([[4.0, 2.0, 2.0, 6.0]])
    with pytest.raises(uc.InputError, match="not feasible"):
        simulator.step(rows, np.array([0]), np.array([1.0]))
    with pytest.raises(uc.InputError, match="action index"):
        simulator.step(rows, np.array([9]), np.array([1.0]))
