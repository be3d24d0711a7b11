"""The first use of a kernel: a sample of the windows is held byte by byte against the plain engine.

The sample costs about a second of plain Python: 1 to 256 windows, evenly over the panel. Edges are counted, not
seconds, so what is looked at does not depend on the machine. In closed loop windows differ much in size, and the
smallest of the sample go first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, OutI, Outputs, Status
from ucsearch.engine.plain.run import make_window, run_window
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.task import Task

__all__ = ["SAMPLED", "difference", "spread_over", "take"]

SAMPLED = 256  # windows at most
_EDGES = 250_000  # of 4 us in the plain engine
_CLOSED = 16  # windows of a closed loop among which the small ones are taken

Search = Callable[[Inputs, Outputs, Callable[[int], None]], None]


def difference(
    search: Search, task: Task, layout: Layout, settings: Settings, inputs: Inputs, edges: int, branches: int
) -> str | None:
    """What of the sample differs, in words; None if nothing does. `search(inputs, outputs, plainly)` runs the kernel;
    `edges`: of all windows, roughly. Windows that take the plain engine more than the whole second are not told."""
    windows = inputs.windows
    closed = settings.mode == MODES["closed"]
    count = _CLOSED if closed else min(SAMPLED, max(1, _EDGES * windows // max(edges, 1)))
    chosen = spread_over(windows, count)
    few = take(inputs, chosen)
    m = inputs.actions.shape[1]
    plain, fast = (Outputs.empty(len(chosen), m, settings.depth, True, branches) for _ in range(2))
    edges_left = [_EDGES]

    def spent() -> bool:
        edges_left[0] -= 1
        return edges_left[0] < 0

    search(few, fast, lambda w: run_window(task, settings, layout, few, fast, w, {}))
    size = fast.out_i[:, OutI.EXPANSIONS]
    done = np.zeros(len(chosen), dtype=bool)
    for w in np.argsort(size, kind="stable").tolist() if closed else range(len(chosen)):
        if closed and done.any() and size[done].sum() + size[w] > _EDGES:
            break
        run_window(task, settings, layout, few, plain, w, {}, spent)
        done[w] = plain.out_i[w, OutI.STATUS] != Status.OUT_OF_TIME
    pairs: list[tuple[str, Any, Any]] = list(zip(Outputs._fields, plain, fast, strict=True))
    for name, expected, actual in pairs:
        for w in np.flatnonzero(done).tolist():
            if expected[w].tobytes() != actual[w].tobytes():
                cause = _differing_fill(task, settings, layout, few, w)
                return f"{name} of window {int(chosen[w])}{'; ' if cause else ''}{cause}"
    return None


def _differing_fill(task: Task, settings: Settings, layout: Layout, inputs: Inputs, w: int) -> str:
    """Whether `Task.prepare_into` is what makes a window differ, in words; "" if it is not."""
    if task.prepare is None or task.prepare_into is None or not settings.use_bound or settings.mode != MODES["mean"]:
        return ""
    window = make_window(task, settings, layout, inputs, w)
    return task.prepare_into.difference(task.prepare, *window.forecast()) or ""


def spread_over(windows: int, count: int) -> NDArray[np.int64]:
    """At most `count` windows, evenly over the panel."""
    return np.unique(np.arange(count) * windows // count) if windows > count else np.arange(windows)


def take(inputs: Inputs, windows: NDArray[np.int64] | slice) -> Inputs:
    """Some windows of a panel; what all windows share stays shared."""
    total = len(inputs.states)
    return Inputs(*(x[windows] if x.shape[0] == total and total > 1 else x for x in inputs))
