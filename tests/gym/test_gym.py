"""Tasks as Gymnasium environments: the checkers pass, only feasible actions are taken, both engines agree."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import Stock, stock, stock_reward, stock_step

pytest.importorskip("gymnasium")
import gymnasium
from gymnasium.utils.env_checker import check_env

from ucsearch.engine.simulate import Simulator
from ucsearch.lab.gym import TaskEnv, TaskVectorEnv

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


# -------------------------------------------------------------------- starts, seeds, ends, names


def worth(s: Stock, p: Any) -> float:
    return 3.0 * s.on_hand


def test_the_last_reward_contains_the_terminal_value_in_both_environments() -> None:
    valued = dataclasses.replace(stock, terminal=worth)
    for length in (1, 4):
        plain, ours = (TaskEnv(t, START, series(), length=length, engine="python") for t in (stock, valued))
        many = TaskVectorEnv(valued, START, series(), num_envs=2, length=length, engine="python")
        for env in (plain, ours, many):
            env.reset(seed=5)
        for t in range(length):
            _, reward, _, truncated, _ = ours.step(1)
            observed, before, *_ = plain.step(1)
            both = many.step(np.array([1, 1]))[1]
            extra = 3.0 * float(observed[0]) if t == length - 1 else 0.0
            assert reward == pytest.approx(before + extra)
            assert both[0] == pytest.approx(reward)
            assert truncated == (t == length - 1)


def test_window_i_of_a_vector_is_the_single_environment_with_seed_n_plus_i() -> None:
    starts = [START, START._replace(on_hand=9.0), START._replace(on_hand=1.0)]
    common: dict[str, Any] = dict(length=6, engine="python")
    many = TaskVectorEnv(stock, starts, series(), num_envs=3, **common)
    for seeds in (11, [40, 7, 23]):
        first, _ = many.reset(seed=seeds)
        each = [11, 12, 13] if isinstance(seeds, int) else seeds
        alone = [TaskEnv(stock, starts, series(), **common) for _ in range(3)]
        assert first.tolist() == [env.reset(seed=s)[0].tolist() for env, s in zip(alone, each, strict=True)]
        for _ in range(5):
            observed, rewards, *_ = many.step(np.array([1, 1, 1]))
            singles = [env.step(1) for env in alone]
            assert observed.tolist() == [one[0].tolist() for one in singles]
            assert rewards.tolist() == [one[1] for one in singles]
    again, _ = many.reset(seed=[None, 7, None])
    assert again[1].tolist() == TaskEnv(stock, starts, series(), **common).reset(seed=7)[0].tolist()


def test_starts_are_drawn_from_a_list_or_a_function() -> None:
    def drawn(random: np.random.Generator) -> Stock:
        return START._replace(on_hand=float(random.integers(5, 8)))

    for start, levels in ((drawn, {5.0, 6.0, 7.0}), ([START, START._replace(on_hand=0.0)], {4.0, 0.0})):
        env = TaskEnv(stock, start, series(), length=3, engine="python")
        assert {float(env.reset(seed=s)[0][0]) for s in range(40)} == levels
    with pytest.raises(uc.InputError, match="at least one state"):
        TaskEnv(stock, [], series(), length=3, engine="python")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"serie": 1}, "serie"), ({"series": 3}, "from 0 to 2"), ({"series": -1}, "from 0 to 2"),
        ({"state": 3}, "options.state"), ({"state": [1.0]}, "options.state"), (["series"], "a dict"),
        ({"at": 1.5}, "options.at"), ({"at": 58}, "from 0 to 57"), ({"at": True}, "options.at"),
    ],
)  # fmt: skip
def test_options_are_checked(options: Any, said: str) -> None:
    for env in (
        TaskEnv(stock, START, series(), length=3, engine="python"),
        TaskVectorEnv(stock, START, series(), num_envs=2, length=3, engine="python"),
    ):
        with pytest.raises(uc.InputError, match=said):
            env.reset(options=options)
    with pytest.raises(uc.InputError, match="one per window"):
        TaskVectorEnv(stock, START, series(), num_envs=2, length=3, engine="python").reset(seed=[1])


def test_an_action_is_a_whole_number_for_each_window() -> None:
    one = TaskEnv(stock, START, series(), length=3, engine="python")
    two = TaskVectorEnv(stock, START, series(), num_envs=2, length=3, engine="python")
    one.reset(seed=1)
    two.reset(seed=1)
    for action in (1.5, float("nan"), None, "2", [0], True, -1, 999, np.uint64(2**63)):
        with pytest.raises(uc.InputError, match="expected a whole number"):
            one.step(action)
    for actions in ([0], 0, [0.0, 1.0], [0, float("nan")], [[0, 1]], None, [0, -1], [0, 999]):
        with pytest.raises(uc.InputError, match="expected 2 whole numbers"):
            two.step(actions)  # type: ignore[arg-type]
    assert one.step(np.int32(0))[4]["at"] == one.unwrapped._at  # type: ignore[attr-defined]


def test_built_in_tasks_are_registered_and_pass_the_checker() -> None:
    from ucsearch.lab.gym.registered import IDS

    for title in IDS:
        env = gymnasium.make(f"ucsearch/{title}-v0", engine="python", length=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        for _ in range(5):
            _, reward, over, _, info = env.step(int(np.flatnonzero(env.unwrapped.action_masks())[0]))
            assert np.isfinite(reward)
            assert over == info["dead_end"]
    many = gymnasium.make_vec("ucsearch/LeadTimeInventory-v0", num_envs=3, engine="python", length=5)
    assert many.reset(seed=1)[0].shape[0] == 3
    with pytest.raises(uc.InputError, match="zipkin"):
        gymnasium.make("ucsearch/LeadTimeInventory-v0", instance="zipkin")
