"""Tables of bounds alone, for a device: a task's `prepare` may do what a device cannot, so the CPU asks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ucsearch.engine.arrays import ISet
from ucsearch.engine.kernels.common import room
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Panel, Shape

__all__ = ["build"]

USE_BOUND = int(ISet.USE_BOUND)


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    BOUNDED = k.bounded
    tables_of, heap_of = rules.tables, jit.heap
    _, _, forecast_of, window_of = room.build(rules, k, jit)

    @jit.entry
    def panel_of(iset, fset, states, params, actions, mean, members, weights, q, u, disc, out, sizes, lo, hi):
        """The tables of windows lo..hi into the rows of `out`, where it has columns; the last one's axes in `sizes`,
        their number first. A table of another size than the columns raises."""
        panel = Panel(states, actions, mean, members, weights, q, u, disc)
        use_bound = iset[USE_BOUND] != 0 and BOUNDED
        forecast = forecast_of(heap_of(), iset, panel, use_bound)
        for w in range(lo, hi):
            win = window_of(w, iset, fset, params, panel, use_bound)
            table = tables_of(win, panel, forecast)[0]
            sizes[0] = table.ndim
            for axis in range(table.ndim):
                sizes[axis + 1] = table.shape[axis]
            if out.shape[1] > 0:
                if table.size != out.shape[1]:
                    raise ValueError("tables of two sizes")
                out[w] = table.ravel()

    entry: Callable[..., None] = panel_of
    return entry
