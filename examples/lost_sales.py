"""Lost sales with a lead time: the optimal average costs that Zipkin (2008, Operations Research 56, table 3) prints for
Poisson demand with mean 5, holding cost 1 and a penalty of 4 a lost unit, found by `uc.average_cost`.

A period: the order of L periods ago arrives, an order is placed, demand takes what is there and the rest is lost,
each unit left costs 1 and each unit lost 4.

    python examples/lost_sales.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import ucsearch as uc
from ucsearch.engine.closed_loop.average import AverageCost

MEAN, PENALTY, HOLDING = 5.0, 4.0, 1.0
MOST_DEMAND, MOST_ORDER = 18, 7
PRINTED = {2: 4.40, 3: 4.60}  # by lead time


class Stock(NamedTuple):
    on_hand: float
    open: tuple[float, ...]  # orders that arrive in 1, 2, ... periods


def demand_law() -> uc.Trace:
    """Poisson, with the mass beyond 18 units (one period in 700,000) on 18. One step: every period has this law."""
    shares = [math.exp(-MEAN) * MEAN**d / math.factorial(d) for d in range(MOST_DEMAND)]
    return uc.Trace.from_distribution(pmf=(range(MOST_DEMAND + 1), [*shares, 1.0 - sum(shares)]), horizon=1).declare(
        "independent"
    )


def feasible(s: Stock, a: float, p: None) -> bool:
    return True


def step(s: Stock, a: float, y: float, p: None) -> Stock:
    coming = (*s.open, a)
    return Stock(max(s.on_hand - y, 0.0) + coming[0], coming[1:])


def reward(s: Stock, a: float, y: float, p: None) -> float:
    return -(HOLDING * max(s.on_hand - y, 0.0) + PENALTY * max(y - s.on_hand, 0.0))


def nothing(s: Stock, p: None) -> float:
    return 0.0


TASK = uc.Task(
    name="lost sales", state=Stock, actions=range(MOST_ORDER + 1), feasible=feasible, step=step, reward=reward,
    fallback=nothing,
)  # fmt: skip


def optimum(lead_time: int) -> AverageCost:
    """The policy may not leave the range of stock on hand, and is found not to want to."""
    state = Stock(5.0, (5.0,) * (lead_time - 1))
    return uc.average_cost(TASK, demand_law(), state, within={"on_hand": (-1.0, 24.0)})


if __name__ == "__main__":
    for lead_time, printed in PRINTED.items():
        found = optimum(lead_time)
        print(f"lead time {lead_time}: {found.low:.4f} to {found.high:.4f} a period, printed {printed:.2f}")
