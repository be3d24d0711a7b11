"""Learned policies for tables of results: trained once on earlier values, then deterministic.

All see the state and three figures of the forecast; all choose among feasible actions only. Fitted Q iteration and the
conservative Q-network are trained here in seconds, offline, on feasible random play. DQN and PPO are trained beforehand
(scripts/train_policies.py) and kept as small networks that need no training library.

>>> policy = train_offline("fqi", task, start, series, features, seed=1)  # doctest: +SKIP
>>> index = policy(states, mask, forecast_features(trace.members[..., 0], delay))  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.learned.base import Bools, Evidence, Floats, Ints, Progress, collect
from ucsearch.lab.learned.cql import train_cql
from ucsearch.lab.learned.fqi import train_fqi
from ucsearch.lab.learned.network import load_policy
from ucsearch.task import Task

__all__ = ["LearnedPolicy", "forecast_features", "load_learned", "train_offline"]

FEATURES = 3


def forecast_features(members: NDArray[Any], delay: int) -> Floats:
    """(..., 3) of members (..., J, H): mean outcome when an action takes effect, mean from then on, mean spread from
    then on; in the unit of the outcomes."""
    array = np.asarray(members, np.float64)
    if array.ndim < 2 or not 0 <= delay < array.shape[-1]:
        raise InputError("members", f"shape {array.shape}", f"(..., J, H) with H above the delay, {delay}")
    mean, spread = array.mean(axis=-2)[..., delay:], array.std(axis=-2)[..., delay:]
    return np.stack([mean[..., 0], mean.mean(axis=-1), spread.mean(axis=-1)], axis=-1)


@dataclass(frozen=True, eq=False)
class LearnedPolicy:
    """policy(states (N, n), mask (N, m), features (N, k)) -> action indices (N,), feasible by construction."""

    policy: Any  # with `act(observations, mask)` and `evidence`

    @property
    def evidence(self) -> Evidence:
        found: Evidence = self.policy.evidence
        return found

    def __call__(self, states: NDArray[Any], mask: Bools, features: NDArray[Any] | None = None) -> Ints:
        seen = np.asarray(states, np.float64)
        if features is not None:
            seen = np.concatenate([seen, np.asarray(features, np.float64)], axis=1)
        # As in training, where observations are single precision: a bin's edge must fall the same way.
        chosen: Ints = self.policy.act(seen.astype(np.float32), np.asarray(mask, np.bool_))
        return chosen


def load_learned(name: str) -> LearnedPolicy:
    """A network that comes with the package, for `policy(states, mask, features)`."""
    return LearnedPolicy(load_policy(name))


def train_offline(
    method: Literal["fqi", "cql"],
    task: Task,
    start: Any,
    series: Sequence[NDArray[Any]],
    features: Sequence[NDArray[Any]],
    *,
    length: int = 50,
    seed: int,
    windows: int = 64,
    rounds: int = 600,
    engine: str = "compiled",
    progress: Progress | None = None,
    **settings: Any,
) -> LearnedPolicy:
    """Play `windows` x `rounds` steps at random within the mask, then learn from them without further play.

    `series` are outcomes (T,), `features` what the forecaster knew at each time (T, k); both from before whatever the
    policy will be judged on. Deterministic given the seed. Needs the `gym` extra.
    """
    from ucsearch.lab.gym import TaskVectorEnv

    if method not in ("fqi", "cql"):
        raise InputError("method", repr(method), "'fqi' or 'cql'")
    env = TaskVectorEnv(task, start, series, num_envs=windows, features=features, length=length, engine=engine)
    data = collect(env, rounds, np.random.default_rng(seed))
    count = task.action_array.size
    train: Any = train_fqi if method == "fqi" else train_cql
    policy = train(data, actions=count, seed=seed, progress=progress, **settings)
    about = env.about() | {"windows": windows, "rounds": rounds}
    evidence = dataclasses.replace(policy.evidence, env=about, returns=(float(data.rewards.mean()) * length,))
    return LearnedPolicy(dataclasses.replace(policy, evidence=evidence))
