"""The lost-sales planner on sampled members: quasi-random demand paths, searched by `search_panel` state by state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import search_panel
from ucsearch.errors import UCSearchError
from ucsearch.lab.suites.kinds.lost_sales.chain import Tabulated, most_orders, stationary
from ucsearch.policies import Exact, Policy, UCBeam
from ucsearch.replay.classics.demand import Demand
from ucsearch.replay.classics.lost_sales import LostSales, StateSpace
from ucsearch.tasks.inventory.record import LeadTimeInventory
from ucsearch.trace import Trace
from ucsearch.trace.members import levels

__all__ = ["Planned", "Planner", "demand_paths", "plan_often_visited"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Engine = Literal["auto", "python", "compiled"]

_CHUNK = 256  # states searched in one call: a trace of 256 x 256 x 12 numbers takes 6 MB


def demand_paths(demand: Demand, lead_time: int, periods: int, count: int, rng: np.random.Generator) -> Floats:
    """(count, periods) Sobol paths of independent demand, `periods` > `lead_time`.

    The first coordinate sets the demand of lead time + 1 periods together, which is what an order is placed against;
    the next ones split it, last period first, by the distribution of a part given the whole. Later periods have a
    coordinate each. The paths have the true distribution, whatever the split; its first coordinates are the even ones.
    """
    level = levels(count, periods, "sobol", rng)
    mass = [np.array([1.0])]  # of the demand of 0, 1, … periods
    for _ in range(lead_time + 1):
        mass.append(np.convolve(mass[-1], demand.pmf))
    paths = np.empty((count, periods))
    whole = _quantile(np.cumsum(mass[-1]), level[:, 0])
    for k in range(lead_time, 0, -1):
        # Period k out of periods 0..k, which have `whole` together.
        part = np.empty_like(whole)
        for total in np.unique(whole):
            here = whole == total
            values = np.arange(max(0, total - mass[k].size + 1), min(total, demand.cut) + 1)
            weight = demand.pmf[values] * mass[k][total - values]
            part[here] = values[_quantile(np.cumsum(weight) / weight.sum(), level[here, lead_time + 1 - k])]
        paths[:, k] = part
        whole = whole - part
    paths[:, 0] = whole
    for h in range(lead_time + 1, periods):
        paths[:, h] = _quantile(demand.cdf, level[:, h])
    return paths


def _quantile(cdf: Floats, level: Floats) -> Ints:
    found: Ints = np.minimum(np.searchsorted(cdf, level, side="left"), cdf.size - 1)
    return found


@dataclass(frozen=True, eq=False)
class Planner:
    """One searched order and a continuation, or an open-loop plan, on members of its own for every state.

    `task` is shared by all instances of a lead time, so that it is compiled once; what differs comes as params.
    """

    model: LostSales
    config: LeadTimeInventory
    policy: Policy
    members: Floats  # (sets, J, H); the state in row n of its space uses set n modulo sets
    level_mean: float  # units; where the continuation's levels count from
    cap_mean: float  # units; where its caps count from
    bounded: bool  # whether Morton's bound and levels limit the search; else only the order that comes out of it
    engine: Engine = "auto"
    threads: int | None = None

    @classmethod
    def with_continuation(
        cls, model: LostSales, members: Floats, largest: int, level_offsets: Sequence[int], cap_offsets: Sequence[int],
        engine: Engine, threads: int | None,
    ) -> Planner:  # fmt: skip
        """One free order, then capped base-stock, both parameters minimised over the same members."""
        config = _config(model, largest, level_offsets, cap_offsets)
        top, mean = float(model.morton_levels[0]), float(np.ceil(model.demand.mean))
        return cls(model, config, Exact(depth=1, mode="members"), members, top, mean, True, engine, threads)

    @classmethod
    def open_loop(
        cls, model: LostSales, members: Floats, largest: int, decisions: int, width: int, engine: Engine,
        threads: int | None,
    ) -> Planner:  # fmt: skip
        """`decisions` orders fixed in advance; those that would arrive after the horizon are 0 and not searched.

        A limit on the position would have to hold for every member at once and leave later orders no room.
        """
        config = _config(model, largest, (0,), ())
        policy = UCBeam(depth=decisions, width=width, mode="members")
        used = members[:, :, : model.lead_time + decisions]
        return cls(model, config, policy, used, 0.0, 0.0, False, engine, threads)

    @cached_property
    def params(self) -> Any:
        """The instance's costs and limits."""
        base, levels_ = self.config.params(), self.model.morton_levels
        return base._replace(
            holding=self.model.holding_cost,
            shortage=self.model.penalty_cost,
            capacity=float(levels_[0]) if self.bounded else base.capacity,
            largest_order=float(levels_[-1]),
            level_mean=self.level_mean,
            cap_mean=self.cap_mean,
        )

    def trace(self, rows: Ints) -> Trace:
        return Trace.from_members(self.members[rows % len(self.members)], coupling="independent")

    def states(self, states: Ints) -> Floats:
        """(N, L + 2) states of the task. What arrives in this period is on hand already, as Zipkin counts."""
        out = np.zeros((len(states), self.model.lead_time + 2))
        out[:, 0] = states[:, 0]
        out[:, 2:-1] = states[:, 1:]
        return out

    def actions(self, states: Ints) -> Floats:
        """(N, m) orders up to Morton's bound, NaN beyond."""
        sizes = np.asarray(self.config.order_sizes)
        most = most_orders(self.model, states) if self.bounded else np.full(len(states), self.model.morton_levels[-1])
        return np.where(sizes[None] <= most[:, None], sizes, np.nan)

    def orders(self, space: StateSpace, rows: Ints, progress: Callable[[int], None] | None = None) -> Ints:
        """The order in each of these states of the space."""
        found = np.empty(rows.size, np.int64)
        for lo in range(0, rows.size, _CHUNK):
            some = rows[lo : lo + _CHUNK]
            states = space.states[some]
            plan = search_panel(
                self.config.task(), self.states(states), self.trace(some), self.policy, params=self.params,
                actions=self.actions(states), engine=self.engine, threads=self.threads,
            ).raise_for_errors()  # fmt: skip
            if not np.isfinite(plan.action).all():
                raise UCSearchError("the planner found no order in a state where ordering nothing is allowed")
            found[lo : lo + some.size] = np.minimum(np.rint(plan.action), most_orders(self.model, states))
            if progress is not None:
                progress(some.size)
        return found


