"""The lost-sales model with a lead time: optimal and policy average costs, exact up to printed bounds.

Convention (Zipkin 2008, "Old and new methods for lost-sales inventory systems", Operations Research 56(5),
§2). A period starts with the arrival of the order placed L periods ago; the state is then

    x = (x_0, x_1, …, x_{L-1}),   x_0 stock on hand, x_l the order that arrives l periods from now;

an order z >= 0 is placed, demand d occurs, h is charged per unit left and p per unit lost, and

    x_+ = ((x_0 - d)+ + x_1, x_2, …, x_{L-1}, z).

There is no unit cost: a unit cost c is the same as a penalty p - c when the average cost is what counts.

State reduction. With v_l = x_l + … + x_{L-1} (v_L = 0) and D[l, L] the demand of L - l + 1 periods, Morton's
levels

    s_l = min{s : P(D[l, L] <= s) >= p / (p + h)}

bound the optimal order: z*(x) <= min_l (s_l - v_l)+ (Morton 1969, 1971; equation 4 of Zipkin 2008). A policy
with that property never leaves X(s) = {x : v_l <= s_l for all l}, and every other state is transient (Zipkin
2008, Claim 1), so iterating on X(s) alone loses nothing.

Bounds. For any function V on a closed set of states, min (TV - V) <= optimal average cost <= max (TV - V),
where T is the Bellman operator; the same holds for the operator of a fixed policy (Odoni 1969; Puterman 1994,
§8.5). Both bounds are returned: there is no simulation and no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError
from ucsearch.replay.classics.demand import Demand
from ucsearch.tasks.checks import integer, positive

__all__ = [
    "AverageCost",
    "LostSales",
    "OptimalPolicy",
    "OrderPolicy",
    "Period",
    "StateSpace",
    "average_cost",
    "solve",
]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_SWEEPS = 100_000
_POLICY_SWEEPS = 12  # evaluation sweeps between two full sweeps; they cost a tenth each


class OrderPolicy(Protocol):
    """A stationary policy with bounded stock: `orders` on many states, `levels` that its states respect."""

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """(s_0, …, s_L): from states with v_l <= s_l it orders z >= 0 with v_l + z <= s_l, l = 0..L."""
        ...

    def orders(self, states: Ints) -> Ints:
        """Order in each state; `states` is (N, L), the result (N,)."""
        ...


@dataclass(frozen=True)
class AverageCost:
    """Long-run average cost per period between two proved bounds."""

    lower: float  # currency per period
    upper: float  # currency per period
    sweeps: int  # value-iteration sweeps used
    states: int  # states iterated on

    @property
    def value(self) -> float:
        """Midpoint of the bounds."""
        return 0.5 * (self.lower + self.upper)


@dataclass(frozen=True, eq=False)
class LostSales:
    """A lost-sales system.

    Parameters
    ----------
    demand :
        Demand of one period. [D]
    lead_time :
        Periods from order to arrival, at least 1. [L]
    holding_cost :
        Per unit of stock left at the end of a period. [h]
    penalty_cost :
        Per unit of demand lost. [p]

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> model = LostSales(poisson(5.0), lead_time=2, holding_cost=1.0, penalty_cost=4.0)
    >>> model.morton_levels
    (18, 13, 7)
    """

    demand: Demand  # of one period, independent of the others
    lead_time: int  # periods
    holding_cost: float  # money per unit and period
    penalty_cost: float  # money per unit
    critical_ratio: float = field(init=False)  # p / (p + h)

    def __post_init__(self) -> None:
        integer(self.lead_time, "lead_time", at_least=1)
        h = positive(self.holding_cost, "holding_cost")
        p = positive(self.penalty_cost, "penalty_cost")
        if not self.demand.mean > 0.0:
            raise InputError("demand.mean", self.demand.mean, "demand that is not always 0")
        object.__setattr__(self, "critical_ratio", p / (p + h))

    @cached_property
    def morton_levels(self) -> tuple[int, ...]:
        """Morton's upper bounds on v_l + z*(x): fractiles of the demand of L + 1 - l periods, l = 0..L."""
        return tuple(
            self.demand.over(self.lead_time - k + 1).quantile(self.critical_ratio) for k in range(self.lead_time + 1)
        )

    def stage_cost(self, most: int) -> Floats:
        """``h E[(y - D)+] + p E[(D - y)+]`` for stock y = 0..most after arrivals."""
        return self.holding_cost * self.demand.expected_leftover(most) + (
            self.penalty_cost * self.demand.expected_shortage(most)
        )

    def period(self, most: int) -> Period:
        """What the compiled loops read of one period, for stocks up to `most`."""
        return Period(self.stage_cost(most), *self.transition_weights(most))

    def transition_weights(self, most: int) -> tuple[Floats, Ints]:
        """``W[x, j] = P((x - D)+ = j)`` for x, j = 0..most, and the first j >= 1 with weight, per x."""
        pmf, cut = self.demand.pmf, self.demand.cut
        weights = np.zeros((most + 1, most + 1))
        first = np.zeros(most + 1, dtype=np.int64)
        for x in range(most + 1):
            first[x] = max(1, x - cut)
            if x <= cut:
                weights[x, 0] = self.demand.survival[x]
            if x >= first[x]:
                weights[x, first[x] : x + 1] = pmf[x - first[x] :: -1]
        return weights, first

    @property
    def damping(self) -> float:
        """1 where demand can be 0 (then bounded-stock chains have a loop, hence no period), else 1/2."""
        return 1.0 if self.demand.pmf[0] > 0.0 else 0.5


