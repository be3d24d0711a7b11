"""A fixed cost for every order: the (s, S) policy and its average cost that Zheng and Federgruen (1991, Operations
Research 39, table 1) print for Poisson demand with mean 10, found by `uc.average_cost` without being told that an (s,
S) policy is best.

A period: an order is placed and arrives at once at a fixed cost of 64, demand is met or waits, each unit left costs 1
and each unit that waits 9.

    python examples/reorder_point.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import ucsearch as uc
from ucsearch.engine.closed_loop.average import AverageCost

MEAN, FIXED, HOLDING, WAITING = 10.0, 64.0, 1.0, 9.0
MOST_DEMAND, MOST_ORDER = 30, 55
PRINTED = (6, 40, 35.022)  # s, S and the cost of a period


class Stock(NamedTuple):
    level: float  # below 0: units that wait


def demand_law() -> uc.Trace:
    """Poisson, with the mass beyond 30 units (one period in 12 million) on 30."""
    shares = [math.exp(-MEAN) * MEAN**d / math.factorial(d) for d in range(MOST_DEMAND)]
    return uc.Trace.from_distribution(pmf=(range(MOST_DEMAND + 1), [*shares, 1.0 - sum(shares)]), horizon=1).declare(
        "independent"
    )


def feasible(s: Stock, a: float, p: None) -> bool:
    return True


def step(s: Stock, a: float, y: float, p: None) -> Stock:
    return Stock(s.level + a - y)


def reward(s: Stock, a: float, y: float, p: None) -> float:
    left = s.level + a - y
    return -((FIXED if a > 0.0 else 0.0) + (HOLDING * left if left > 0.0 else -WAITING * left))


def nothing(s: Stock, p: None) -> float:
    return 0.0


TASK = uc.Task(
    name="reorder point", state=Stock, actions=range(MOST_ORDER + 1), feasible=feasible, step=step, reward=reward,
    fallback=nothing,
)  # fmt: skip


def optimum() -> tuple[int, int, AverageCost]:
    """Reorder point, order-up-to level and cost. The policy may not leave the range, and is found not to want to."""
    found = uc.average_cost(TASK, demand_law(), Stock(0.0), within={"level": (-30.0, 55.0)})
    ordering = [x for x in range(-20, 41) if found.action(Stock(float(x))) > 0.0]
    s = max(ordering)
    return s, int(s + found.action(Stock(float(s)))), found


if __name__ == "__main__":
    s, level, found = optimum()
    print(f"order when {s} or fewer are left, up to {level}: {found.cost:.3f} a period; printed {PRINTED}")
