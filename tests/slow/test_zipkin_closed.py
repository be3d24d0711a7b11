"""Lost-sales instances of Zipkin (2008) at full horizon: closed mode against value iteration over arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

ORDERS, MEAN, MOST = 10, 5.0, 17  # order sizes 0..9, demand cut off at 17
ROOM = 26  # units in stock and on order


def demand(kind: str) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(MOST + 1)
    if kind == "poisson":
        w = np.exp(-MEAN) * MEAN**y / np.array([math.factorial(int(k)) for k in y])
    else:
        w = (1.0 / (1.0 + MEAN)) * (MEAN / (1.0 + MEAN)) ** y
    return y.astype(float), w / w.sum()


def iterated(penalty: float, lead: int, horizon: int, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Values of every first order from stock 5 with 5 on order at every place, by arrays over stock and open orders;
    an order that would take stock and open orders above ROOM is not allowed."""
    grid = np.indices((ROOM + 1, *(ORDERS,) * (lead + 1)))
    allowed = grid.sum(axis=0) <= ROOM
    value = np.zeros((ROOM + 1, *(ORDERS,) * lead))
    quality = value
    for _ in range(horizon):
        quality = np.zeros((ROOM + 1, *(ORDERS,) * (lead + 1)))
        stock = np.arange(ROOM + 1)
        for first in range(ORDERS):
            for d, share in zip(y, w, strict=True):
                left = stock + first - d
                paid = -np.maximum(left, 0.0) - penalty * np.maximum(-left, 0.0)
                # What is open moves on by one place, and the new order is the last.
                ahead = value[np.clip(left, 0, ROOM).astype(int)]
                quality[:, first] += share * (paid.reshape(-1, *(1,) * lead) + ahead)
        quality = np.where(allowed, quality, -np.inf)
        value = np.where(allowed[..., 0], quality.max(axis=-1), 0.0)  # beyond ROOM nothing is ever reached
    return quality[(5, *(5,) * lead)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["poisson", "geometric"])
@pytest.mark.parametrize("penalty", [4.0, 39.0])
@pytest.mark.parametrize("lead", [1, 2])
def test_closed_mode_is_value_iteration(lead: int, penalty: float, kind: str) -> None:
    y, w = demand(kind)
    horizon = lead + 12
    inventory = LeadTimeInventory(
        lead_time=lead, order_sizes=tuple(map(float, range(ORDERS))), shortage=penalty, capacity=float(ROOM)
    )
    trace = uc.Trace.from_distribution(pmf=(y, w), horizon=horizon).declare("independent")
    policy = uc.Exact(depth=horizon, mode="closed", node_budget=200_000_000)
    plan = uc.search(inventory.task(), inventory.state(5.0, (5.0,) * lead), trace, policy, engine="compiled")
    assert plan.proved
    expected = iterated(penalty, lead, horizon, y, w)
    found = {int(row.action): row.score for row in plan.first_actions if row.feasible}
    assert set(found) == set(np.flatnonzero(np.isfinite(expected)).tolist())
    assert max(abs(score - expected[i]) for i, score in found.items()) < 1e-9
