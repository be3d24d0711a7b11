"""An inventory on a lattice, for closed mode: few states, because many ways lead to the same stock."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.tasks.checks import whole
from ucsearch.tasks.lots import lots
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from ucsearch.tasks.inventory import LeadTimeInventory

__all__ = ["Lattice", "on_lattice"]


class Lattice(NamedTuple):
    """An inventory whose states repeat, with the law of its demand."""

    unit: float  # units of the item between neighbouring points
    trace: Trace
    inventory: LeadTimeInventory


def on_lattice(config: LeadTimeInventory, trace: Trace, unit: float | None, points: int, orders: int) -> Lattice:
    """`LeadTimeInventory.lattice`."""
    if config.spoilage > 0.0:
        raise InputError("spoilage", config.spoilage, "0 on a lattice: what is left of a share lies between its points")
    whole("orders", orders, 2, 1000)
    if trace.is_scores:
        raise InputError("trace", "a trace of action scores", "a trace of members")
    mean = np.maximum(trace.mean[:, :, 0], 0.0).mean(axis=0)[None]  # one item, or items alike
    found = lots(mean, config.lead_time, config.params(), orders - 1, unit=unit)
    sizes = tuple(x for x in found.sizes[0].tolist() if x == x)
    merged = config.unmet == "lost" and not config.is_planned
    own = dataclasses.replace(config, orders="quantity", order_sizes=sizes, merge_arrivals=merged)
    return Lattice(float(found.unit[0]), trace.on_lattice(float(found.unit[0]), points), own)
