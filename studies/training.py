"""DQN and masked PPO from Stable-Baselines3, trained on the tasks, and their networks taken out of it.

`scripts/train_policies.py` trains with it the policies that come with the package; what they are and why their settings
are fair: docs/reference/comparators.md. SAC is left out: it wants continuous actions. Needs the extra `learned`.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from ucsearch.errors import InputError
from ucsearch.lab.gym import TaskVectorEnv
from ucsearch.lab.learned.base import Bools, Evidence, Floats, Ints, Progress, collect, masked_argmax
from ucsearch.lab.learned.lost_sales import NetworkOrders
from ucsearch.lab.learned.network import NetworkPolicy
from ucsearch.lab.learned.sb3_env import Windows
from ucsearch.lab.learned.store import read_policy, versions_of, write_policy
from ucsearch.replay.classics.instances import Instance
from ucsearch.replay.classics.lost_sales import average_cost
from ucsearch.task import Task
from ucsearch.tasks import LeadTimeInventory

DQN_METHOD, PPO_METHOD = "shielded DQN", "masked PPO"
_PARTS = 10  # of the training, whose mean returns are kept
_CENTRE, _SCALE = 5.0, 5.0  # of stocks and orders on lost-sales instances, for the network
_REWARD_SCALE = 10.0  # currency; brings discounted costs to the order of 1


class SB3Policy:
    """A trained model behind the same `act` as the other learned policies."""

    def __init__(self, model: Any, evidence: Evidence) -> None:
        self.model, self.evidence = model, evidence

    def act(self, observations: NDArray[np.float32], mask: Bools) -> Ints:
        """(N,) chosen action indices, feasible by construction."""
        if self.evidence.method == PPO_METHOD:
            chosen, _ = self.model.predict(observations, action_masks=mask, deterministic=True)
            return np.asarray(chosen, np.int64)
        import torch

        with torch.no_grad():
            values = self.model.q_net(torch.as_tensor(observations)).cpu().numpy().astype(np.float64)
        return masked_argmax(values, mask)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the model and its evidence; returns the SHA-256. A DQN's replay buffer is not kept."""
        stream = io.BytesIO()
        self.model.save(stream)
        return write_policy(path, self.evidence, stream.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str], env: Any = None) -> SB3Policy:
        """Read a saved policy, to use it or (with `env`) to go on training. The hash is checked before anything in the
        file is looked at, because such files can hold code."""
        evidence, content = read_policy(path)
        kinds = _kinds()
        if evidence.method not in kinds:
            raise InputError("policy file", evidence.method, f"one of {', '.join(kinds)}")
        return cls(kinds[evidence.method].load(io.BytesIO(content), env=env, device="cpu"), evidence)

    def exported(self, centre: Floats | None = None, scale: Floats | None = None) -> NetworkPolicy:
        """The same policy without torch. `centre` and `scale` are put before the first layer, for an environment whose
        observations were scaled by them."""
        policy = self.model.policy
        if self.evidence.method == PPO_METHOD:
            layers = [*policy.mlp_extractor.policy_net, policy.action_net]
        else:
            layers = list(policy.q_net.q_net)
        arrays, kinds = [], set()
        for layer in layers:
            if hasattr(layer, "weight"):
                arrays += [layer.weight.detach().numpy().T, layer.bias.detach().numpy()]
            else:
                kinds.add(type(layer).__name__.lower())
        if len(kinds) != 1:
            raise InputError("model", f"activations {sorted(kinds)}", "one kind, Tanh or ReLU")
        weights = tuple(np.array(x, np.float64) for x in arrays)
        size = weights[0].shape[0]
        centre = np.zeros(size) if centre is None else np.array(centre, np.float64)
        scale = np.ones(size) if scale is None else np.array(scale, np.float64)
        return NetworkPolicy(weights, kinds.pop(), centre, scale, self.evidence)


def train_dqn(
    env: Any,
    *,
    steps: int,
    seed: int,
    progress: Progress | None = None,
    start: SB3Policy | None = None,
    **settings: Any,
) -> SB3Policy:
    """Train a DQN for `steps` environment steps; `start` resumes, `settings` go to the library."""
    chosen = dict(learning_starts=1_000, train_freq=4, buffer_size=100_000, gamma=0.95) | settings
    return _learn(DQN_METHOD, env, chosen, steps, seed, progress, start)


