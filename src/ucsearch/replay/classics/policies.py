"""The classic lost-sales policies, each a function of the state x = (on hand, orders due in 1, …, L-1
periods).

Every policy is a small frozen record: call it on one state, or use `orders` on an (N, L) array of states.
None ever orders less than 0. `position` below is x_0 + … + x_{L-1}, stock on hand and on order before the new
order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.replay.classics.lost_sales import LostSales, StateSpace
from ucsearch.tasks.checks import integer

__all__ = [
    "BaseStock",
    "CappedBaseStock",
    "ConstantOrder",
    "MyopicOne",
    "MyopicTwo",
    "ReorderPoint",
    "VectorBaseStock",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _position(states: Ints) -> Ints:
    position: Ints = states.sum(axis=1)
    return position


class _OnState(ABC):
    """Calls `orders` on a single state."""

    @abstractmethod
    def orders(self, states: Ints) -> Ints:
        """Order in each state; `states` is (N, L), the result (N,)."""

    def __call__(self, state: Sequence[int]) -> int:
        """Order in one state."""
        if len(state) == 0:
            raise InputError("state", "an empty state", "stock on hand and the orders on the way")
        row = np.array([[integer(x, f"state[{k}]", at_least=0) for k, x in enumerate(state)]], dtype=np.int64)
        return int(self.orders(row)[0])


@dataclass(frozen=True)
class BaseStock(_OnState):
    """Base-stock (order-up-to) policy.

    .. math:: z = (S - \\text{position})^+

    Optimal with backorders (Scarf 1960); with lost sales asymptotically optimal as p/h grows (Huh,
    Janakiraman, Muckstadt and Rusmevichientong 2009, Management Science 55(3)).

    Parameters
    ----------
    level :
        Order-up-to level. [S]

    Example
    -------
    >>> BaseStock(18)([6, 5, 4]), BaseStock(18)([20, 0, 0])
    (3, 0)
    """

    level: int  # units

    def __post_init__(self) -> None:
        integer(self.level, "level", at_least=0)

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """S for every partial sum: an order is at most S."""
        return (self.level,) * (lead_time + 1)

    def orders(self, states: Ints) -> Ints:
        """Raise the position to S."""
        return np.maximum(self.level - _position(states), 0)


@dataclass(frozen=True)
class CappedBaseStock(_OnState):
    """Capped base-stock policy: base-stock with a limit on each order.

    .. math:: z = \\min\\{(S - \\text{position})^+, r\\}

    Xin (2021), "Understanding the performance of capped base-stock policies in lost-sales inventory models",
    Operations Research 69(1); Johansen and Thorstenson (2008). r large is base-stock, S large is constant
    order.

    Parameters
    ----------
    level :
        Order-up-to level. [S]
    cap :
        Largest order. [r]

    Example
    -------
    >>> CappedBaseStock(17, 5)([4, 5]), CappedBaseStock(17, 5)([9, 5])
    (5, 3)
    """

    level: int  # units
    cap: int  # units

    def __post_init__(self) -> None:
        integer(self.level, "level", at_least=0)
        integer(self.cap, "cap", at_least=0)

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """S for the position; n orders hold at most n r."""
        pipeline = (min(self.level, n * self.cap) for n in range(lead_time, 0, -1))
        return (self.level, *pipeline)

    def orders(self, states: Ints) -> Ints:
        """Raise the position to S, by at most r."""
        return np.clip(self.level - _position(states), 0, self.cap)


@dataclass(frozen=True)
class ReorderPoint(_OnState):
    """(s, S) policy: order up to S when the position has fallen to s or below.

    .. math:: z = S - \\text{position} \\text{ if position} \\le s, \\text{ else } 0

    Scarf (1960), "The optimality of (S, s) policies in the dynamic inventory problem". Meant for fixed order
    costs; without one, s = S - 1 is base-stock.

    Parameters
    ----------
    reorder_point :
        [s], at least 0 and below S.
    level :
        Order-up-to level. [S]

    Example
    -------
    >>> ReorderPoint(12, 18)([6, 5]), ReorderPoint(12, 18)([8, 5])
    (7, 0)
    """

    reorder_point: int  # units
    level: int  # units

    def __post_init__(self) -> None:
        integer(self.reorder_point, "reorder_point", at_least=0)
        integer(self.level, "level", at_least=self.reorder_point + 1)

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """S for every partial sum: an order is at most S."""
        return (self.level,) * (lead_time + 1)

    def orders(self, states: Ints) -> Ints:
        """Raise the position to S if it is at most s."""
        position = _position(states)
        return np.where(position <= self.reorder_point, self.level - position, 0)


@dataclass(frozen=True)
class ConstantOrder(_OnState):
    """Constant-order policy: the same order every period, whatever the state.

    .. math:: z = r

    Reiman (2004); asymptotically optimal as the lead time grows (Goldberg, Katz-Rogozhnikov, Lu, Sharma and
    Squillante 2016, Mathematics of Operations Research 41(3)). Its stock is unbounded, so its cost has its
    own routine, `optimise.constant_order_cost`.

    Parameters
    ----------
    quantity :
        [r], below mean demand for a finite cost.

    Example
    -------
    >>> ConstantOrder(4)([6, 4, 4])
    4
    """

    quantity: int  # units

    def __post_init__(self) -> None:
        integer(self.quantity, "quantity", at_least=0)

    def orders(self, states: Ints) -> Ints:
        """r everywhere."""
        return np.full(states.shape[0], self.quantity, dtype=np.int64)


@dataclass(frozen=True)
class VectorBaseStock(_OnState):
    """Vector base-stock policy: keep every partial sum of the pipeline below its own level.

    .. math:: z = \\Big[\\min_{l=0..L} (s_l - v_l)\\Big]^+, \\quad v_l = x_l + \\dots + x_{L-1}

    With Morton's levels (`LostSales.morton_levels`) it is the upper bound on the optimal order, Zipkin's
    "standard vector base-stock policy" (Zipkin 2008, equations 4 and 5).

    Parameters
    ----------
    level_vector :
        (s_0, …, s_L), none above the one before.

    Example
    -------
    >>> VectorBaseStock((18, 13, 7))([3, 4]), VectorBaseStock((18, 13, 7))([12, 4])
    (7, 2)
    """

    level_vector: tuple[int, ...]  # (L + 1,) units

    def __post_init__(self) -> None:
        vector = [integer(s, f"level_vector[{k}]", at_least=0) for k, s in enumerate(self.level_vector)]
        if len(vector) < 2 or any(b > a for a, b in pairwise(vector)):
            raise InputError("level_vector", self.level_vector, "L + 1 >= 2 numbers, none above the one before")

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """The level vector itself."""
        if lead_time != len(self.level_vector) - 1:
            raise InputError("lead_time", lead_time, f"{len(self.level_vector) - 1}, one less than the levels")
        return self.level_vector

    def orders(self, states: Ints) -> Ints:
        """The largest order that breaks no level."""
        partial = np.cumsum(states[:, ::-1], axis=1)[:, ::-1]
        room: Ints = np.min(np.asarray(self.level_vector[:-1], dtype=np.int64) - partial, axis=1)
        return np.clip(room, 0, self.level_vector[-1])


class _Tabulated(_OnState):
    """A policy tabulated on Morton's states; orders nothing in the transient rest, as every policy there
    may."""

    model: LostSales

    @cached_property
    def _space(self) -> StateSpace:
        return StateSpace.build(self.model.lead_time, self.model.morton_levels)

    @abstractmethod
    def _tabulate(self) -> Ints:
        """Order in each state of the space."""

    @cached_property
    def _table(self) -> Ints:
        return self._tabulate()

    def levels(self, lead_time: int) -> tuple[int, ...]:
        """Morton's levels, which both myopic orders respect."""
        return self._space.levels_for(lead_time)

    def orders(self, states: Ints) -> Ints:
        """Look the order up."""
        return self._space.look_up(self._table, states)

    def _myopic(self) -> tuple[Ints, Floats]:
        """Myopic orders and their expected arrival-period costs on the whole space."""
        from ucsearch.replay.classics import kernels

        space, most = self._space, int(self._space.levels[0])
        orders = np.empty(space.states.shape[0], dtype=np.int64)
        costs = np.empty(space.states.shape[0])
        kernels.myopic_one(
            space.lead_time,
            space.levels,
            space.states,
            self.model.period(most),
            orders,
            costs,
        )
        return orders, costs


