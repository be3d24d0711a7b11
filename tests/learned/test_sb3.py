"""DQN and PPO for real, tiny: they train, resume, stay inside the mask, are saved with evidence and exported.

Run by `make test-torch`.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import gymnasium
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecCheckNan, VecFrameStack, VecMonitor, VecNormalize

from studies.training import (
    SB3Policy,
    lost_sales_windows,
    train_dqn,
    train_lost_sales,
    train_network,
    train_ppo,
)
from tests.kit.templates import Stock, stock
from ucsearch.errors import DataError, InputError
from ucsearch.lab.gym import TaskEnv, TaskVectorEnv
from ucsearch.lab.learned import NetworkPolicy
from ucsearch.lab.learned.boundary import LearnedPolicy
from ucsearch.lab.learned.lost_sales import NetworkOrders
from ucsearch.lab.learned.sb3_env import Windows
from ucsearch.replay.classics.instances import load_instance

START = Stock(4.0, (2.0, 2.0), 2.0)
TRAIN = [train_dqn, train_ppo]


def series() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.poisson(3.0, 80).astype(float) for _ in range(4)]


def environment() -> TaskEnv:
    return TaskEnv(stock, START, series(), length=30, engine="python")


def windows(count: int = 4) -> Windows:
    env = TaskVectorEnv(stock, START, series(), num_envs=count, length=10, engine="python", autoreset="same_step")
    return Windows(env)


REGISTERED = [name for name in gymnasium.registry if name.startswith("ucsearch/")]


@pytest.mark.parametrize("name", REGISTERED)
def test_every_registered_environment_passes_the_check(name: str) -> None:
    check_env(gymnasium.make(name), warn=False)


@pytest.mark.parametrize("wrap", [VecMonitor, VecNormalize, VecCheckNan, lambda env: VecFrameStack(env, 2)])
@pytest.mark.parametrize("make", [windows, lambda: make_vec_env(REGISTERED[0], n_envs=4, seed=1)])
def test_the_wrappers_of_the_library_take_our_environments(wrap: Any, make: Any) -> None:
    env = wrap(make())
    env.seed(3)
    first = env.reset()
    dones = 0
    for _ in range(25):
        observed, rewards, done, _ = env.step(np.zeros(env.num_envs, np.int64))
        assert observed.shape == first.shape
        assert np.isfinite(observed).all()
        assert rewards.shape == done.shape == (4,)
        dones += int(done.sum())
    assert make is not windows or dones == 8  # episodes of ten steps begin anew by themselves
    env.close()


@pytest.mark.parametrize("train", TRAIN)
def test_training_leaves_nothing_behind(train: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary, kept = tmp_path / "temporary", tmp_path / "kept.zip"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    more = {"n_steps": 16, "batch_size": 16} if train is train_ppo else {"learning_starts": 5}
    policy = train(windows(), steps=40, seed=1, **more)
    assert [path.name for path in temporary.iterdir() if path.name.startswith("SB3")] == []
    policy.model.save(kept)
    again = type(policy.model).load(kept, env=windows())
    again.learn(total_timesteps=20)  # as anybody would who has only the library


def assert_stays_inside_the_mask(policy: SB3Policy) -> None:
    env = environment()
    observation, info = env.reset(seed=5)
    for _ in range(30):
        chosen = int(policy.act(observation[None], info["action_mask"][None])[0])
        assert info["action_mask"][chosen]
        observation, _, terminated, truncated, info = env.step(chosen)
        assert not info["replaced"]
        if terminated or truncated:
            break


def seen(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    mask = rng.random((count, 4)) < 0.5
    mask[~mask.any(axis=1), 1] = True
    return rng.uniform(0.0, 8.0, (count, 4)).astype(np.float32), mask


def test_the_checker_of_stable_baselines_passes() -> None:
    check_env(environment(), warn=False)


@pytest.mark.parametrize("train", TRAIN)
def test_trains_resumes_and_stays_feasible(train: Any) -> None:
    reports: list[tuple[int, int]] = []
    policy = train(environment(), steps=1_200, seed=1, progress=lambda done, total: reports.append((done, total)))
    assert_stays_inside_the_mask(policy)
    assert reports[-1] == (1_200, 1_200)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    before = policy.evidence.steps
    assert before >= 1_200  # PPO finishes the rollout it is in
    longer = train(environment(), steps=600, seed=1, start=policy)
    assert longer.evidence.steps >= before + 600
    assert len(longer.evidence.returns) > len(policy.evidence.returns)
    assert_stays_inside_the_mask(longer)


@pytest.mark.parametrize("train", TRAIN)
def test_equal_seeds_give_equal_weights_and_others_do_not(train: Any) -> None:
    def weights(seed: int) -> bytes:
        return b"".join(w.tobytes() for w in train(windows(), steps=1_100, seed=seed).exported().weights)

    assert weights(1) == weights(1)
    assert weights(1) != weights(2)


@pytest.mark.parametrize("train", TRAIN)
def test_a_saved_policy_has_its_evidence_loads_resumes_and_is_refused_when_changed(train: Any, tmp_path: Path) -> None:
    policy = train(environment(), steps=1_200, seed=1)
    path = tmp_path / "policy.zip"
    digest = policy.save(path)
    body = json.loads((tmp_path / "policy.json").read_text())
    assert body["sha256"] == digest
    assert body["seed"] == 1
    assert body["steps"] == policy.evidence.steps
    assert body["env"]["task"] == stock.name
    assert len(body["env"]["digest"]) == 64
    assert {"torch", "stable-baselines3", "sb3-contrib", "ucsearch"} <= set(body["versions"])
    assert body["returns"]
    loaded = SB3Policy.load(path)
    assert loaded.evidence == dataclasses.replace(policy.evidence, loss=loaded.evidence.loss)
    observations, mask = seen()
    assert (loaded.act(observations, mask) == policy.act(observations, mask)).all()
    resumed = train(environment(), steps=300, seed=1, start=SB3Policy.load(path))
    assert resumed.evidence.steps > policy.evidence.steps
    other = train_ppo if train is train_dqn else train_dqn
    with pytest.raises(InputError, match="start"):
        other(environment(), steps=300, seed=1, start=loaded)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="SHA-256"):
        SB3Policy.load(path)


@pytest.mark.parametrize("train", TRAIN)
def test_the_exported_network_chooses_as_the_model_does(train: Any, tmp_path: Path) -> None:
    policy = train(windows(), steps=1_100, seed=1)
    network = policy.exported()
    observations, mask = seen(2_000)
    agree = network(observations, mask) == policy.act(observations, mask)
    assert agree.mean() > 0.999  # sums in single and in double precision may part on a tie
    network.save(tmp_path / "small.npz")
    loaded = NetworkPolicy.load(tmp_path / "small.npz")
    assert (loaded(observations, mask) == network(observations, mask)).all()


def test_observations_scaled_in_training_are_scaled_in_use() -> None:
    centre, scale = np.array([4.0, 2.0, 2.0, 2.0]), np.array([2.0, 1.0, 1.0, 1.0])
    env = TaskVectorEnv(stock, START, series(), num_envs=4, length=10, engine="python", autoreset="same_step")
    scaled = Windows(env, lambda rows: ((rows - centre) / scale).astype(np.float32))
    policy = train_ppo(scaled, steps=600, seed=1)
    observations, mask = seen()
    expected = policy.act(((observations - centre) / scale).astype(np.float32), mask)
    assert (policy.exported(centre, scale)(observations, mask) == expected).all()


def test_windows_restart_at_once_and_report_where_they_ended() -> None:
    env = windows(3)
    env.seed(3)
    env.reset()
    for step in range(1, 21):
        mask = np.stack(env.env_method("action_masks"))
        assert mask.any(axis=1).all()
        _, _, done, infos = env.step(np.argmax(mask, axis=1))
        assert done.all() == (step % 10 == 0)
        if done.all():
            assert all(i["TimeLimit.truncated"] and i["terminal_observation"].shape == (4,) for i in infos)
    with pytest.raises(InputError, match="same_step"):
        Windows(TaskVectorEnv(stock, START, series(), num_envs=2, length=10, engine="python"))


def test_ppo_learns_a_lost_sales_instance_a_little() -> None:
    instance = load_instance("zipkin-poisson-p4-L1")
    assert lost_sales_windows(instance, 1, windows=2).observation_space.shape == (1,)
    policy = train_lost_sales(instance, steps=40_000, seed=1)
    assert policy.evidence.env["instance"] == instance.name
    cost = float(policy.evidence.notes[0].split()[3])
    model = instance.model()
    orders = NetworkOrders(model, policy).orders(np.array([[0], [30]]))
    assert orders[1] == 0  # nothing fits above Morton's level
    assert 4.04 <= cost < 8.0  # random orders cost far more; the optimum is 4.04


@pytest.mark.parametrize("method", ["dqn", "ppo"])
def test_networks_for_a_task_with_features(method: Any) -> None:
    rng = np.random.default_rng(1)
    features = [rng.normal(size=(80, 3)) for _ in range(4)]
    network = train_network(method, stock, START, series(), features, steps=1_000, seed=1, length=10, windows=4)
    policy = LearnedPolicy(network)
    observations, mask = seen(50)
    chosen = policy(observations, mask, rng.normal(size=(50, 3)))
    assert mask[np.arange(50), chosen].all()
    with pytest.raises(InputError, match="observations"):
        policy(observations, mask)
