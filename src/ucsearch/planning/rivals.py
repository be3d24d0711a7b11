"""The policies a backtest compares with: classic ordering rules on the same forecast, under the same rules.

Where order sizes are fixed, a rule's wish becomes the nearest size that is allowed; where they scale with the forecast
(a grid made for the search), a rule may order any amount that the limits allow.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ucsearch.inventory.adaptive import forecast_level
from ucsearch.planning.cases import Case
from ucsearch.settings import Settings
from ucsearch.tasks import inventory_rules as rules

__all__ = ["base_stock", "foreseen_actions", "reorder_point"]

Floats = NDArray[np.float64]


def base_stock(case: Case, members: Floats, settings: Settings) -> float:
    """Order up to the critical fractile of demand until the next order can arrive; members are (J, H)."""
    return _placed(case, _level(case, members) - rules.position_of(case.state), settings)


def reorder_point(case: Case, members: Floats, settings: Settings) -> float:
    """(s, S) by the revised power approximation (Ehrhardt and Mosier 1984, Management Science 30(5)): at or below s,
    order up to S. Moments of demand come from the forecast."""
    p = case.params
    span = np.maximum(members[:, : case.kind.lead_time + 1], 0.0)
    mean, total, spread = float(span.mean()), float(span.sum(axis=1).mean()), float(span.sum(axis=1).std())
    top = _level(case, members)
    position = rules.position_of(case.state)
    if not (mean > 0.0 and spread > 0.0 and p.holding > 0.0 and p.fixed_cost > 0.0):
        return _placed(case, top - position, settings)  # without a fixed cost it is base-stock
    batch = 1.30 * mean**0.494 * (p.fixed_cost / p.holding) ** 0.506 * (1.0 + (spread / mean) ** 2) ** 0.116
    z = math.sqrt(batch * p.holding / (_underage(case) * spread)) if _underage(case) > 0.0 else math.inf
    low = 0.973 * total + spread * (0.183 / z + 1.063 - 2.192 * z)
    high = low + batch
    if batch <= 1.5 * mean:
        low, high = min(low, top), min(high, top)
    return _placed(case, high - position if position <= low else 0.0, settings)


def _underage(case: Case) -> float:
    """Currency lost per unit short."""
    return float(case.params.shortage + max(case.params.price - case.params.unit_cost, 0.0))


def _level(case: Case, members: Floats) -> float:
    """The critical fractile of demand over lead time + 1 periods."""
    under, over = _underage(case), case.params.holding
    ratio = under / (under + over) if under + over > 0.0 else 0.5
    return forecast_level(np.maximum(members[:, : case.kind.lead_time + 1], 0.0), min(max(ratio, 0.01), 0.999))


def _placed(case: Case, wanted: float, settings: Settings) -> float:
    """The action that orders about `wanted` units and is allowed."""
    task, state, p = case.kind.task, case.state, case.params
    if settings.actions.multiples is not None:
        step = settings.actions.round_to
        if step > 0.0:
            wanted = math.ceil(wanted / step - 1e-9) * step
        action = rules.order_towards(state, wanted, p)
        if task.feasible(state, action, p):
            return float(action)
    allowed = [a for a in p.grid if task.feasible(state, a, p)]
    if not allowed:
        return math.nan
    return float(min(allowed, key=lambda a: (abs(rules.ordered(state, a, p) - max(wanted, 0.0)), a)))


def foreseen_actions(case: Case, demand: Floats, settings: Settings) -> Floats:
    """(m,) orders that cover the known demand of the lead time and of 1, 2, ... periods more, NaN where one repeats;
    for hindsight, where a forecast has no spread to scale a grid by. Demand (H,) starts with this period."""
    m = len(settings.task.order_sizes)
    lead = case.kind.lead_time
    covered = np.cumsum(np.maximum(demand, 0.0))
    covered = np.concatenate([covered, np.full(lead + m, covered[-1])])[lead : lead + m - 1]
    wanted = covered if case.params.by_level != 0.0 else np.maximum(covered - rules.position_of(case.state), 0.0)
    step = settings.actions.round_to
    if step > 0.0:
        wanted = np.ceil(wanted / step - 1e-9) * step
    grid = np.concatenate([[0.0], wanted])
    grid[1:][~(grid[1:] > np.maximum.accumulate(grid)[:-1])] = np.nan
    return grid