def train_ppo(
    env: Any,
    *,
    steps: int,
    seed: int,
    progress: Progress | None = None,
    start: SB3Policy | None = None,
    **settings: Any,
) -> SB3Policy:
    """Train a masked PPO for `steps` environment steps; `start` resumes, `settings` go to the library."""
    chosen = dict(n_steps=512, batch_size=256, gamma=0.95) | settings
    return _learn(PPO_METHOD, env, chosen, steps, seed, progress, start)


def _kinds() -> dict[str, Any]:
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import DQN

    return {DQN_METHOD: DQN, PPO_METHOD: MaskablePPO}


class _Watch(BaseCallback):  # type: ignore[misc]
    """Reports progress and keeps the returns of finished episodes."""

    def __init__(self, begin: int, steps: int, progress: Progress | None) -> None:
        super().__init__()
        self.begin, self.steps, self.progress = begin, steps, progress
        self.running: Floats | None = None
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        rewards, dones = np.asarray(self.locals["rewards"], np.float64), np.asarray(self.locals["dones"], np.bool_)
        self.running = rewards if self.running is None else self.running + rewards
        if dones.any():
            self.returns += self.running[dones].tolist()
            self.running = np.where(dones, 0.0, self.running)
        if self.progress is not None:
            self.progress(min(self.num_timesteps - self.begin, self.steps), self.steps)
        return True

    def parts(self) -> tuple[float, ...]:
        """Mean returns of the training cut into equal parts."""
        cuts = np.array_split(np.array(self.returns), min(_PARTS, len(self.returns))) if self.returns else []
        return tuple(float(part.mean()) for part in cuts)


def _learn_quietly(model: Any, settings: dict[str, Any], **more: Any) -> None:
    """Without the folder that the library leaves among the temporary files each time, unless somebody wants to read."""
    if settings.get("verbose") or settings.get("tensorboard_log"):
        model.learn(**more)
        return
    from stable_baselines3.common.logger import Logger

    model.set_logger(Logger(folder=None, output_formats=[]))
    try:
        model.learn(**more)
    finally:
        model._custom_logger = False  # it is saved without its logger, and would look for one


def _learn(
    method: str, env: Any, settings: dict[str, Any], steps: int, seed: int, progress: Progress | None,
    start: SB3Policy | None,
) -> SB3Policy:  # fmt: skip
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise InputError("steps", repr(steps), "a whole number of at least 1")
    earlier: tuple[float, ...] = ()
    if start is None:
        model = _kinds()[method]("MlpPolicy", env, seed=seed, device="cpu", **settings)
        begin = 0
    else:
        if start.evidence.method != method:
            raise InputError("start", start.evidence.method, method)
        model, begin, earlier = start.model, start.model.num_timesteps, start.evidence.returns
        settings, seed = start.evidence.settings, start.evidence.seed
        model.set_env(env)
        if method == DQN_METHOD and model.replay_buffer.size() == 0:
            # The buffer is not saved: fill it before learning from it goes on.
            model.learning_starts = begin + int(settings["learning_starts"])
    watch = _Watch(begin, steps, progress)
    _learn_quietly(model, settings, total_timesteps=steps, callback=watch, reset_num_timesteps=start is None)
    inner = env.env if isinstance(env, Windows) else env
    about = inner.about() if hasattr(inner, "about") else {}
    about |= {"windows": int(getattr(env, "num_envs", 1))}
    evidence = Evidence(
        method, _plain(settings), seed, "", int(model.num_timesteps), math.nan, env=about,
        returns=(*earlier, *watch.parts()),
        versions=versions_of("gymnasium", "sb3-contrib", "stable-baselines3", "torch"),
    )  # fmt: skip
    return SB3Policy(model, evidence)


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """As JSON keeps it; what it cannot keep, such as a schedule, by name."""
    keep = (bool, int, float, str, list, tuple, dict, type(None))
    found = {k: v if isinstance(v, keep) else getattr(v, "__name__", type(v).__name__) for k, v in settings.items()}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}


def falling(rate: float) -> Any:
    """A learning rate that falls to 0 in a straight line."""

    def linear(left: float) -> float:
        return rate * left

    linear.__name__ = f"from {rate:g} in a line to 0"
    return linear


# -------------------------------------------------------------------- networks of tables of results


