"""The backorder counterparts, where closed forms exist: base-stock, and (s, S) with a fixed order cost.

A period starts with the review of the inventory position (on hand, plus on order, minus backorders); an order
placed then arrives L >= 0 periods later, before that period's demand. Holding and penalty costs are charged
on the stock at the end of each period, h per unit held and p per unit backordered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucsearch.errors import InputError
from ucsearch.replay.classics.demand import Demand
from ucsearch.replay.classics.newsvendor import Newsvendor, newsvendor_discrete
from ucsearch.tasks.checks import finite_array, integer, positive

__all__ = ["ReorderSolution", "backorder_base_stock", "optimise_s_s", "s_s_cost"]


@dataclass(frozen=True)
class ReorderSolution:
    """An (s, S) policy and its long-run average cost."""

    reorder_point: int  # s: order when the position is at most this
    level: int  # S: up to this
    cost: float  # per period


def backorder_base_stock(demand: Demand, lead_time: int, holding_cost: float, penalty_cost: float) -> Newsvendor:
    """Optimal base-stock level with backorders: a newsvendor against the demand of L + 1 periods.

    .. math:: S^* = \\min\\{S : P(D[0, L] \\le S) \\ge p / (p + h)\\}

    at a cost of h E(S* - D[0, L])+ + p E(D[0, L] - S*)+ per period.

    Its cost is an upper bound on the optimal cost with lost sales (Janakiraman, Seshadri and Shanthikumar
    2007, Operations Research 55(5)). Source: Zipkin (2000), "Foundations of Inventory Management", §9.4.

    Parameters
    ----------
    demand, lead_time, holding_cost, penalty_cost :
        [D, L >= 0, h, p]

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = backorder_base_stock(poisson(5.0), 2, 1.0, 4.0)
    >>> best.quantity, round(best.cost, 4)
    (18, 5.588)
    """
    periods = integer(lead_time, "lead_time", at_least=0) + 1
    return newsvendor_discrete(demand.over(periods), holding_cost, penalty_cost)


def s_s_cost(
    reorder_point: int,
    level: int,
    demand: Demand,
    holding_cost: float,
    penalty_cost: float,
    fixed_cost: float,
    lead_time: int = 0,
) -> float:
    """Exact average cost of an (s, S) policy with backorders.

    .. math:: c(s, S) = \\frac{K + \\sum_{j=0}^{S-s-1} m(j) G(S - j)}{\\sum_{j=0}^{S-s-1} m(j)}

    m(j) is the expected number of periods in which the position is S - j between two orders: m(0) = 1/(1 -
    p_0), m(j) = Σ_{i=1..j} p_i m(j - i) / (1 - p_0), with every point of the pmf up to and including the
    last; G(y) is the expected cost of the period in which an order bringing the position to y arrives. Zheng
    and Federgruen (1991), "Finding optimal (s, S) policies is about as simple as evaluating a single policy",
    Operations Research 39(4).

    Parameters
    ----------
    reorder_point, level :
        [s < S], possibly negative.
    fixed_cost :
        Per order, at least 0. [K]

    Example
    -------
    >>> two = Demand.from_pmf([0.0, 0.5, 0.5])
    >>> round(s_s_cost(0, 2, two, 1.0, 9.0, 3.0), 6)
    3.833333
    """
    costs = _PositionCosts(demand, holding_cost, penalty_cost, fixed_cost, lead_time)
    s, big_s = _whole(reorder_point, "reorder_point"), _whole(level, "level")
    if not s < big_s:
        raise InputError("level", big_s, f"a level above the reorder point {s}")
    return costs.average(s, big_s)


def optimise_s_s(
    demand: Demand, holding_cost: float, penalty_cost: float, fixed_cost: float, lead_time: int = 0
) -> ReorderSolution:
    """Optimal (s, S) policy with backorders, by the algorithm of Zheng and Federgruen (1991).

    G is convex with minimum y*. For given S the best s is the first below S with c(s, S) <= G(s); S is raised
    from y* as long as G(S) <= the best cost, which no better S can exceed.

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = optimise_s_s(poisson(10.0), 1.0, 9.0, 64.0)
    >>> best.reorder_point, best.level, round(best.cost, 3)
    (6, 40, 35.022)
    """
    costs = _PositionCosts(demand, holding_cost, penalty_cost, fixed_cost, lead_time)
    base = demand.over(lead_time + 1).quantile(penalty_cost / (penalty_cost + holding_cost))
    best_s, best_level = base - 1, base
    while costs.average(best_s, best_level) > costs.period(best_s):
        best_s -= 1
    best = costs.average(best_s, best_level)
    level = base + 1
    while costs.period(level) <= best:
        if costs.average(best_s, level) < best:
            best_level = level
            while costs.average(best_s, level) <= costs.period(best_s + 1) and best_s + 1 < level:
                best_s += 1
            best = costs.average(best_s, best_level)
        level += 1
    return ReorderSolution(best_s, best_level, best)


class _PositionCosts:
    """G(y) and the renewal numbers m(j), extended as far as they are asked for."""

    def __init__(
        self, demand: Demand, holding_cost: float, penalty_cost: float, fixed_cost: float, lead_time: int
    ) -> None:
        self.h = positive(holding_cost, "holding_cost")
        self.p = positive(penalty_cost, "penalty_cost")
        self.k = float(finite_array(fixed_cost, "fixed_cost"))
        if not self.k >= 0.0:
            raise InputError("fixed_cost", fixed_cost, "a number of at least 0")
        if not demand.pmf[0] < 1.0:
            raise InputError("demand.pmf", demand.pmf[0], "demand that is not always 0", index=0)
        self.pmf = demand.pmf
        self.ahead = demand.over(integer(lead_time, "lead_time", at_least=0) + 1)
        self.m = [1.0 / (1.0 - float(demand.pmf[0]))]

    def period(self, y: int) -> float:
        """G(y) = h E[(y - D[0, L])+] + p E[(D[0, L] - y)+]."""
        if y < 0:
            return self.p * (self.ahead.mean - y)
        return float(self.h * self.ahead.expected_leftover(y)[y] + self.p * self.ahead.expected_shortage(y)[y])

    def average(self, s: int, big_s: int) -> float:
        """c(s, S)."""
        count = big_s - s
        while len(self.m) < count:
            j = len(self.m)
            top = min(j, self.pmf.size - 1)  # the last point of the pmf included
            mass = sum(float(self.pmf[i]) * self.m[j - i] for i in range(1, top + 1))
            self.m.append(mass / (1.0 - float(self.pmf[0])))
        visits = np.array(self.m[:count])
        stage = np.array([self.period(big_s - j) for j in range(count)])
        return float((self.k + np.sum(visits * stage)) / np.sum(visits))


def _whole(value: int, field: str) -> int:
    number = finite_array(value, field)
    if number.ndim != 0 or not float(number) == np.floor(float(number)):
        raise InputError(field, value, "a whole number")
    return int(number)
