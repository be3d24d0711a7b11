"""How many transitions closed loop could have at most, from how many values each part of a state can take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ucsearch.tasks.inventory import rules
from ucsearch.tasks.inventory.lead_times import draws

if TYPE_CHECKING:
    from typing import Any

    from ucsearch.tasks.inventory.record import LeadTimeInventory

__all__ = ["most_transitions", "offered_tables"]

Floats = NDArray[np.float64]


def offered_tables(config: LeadTimeInventory, windows: int, actions: Floats | None) -> list[Floats]:
    """(m, 1) sizes, or (m, 2) pairs of sizes, of every window."""
    own = config.pairs if config.has_two_suppliers else config.order_sizes
    found = [np.asarray(own if actions is None else actions[w], np.float64) for w in range(windows)]
    tables = [table.reshape(len(table), -1) for table in found]
    return [table[~np.isnan(table).any(axis=1)] for table in tables]


def most_transitions(
    config: LeadTimeInventory, state: Any, table: Floats, unit: float, room: float, depth: int, points: int
) -> float:
    """Every open order is any of the sizes offered, stock any multiple of `unit` up to all that can have arrived, an
    age of stock any part of one order."""
    largest = float(table.sum(axis=1).max())
    sizes = math.prod(len(np.unique(column)) for column in table.T)
    ages = 1.0 + largest / unit
    drawn = len(draws(config.lead_shares)[0]) if config.lead_times else 1
    places = max(0, config.places - config.is_merged)
    share = sum(config.calendar.open) / len(config.calendar.open)
    total = 0.0
    for h in range(depth):
        orders = min(math.ceil(h * share), places)
        levels = 1.0 + min(max(rules.position_of(state), 0.0) + h * largest * share, room) / unit
        if config.unmet == "backordered":
            levels += h * points
        if config.ages:
            levels = min(levels, ages) ** min(config.ages, h + 1)
        if config.ramp is not None:
            levels *= len(table)
        open_days = share if config.has_calendar else 1.0
        total += sizes**orders * levels * (1.0 + (len(table) - 1) * open_days) * points * drawn
    return total