def average_cost(
    model: LostSales,
    policy: OrderPolicy,
    *,
    tolerance: float = 1e-9,
    abandon_above: float = math.inf,
    max_sweeps: int = _MAX_SWEEPS,
) -> AverageCost:
    """Long-run average cost of a stationary policy, started empty, between bounds `tolerance` apart.

    Parameters
    ----------
    model, policy :
        The system and the policy; the states are those the policy can reach from an empty system.
    tolerance :
        Width of the bounds at which iteration stops.
    abandon_above :
        Stop early, with wide bounds, once the cost is proved to exceed this. Used by searches.
    max_sweeps :
        Sweeps over all states after which it is an error that the bounds have not met.

    Raises
    ------
    InputError
        If the policy orders less than 0 or breaks its own levels, naming the state.
    UCSearchError
        If the bounds do not close, as for a chain whose cost depends on where it starts.

    Example
    -------
    >>> from ucsearch.replay.classics.policies import BaseStock
    >>> from ucsearch.replay.classics.demand import poisson
    >>> model = LostSales(poisson(5.0), lead_time=1, holding_cost=1.0, penalty_cost=4.0)
    >>> round(average_cost(model, BaseStock(12)).value, 4)
    4.1628
    """
    from ucsearch.replay.classics import kernels

    positive(tolerance, "tolerance")
    space = StateSpace.build(model.lead_time, policy.levels(model.lead_time))
    most = int(space.levels[0])
    orders = np.ascontiguousarray(policy.orders(space.states), dtype=np.int64)
    if orders.shape != (space.states.shape[0],):
        raise InputError("policy.orders", f"shape {orders.shape}", f"({space.states.shape[0]},)")
    base = np.empty(orders.size, dtype=np.int64)
    bad = kernels.successors(space.lead_time, space.levels, space.radix, space.offsets, space.states, orders, base)
    if bad >= 0:
        state = tuple(int(x) for x in space.states[bad])
        raise InputError(
            "policy.orders",
            f"an order of {int(orders[bad])}",
            f"a number of at least 0 that keeps the levels {tuple(int(s) for s in space.levels)}",
            index=state,
        )
    on_hand = np.ascontiguousarray(space.states[:, 0])
    listed = kernels.reachable(base, on_hand, 0)
    lower, upper, sweeps = kernels.cost_bounds(
        listed,
        base,
        on_hand,
        model.period(most),
        np.zeros(orders.size),
        np.zeros(orders.size),
        model.damping,
        tolerance,
        abandon_above,
        max_sweeps,
    )
    cost = AverageCost(float(lower), float(upper), int(sweeps), int(listed.size))
    if not (cost.upper - cost.lower <= tolerance or cost.lower > abandon_above):
        raise _not_closed("the policy", cost)
    return cost


@dataclass(frozen=True, eq=False)
class OptimalPolicy:
    """An optimal policy and its average cost. Orders nothing in the (transient) states outside its space."""

    model: LostSales  # what it is optimal for
    cost: AverageCost  # per period, in the long run
    space: StateSpace  # states within the levels it was searched in
    table: Ints  # (N,) order in each state of `space`
    values: Floats  # (N,) relative values

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """The levels it was searched within."""
        return self.space.levels_for(lead_time)

    def orders(self, states: Ints) -> Ints:
        """Look the order up."""
        return self.space.look_up(self.table, states)

    def __call__(self, state: Sequence[int]) -> int:
        """Order in one state."""
        return int(self.orders(np.asarray([state], dtype=np.int64))[0])