def _config(
    model: LostSales, largest: int, level_offsets: Sequence[int], cap_offsets: Sequence[int]
) -> LeadTimeInventory:
    return LeadTimeInventory(
        lead_time=model.lead_time,
        order_sizes=tuple(float(z) for z in range(largest + 1)),
        base_stock_levels=tuple(float(x) for x in level_offsets),
        order_caps=tuple(float(x) for x in cap_offsets),
    )


@dataclass(frozen=True, eq=False)
class Planned:
    """A policy planned in the states that matter."""

    policy: Tabulated
    states: int  # planned
    unplanned: float  # share of periods spent in other states, where `rest` orders


def plan_often_visited(
    planner: Planner, rest: Tabulated, most_unplanned: float, progress: Callable[[int], None] | None = None
) -> Planned:
    """Plan states, most visited first, until the chain spends at most `most_unplanned` of its time in others.

    Which states matter depends on the policy, so the shares are computed again after every round.
    """
    table = rest.table.copy()
    done = np.zeros(table.size, np.bool_)
    while True:
        shares = np.where(done, 0.0, stationary(planner.model, Tabulated(rest.space, table)))
        open_share = float(shares.sum())
        if open_share <= most_unplanned:
            return Planned(Tabulated(rest.space, table), int(done.sum()), open_share)
        # Half of what may stay open is left for the next round, when the chain has moved.
        order = np.lexsort((np.arange(shares.size), -shares))
        left = open_share - np.cumsum(shares[order])
        rows = np.sort(order[: int(np.argmax(left <= 0.5 * most_unplanned)) + 1])
        table[rows] = planner.orders(rest.space, rows, progress)
        done[rows] = True
