"""Inventory with a fixed cost and a short lead time as one Markov chain: best orders, planners' orders, their costs.

A period: what was ordered L periods ago arrives, an order is placed, demand comes, the rest is held or missing. The
state is (stock after arrival, orders that arrive in 1..L-1 periods); unmet demand is lost, or stock goes below zero.
Everything is whole units on a box; the box is wide enough that the best policy stays inside (`Chain.at_edge` tells).
Costs per period are between bounds (Odoni): no simulation, no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError

__all__ = ["Chain", "Cost"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_SWEEPS = 20_000


class Cost(NamedTuple):
    """Long-run cost per period between proved bounds."""

    lower: float
    upper: float

    @property
    def value(self) -> float:
        return 0.5 * (self.lower + self.upper)


@dataclass(frozen=True, eq=False)
class Chain:
    """One system. States (N, max(L, 1)): stock from `low` up, then open orders."""

    pmf: Floats  # (D,) demand of a period
    lead: int  # L, 0 to 2
    holding: float  # per unit and period
    penalty: float  # per unit short and period
    fixed: float  # per order
    high: int  # largest stock
    orders: int  # largest order
    low: int = 0  # below 0: unmet demand waits

    def __post_init__(self) -> None:
        if self.lead not in (0, 1, 2):
            raise InputError("lead", self.lead, "0, 1 or 2")
        if not (self.low <= 0 < self.high and self.orders >= 1):
            raise InputError("low, high, orders", (self.low, self.high, self.orders), "a box around 0")

    # ---------------------------------------------------------------- the box

    @property
    def shape(self) -> tuple[int, ...]:
        stock = self.high - self.low + 1
        return (stock,) if self.lead < 2 else (stock, self.orders + 1)

    @cached_property
    def states(self) -> Ints:
        grid = np.indices(self.shape).reshape(len(self.shape), -1).T
        return np.asarray(grid + np.array([self.low, 0])[: len(self.shape)])

    @cached_property
    def position(self) -> Ints:
        return np.asarray(self.states.sum(axis=1))

    def _after(self, stock: Ints, pmf: Floats) -> tuple[Floats, Ints]:
        """Expected cost (S,) of a period that begins with this stock, and the stock (S, D) it ends with."""
        remaining = stock[:, None] - np.arange(len(pmf))
        cost = self.holding * np.maximum(remaining, 0) + self.penalty * np.maximum(-remaining, 0)
        return cost @ pmf, np.maximum(remaining, self.low)

    def values(self, later: Floats, pmf: Floats) -> Floats:
        """(N, orders + 1) cost of every order now and `later` (N,) afterwards; inf where there is no room for it."""
        stock = np.arange(self.low, self.high + 1)
        z = np.arange(self.orders + 1)
        paid = np.where(z > 0, self.fixed, 0.0)
        if self.lead == 0:
            now, left = self._after(stock, pmf)
            reached = now + later[left - self.low] @ pmf  # by stock after the order
            after = np.arange(len(stock))[:, None] + z
            return np.where(after < len(stock), reached[np.minimum(after, len(stock) - 1)], np.inf) + paid
        now, left = self._after(stock, pmf)
        share = np.zeros((len(stock), len(stock)))  # of the stock after the period, by the stock before it
        np.add.at(share, (np.arange(len(stock))[:, None], left - self.low), pmf)
        places = np.minimum(
            np.arange(len(stock))[:, None] + z, len(stock) - 1
        )  # stock and what arrives, within the box
        fits = np.arange(len(stock))[:, None] + z < len(stock)
        if self.lead == 1:
            return np.where(fits, now[:, None] + share @ later[places], np.inf) + paid
        table = later.reshape(self.shape)  # next (stock, order due)
        mean = np.stack([share @ table[places[:, due]] for due in z], axis=1)  # (S, due, Z)
        costs = now[:, None, None] + mean + paid
        costs[~fits] = np.inf  # no room for what is due, whatever is ordered
        # An order must have room too: nothing may be ordered beyond the box's position.
        room = stock[:, None, None] + z[None, :, None] + z[None, None, :] <= self.high
        return np.where(room | (z == 0), costs, np.inf).reshape(len(self.states), -1)

    # ---------------------------------------------------------------- orders

    def plan(self, pmfs: Sequence[Floats]) -> Ints:
        """First orders (N,) of the best policy over so many periods, the demand of each having its own law; the
        smallest among equals."""
        later = np.zeros(len(self.states))
        for pmf in reversed(pmfs[1:]):
            later = _finite(self.values(later, pmf).min(axis=1))
        return _smallest(self.values(later, pmfs[0]))

    def solve(self, tolerance: float = 1e-7) -> tuple[Ints, Cost]:
        """The best stationary orders and their cost."""
        value = np.zeros(len(self.states))
        reach = self._reachable
        for _ in range(_SWEEPS):
            table = self.values(value, self.pmf)
            best = _finite(table.min(axis=1))
            step = (best - value)[reach]
            # Half steps: a chain that alternates would not settle.
            value = 0.5 * (value + best - best[reach][0])
            if step.max() - step.min() < tolerance:
                return _smallest(table), Cost(float(step.min()), float(step.max()))
        raise UCSearchError(f"value iteration did not settle in {_SWEEPS} sweeps")

    @cached_property
    def _reachable(self) -> NDArray[np.bool_]:
        """States with room for what is due; from them every order that has room leads to such states."""
        return np.asarray(self.position <= self.high)

    def cost(self, orders: Ints, tolerance: float = 1e-7) -> Cost:
        """Of a policy (N,), over the states it visits from an empty store on."""
        nexts = self._nexts(orders)  # (N, D)
        seen = np.zeros(len(self.states), bool)
        frontier = [int(np.flatnonzero((self.states == 0).all(axis=1))[0])]
        while frontier:
            seen[frontier] = True
            frontier = [int(i) for i in np.unique(nexts[frontier]) if not seen[i]]
        keep = np.flatnonzero(seen)
        place = np.full(len(self.states), -1)
        place[keep] = np.arange(len(keep))
        to, z = place[nexts[keep]], orders[keep]
        stock = self.states[keep, 0] + (z if self.lead == 0 else 0)
        now = self._after(stock, self.pmf)[0] + np.where(z > 0, self.fixed, 0.0)
        value = np.zeros(len(keep))
        for _ in range(_SWEEPS):
            best = now + value[to] @ self.pmf
            step = best - value
            value = 0.5 * (value + best - best[0])
            if step.max() - step.min() < tolerance:
                return Cost(float(step.min()), float(step.max()))
        raise UCSearchError(f"the policy's cost did not settle in {_SWEEPS} sweeps")

    def _nexts(self, orders: Ints) -> Ints:
        demand = np.arange(len(self.pmf))
        stock = self.states[:, 0] + (orders if self.lead == 0 else 0)
        left = np.maximum(stock[:, None] - demand, self.low) - self.low
        if self.lead == 0:
            return np.asarray(left)
        if self.lead == 1:
            return np.asarray(np.minimum(left + orders[:, None], self.shape[0] - 1))
        arrived = np.minimum(left + self.states[:, 1:2], self.shape[0] - 1)
        return np.asarray(arrived * self.shape[1] + orders[:, None])

    # ---------------------------------------------------------------- rules

    def reorder(self, s: int, up_to: int) -> Ints:
        """(s, S): at or below s order up to S, as far as orders go."""
        wish = np.where(self.position <= s, up_to - self.position, 0)
        return np.asarray(np.clip(wish, 0, self.orders))

    def best_reorder(self, around: tuple[int, int], reach: int) -> tuple[tuple[int, int], Cost]:
        """The cheapest (s, S) by a walk to better neighbours, from `around`, steps up to `reach` first."""
        best, found = around, self.cost(self.reorder(*around))
        step = reach
        while step >= 1:
            tried = [(best[0] + a, best[1] + b) for a in (-step, 0, step) for b in (-step, 0, step) if (a, b) != (0, 0)]
            costs = {p: self.cost(self.reorder(*p)) for p in tried if self.low <= p[0] < p[1] <= self.high}
            better = min(costs, key=lambda p: (costs[p].value, p), default=best)
            if better in costs and costs[better].value < found.value - 1e-9:
                best, found = better, costs[better]
            else:
                step //= 2
        return best, found

    def at_edge(self, orders: Ints) -> bool:
        """Whether a policy orders as much as the box allows in a state that it visits: then the box was too small."""
        usual = self.position >= 0
        return bool((orders[usual] >= self.orders).any())


def _finite(values: Floats) -> Floats:
    """States without room cost very much instead of infinitely, so that sums stay numbers."""
    return np.where(np.isfinite(values), values, 1e12)


def _smallest(table: Floats) -> Ints:
    """The smallest order within rounding of the best."""
    best = table.min(axis=1)
    best = np.where(np.isfinite(best), best, 0.0)
    return np.asarray(np.argmax(table <= (best + 1e-9 * (1.0 + np.abs(best)))[:, None], axis=1))
