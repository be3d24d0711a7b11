"""Two suppliers: a regular one that delivers after two periods and a faster, dearer one that delivers at once. What a
period costs at best in the long run, found by `uc.average_cost`, beside the figures of a memoised recursion.

A period: both orders are placed, what was ordered arrives (the faster order too), demand of 0 to 4 units is met or
waits. Costs a unit: regular 100, faster 105 or 110, left over 5, waiting 495. An action is a pair of quantities.

    python examples/dual_sourcing.py
"""

from __future__ import annotations

from typing import NamedTuple

import ucsearch as uc

REGULAR, HOLDING, WAITING = 100.0, 5.0, 495.0
PRINTED = {105.0: 216.7698, 110.0: 219.7333}  # cost of a period, by the price of the faster supplier


class Stock(NamedTuple):
    level: float  # below 0: units that wait
    open: tuple[float, ...]  # regular orders; the first arrives in this period


def task(fast_price: float) -> uc.Task:
    def feasible(s: Stock, a: tuple[float, float], p: None) -> bool:
        return True

    def step(s: Stock, a: tuple[float, float], y: float, p: None) -> Stock:
        return Stock(s.level + s.open[0] + a[1] - y, s.open[1:] + (a[0],))

    def reward(s: Stock, a: tuple[float, float], y: float, p: None) -> float:
        left = s.level + s.open[0] + a[1] - y
        return -(REGULAR * a[0] + fast_price * a[1] + (HOLDING * left if left > 0.0 else -WAITING * left))

    def nothing(s: Stock, p: None) -> tuple[float, float]:
        return 0.0, 0.0

    pairs = [(float(regular), float(fast)) for regular in range(6) for fast in range(5)]
    return uc.Task(
        name="two suppliers", state=Stock, actions=pairs, feasible=feasible, step=step, reward=reward, fallback=nothing
    )


def cost(fast_price: float) -> float:
    demand = uc.Trace.from_members([[0.0], [1.0], [2.0], [3.0], [4.0]]).declare("independent")
    found = uc.average_cost(task(fast_price), demand, Stock(0.0, (0.0, 0.0)), within={"level": (-2.0, 10.0)})
    return found.cost


if __name__ == "__main__":
    for price, printed in PRINTED.items():
        print(f"faster at {price:g}: {cost(price):.3f} a period; printed {printed}")
