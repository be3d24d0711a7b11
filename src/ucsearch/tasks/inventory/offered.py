"""What an inventory is offered and how it is planned: order sizes of each series, order cycles for long lead times.

A closed-loop state holds an order for every period of the lead time, so the number of states grows with a power of the
order sizes: at lead time 4 a plan of eight periods is beyond five million transitions. For longer lead times every
order that could be placed now is followed by order cycles (a batch whenever a level is reached, or none at all, the
best of ten) over whole sample paths, to the end of the forecast; the best of these is proved by trying all.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.policies import Exact, Policy
from ucsearch.tasks.inventory.sizes import distinct
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from ucsearch.tasks.inventory.record import LeadTimeInventory

__all__ = [
    "CYCLE_STEPS", "fitted_sizes", "in_packs", "needs_cycles", "offered_sizes",
    "with_cycles",
]  # fmt: skip

Floats = NDArray[np.float64]
LONGEST_CLOSED = 2  # periods of lead time
CYCLE_STEPS = 14  # periods after the first arrival over which order cycles are compared
_FINER = 4  # times as many order sizes as `lots`: here they cost their number, not a power of it


def needs_cycles(config: Any, policy: Policy) -> bool:
    """Whether closed loop with fitted order sizes has too many states."""
    if policy.mode != "closed" or not isinstance(policy, Exact) or getattr(config, "is_general", False):
        return False
    if getattr(config, "is_planned", False) or getattr(config, "base_stock_levels", ()):
        return False
    return hasattr(config, "order_cycles") and int(config.lead_time) > LONGEST_CLOSED


def with_cycles(config: Any, lots: int) -> Any:
    """Followed by order cycles, with more sizes: they are only counted here, each series has its own."""
    sizes = tuple(float(i) for i in range(_FINER * lots + 1))
    return dataclasses.replace(config, order_cycles=True, order_sizes=sizes)


def offered_sizes(config: LeadTimeInventory, trace: Trace, params: Any, sizes: Any) -> tuple[Any, Floats | None]:
    """Params and actions (W, m) of the order sizes that [actions] ask for; None: the sizes of the task as they are."""
    if sizes.lots:
        count = len(config.order_sizes) - 1  # `lots`, or more where they cost little
        _, actions, grid = fitted_sizes(config, trace, params, count, sizes.round_to)
        return params._replace(grid=grid), actions
    if sizes.multiples is None:
        if config.has_two_suppliers or not _packed(params):
            return params, None
        grid = np.array(
            np.broadcast_to(np.asarray(params.grid, np.float64), (len(trace.mean), len(config.order_sizes)))
        )
        actions, grid = in_packs(grid, params)
        return params._replace(grid=grid), actions
    covers = _covering(config, trace, params, sizes)  # (W, c)
    columns = config.scaled_columns(trace, (sizes.multiples[0] - 1.0, *sizes.multiples))
    grid = columns["grid"]
    grid[:, 0] = np.minimum(grid[:, 0], 0.0)  # to order nothing is always possible
    if covers.shape[1]:
        grid = np.sort(np.concatenate([grid, covers], axis=1), axis=1)
    step = sizes.round_to
    if step > 0.0:  # whole multiples; what is one already, but for rounding, stays
        grid = rounded_up(grid, step)
    actions, grid = in_packs(grid, params)
    return params._replace(**columns | {"grid": grid}), actions


def fitted_sizes(config: Any, trace: Trace, params: Any, count: int, step: float) -> tuple[Floats, Floats, Floats]:
    """Lattice unit (W,), actions and grid (W, count + 1) of sizes that fit each series. With two suppliers actions are
    (W, m, 2), every size of the regular one with every size of the expedited one, and the grid is the regular one's."""
    if not config.has_two_suppliers:
        found = config.lots(trace, params, count, step, fitted=True)
        return (found.unit, *distinct(found.sizes))
    lots, fast = config.lots_of_pairs(trace, params, step)
    slow, grid = distinct(lots.sizes)
    fast, _ = distinct(fast)
    shape = (len(slow), slow.shape[1], fast.shape[1])
    pairs = np.stack([np.broadcast_to(slow[:, :, None], shape), np.broadcast_to(fast[:, None, :], shape)], axis=-1)
    pairs = np.where(np.isnan(pairs).any(axis=-1, keepdims=True), np.nan, pairs)
    return lots.unit, pairs.reshape(len(slow), -1, 2), grid


def _covering(config: LeadTimeInventory, trace: Trace, p: Any, sizes: Any) -> Floats:
    """(W, c) orders, or levels, that cover some periods of mean demand from an order's arrival on, and the economic
    batch: sizes for fixed costs, which one period's spread does not reach. Past the horizon its mean goes on."""
    mean = np.maximum(trace.mean[:, :, 0], 0.0)
    lead, horizon = config.lead_time, mean.shape[1]
    usual = mean.mean(axis=1)
    covers = []
    for count in sizes.periods:
        known = mean[:, lead : lead + count]
        covers.append(known.sum(axis=1) + (count - known.shape[1]) * usual)
    if sizes.batch:
        ratio = np.divide(p.fixed_cost, p.holding, out=np.zeros(len(mean)), where=np.asarray(p.holding) > 0.0)
        covers.append(np.sqrt(2.0 * ratio * usual))
    out = np.stack(covers, axis=1) if covers else np.zeros((len(mean), 0))
    if config.orders == "level":  # on top of what is needed until an order arrives
        out = out + (mean[:, :lead].sum(axis=1) + max(0, lead - horizon) * usual)[:, None]
    return out


def rounded_up(quantities: Floats, unit: Any) -> Floats:
    """The least multiples of `unit` that are not below; a rounding error above a multiple does not count."""
    return np.asarray(np.ceil(quantities / unit - 1e-9) * unit + 0.0)


def _packed(p: Any) -> bool:
    if type(p.by_level) is type(p.minimum_order) is type(p.case_pack) is float:  # the same for all series
        return p.by_level == 0.0 and p.minimum_order + p.case_pack != 0.0
    return bool((np.asarray(p.by_level) == 0.0).all() and np.any(np.asarray(p.minimum_order) + p.case_pack))


def in_packs(grid: Floats, p: Any) -> tuple[Floats, Floats]:
    """Actions and grid (W, m) of orders as they are placed, at least the minimum and in whole packs, so that an action
    says what it orders; of equal ones all but the first are unavailable. Levels stay: what they order depends on the
    stock."""
    if not _packed(p):
        return distinct(grid)
    least, pack = (np.reshape(np.asarray(x, dtype=np.float64), (-1, 1)) for x in (p.minimum_order, p.case_pack))
    out = np.where(grid > 0.0, np.maximum(grid, least), 0.0)
    size = np.where(pack > 0.0, pack, 1.0)
    return distinct(np.where((pack > 0.0) & (out > 0.0), rounded_up(out, size), out))
