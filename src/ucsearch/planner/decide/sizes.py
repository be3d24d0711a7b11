"""What is offered and how it is planned on: action grids of a panel of series, and the forecast under a law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.layout import Layout
from ucsearch.planner.decide.lead_times import is_followed
from ucsearch.planner.settings import Settings
from ucsearch.tasks.inventory.sizes import distinct
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from ucsearch.planner.decide.states import Case

__all__ = ["ORDERING_TASK", "fitted_sizes", "in_packs", "panel_inputs", "planned_trace", "rounded_up"]

Floats = NDArray[np.float64]
ORDERING_TASK = "lead_time_inventory"  # whose actions may be levels or be rounded, so that the order is another number


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
    multiples = settings.actions.multiples
    if settings.actions.lots:
        count = len(kind.config.order_sizes) - 1  # `lots`, or more where they cost little
        _, actions, grid = fitted_sizes(kind.config, trace, params, count, settings.actions.round_to)
        return states, params._replace(grid=grid), actions
    if multiples is None:
        if kind.task.name != ORDERING_TASK or not _packed(params):
            return states, params, None
        grid = np.array(
            np.broadcast_to(np.asarray(params.grid, dtype=np.float64), (len(cases), len(kind.task.actions)))
        )
        actions, grid = in_packs(grid, params)
        return states, params._replace(grid=grid), actions
    covers = _covering(kind.config, trace, params, settings)  # (W, c)
    columns = kind.config.scaled_columns(trace, (multiples[0] - 1.0, *multiples))
    grid = columns["grid"]
    grid[:, 0] = np.minimum(grid[:, 0], 0.0)  # to order nothing is always possible
    if covers.shape[1]:
        grid = np.sort(np.concatenate([grid, covers], axis=1), axis=1)
    step = settings.actions.round_to
    if step > 0.0:
        grid = rounded_up(grid, step)
    actions, grid = in_packs(grid, params)
    return states, params._replace(**columns | {"grid": grid}), actions


def planned_trace(trace: Trace, config: Any, params: Any, settings: Settings) -> Trace:
    """The forecast as it is planned on: in mode "closed", members without a law of their own become independent steps
    on the task's lattice."""
    closed = settings.policy.mode == "closed" and not is_followed(config)
    if not closed or trace.has_law or not hasattr(config, "lots"):
        return trace
    sizes = settings.actions
    found = config.lots(trace, params, max(sizes.lots, 1), sizes.round_to, fitted=sizes.lots > 0)
    return trace.on_lattice(found.unit, settings.actions.points)


def fitted_sizes(config: Any, trace: Trace, params: Any, count: int, step: float) -> tuple[Floats, Floats, Floats]:
    """Lattice unit (W,), actions and grid (W, count + 1) of sizes that fit each series."""
    found = config.lots(trace, params, count, step, fitted=True)
    return (found.unit, *distinct(found.sizes))


def _covering(config: Any, trace: Trace, p: Any, settings: Settings) -> Floats:
    """(W, c) orders, or levels, that cover some periods of mean demand from an order's arrival on, and the economic
    batch: sizes for fixed costs, which one period's spread does not reach. Past the horizon its mean goes on."""
    sizes = settings.actions
    mean = np.maximum(trace.mean[:, :, 0], 0.0)
    lead, horizon = int(getattr(config, "lead_time", 0)), mean.shape[1]
    usual = mean.mean(axis=1)
    found = []
    for count in sizes.periods:
        known = mean[:, lead : lead + count]
        found.append(known.sum(axis=1) + (count - known.shape[1]) * usual)
    if sizes.batch:
        ratio = np.divide(p.fixed_cost, p.holding, out=np.zeros(len(mean)), where=np.asarray(p.holding) > 0.0)
        found.append(np.sqrt(2.0 * ratio * usual))
    out = np.stack(found, axis=1) if found else np.zeros((len(mean), 0))
    if config.orders == "level":  # on top of what is needed until an order arrives
        out = out + (mean[:, :lead].sum(axis=1) + max(0, lead - horizon) * usual)[:, None]
    return out


def rounded_up(amounts: Floats, step: float) -> Floats:
    """To whole multiples of `step`; what is one already, but for rounding, stays."""
    up: Floats = np.ceil(amounts / step - 1e-9) * step + 0.0
    return up


def _packed(p: Any) -> bool:
    if type(p.by_level) is type(p.minimum_order) is type(p.case_pack) is float:  # the same for all series
        return p.by_level == 0.0 and p.minimum_order + p.case_pack != 0.0
    return bool((np.asarray(p.by_level) == 0.0).all() and np.any(np.asarray(p.minimum_order) + p.case_pack))


def in_packs(grid: Floats, p: Any) -> tuple[Floats, Floats]:
    """Actions and grid (W, m) of orders as they are placed; of equal ones all but the first are unavailable."""
    return distinct(_in_packs(grid, p))


def _in_packs(grid: Floats, p: Any) -> Floats:
    """Orders (W, m) as they are placed, at least the minimum and in whole packs, so that an action says what it orders
    (`rules.ordered`). Levels stay: what they order depends on the stock."""
    if not _packed(p):
        return grid
    least, pack = (np.reshape(np.asarray(x, dtype=np.float64), (-1, 1)) for x in (p.minimum_order, p.case_pack))
    out = np.where(grid > 0.0, np.maximum(grid, least), 0.0)
    size = np.where(pack > 0.0, pack, 1.0)
    return np.where((pack > 0.0) & (out > 0.0), np.ceil(out / size - 1e-9) * size, out)


def _by_column(kind: type[Any], lengths: Sequence[int], rows: Floats) -> Any:
    """A NamedTuple of arrays from flat rows."""
    items, at = [], 0
    for length in lengths:
        items.append(rows[:, at] if length == 0 else rows[:, at : at + length])
        at += max(1, length)
    return kind(*items)
