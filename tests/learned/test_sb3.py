"""DQN and PPO for real, tiny: they train, resume, stay inside the mask. Run by `make test-learned`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

from stable_baselines3.common.env_checker import check_env

from tests.kit.templates import Stock, stock
from ucsearch.gym import TaskEnv
from ucsearch.learned.sb3 import SB3Policy, train_dqn, train_ppo

START = Stock(4.0, (2.0, 2.0), 2.0)


def environment() -> TaskEnv:
    rng = np.random.default_rng(0)
    series = [rng.poisson(3.0, 80).astype(float) for _ in range(4)]
    return TaskEnv(stock, START, series, length=30, engine="python")


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


def test_the_checker_of_stable_baselines_passes() -> None:
    check_env(environment(), warn=False)


@pytest.mark.parametrize("train", [train_dqn, train_ppo])
def test_trains_resumes_and_stays_feasible(train, tmp_path: Path) -> None:
    policy = train(environment(), steps=1_200, seed=1)
    assert_stays_inside_the_mask(policy)
    longer = train(environment(), steps=600, seed=1, start=policy)
    assert longer.evidence.steps == 1_800
    assert_stays_inside_the_mask(longer)
    longer.save(tmp_path / "policy.zip")
    assert (tmp_path / "policy.zip").stat().st_size > 0
