"""The lost-sales planner with exact demand weights, and the chain of a policy given as a table of orders.

The planner's objective with the true distribution in place of members: the expected cost of `periods` periods when
the first order is free and a capped base-stock policy gives the others, the best of its parameters being taken for
each first order. A feedback continuation makes the expectation a dynamic programme over the state, so no path need
be listed. First orders go up to Morton's bound, which no optimal order exceeds (`ucsearch.replay.classics.lost_sales`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError
from ucsearch.replay.classics.lost_sales import LostSales, StateSpace
from ucsearch.replay.classics.policies import VectorBaseStock

__all__ = ["Tabulated", "chain_space", "exact_orders", "most_orders", "pairs_of", "smallest_best", "stationary"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SWEEPS = 100_000
_SETTLED = 1e-13  # sum of absolute changes at which a distribution counts as stationary


@dataclass(frozen=True, eq=False)
class Tabulated:
    """A stationary policy as a table over the states of a space; orders nothing outside it."""

    space: StateSpace
    table: Ints  # (N,) units ordered in each state

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """Those of the space."""
        return self.space.levels_for(lead_time)

    def orders(self, states: Ints) -> Ints:
        """Look the order up."""
        return self.space.look_up(self.table, states)


def chain_space(model: LostSales) -> StateSpace:
    """The states that no policy with orders up to Morton's bound leaves."""
    return StateSpace.build(model.lead_time, model.morton_levels)


def most_orders(model: LostSales, states: Ints) -> Ints:
    """Morton's bound on the order in each state."""
    return VectorBaseStock(model.morton_levels).orders(states)


def pairs_of(model: LostSales, level_offsets: Sequence[int], cap_offsets: Sequence[int]) -> list[tuple[int, int]]:
    """(level, cap) of the continuations: offsets from the fractile s_0 of the demand of L + 1 periods, and from mean
    demand rounded up."""
    top, mean = model.morton_levels[0], int(np.ceil(model.demand.mean))
    return [(top + a, mean + b) for a in level_offsets for b in cap_offsets]


def smallest_best(costs: Floats) -> Ints:
    """(N, m) costs, infinite where there is no order: the smallest of the best orders, up to rounding."""
    least = costs.min(axis=1, keepdims=True)
    if not np.isfinite(least).all():
        raise InputError("costs", "a state without a finite cost", "one in every row")
    best: Ints = np.argmax(costs <= least + 1e-9 * (1.0 + np.abs(least)), axis=1)
    return best


def exact_orders(model: LostSales, pairs: Sequence[tuple[int, int]], periods: int) -> tuple[Tabulated, Floats]:
    """The planner's order in every state of `chain_space`, and (N, m) the least cost of `periods` periods after each
    first order, infinite beyond Morton's bound."""
    from ucsearch.lab.suites.kinds.lost_sales import kernels

    if not pairs or periods < 1:
        raise InputError("continuations", f"{len(pairs)} over {periods} periods", "at least one of each")
    top, largest = model.morton_levels[0], model.morton_levels[-1]
    if not all(0 <= level <= top and cap >= 0 for level, cap in pairs):
        raise InputError("continuations", list(pairs), f"levels from 0 to {top} and caps of at least 0")
    lead = model.lead_time
    chain = chain_space(model)
    # A capped base-stock policy keeps the position below its level, but may break Morton's levels of the pipeline.
    wide = StateSpace.build(lead, (top, *(min(top, n * largest) for n in range(lead, 0, -1))))
    where, most = wide.index(chain.states), most_orders(model, chain.states)
    period = model.period(top)
    count = wide.states.shape[0]
    values, scratch, base = np.empty(count), np.empty(count), np.empty(count, np.int64)
    best = np.full((where.size, wide.radix), np.inf)
    shape = (lead, wide.radix, wide.offsets, wide.states)
    for level, cap in pairs:
        kernels.continued(*shape, period, level, cap, periods - 1, values, scratch, base)
        kernels.first_orders(*shape, where, most, period, values, best)
    return Tabulated(chain, smallest_best(best)), best


def stationary(model: LostSales, policy: Tabulated) -> Floats:
    """(N,) share of periods spent in each state of the policy's space, started empty."""
    from ucsearch.lab.suites.kinds.lost_sales import kernels
    from ucsearch.replay.classics import kernels as _kernels

    space = policy.space
    base = np.empty(policy.table.size, np.int64)
    bad = _kernels.successors(
        space.lead_time, space.levels, space.radix, space.offsets, space.states, policy.table, base
    )
    if bad >= 0:
        raise InputError("orders", int(policy.table[bad]), "an order within the levels", index=int(bad))
    on_hand = np.ascontiguousarray(space.states[:, 0])
    weights, first = model.transition_weights(int(space.levels[0]))
    mass, out = np.zeros(base.size), np.empty(base.size)
    mass[0] = 1.0
    for _ in range(_SWEEPS):
        change = kernels.push(base, on_hand, weights, first, mass, out)
        mass, out = out, mass
        if change <= _SETTLED:
            shares: Floats = mass / mass.sum()
            return shares
    raise UCSearchError(f"the chain's distribution still changes by {change} after {_SWEEPS} periods")
