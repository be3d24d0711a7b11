"""Seats of one flight in four fares: how many to keep from the cheaper fares, found by one `uc.solve`.

The flight is that of Talluri and van Ryzin (2004, The Theory and Practice of Revenue Management, page 44) in a
quarter of its size. The cheapest fare books first; before each fare books, a number of seats is offered to it. It is
known that the best policy keeps a number of seats for the dearest fare, a number for the dearest two, and so on, and
that the first of them is given by Littlewood's rule (1972): the largest y with f_1 P(D_1 >= y) > f_2. The second road
takes that rule and tries all numbers for the others.

    python examples/booking_limits.py
"""

from __future__ import annotations

import math
from typing import NamedTuple

import ucsearch as uc

FARES = (1050.0, 567.0, 534.0, 520.0)  # the dearest first; they book in the other order
MEANS = (4.325, 11.275, 9.9, 8.5)  # of Poisson demand
SEATS = 34
BOOKS = tuple(reversed(FARES))


class Flight(NamedTuple):
    seats: float  # not sold yet


def poisson(mean: float) -> list[float]:
    """Up to the number of seats; more demand than that sells as much."""
    shares = [math.exp(-mean) * mean**d / math.factorial(d) for d in range(SEATS)]
    return [*shares, max(0.0, 1.0 - sum(shares))]


def demand_law() -> uc.Trace:
    pmfs = [(range(SEATS + 1), poisson(mean)) for mean in reversed(MEANS)]
    return uc.Trace.from_distribution(pmf=pmfs).declare("independent")


def feasible(s: Flight, a: float, p: None) -> bool:
    return a <= s.seats


def step(s: Flight, a: float, y: float, p: None) -> Flight:
    return Flight(s.seats - min(a, y))


def reward(s: Flight, a: float, y: float, h: int, p: None) -> float:
    return BOOKS[h] * min(a, y)


def nothing(s: Flight, p: None) -> float:
    return 0.0


TASK = uc.Task(
    name="booking limits", state=Flight, actions=range(SEATS + 1), feasible=feasible, step=step, reward=reward,
    fallback=nothing, called="seats",
)  # fmt: skip


def searched() -> tuple[list[int], float]:
    """Seats kept for the dearest one, two and three fares, and the revenue expected of the flight."""
    policy = uc.solve(TASK, demand_law(), states=Flight(float(SEATS)))
    full = Flight(float(SEATS))
    kept = [SEATS - int(policy.action(full, h) or 0) for h in (2, 1, 0)]  # the cheapest fare books at step 0
    return kept, policy.value(full)


def tried() -> tuple[list[int], float]:
    """The same by Littlewood's rule, and by trying all numbers of seats to keep for two and for three fares."""
    dearest = poisson(MEANS[0])
    first = max(y for y in range(SEATS + 1) if FARES[0] * sum(dearest[y:]) > FARES[1])
    pmfs = [poisson(mean) for mean in reversed(MEANS)]

    def sold(left: list[float], h: int, kept: int) -> tuple[list[float], float]:
        """Chances of seats left after fare h has booked down to `kept` seats, and its revenue."""
        after, revenue = [0.0] * len(left), 0.0
        for seats, chance in enumerate(left):
            open_seats = max(seats - kept, 0)
            for d, share in enumerate(pmfs[h]):
                after[seats - min(d, open_seats)] += chance * share
                revenue += chance * share * BOOKS[h] * min(d, open_seats)
        return after, revenue

    best, kept = -1.0, [0, 0, 0]
    start = [0.0] * SEATS + [1.0]
    for third in range(first, SEATS + 1):
        one, cheapest = sold(start, 0, third)
        for second in range(first, third + 1):
            two, more = sold(one, 1, second)
            three, much = sold(two, 2, first)
            revenue = cheapest + more + much + sold(three, 3, 0)[1]
            if revenue > best:
                best, kept = revenue, [first, second, third]
    return kept, best


if __name__ == "__main__":
    for name, (kept, revenue) in (("uc.solve", searched()), ("Littlewood, and trying", tried())):
        print(f"{name}: keep {kept} seats, expected revenue {revenue:,.2f}")
