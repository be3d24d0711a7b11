"""A recorded order under other parameters: sizes are fitted again, open orders keep the day they arrive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.tasks.base import Inputs, Refit
from ucsearch.tasks.inventory.planning import needs_cycles, with_cycles
from ucsearch.tasks.inventory.sizes import fitted_sizes, in_packs
from ucsearch.trace import Trace

__all__ = ["OrdersRefit"]

Floats = NDArray[np.float64]
KEPT = "The order sizes offered are those of the record: they were given, not fitted to the series."
FOLLOWED = (
    "So long a lead time is planned by order cycles over whole members, to the end of the forecast; the two expected "
    "scores stand for different numbers of periods."
)
_PACKS = frozenset(("minimum_order", "case_pack"))  # orders offered are rounded to them
_ROUNDING = (1.0, 0.0)  # of quantities, where no settings say: pieces, or none


class OrdersRefit(Refit):
    """Order sizes that were fitted to the series are fitted again; a lead time that is too long for closed loop is
    planned by order cycles. `round_to`: what the settings say of quantities, if they are known."""

    def __init__(self, config: Any, trace: Trace, params: Any, round_to: float | None) -> None:
        super().__init__(config)
        self._fitted = how_fitted(config, trace, params, round_to)
        self.fits = self._fitted is not None

    def record(self, other: Any, policy: Any) -> Any:
        if self._fitted is not None and needs_cycles(other, policy):
            other = with_cycles(other, self._fitted.lots)
            self._fitted = self._fitted._replace(lots=len(other.order_sizes) - 1)
        return other

    def state(self, state: Any, other: Any, what: str, steps: int) -> tuple[Any, list[str]]:
        if other.lead_time == self.config.lead_time:  # type: ignore[attr-defined]
            return state, []
        state, notes = other_lead_time(state, int(self.config.lead_time), int(other.lead_time))  # type: ignore[attr-defined]
        if other.lead_time >= steps:
            notes.append(f"An order arrives after the {steps} planned steps, so no plan sees a use for it.")
        return state, notes

    def inputs(self, other: Any, recorded: Inputs, what: frozenset[str]) -> tuple[Inputs, list[str]]:
        params, actions, trace, policy = recorded
        if self._fitted is None:
            if not other.task().width and what & _PACKS:
                placed, grid = in_packs(np.array([params.grid]), params)
                params, actions = params._replace(grid=tuple(grid[0].tolist())), placed[0]
            return Inputs(params, actions, trace, policy), [KEPT]
        notes = []
        sizes = self._fitted.again(trace, other, params)
        if sizes.grid != params.grid:
            words = ", ".join(map(figure, dict.fromkeys(sizes.grid)))
            notes.append(f"The order sizes offered are fitted to these numbers: {words}.")
        trace = sizes.trace
        if not self.is_comparable(other):
            # Whole members, and one step that is searched.
            origin: Any = trace.declared.origin or trace.coupling
            trace = trace.declare(origin)
            policy = dataclasses.replace(policy, mode="members", depth=1)
            notes.append(FOLLOWED)
        return Inputs(params._replace(grid=sizes.grid), sizes.actions, trace, policy), notes

    def is_comparable(self, other: Any) -> bool:
        return not other.order_cycles or bool(self.config.order_cycles)  # type: ignore[attr-defined]


class Fitted(NamedTuple):
    """How the recorded sizes were fitted."""

    lots: int
    step: float  # units that quantities are rounded to

    def again(self, trace: Trace, config: Any, params: Any) -> Sizes:
        unit, actions, grid = fitted_sizes(config, trace, params, self.lots, self.step)
        if trace.declared.unit:
            trace = trace.on_lattice(float(unit[0]), trace.declared.points)
        return Sizes(actions[0], tuple(grid[0].tolist()), trace)


class Sizes(NamedTuple):
    """What is offered, and the forecast as it is then planned on."""

    actions: Floats  # (m,) NaN where unavailable; with two suppliers (m, 2)
    grid: tuple[float, ...]
    trace: Trace


def how_fitted(config: Any, trace: Trace, params: Any, round_to: float | None) -> Fitted | None:
    """Nothing where the recorded sizes were not fitted to the series."""
    if params.by_level:
        return None
    for step in dict.fromkeys(_ROUNDING if round_to is None else (round_to, *_ROUNDING)):
        fitted = Fitted(len(params.grid) - 1, step)
        sizes = fitted.again(trace, config, params)
        if sizes.grid == params.grid and sizes.trace.declared == trace.declared:
            return fitted
    return None


def other_lead_time(state: Any, old: int, new: int) -> tuple[Any, list[str]]:
    """Open orders keep the day they arrive; one that would arrive after a new order has no place and is refused."""
    open_orders = list(state.pipeline[:old])
    length = max(1, new)
    if new == 0:
        late, kept = [x for x in open_orders[1:] if x], (0.0,)
        first = open_orders[0] if open_orders else 0.0
        state = state._replace(on_hand=state.on_hand + first)
    else:
        late = [x for x in open_orders[new:] if x]
        kept = tuple((open_orders + [0.0] * length)[:length])
        first = 0.0
    if late:
        raise InputError(
            "--set", f"lead_time={new}", f"a lead time of at least {_longest(open_orders)}",
            hint=f"Open orders of {', '.join(figure(x) for x in late)} arrive later than a new order would.",
        )  # fmt: skip
    notes = ["Open orders keep their day of arrival."]
    if first:
        notes.append(f"The {figure(first)} that arrive in this period count as stock.")
    return state._replace(pipeline=kept), notes


def _longest(open_orders: Sequence[float]) -> int:
    return max(i + 1 for i, x in enumerate(open_orders) if x)
