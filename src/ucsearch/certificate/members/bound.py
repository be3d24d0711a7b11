"""Upper bounds on what a first action can score in members mode: perfect information, reweighted and penalised.

Each member may plan for itself, which is too good to be true; weights move the members towards the worst case the
spread stands for, and penalties on departing from one another take most of the rest back (the proof
is in `members_dual`). Task functions run once per member state, through the engine asked for; the numerical part is
the same compiled code for both engines, so their bounds are equal to the bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.members.graph import ALGORITHM, compiled_graph, window_graph
from ucsearch.engine.arrays import ENUMERATE_BELOW, Inputs, Status, read_only
from ucsearch.engine.choose import choose_kernel
from ucsearch.layout import Layout, own_row
from ucsearch.policies import Settings
from ucsearch.task import Task

__all__ = ["MembersBounds", "members_bounds"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MembersBounds:
    """W windows, m first actions."""

    upper: Floats  # (W, m) bound on S of every common plan that starts with the action; NaN: not computed;
    # -inf: proved that there is no such plan (not allowed now, or no completion)
    perfect: (
        Floats  # (W, m) the same with weights 1 and no penalties, for comparison; -inf if a member has no completion
    )
    exact: NDArray[np.bool_]  # (W,) few enough plans to enumerate: `upper` is Q itself
    nodes: Longs  # (W,) member states created, plus joint nodes where plans were enumerated
    fault: Longs  # (W, 3) kind, step, action index of what a task function did wrong on some member's way; kind 0: none


def members_bounds(
    task: Task,
    layout: Layout,
    settings: Settings,
    inputs: Inputs,
    incumbent: NDArray[np.integer[Any]],
    *,
    steps: int = 150,
    node_budget: int = 500_000,
    engine: Literal["auto", "python", "compiled"] = "auto",
    few_plans: int = ENUMERATE_BELOW,
    only: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> MembersBounds:
    """Bound every first action of every window.

    `incumbent` (W, d): action indices of the best known path, a row of -1 where there is none; it steers the search
    for good weights and is not trusted. `steps` passes per first action, `node_budget` member states per window
    (beyond it the window is NaN). Up to `few_plans` action sequences are enumerated instead, which is cheaper and
    exact. `only` (W,): windows to compute, the rest is NaN. Tasks with continuations are not supported: all NaN.
    """
    windows, m = inputs.states.shape[0], inputs.actions.shape[1]
    bounds = MembersBounds(
        np.full((windows, m), np.nan), np.full((windows, m), np.nan), np.zeros(windows, np.bool_),
        np.zeros(windows, np.int64), np.zeros((windows, 3), np.int64),
    )  # fmt: skip
    chosen = np.arange(windows) if only is None else np.flatnonzero(only)
    if task.continuations or not chosen.size:
        return bounds
    from ucsearch.certificate.members.dual import first_bounds

    s = settings._replace(
        algorithm=ALGORITHM, use_bound=False, node_budget=node_budget, extra_i=(), extra_f=(), reach=settings.depth
    )
    inputs = Inputs(*map(read_only, inputs))
    kernel = _kernel(task, layout, s, inputs, engine, int(chosen.size))
    factors = np.array(s.discounts)
    paths = np.ascontiguousarray(incumbent, np.int64)

    def bound_window(w: int) -> None:
        graph = None
        if kernel is not None:
            with contextlib.suppress(Exception):  # a rule raised in compiled code: the plain engine says where
                graph = compiled_graph(kernel, s, inputs, factors, w)
        if graph is None:
            graph = window_graph(task, s, layout, inputs, w)
        bounds.nodes[w], bounds.fault[w] = graph.nodes, graph.fault
        if graph.status != Status.PROVED:
            return
        weights = np.array(own_row(inputs.weights, w))
        actions = own_row(inputs.actions, w)
        plans = 1.0
        for _ in range(s.depth):
            plans *= float(np.count_nonzero(actions == actions))
        few = plans <= few_plans
        bounds.nodes[w] += first_bounds(
            s.depth, m, graph.starts, graph.first, graph.act, graph.child, graph.gain, graph.end, weights, s.risk,
            (s.spread, s.tail), paths[w], steps, few, bounds.upper[w], bounds.perfect[w],
        )  # fmt: skip
        bounds.exact[w] = few

    if kernel is None or threads == 1 or chosen.size == 1:
        for w in chosen.tolist():
            bound_window(w)
    else:
        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(bound_window, chosen.tolist()))
    return bounds


def _kernel(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, engine: str, windows: int
) -> Callable[..., Any] | None:
    """The generated kernel, or None for plain Python."""
    members, m = inputs.members.shape[1], inputs.actions.shape[1]
    states = min(settings.node_budget, members * m ** min(settings.depth - 1, 24))
    return cast(Callable[..., Any] | None, choose_kernel(task, layout, settings, engine, windows * states * m))