@dataclass(frozen=True, eq=False)
class MyopicOne(_Tabulated):
    """Myopic-1: minimise the expected cost of the period in which the order arrives.

    .. math:: z = \\arg\\min_z E[q(X_L) \\mid x, z], \\quad q(y) = h E(y-D)^+ + p E(D-y)^+

    X_L, the stock on hand when z has arrived, follows from x by L periods of lost-sales dynamics. The
    smallest minimiser is P(D_L <= X_L) >= p/(p+h) for the first time. It is at most Morton's bound, because
    X_L is at least v_l + z - D[l, L-1] for every l. Morton (1971), "The near-myopic nature of the
    lagged-proportional-cost inventory problem with lost sales", Operations Research 19(7); "Myopic" in Zipkin
    (2008).

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> policy = MyopicOne(LostSales(poisson(5.0), lead_time=2, holding_cost=1.0, penalty_cost=4.0))
    >>> policy([0, 0]), policy([9, 5])
    (7, 4)
    """

    model: LostSales

    def _tabulate(self) -> Ints:
        return self._myopic()[0]


@dataclass(frozen=True, eq=False)
class MyopicTwo(_Tabulated):
    """Myopic-2: minimise the expected cost of the arrival period and of the one after it.

    .. math:: z = \\arg\\min_z \\{ Q(x, z) + E[\\min_{z_+} Q(x_+, z_+)] \\}

    with Q(x, z) = E[q(X_L) | x, z] the expected cost of the arrival period. The next order z_+ is placed
    after one more demand is known. Orders are searched up to Morton's bound. Zipkin (2008), §3, after Morton
    (1971).

    Example
    -------
    >>> from ucsearch.replay.classics.demand import poisson
    >>> policy = MyopicTwo(LostSales(poisson(5.0), lead_time=2, holding_cost=1.0, penalty_cost=4.0))
    >>> policy([0, 0]), policy([9, 5])
    (6, 3)
    """

    model: LostSales

    def _tabulate(self) -> Ints:
        from ucsearch.replay.classics import kernels

        space, most = self._space, int(self._space.levels[0])
        orders = np.empty(space.states.shape[0], dtype=np.int64)
        kernels.myopic_two(
            space.lead_time,
            space.levels,
            space.radix,
            space.offsets,
            space.states,
            self.model.period(most),
            self._myopic()[1],
            orders,
        )
        return orders
