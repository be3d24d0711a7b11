"""The order sizes that a recorded inventory decision would have been offered with other numbers.

Sizes that were fitted to the series (`lots`) follow from its forecast and its limits, so they are fitted again. Sizes
that a person gave stay. The record does not say which they are: they were fitted if fitting gives them again.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.pipeline.again import Asked
from ucsearch.pipeline.grids import fitted_sizes
from ucsearch.trace import Trace

__all__ = ["FOLLOWED", "KEPT", "Fitted", "Sizes", "followed", "how_fitted"]

Floats = NDArray[np.float64]
KEPT = "The order sizes offered are those of the record: they were given, not fitted to the series."
FOLLOWED = (
    "So long a lead time is planned by order cycles over whole members, to the end of the forecast; the two expected "
    "scores stand for different numbers of periods."
)
_ROUNDING = (1.0, 0.0)  # of quantities, where no settings say: pieces, or none


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

    actions: Floats  # (m,) NaN where unavailable
    grid: tuple[float, ...]
    trace: Trace


def how_fitted(asked: Asked, config: Any, round_to: float | None) -> Fitted | None:
    """Nothing where the recorded sizes were not fitted to the series. `round_to`: what the settings say, if known."""
    if not hasattr(config, "lots") or asked.params.by_level:
        return None
    for step in dict.fromkeys(_ROUNDING if round_to is None else (round_to, *_ROUNDING)):
        found = Fitted(len(asked.params.grid) - 1, step)
        sizes = found.again(asked.trace, config, asked.params)
        if sizes.grid == asked.params.grid and sizes.trace.declared == asked.trace.declared:
            return found
    return None


def followed(asked: Asked) -> Asked:
    """As it is planned with a lead time that is too long for closed loop: whole members, one step that is searched."""
    origin: Any = asked.trace.declared.origin or asked.trace.coupling
    trace = asked.trace.declare(origin)
    return asked.changed(trace=trace, policy=dataclasses.replace(asked.policy, mode="members", depth=1))
