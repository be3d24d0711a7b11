"""Best parameters of the classic lost-sales policies, by exact evaluation.

Candidates outside a box are ruled out by two inequalities that hold for any policy whose position never
exceeds S. With θ the units sold per period, the mean position after ordering is E[x_0] + L θ (each unit is on
order for L periods) and θ <= E[x_0], so (L + 1) θ <= S; lost sales alone then cost p (μ - θ). Hence, C being
a cost already reached,

    S >= (L + 1) (μ - C/p)                                    (too little stock)

and, where the position after ordering is never below y, the stock left costs
h (E[x_0] - θ) >= h (y - (L + 1) μ), so

    y <= (L + 1) μ + C/h                                      (too much stock).

Candidates inside the box are all evaluated; one is abandoned as soon as its proved lower bound exceeds the
best cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ucsearch.errors import InputError
from ucsearch.replay.classics.lost_sales import AverageCost, LostSales, OrderPolicy, average_cost
from ucsearch.replay.classics.policies import BaseStock, CappedBaseStock, ConstantOrder, ReorderPoint
from ucsearch.tasks.checks import integer

__all__ = [
    "Best",
    "constant_order_cost",
    "optimise_base_stock",
    "optimise_capped_base_stock",
    "optimise_constant_order",
    "optimise_reorder_point",
]

P = TypeVar("P")
Q = TypeVar("Q", bound=OrderPolicy)

_MAX_STOCK = 4_000  # points of the constant-order chain, whose matrix then takes 128 MB


@dataclass(frozen=True)
class Best(Generic[P]):
    """The best policy of a family and its exact cost."""

    policy: P  # with the parameters found
    cost: AverageCost  # per period, in the long run
    evaluated: int  # candidates looked at


def optimise_base_stock(model: LostSales, *, tolerance: float = 1e-9) -> Best[BaseStock]:
    """Best base-stock level [S]: all levels that the inequalities above leave.

    The position after ordering is S in every period, so both inequalities apply. (The cost is also convex in
    S: Janakiraman and Roundy 2004, Operations Research 52(5); it is not relied upon.)

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = optimise_base_stock(LostSales(poisson(5.0), lead_time=2, holding_cost=1.0, penalty_cost=4.0))
    >>> best.policy.level, round(best.cost.value, 4)
    (16, 4.6386)
    """
    start = BaseStock(model.morton_levels[0])
    best = Best(start, average_cost(model, start, tolerance=tolerance), 1)
    low, high = _position_box(model, best.cost)
    nearest = sorted(range(low, high + 1), key=lambda level: (abs(level - start.level), level))
    return _scan(model, best, (BaseStock(level) for level in nearest if level != start.level), tolerance)


def optimise_capped_base_stock(
    model: LostSales, plain: Best[BaseStock] | None = None, *, tolerance: float = 1e-9
) -> Best[CappedBaseStock]:
    """Best level and cap [S, r].

    Caps run from the smallest that can win, r >= μ - C/p (no more than r is sold per period), to Morton's
    s_L, which no optimal order exceeds; the best base-stock policy stands for larger ones. Levels run over
    the box above; as a small cap may want a higher level, the box is doubled while the best level is its
    upper end. `plain` is the best base-stock policy, if it is known already.

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = optimise_capped_base_stock(LostSales(poisson(5.0), 2, holding_cost=1.0, penalty_cost=4.0))
    >>> best.policy.level, best.policy.cap, round(best.cost.value, 4)
    (17, 5, 4.4057)
    """
    plain = optimise_base_stock(model, tolerance=tolerance) if plain is None else plain
    level = plain.policy.level
    best = Best(CappedBaseStock(level, level), plain.cost, plain.evaluated)
    # A good first candidate makes the rest cheap to rule out.
    guess = math.ceil(model.demand.mean)
    best = _scan(model, best, (CappedBaseStock(level, cap) for cap in range(guess, guess + 3)), tolerance)
    low, high = _position_box(model, best.cost)
    done = 0
    while True:
        least = math.ceil(model.demand.mean - best.cost.upper / model.penalty_cost - 1e-9)
        caps = range(max(least, 0), model.morton_levels[-1] + 1)
        box = sorted(
            ((s, r) for s in range(max(low, done + 1), high + 1) for r in caps if r <= s),
            key=lambda pair: (abs(pair[0] - level) + abs(pair[1] - guess), pair),
        )
        best = _scan(model, best, (CappedBaseStock(s, r) for s, r in box), tolerance)
        if best.policy.level < high:
            return best
        done, high = high, 2 * high


def optimise_reorder_point(
    model: LostSales, plain: Best[BaseStock] | None = None, *, tolerance: float = 1e-9
) -> Best[ReorderPoint]:
    """Best (s, S) policy: all 0 <= s < S with S in the box above.

    `plain` is the best base-stock policy (s = S - 1), if it is known already.

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = optimise_reorder_point(LostSales(poisson(5.0), 1, holding_cost=1.0, penalty_cost=4.0))
    >>> best.policy.reorder_point, best.policy.level, round(best.cost.value, 4)
    (11, 12, 4.1628)
    """
    plain = optimise_base_stock(model, tolerance=tolerance) if plain is None else plain
    level = plain.policy.level
    best = Best(ReorderPoint(level - 1, level), plain.cost, plain.evaluated)
    low, high = _position_box(model, best.cost)
    pairs = ((s, S) for S in range(max(low, 1), high + 1) for s in range(S - 1))
    box = sorted(pairs, key=lambda pair: (abs(pair[1] - level) + pair[1] - pair[0], pair))
    return _scan(model, best, (ReorderPoint(s, S) for s, S in box), tolerance)


def constant_order_cost(model: LostSales, quantity: int) -> AverageCost:
    """Average cost of ordering `quantity` [r] every period, r < μ, between bounds.

    Stock left at the end of a period is a reflected random walk, I' = (I + r - D)+, and U = (D - I - r)+ is
    lost. Taking means, E[U] = μ - r; taking squares, with I' U = 0,

    .. math:: E[I] = \\frac{\\sigma^2 + (\\mu - r)^2 - E[U^2]}{2 (\\mu - r)}, \\quad g = h E[I] + p (\\mu - r)

    E[U²] depends on small I only. The walk capped at N lies below the walk itself and above the walk watched
    while it is at most N, which bounds E[U²] to within the factor P(I <= N) >= 1 - exp(-θ N), where θ > 0
    solves E[exp(θ (r - D))] = 1.

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> round(constant_order_cost(LostSales(poisson(5.0), 4, holding_cost=1.0, penalty_cost=4.0), 4).value, 4)
    5.2748
    """
    from ucsearch.replay.classics import kernels

    r = integer(quantity, "quantity", at_least=0)
    demand, gap = model.demand, model.demand.mean - r
    if not gap > 0.0:
        raise InputError("quantity", r, f"an order below mean demand {demand.mean}", hint="Stock would grow for ever.")
    lost = model.penalty_cost * gap
    if float(demand.cdf[r - 1] if r > 0 else 0.0) <= 0.0:
        return AverageCost(lost, lost, 0, 1)  # demand is never below r: nothing is ever left
    decay = _decay(model, r)
    points = math.ceil(36.0 / decay) + r + 1  # exp(-36) = 2e-16
    if points > _MAX_STOCK:
        raise InputError(
            "quantity",
            r,
            f"an order further below mean demand {demand.mean}: {points} stock levels are too many",
        )
    stationary = kernels.capped_walk(demand.pmf, demand.survival, r, points)
    # E[(D - y)+ ²] = 2 Σ_{i >= y} E[(D - i)+] - E[(D - y)+], y = I + r, from exact first moments.
    short = demand.expected_shortage(max(demand.cut, points + r))
    tails = np.cumsum(short[::-1])[::-1]
    y = np.arange(points + 1) + r
    squares = float(np.sum(stationary * (2.0 * tails[y] - short[y])))
    missing = math.exp(-decay * points)
    moment = demand.variance + gap * gap
    lower = model.holding_cost * max(0.0, moment - squares) / (2.0 * gap) + lost
    upper = model.holding_cost * max(0.0, moment - squares * (1.0 - missing)) / (2.0 * gap) + lost
    return AverageCost(lower, upper, 0, points + 1)


def optimise_constant_order(model: LostSales) -> Best[ConstantOrder]:
    """Best constant order [r]: all whole r below mean demand.

    Orders so close to mean demand that stock alone costs too much are skipped by E[I] >= E[(r - D)+ ²] / (2
    (μ - r)).

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = optimise_constant_order(LostSales(poisson(5.0), 4, holding_cost=1.0, penalty_cost=39.0))
    >>> best.policy.quantity, round(best.cost.value, 2)
    (4, 40.27)
    """
    best = Best(ConstantOrder(0), constant_order_cost(model, 0), 1)
    points = np.arange(model.demand.pmf.size)
    for r in range(1, math.ceil(model.demand.mean)):
        gap = model.demand.mean - r
        left = float(np.sum(model.demand.pmf * np.maximum(r - points, 0) ** 2)) / (2.0 * gap)
        if model.holding_cost * left + model.penalty_cost * gap > best.cost.upper:
            continue
        cost = constant_order_cost(model, r)
        best = Best(ConstantOrder(r), cost, best.evaluated + 1) if cost.value < best.cost.value else best
    return best


def _position_box(model: LostSales, cost: AverageCost) -> tuple[int, int]:
    """Levels that the two inequalities of the module leave, given a cost already reached."""
    periods = model.lead_time + 1
    low = math.ceil(periods * (model.demand.mean - cost.upper / model.penalty_cost) - 1e-9)
    high = math.floor(periods * model.demand.mean + cost.upper / model.holding_cost + 1e-9)
    return max(low, 0), high


def _scan(model: LostSales, best: Best[Q], candidates: Iterable[Q], tolerance: float) -> Best[Q]:
    """Evaluate the candidates in turn; equal costs keep the earlier one."""
    policy, cost, evaluated = best.policy, best.cost, best.evaluated
    for candidate in candidates:
        found = average_cost(model, candidate, tolerance=tolerance, abandon_above=cost.upper)
        evaluated += 1
        if found.upper < cost.lower:
            policy, cost = candidate, found
    return Best(policy, cost, evaluated)


def _decay(model: LostSales, r: int) -> float:
    """The θ > 0 with E[exp(θ (r - D))] = 1, from below, so that exp(-θ n) still bounds the tail."""
    steps = r - np.arange(model.demand.pmf.size, dtype=np.float64)

    def log_moment(theta: float) -> float:
        powers = theta * steps
        top = float(powers.max())
        return top + math.log(float(np.sum(model.demand.pmf * np.exp(powers - top))))

    high = 1.0
    while log_moment(high) < 0.0:
        high *= 2.0
    low = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_moment(middle) < 0.0 else (low, middle)
    return low
