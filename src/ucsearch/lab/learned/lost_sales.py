"""PPO on the lost-sales instances: trained once, saved as a small network, judged by its exact long-run cost.

A state is the stock after this period's arrival and the orders due in 1, 2, ... periods: (N, L), as in
`ucsearch.replay.classics`. Orders are kept within Morton's levels, which no optimal order exceeds: the agent is told
what the theory knows, so that what it loses it loses by learning.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.lab.learned.base import Bools, Ints, Progress
from ucsearch.lab.learned.network import NetworkPolicy, load_policy
from ucsearch.replay.classics.instances import Instance, load_instance
from ucsearch.replay.classics.lost_sales import LostSales, average_cost

if TYPE_CHECKING:
    from ucsearch.lab.learned.sb3_env import Windows

__all__ = ["NetworkOrders", "load_lost_sales", "order_mask", "train_lost_sales"]

NAME = "lost-sales-ppo-{}"
_CENTRE, _SCALE = 5.0, 5.0  # of stocks and orders, for the network
_REWARD_SCALE = 10.0  # currency; brings discounted costs to the order of 1


def order_mask(states: NDArray[Any], levels: tuple[int, ...], actions: int) -> Bools:
    """(N, m) orders 0..m-1 that keep every level: what is due from l periods ahead on, and the order, at most s_l."""
    rows = np.asarray(states, np.int64)
    due = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1]  # (N, L): v_0, ..., v_{L-1}
    room = np.minimum((np.array(levels[:-1]) - due).min(axis=1), levels[-1])
    mask: Bools = np.arange(actions)[None] <= np.maximum(room, 0)[:, None]
    return mask


@dataclass(frozen=True, eq=False)
class NetworkOrders:
    """A network as a stationary ordering policy, for `ucsearch.replay.classics.average_cost`."""

    model: LostSales  # the inventory it orders for
    network: NetworkPolicy  # its m outputs are orders 0..m-1

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """Morton's levels, which its mask keeps."""
        return self.model.morton_levels

    def orders(self, states: Ints) -> Ints:
        """The order within the levels that the network values most."""
        mask = order_mask(states, self.model.morton_levels, self.network.actions)
        return self.network.act(states, mask)


def load_lost_sales(instance: str | Instance) -> NetworkOrders:
    """The PPO policy that comes with the package for an instance such as "zipkin-poisson-p4-L2"."""
    known = load_instance(instance) if isinstance(instance, str) else instance
    return NetworkOrders(known.model(), load_policy(NAME.format(known.name)))


def lost_sales_windows(instance: Instance, seed: int, *, windows: int = 256, length: int = 100) -> Windows:
    """The instance as an environment: demand drawn once, random stretches of it, all orders within the levels."""
    from ucsearch.lab.gym import TaskVectorEnv
    from ucsearch.lab.learned.sb3_env import Windows
    from ucsearch.tasks import LeadTimeInventory

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
    """Train a masked PPO on one instance; its exact long-run cost is in the evidence's notes. Needs the extra."""
    from ucsearch.lab.learned.sb3 import falling, train_ppo

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