def train_network(
    method: Literal["dqn", "ppo"],
    task: Task,
    start: Any,
    series: Sequence[NDArray[Any]],
    features: Sequence[NDArray[Any]],
    *,
    steps: int,
    seed: int,
    length: int = 50,
    windows: int = 64,
    hidden: int = 32,
    progress: Progress | None = None,
) -> NetworkPolicy:
    """Train DQN or masked PPO and keep the network alone."""
    common: dict[str, Any] = dict(num_envs=windows, features=features, length=length)
    play = collect(TaskVectorEnv(task, start, series, **common), 100, np.random.default_rng(seed))
    seen = play.observations.astype(np.float64)
    centre, spread = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(spread > 1e-9 * (1.0 + np.abs(centre)), spread, np.inf)  # what is constant is not looked at
    reward_scale = 10.0 * (float(play.rewards.std()) or 1.0)

    def observe(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = ((rows - centre) / scale).astype(np.float32)
        return scaled

    env = Windows(TaskVectorEnv(task, start, series, autoreset="same_step", **common), observe, reward_scale)
    shape = {"net_arch": [hidden, hidden]}
    if method == "ppo":
        trained = train_ppo(
            env, steps=steps, seed=seed, progress=progress, n_steps=64, batch_size=1024, n_epochs=4, gamma=0.95,
            gae_lambda=0.95, learning_rate=falling(1e-3), policy_kwargs=shape,
        )  # fmt: skip
    elif method == "dqn":
        trained = train_dqn(
            env, steps=steps, seed=seed, progress=progress, train_freq=4, gradient_steps=16, batch_size=256, gamma=0.95,
            learning_starts=10 * windows, target_update_interval=2_000, exploration_fraction=0.3,
            exploration_final_eps=0.05, learning_rate=falling(1e-3), policy_kwargs=shape,
        )  # fmt: skip
    else:
        raise InputError("method", repr(method), "'dqn' or 'ppo'")
    network = trained.exported(centre, scale)
    about = {**network.evidence.env, "reward_scale": reward_scale}
    return dataclasses.replace(network, evidence=dataclasses.replace(network.evidence, env=about))


def lost_sales_windows(instance: Instance, seed: int, *, windows: int = 256, length: int = 100) -> Windows:
    """The instance as an environment: demand drawn once, random stretches of it, all orders within the levels."""
    levels, lead = instance.model().morton_levels, instance.lead_time
    sizes = 14 if instance.family == "poisson" else 21
    config = LeadTimeInventory(
        lead_time=lead, order_sizes=tuple(float(x) for x in range(sizes)), shortage=float(instance.penalty_cost),
        capacity=float(levels[0]), largest_order=float(levels[-1]),
    )  # fmt: skip
    rng = np.random.default_rng([seed, instance.penalty_cost, lead])
    shape = (64, 4_000)
    demand = rng.poisson(5.0, shape) if instance.family == "poisson" else rng.geometric(1.0 / 6.0, shape) - 1
    env = TaskVectorEnv(
        config.task(), config.state(4.0, (4.0,) * lead), list(demand.astype(np.float64)), num_envs=windows,
        length=length, autoreset="same_step",
    )  # fmt: skip

    def observe(seen: NDArray[np.float32]) -> NDArray[np.float32]:
        stock = np.concatenate([seen[:, :1] + seen[:, 1:2], seen[:, 2 : 1 + lead]], axis=1)
        return ((stock - _CENTRE) / _SCALE).astype(np.float32)

    return Windows(env, observe, _REWARD_SCALE)


def train_lost_sales(
    instance: Instance, *, steps: int, seed: int, hidden: int = 32, progress: Progress | None = None
) -> NetworkPolicy:
    """Train a masked PPO on one instance; its exact long-run cost is in the evidence's notes."""
    settings: dict[str, Any] = dict(
        n_steps=32, batch_size=2048, n_epochs=4, gamma=0.92, gae_lambda=0.95, ent_coef=0.0,
        learning_rate=falling(2e-3), policy_kwargs={"net_arch": [hidden, hidden]},
    )  # fmt: skip
    windows = lost_sales_windows(instance, seed)
    trained = train_ppo(windows, steps=steps, seed=seed, progress=progress, **settings)
    lead = instance.lead_time
    network = trained.exported(np.full(lead, _CENTRE), np.full(lead, _SCALE))
    model = instance.model()
    cost = average_cost(model, NetworkOrders(model, network)).value
    env = {**network.evidence.env, "instance": instance.name, "reward_scale": _REWARD_SCALE}
    notes = (f"exact long-run cost {cost:.6f} per period",)
    return dataclasses.replace(network, evidence=dataclasses.replace(network.evidence, env=env, notes=notes))
