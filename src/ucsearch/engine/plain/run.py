"""Run one window through the plain engine and write the result where the compiled engine would."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ucsearch.engine.arrays import TABLE, Col, Inputs, Outputs
from ucsearch.engine.plain.beam import beam
from ucsearch.engine.plain.closed import closed
from ucsearch.engine.plain.exact import exact
from ucsearch.engine.plain.faults import OutOfTime, TaskFault
from ucsearch.engine.plain.mcts import mcts
from ucsearch.engine.plain.outcome import Outcome
from ucsearch.engine.plain.window import Window
from ucsearch.engine.registry import ALGORITHMS, register
from ucsearch.engine.status import Status
from ucsearch.layout import Layout, own_row
from ucsearch.policies import Settings
from ucsearch.task import Task

__all__ = ["make_window", "run_window"]

_TEMPLATES = "ucsearch.engine.compiled.templates"
register("beam", beam, _TEMPLATES, "beam.py")
register("exact", exact, _TEMPLATES, "hashing.py", "exact_perfect.py", "exact_programme.py", "exact.py")
register("closed", closed, _TEMPLATES, "closed_states.py", "closed.py")
register("mcts", mcts, _TEMPLATES, "mcts.py")


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
    outcome = task.outcome

    def outcomes(rows: list[list[float]]) -> list[Any]:
        if outcome is None:
            return [r[0] for r in rows]
        width = len(outcome._fields)
        return [outcome(*(r if len(r) == width else r * width)) for r in rows]

    return Window(
        task=task,
        settings=settings,
        layout=layout,
        params=None if params_layout is None else params_layout.build(row.tolist()),
        actions=own_row(inputs.actions, w).tolist(),
        mean=outcomes(inputs.mean[w].tolist()),
        members=[outcomes(m) for m in inputs.members[w].tolist()],
        weights=own_row(inputs.weights, w).tolist(),
        q=inputs.q[w].tolist(),
        u=inputs.u[w].tolist(),
        mean_array=inputs.mean[w],
        member_array=inputs.members[w],
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
    best = out.best
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
