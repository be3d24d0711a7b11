"""DQN and PPO from Stable-Baselines3 on a `TaskEnv`, feasible at every step. Needs the `learned` extra.

PPO is sb3-contrib's masked PPO. There is no masked DQN: ours is shielded by the mask, both while it plays (the
environment takes the nearest feasible action) and when it is used (only feasible actions compete). SAC is left out,
because it wants continuous actions.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.learned.base import Bools, Evidence, Ints, masked_argmax

__all__ = ["SB3Policy", "train_dqn", "train_ppo"]


class SB3Policy:
    """A trained model behind the same `act` as the other learned policies."""

    def __init__(self, model: Any, evidence: Evidence) -> None:
        self.model, self.evidence = model, evidence

    def act(self, observations: NDArray[np.float32], mask: Bools) -> Ints:
        """(N,) chosen action indices, feasible by construction."""
        if self.evidence.method == "masked PPO":
            chosen, _ = self.model.predict(observations, action_masks=mask, deterministic=True)
            return np.asarray(chosen, np.int64)
        import torch

        with torch.no_grad():
            values = self.model.q_net(torch.as_tensor(observations)).cpu().numpy().astype(np.float64)
        return masked_argmax(values, mask)

    def save(self, path: str | os.PathLike[str]) -> None:
        self.model.save(os.fspath(path))


def train_dqn(env: Any, *, steps: int, seed: int, progress: bool = False, start: SB3Policy | None = None) -> SB3Policy:
    """Train a DQN for `steps` environment steps; `start` resumes."""
    from stable_baselines3 import DQN

    settings: dict[str, Any] = dict(learning_starts=1_000, train_freq=4, buffer_size=100_000, gamma=0.95)
    model = start.model if start is not None else DQN("MlpPolicy", env, seed=seed, device="cpu", **settings)
    return _learn(model, env, "shielded DQN", settings, steps, seed, progress, start)


def train_ppo(env: Any, *, steps: int, seed: int, progress: bool = False, start: SB3Policy | None = None) -> SB3Policy:
    """Train a masked PPO for `steps` environment steps; `start` resumes."""
    from sb3_contrib import MaskablePPO

    settings: dict[str, Any] = dict(n_steps=512, batch_size=256, gamma=0.95)
    model = start.model if start is not None else MaskablePPO("MlpPolicy", env, seed=seed, device="cpu", **settings)
    return _learn(model, env, "masked PPO", settings, steps, seed, progress, start)


def _learn(
    model: Any, env: Any, method: str, settings: dict[str, Any], steps: int, seed: int, progress: bool,
    start: SB3Policy | None,
) -> SB3Policy:  # fmt: skip
    if steps < 1:
        raise InputError("steps", steps, "a whole number of at least 1")
    if start is not None:
        model.set_env(env)
    model.learn(total_timesteps=steps, progress_bar=progress, reset_num_timesteps=start is None)
    done = steps if start is None else start.evidence.steps + steps
    return SB3Policy(model, Evidence(method, settings, seed, "", done, float("nan")))
