"""A `TaskVectorEnv` as Stable-Baselines3 wants one: all windows in one compiled call, masks for masked PPO.

Needs the `learned` extra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from ucsearch.errors import InputError
from ucsearch.lab.gym import TaskVectorEnv

__all__ = ["Windows"]

Observe = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class Windows(VecEnv):  # type: ignore[misc]
    """`observe` (N, k) -> (N, j) may select and scale what the agent sees; rewards are divided by `reward_scale`."""

    def __init__(self, env: TaskVectorEnv, observe: Observe | None = None, reward_scale: float = 1.0) -> None:
        if env.metadata["autoreset_mode"] is not gymnasium.vector.AutoresetMode.SAME_STEP:
            raise InputError("env", "a TaskVectorEnv that restarts on the next step", "one with autoreset='same_step'")
        if not 0.0 < reward_scale < np.inf:
            raise InputError("reward_scale", reward_scale, "a finite number above 0")
        self.env, self.observe, self.reward_scale = env, observe or (lambda seen: seen), float(reward_scale)
        first = self.observe(np.zeros((1, *env.single_observation_space.shape), np.float32))  # type: ignore[misc]
        space = gymnasium.spaces.Box(-np.inf, np.inf, first.shape[1:], np.float32)
        self._actions: NDArray[np.int64] = np.zeros(env.num_envs, np.int64)
        self._seed: int | None = None
        super().__init__(env.num_envs, space, env.single_action_space)

    def seed(self, seed: int | None = None) -> list[int | None]:
        self._seed = seed
        return [seed] * self.num_envs

    def reset(self) -> NDArray[np.float32]:
        seen, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return self.observe(seen)

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = np.asarray(actions, np.int64)

    def step_wait(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        seen, rewards, terminated, truncated, info = self.env.step(self._actions)
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if over.any():
            final = self.observe(info["final_obs"])
            for i in np.flatnonzero(over):
                infos[i] = {"terminal_observation": final[i], "TimeLimit.truncated": bool(truncated[i])}
        return self.observe(seen), (rewards / self.reward_scale).astype(np.float32), over, infos

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        if method_name != "action_masks":
            raise AttributeError(method_name)
        masks = self.env.action_masks()
        return list(masks if indices is None else masks[np.atleast_1d(indices)])

    def has_attr(self, attr_name: str) -> bool:
        return attr_name == "action_masks"

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name != "render_mode":
            raise AttributeError(attr_name)
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(attr_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        self.env.close()
