"""PPO on the lost-sales instances: trained once, saved as a small network, judged by its exact long-run cost.

A state is the stock after this period's arrival and the orders due in 1, 2, ... periods: (N, L), as in
`ucsearch.replay.classics`. Orders are kept within Morton's levels, which no optimal order exceeds: the agent is told
what the theory knows, so that what it loses it loses by learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.lab.learned.base import Bools, Ints
from ucsearch.lab.learned.network import NetworkPolicy, load_policy
from ucsearch.replay.classics.instances import Instance, load_instance
from ucsearch.replay.classics.lost_sales import LostSales

__all__ = ["NetworkOrders", "load_lost_sales", "order_mask"]

NAME = "lost-sales-ppo-{}"


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
