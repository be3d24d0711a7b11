"""The newsvendor: one period, one order, over- and underage costs.

Sources: Arrow, Harris and Marschak (1951), "Optimal inventory policy", Econometrica 19(3); Zipkin (2000),
"Foundations of Inventory Management", chapter 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ucsearch.replay.classics.demand import Demand
from ucsearch.tasks.checks import finite_array, integer, positive

__all__ = [
    "Newsvendor",
    "critical_ratio",
    "newsvendor_discrete",
    "newsvendor_discrete_cost",
    "newsvendor_normal",
    "newsvendor_normal_cost",
]


@dataclass(frozen=True)
class Newsvendor:
    """An optimal order and what it costs."""

    quantity: float  # units; whole for discrete demand
    cost: float  # expected cost of the period
    critical_ratio: float  # p / (p + h)


def critical_ratio(holding_cost: float, penalty_cost: float) -> float:
    """Critical ratio: the probability of no stock-out at the optimum.

    .. math:: p / (p + h)

    Parameters
    ----------
    holding_cost :
        Cost per unit left over. [h]
    penalty_cost :
        Cost per unit of demand not met. [p]

    Raises
    ------
    InputError
        Unless both are finite and above 0.

    Example
    -------
    >>> critical_ratio(1.0, 4.0)
    0.8
    """
    h = positive(holding_cost, "holding_cost")
    p = positive(penalty_cost, "penalty_cost")
    return p / (p + h)


def newsvendor_discrete_cost(demand: Demand, holding_cost: float, penalty_cost: float, quantity: int) -> float:
    """Expected cost of ordering `quantity` against discrete demand.

    .. math:: g(y) = h E[(y - D)^+] + p E[(D - y)^+]

    Example
    -------
    >>> fair = Demand.from_pmf([0.5, 0.5])
    >>> newsvendor_discrete_cost(fair, 1.0, 4.0, 0), newsvendor_discrete_cost(fair, 1.0, 4.0, 1)
    (2.0, 0.5)
    """
    h = positive(holding_cost, "holding_cost")
    p = positive(penalty_cost, "penalty_cost")
    y = integer(quantity, "quantity", at_least=0)
    return float(h * demand.expected_leftover(y)[y] + p * demand.expected_shortage(y)[y])


def newsvendor_discrete(demand: Demand, holding_cost: float, penalty_cost: float) -> Newsvendor:
    """Smallest optimal order against discrete demand.

    .. math:: y^* = \\min\\{y : P(D \\le y) \\ge p / (p + h)\\}

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = newsvendor_discrete(poisson(5.0), 1.0, 4.0)
    >>> best.quantity, round(best.cost, 4)
    (7, 3.2774)
    """
    ratio = critical_ratio(holding_cost, penalty_cost)
    quantity = demand.quantile(ratio)
    return Newsvendor(quantity, newsvendor_discrete_cost(demand, holding_cost, penalty_cost, quantity), ratio)


def newsvendor_normal_cost(
    mean: float, standard_deviation: float, holding_cost: float, penalty_cost: float, quantity: float
) -> float:
    """Expected cost of ordering `quantity` against normal demand.

    .. math:: g(y) = h (y - \\mu) + (h + p) \\sigma (\\phi(z) - z (1 - \\Phi(z))), \\; z = (y - \\mu)/\\sigma

    Example
    -------
    >>> round(newsvendor_normal_cost(50.0, 8.0, 0.18, 0.70, 56.6), 4)
    1.9976
    """
    mu = float(finite_array(mean, "mean"))
    sigma = positive(standard_deviation, "standard_deviation")
    h = positive(holding_cost, "holding_cost")
    p = positive(penalty_cost, "penalty_cost")
    y = float(finite_array(quantity, "quantity"))
    z = (y - mu) / sigma
    unit = NormalDist()
    loss = unit.pdf(z) - z * unit.cdf(-z)
    return h * (y - mu) + (h + p) * sigma * loss


def newsvendor_normal(mean: float, standard_deviation: float, holding_cost: float, penalty_cost: float) -> Newsvendor:
    """Optimal order against normal demand.

    .. math:: y^* = \\mu + \\sigma z, \\quad g(y^*) = (h + p) \\sigma \\phi(z), \\quad z = \\Phi^{-1}(p/(p+h))

    Example
    -------
    >>> best = newsvendor_normal(50.0, 8.0, 0.18, 0.70)
    >>> round(best.quantity, 4), round(best.cost, 4)
    (56.604, 1.9976)
    """
    ratio = critical_ratio(holding_cost, penalty_cost)
    mu = float(finite_array(mean, "mean"))
    sigma = positive(standard_deviation, "standard_deviation")
    z = NormalDist().inv_cdf(ratio)
    cost = (holding_cost + penalty_cost) * sigma * NormalDist().pdf(z)
    return Newsvendor(float(np.float64(mu + sigma * z)), cost, ratio)
