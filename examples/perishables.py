"""Perishable stock: the orders that De Moor, Gijsbrechts and Boute (2022, European Journal of Operational Research 301,
figure 3) print for every stock on hand, found by one `uc.solve`.

Units live for two periods and arrive one period after they were ordered. A period: demand takes units, the oldest
first (FIFO) or the newest first (LIFO); what has reached its age is discarded; the order arrives. Demand is a gamma
distribution with mean 4 and coefficient of variation 0.5, rounded to whole units. Costs a unit: order 3, shortage 5,
waste 7, holding 1; discount 0.99 a period.

    python examples/perishables.py
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, NamedTuple

import ucsearch as uc

ORDER, SHORTAGE, WASTE, HOLDING, DISCOUNT = 3.0, 5.0, 7.0, 1.0, 0.99
MOST = 18  # units of demand; more than that comes in one of 80,000 periods
STEPS = 8  # orders do not change with more
# Figure 3: rows from 8 units with two periods to live down to 0, columns from 0 units with one period to 8.
PRINTED = {
    "lifo": "000000000 000000000 000000000 000000000 111111111 222222222 333333333 333333333 333333333",
    "fifo": "100000000 110000000 211000000 221100000 322111100 332211111 433322222 443333333 444444444",
}


class Shelf(NamedTuple):
    new: float  # units with two periods to live
    old: float  # units with one


def demand_law() -> uc.Trace:
    """Gamma with shape 4 and mean 4, mass rounded to the nearest whole number."""

    def below(x: float) -> float:  # an Erlang distribution
        return 1.0 - math.exp(-x) * sum(x**k / math.factorial(k) for k in range(4))

    edges = [0.0, *(d + 0.5 for d in range(MOST)), math.inf]
    shares = [(1.0 if b == math.inf else below(b)) - below(a) for a, b in itertools.pairwise(edges)]
    return uc.Trace.from_distribution(pmf=(range(MOST + 1), shares), horizon=STEPS).declare("independent")


def task(issue: Literal["fifo", "lifo"]) -> uc.Task:
    def feasible(s: Shelf, a: float, p: None) -> bool:
        return True

    def fifo(s: Shelf, a: float, y: float, p: None) -> Shelf:
        return Shelf(a, max(s.new - max(y - s.old, 0.0), 0.0))

    def lifo(s: Shelf, a: float, y: float, p: None) -> Shelf:
        return Shelf(a, max(s.new - y, 0.0))

    def fifo_reward(s: Shelf, a: float, y: float, p: None) -> float:
        kept = max(s.new - max(y - s.old, 0.0), 0.0)
        short = max(y - s.new - s.old, 0.0)
        return -(ORDER * a + SHORTAGE * short + WASTE * max(s.old - y, 0.0) + HOLDING * kept)

    def lifo_reward(s: Shelf, a: float, y: float, p: None) -> float:
        short = max(y - s.new - s.old, 0.0)
        wasted = max(s.old - max(y - s.new, 0.0), 0.0)
        return -(ORDER * a + SHORTAGE * short + WASTE * wasted + HOLDING * max(s.new - y, 0.0))

    def none(s: Shelf, p: None) -> float:
        return 0.0

    return uc.Task(
        name=f"perishable {issue}", state=Shelf, actions=range(11), feasible=feasible, fallback=none,
        step=fifo if issue == "fifo" else lifo, reward=fifo_reward if issue == "fifo" else lifo_reward,
    )  # fmt: skip


def orders(issue: Literal["fifo", "lifo"]) -> list[list[int]]:
    """By units with two periods to live (0 to 8), then by units with one."""
    stock = [[Shelf(float(new), float(old)) for old in range(9)] for new in range(9)]
    policy = uc.solve(task(issue), demand_law(), states=[s for row in stock for s in row], discount=DISCOUNT)
    return [[int(policy.action(s) or 0) for s in row] for row in stock]


if __name__ == "__main__":
    equal = 0
    for issue, figure in PRINTED.items():
        ours = orders(issue)[::-1]  # type: ignore[arg-type]
        printed = [[int(digit) for digit in row] for row in figure.split()]
        print(f"{issue.upper()}: order by units of two periods to live (rows 8 to 0) and of one (columns 0 to 8)")
        for row, other in zip(ours, printed, strict=True):
            equal += sum(a == b for a, b in zip(row, other, strict=True))
            print(f"  {' '.join(map(str, row))}   printed {' '.join(map(str, other))}")
    print(f"{equal} of 162 orders are those printed")