def solve(
    model: LostSales,
    *,
    levels: Sequence[int] | None = None,
    tolerance: float = 1e-9,
    max_sweeps: int = _MAX_SWEEPS,
) -> OptimalPolicy:
    """Optimal long-run average cost and policy, by value iteration with policy sweeps in between.

    .. math:: V(x) + g = q(x_0) + \\min_{0 \\le z \\le \\min_l (s_l - v_l)} E[V(x_+)]

    with q(y) = h E(y - D)+ + p E(D - y)+.

    Parameters
    ----------
    levels :
        Bounds on v_l + z to search within; Morton's (which lose nothing) by default.
    tolerance :
        Width of the bounds at which iteration stops.

    Raises
    ------
    UCSearchError
        If the bounds do not close within `max_sweeps` full sweeps.

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> best = solve(LostSales(poisson(5.0), lead_time=1, holding_cost=1.0, penalty_cost=4.0))
    >>> round(best.cost.value, 2), best([4]), best([12])
    (4.04, 6, 0)
    """
    from ucsearch.replay.classics import kernels

    positive(tolerance, "tolerance")
    space = StateSpace.build(model.lead_time, model.morton_levels if levels is None else levels)
    most = int(space.levels[0])
    on_hand = np.ascontiguousarray(space.states[:, 0])
    listed = np.arange(on_hand.size, dtype=np.int64)
    period = model.period(most)
    values = np.zeros(on_hand.size)
    out = np.empty(on_hand.size)
    table = np.zeros(on_hand.size, dtype=np.int64)
    base = np.zeros(on_hand.size, dtype=np.int64)
    lower, upper, sweeps = -math.inf, math.inf, 0
    for _ in range(max_sweeps):
        low, high = kernels.improve(
            space.lead_time,
            space.levels,
            space.radix,
            space.offsets,
            period,
            values,
            out,
            table,
            base,
        )
        lower, upper = max(lower, float(low)), min(upper, float(high))
        sweeps += 1
        if upper - lower <= tolerance:
            break
        values += model.damping * (out - values - 0.5 * (low + high))
        # Sweeps of the current policy are cheap and move the values towards it; only full sweeps give bounds.
        _, _, done = kernels.cost_bounds(
            listed,
            base,
            on_hand,
            period,
            values,
            out,
            model.damping,
            0.1 * tolerance,
            math.inf,
            _POLICY_SWEEPS,
        )
        sweeps += int(done)
    cost = AverageCost(lower, upper, sweeps, int(on_hand.size))
    if not upper - lower <= tolerance:
        raise _not_closed("the optimum", cost)
    return OptimalPolicy(model, cost, space, table, values - values[0])


def _not_closed(what: str, cost: AverageCost) -> UCSearchError:
    return UCSearchError(
        f"the average cost of {what} is only known to lie in [{cost.lower}, {cost.upper}] "
        f"after {cost.sweeps} sweeps: the chain may have several recurrent classes or mix slowly; "
        "raise max_sweeps or the tolerance"
    )


_MAX_STATES = 60_000_000  # about 5 GB of states and work arrays


class Period(NamedTuple):
    """One period of a lost-sales model, for stocks x = 0..most after arrivals."""

    stage: Floats  # (most + 1,) expected cost
    weights: Floats  # (most + 1, most + 1) P((x - D)+ = j)
    first: Ints  # (most + 1,) the first j >= 1 with a positive weight


@dataclass(frozen=True, eq=False)
class StateSpace:
    """All states with v_l <= levels[l], in the order the compiled loops use."""

    lead_time: int
    levels: Ints  # (L + 1,)
    radix: int  # levels[L] + 1, the number of order sizes
    offsets: Ints  # (radix ** (L - 1),) first state of a pipeline, -1 if unused
    states: Ints  # (N, L)

    @classmethod
    def build(cls, lead_time: int, levels: Sequence[int]) -> StateSpace:
        """Enumerate the states; refuses level vectors that are not non-increasing or far too large."""
        from ucsearch.replay.classics import kernels

        vector = np.array([integer(s, f"levels[{k}]", at_least=0) for k, s in enumerate(levels)], dtype=np.int64)
        if vector.size != lead_time + 1 or bool(np.any(np.diff(vector) > 0)):
            raise InputError("levels", tuple(levels), f"{lead_time + 1} numbers, none above the one before")
        radix = int(vector[-1]) + 1
        # Simplex of the position and box of the pipeline both contain the space.
        most = min(math.comb(int(vector[0]) + lead_time, lead_time), radix ** (lead_time - 1) * (int(vector[0]) + 1))
        codes = radix ** (lead_time - 1)
        if most > _MAX_STATES or codes > _MAX_STATES:
            raise InputError(
                "levels",
                f"{tuple(levels)}: up to {most} states, {codes} pipelines",
                f"at most {_MAX_STATES} of each",
                hint="Shorten the lead time, lower the penalty, or measure demand in larger units.",
            )
        offsets = np.empty(codes, dtype=np.int64)
        empty = np.empty((0, lead_time), dtype=np.int64)
        count = kernels.build_space(lead_time, vector, radix, offsets, empty)
        states = np.empty((count, lead_time), dtype=np.int64)
        kernels.build_space(lead_time, vector, radix, offsets, states)
        return cls(lead_time, vector, radix, offsets, states)

    def index(self, states: Ints) -> Ints:
        """Row of each state, -1 for those outside."""
        from ucsearch.replay.classics import kernels

        rows = np.ascontiguousarray(states, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != self.lead_time:
            raise InputError("states", f"shape {rows.shape}", f"(N, {self.lead_time})")
        index = np.empty(rows.shape[0], dtype=np.int64)
        kernels.locate(self.lead_time, self.levels, self.radix, self.offsets, rows, index)
        return index

    def look_up(self, table: Ints, states: Ints) -> Ints:
        """Orders of a tabulated policy: 0 outside the space, where the state can only be left behind."""
        index = self.index(states)
        return np.where(index >= 0, table[np.maximum(index, 0)], 0)

    def levels_for(self, lead_time: int) -> tuple[int, ...]:
        """The levels, if they are those of that lead time."""
        if lead_time != self.lead_time:
            raise InputError("lead_time", lead_time, f"{self.lead_time}, for which the policy was computed")
        return tuple(int(s) for s in self.levels)
