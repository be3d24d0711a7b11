"""Rolling a path through every member by a kernel: for callers that prepared it, such as a service.

Nothing is compiled on the way: `prepare` does it once, and without it the plain functions are asked. Only rules of this
package are taken: a rule that divides by zero raises in plain Python and goes on when compiled, and which of the two a
stranger's does for a member far from the mean, nobody has looked at.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, read_only
from ucsearch.engine.compiled import compile as kernels
from ucsearch.layout import Layout
from ucsearch.policies import MODES
from ucsearch.task import Task

__all__ = ["kept_weights", "prepare"]

Floats = NDArray[np.float64]


_KIND = kernels.Kind("ucsearch.engine.kernels.keeping", MODES["mean"], False)


def prepare(task: Task, layout: Layout) -> bool:
    """Load or compile the kernel for states of this layout; False where there is none to be had."""
    if not _is_ours(task):
        return False
    known: dict[Layout, kernels.Kernel] = task.__dict__.setdefault("_keeping", {})
    if layout in known:
        return True

    def warm(kernel: Callable[..., None]) -> None:
        rows = np.zeros((0, layout.size))
        members = np.zeros((0, 1, 1, task.fields))
        _call(kernel, task, Inputs(rows, task.params_row, task.action_array[None], rows, members, np.ones((1, 1)),
                                   rows, rows), np.zeros((0, 1), np.int32))  # fmt: skip

    try:
        made = kernels.load(task, layout, _KIND, warm, f"rolling through members for task {task.name!r}")
    except Exception:  # numba raises many kinds; the plain functions are asked instead
        return False
    known[layout] = made
    return True


def kept_weights(task: Task, layout: Layout, inputs: Inputs, paths: NDArray[np.int32]) -> Floats | None:
    """(W,) weight of members for which `paths` (W, d; -1: none) keep every rule; None where no kernel is ready."""
    found = task.__dict__.get("_keeping", {}).get(layout)
    if found is None or not inputs.members.shape[1]:
        return None
    try:
        return _call(found.call, task, inputs, paths)
    except Exception:  # a rule raised for some member: the plain functions say what that means
        return None


def _call(kernel: Callable[..., None], task: Task, inputs: Inputs, paths: NDArray[np.int32]) -> Floats:
    rows = inputs.states
    if task.timed:
        rows = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    out = np.empty(len(rows))
    arrays = (rows[:, None, :], inputs.params, inputs.actions, inputs.members, inputs.weights, paths)
    kernel(*(read_only(x) for x in arrays), out)
    return out


def _is_ours(task: Task) -> bool:
    return all(str(getattr(f, "__module__", "")).startswith("ucsearch.") for f in (task.feasible, task.step))
