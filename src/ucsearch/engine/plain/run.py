"""Run one window through the plain engine and write the result where the compiled engine would."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ucsearch.engine.arrays import TABLE, Col, Inputs, Outputs, Status
from ucsearch.engine.plain.beam import beam
from ucsearch.engine.plain.closed import closed, closed_shared
from ucsearch.engine.plain.exact import exact
from ucsearch.engine.plain.mcts import mcts
from ucsearch.engine.plain.outcome import Outcome
from ucsearch.engine.plain.window import OutOfTime, TaskFault, Window
from ucsearch.engine.registry import ALGORITHMS, register
from ucsearch.layout import Layout, own_row
from ucsearch.policies import Settings
from ucsearch.task import Task

__all__ = ["make_window", "run_shared", "run_window"]

_KERNELS = "ucsearch.engine.kernels"
register("beam", beam, module=f"{_KERNELS}.beam")
register("exact", exact, module=f"{_KERNELS}.exact")
register("closed", closed, module=f"{_KERNELS}.closed")
register("mcts", mcts, module=f"{_KERNELS}.mcts")


def make_window(
    task: Task,
    settings: Settings,
    layout: Layout,
    inputs: Inputs,
    w: int,
    stop: Callable[[], bool] | None = None,
) -> Window:
    """One window's arrays as Python lists (indexing NumPy scalars would double the time)."""
    params_layout = task.params_layout
    row = own_row(inputs.params, w)
    return Window(
        task=task,
        settings=settings,
        layout=layout,
        params=None if params_layout is None else params_layout.build(row.tolist()),
        actions=[task.action_of(a) for a in own_row(inputs.actions, w).tolist()],
        mean=task.outcomes_of(own_row(inputs.mean, w).tolist()),
        members=[task.outcomes_of(m) for m in own_row(inputs.members, w).tolist()],
        weights=own_row(inputs.weights, w).tolist(),
        q=own_row(inputs.q, w).tolist(),
        u=own_row(inputs.u, w).tolist(),
        mean_array=own_row(inputs.mean, w),
        member_array=own_row(inputs.members, w),
        stop=stop,
    )


def run_window(
    task: Task,
    settings: Settings,
    layout: Layout,
    inputs: Inputs,
    outputs: Outputs,
    w: int,
    faults: dict[int, TaskFault],
    stop: Callable[[], bool] | None = None,
) -> None:
    """Search window w and fill row w of the outputs. What a task function raised goes to `faults`. Where `stop` says
    so, the search ends between two actions and has found nothing."""
    m = inputs.actions.shape[1]
    try:
        window = make_window(task, settings, layout, inputs, w, stop)
        out = ALGORITHMS[settings.algorithm].plain(window, layout.build(inputs.states[w].tolist()))
    except OutOfTime:
        outputs.blank(w, Status.OUT_OF_TIME)
        return
    except TaskFault as fault:
        out = Outcome(m, status=Status.TASK_ERROR, fault=(fault.kind, fault.step, fault.action))
        faults[w] = fault
    _write(out, outputs, w)


def run_shared(
    task: Task, settings: Settings, layout: Layout, inputs: Inputs, outputs: Outputs,
    stop: Callable[[], bool] | None = None,
) -> bool:  # fmt: skip
    """Closed mode: windows that share law, parameters and actions are searched in one, so that what several reach is
    valued once. False, with nothing written, where they do not, or where one of them has to be looked at alone."""
    if settings.algorithm != "closed" or inputs.windows < 2 or any(len(x) > 1 for x in inputs[1:]):
        return False
    try:
        window = make_window(task, settings, layout, inputs, 0, stop)
        found = closed_shared(window, [layout.build(row) for row in inputs.states.tolist()])
    except (OutOfTime, TaskFault):
        return False
    for w, out in enumerate(found or ()):
        _write(out, outputs, w)
    return found is not None


def _write(out: Outcome, outputs: Outputs, w: int) -> None:
    best, m = out.best, out.size
    outputs.out_i[w] = (
        int(out.status), -1 if best is None else best.path[0], out.expansions, out.action_scores, out.simulations,
        -1 if best is None else best.continuation, *out.fault,
    )  # fmt: skip
    outputs.out_f[w] = (
        (math.nan,) * 3 + (out.upper,) if best is None else (best.score, best.reward, best.uncertainty, out.upper)
    )
    outputs.flags[w] = out.flags
    outputs.path[w] = -1 if best is None else best.path
    table = np.full((m, TABLE), math.nan)
    for i, node in enumerate(out.firsts):
        table[i, Col.UPPER : Col.GROSS] = out.bounds[i], *out.steps[i]
        if node is not None:
            table[i, : Col.UPPER] = node.score, node.reward, node.uncertainty
            table[i, Col.GROSS] = node.gross
            if outputs.paths.shape[0]:
                outputs.paths[w, i] = node.path
    for i, path in enumerate(out.branches if outputs.paths.shape[0] else ()):
        outputs.paths[w, m + i] = path
    outputs.table[w] = table
