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
from ucsearch.engine.arrays import Inputs, read_only
from ucsearch.engine.choose import choose_kernel
from ucsearch.engine.status import ENUMERATE_BELOW, Status
from ucsearch.errors import BudgetError, InputError
from ucsearch.layout import Layout, own_row
from ucsearch.policies import MODES, Settings
from ucsearch.task import Task

__all__ = ["MembersBounds", "members_bounds"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

_MAX_NODES = 1 << 28  # node numbers are 32-bit
_MAX_STEPS = 1_000_000


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
    enough: float | None = None,
    few_plans: int = ENUMERATE_BELOW,
    only: NDArray[np.bool_] | None = None,
    threads: int = 1,
) -> MembersBounds:
    """Bound every first action of every window.

    `incumbent` (W, d): action indices of the best known path, a row of -1 where there is none; it steers the search
    for good weights and is not trusted. `steps` passes per first action, `node_budget` member states per window
    (beyond it the window is NaN). `enough`: stop improving a bound once it lies this far below the incumbent's score.
    Up to `few_plans` action sequences are enumerated instead, which is cheaper and exact. `only` (W,): windows to
    compute, the rest is NaN. Tasks with continuations are not supported: all NaN.
    """
    windows, m = inputs.states.shape[0], inputs.actions.shape[1]
    _check(settings, inputs, incumbent, engine, enough, only)
    _check_counts(
        steps=(steps, 1, _MAX_STEPS),
        node_budget=(node_budget, 1, _MAX_NODES),
        threads=(threads, 1, 1024),
        few_plans=(few_plans, 0, _MAX_NODES),
    )
    found = MembersBounds(
        np.full((windows, m), np.nan), np.full((windows, m), np.nan), np.zeros(windows, np.bool_),
        np.zeros(windows, np.int64), np.zeros((windows, 3), np.int64),
    )  # fmt: skip
    wanted = np.arange(windows) if only is None else np.flatnonzero(only)
    if task.continuations or not wanted.size:
        return found
    from ucsearch.certificate.members.dual import first_bounds

    s = settings._replace(
        algorithm=ALGORITHM, use_bound=False, node_budget=node_budget, extra_i=(), extra_f=(), reach=settings.depth
    )
    inputs = Inputs(*map(read_only, inputs))
    kernel = _kernel(task, layout, s, inputs, engine, int(wanted.size))
    factors = np.array(s.discounts)
    paths = np.ascontiguousarray(incumbent, np.int64)
    allowance = np.inf if enough is None else float(enough)

    def one(w: int) -> None:
        graph = None
        if kernel is not None:
            with contextlib.suppress(Exception):  # a rule raised in compiled code: the plain engine says where
                graph = compiled_graph(kernel, s, inputs, factors, w)
        if graph is None:
            graph = window_graph(task, s, layout, inputs, w)
        found.nodes[w], found.fault[w] = graph.nodes, graph.fault
        if graph.status != Status.PROVED:
            return
        weights = np.array(own_row(inputs.weights, w))
        actions = own_row(inputs.actions, w)
        plans = 1.0
        for _ in range(s.depth):
            plans *= float(np.count_nonzero(actions == actions))
        few = plans <= few_plans
        found.nodes[w] += first_bounds(
            s.depth, m, graph.starts, graph.first, graph.act, graph.child, graph.gain, graph.end, weights, s.risk,
            (s.spread, s.tail), paths[w], steps, few, allowance, found.upper[w], found.perfect[w],
        )  # fmt: skip
        found.exact[w] = few

    if kernel is None or threads == 1 or wanted.size == 1:
        for w in wanted.tolist():
            one(w)
    else:
        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(one, wanted.tolist()))
    return found


def _kernel(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, engine: str, windows: int
) -> Callable[..., Any] | None:
    """The generated kernel, or None for plain Python."""
    members, m = inputs.members.shape[1], inputs.actions.shape[1]
    states = min(settings.node_budget, members * m ** min(settings.depth - 1, 24))
    return cast(Callable[..., Any] | None, choose_kernel(task, layout, settings, engine, windows * states * m))


def _check(settings: Settings, inputs: Inputs, incumbent: Any, engine: Any, enough: Any, only: Any) -> None:
    windows, m = inputs.states.shape[0], inputs.actions.shape[1]
    if settings.mode != MODES["members"]:
        raise InputError(
            "settings.mode", settings.mode, f"{MODES['members']} (members): it is no bound for other modes"
        )
    if engine not in ("auto", "python", "compiled"):
        raise InputError("engine", repr(engine), "'auto', 'python' or 'compiled'")
    if enough is not None and not (isinstance(enough, int | float) and enough >= 0.0):
        raise InputError("enough", repr(enough), "None or a number of at least 0")
    paths = np.asarray(incumbent)
    if paths.shape != (windows, settings.depth) or paths.dtype.kind not in "iu":
        seen = f"{paths.dtype} {paths.shape}"
        raise InputError("incumbent", seen, f"action indices of shape ({windows}, {settings.depth})")
    if not ((paths >= -1) & (paths < m)).all():
        at = tuple(int(i) for i in np.argwhere(~((paths >= -1) & (paths < m)))[0])
        raise InputError("incumbent", int(paths[at]), f"an action index from -1 to {m - 1}", index=at)
    if only is not None and (np.asarray(only).dtype != np.bool_ or np.shape(only) != (windows,)):
        raise InputError("only", f"{np.asarray(only).dtype} {np.shape(only)}", f"({windows},) booleans")


def _check_counts(**counts: tuple[Any, int, int]) -> None:
    for name, (value, low, high) in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise BudgetError(name, repr(value), f"a whole number from {low} to {high}")
