"""States, parameters and actions of a panel of series, as `decide_panel` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.layout import Layout
from ucsearch.planner.settings import Settings
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from ucsearch.planner.decide.states import Case

__all__ = ["panel_inputs"]

Floats = NDArray[np.float64]


def panel_inputs(cases: Sequence[Case], trace: Trace, settings: Settings) -> tuple[Any, Any, Floats | None]:
    """States and params as NamedTuples of arrays and actions (W, m) of series of one kind, for `decide_panel`."""
    kind = cases[0].kind
    layout = Layout.of(cases[0].state, "state")
    rows = np.array([layout.flatten(c.state, "state") for c in cases])
    states = _by_column(kind.task.state, layout.lengths, rows)
    params_layout = kind.task.params_layout
    shared = all(c.config is cases[0].config for c in cases)
    params: Any = cases[0].params
    if not shared and params_layout is not None:
        flat = np.array([params_layout.flatten(c.params, "params") for c in cases])
        params = _by_column(type(params), params_layout.lengths, flat)
    looks = getattr(kind.config, "forecast_columns", None)
    if looks is not None:
        params = params._replace(**looks(trace, params))
    return (states, *kind.config.offered(trace, params, settings.actions))


def _by_column(kind: type[Any], lengths: Sequence[int], rows: Floats) -> Any:
    """A NamedTuple of arrays from flat rows."""
    items, at = [], 0
    for length in lengths:
        items.append(rows[:, at] if length == 0 else rows[:, at : at + length])
        at += max(1, length)
    return kind(*items)
