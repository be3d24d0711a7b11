"""`search` for one window, `search_panel` for many. Inputs are checked before any work is done."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.engine.arrays import Inputs, OutI, Outputs, one_window, read_only
from ucsearch.engine.choose import WORTH_COMPILING, choose_kernel, edges_asked
from ucsearch.engine.compiled.engine import Single, ready_kernel, single
from ucsearch.engine.compiled.engine import run as run_compiled
from ucsearch.engine.compiled.first_use import take
from ucsearch.engine.inputs import (
    action_grid,
    branches,
    forecast_arrays,
    inputs_of,
    panel_states,
    panel_trace,
    params_rows,
    unstructured,
)
from ucsearch.engine.panel import PanelPlan
from ucsearch.engine.plain.faults import TaskFault
from ucsearch.engine.plain.run import run_shared, run_window
from ucsearch.engine.plan import Plan
from ucsearch.engine.status import Status
from ucsearch.errors import InputError, TaskError
from ucsearch.layout import Layout
from ucsearch.options import Engine
from ucsearch.policies import MODES, Policy, Settings, resolve
from ucsearch.rules.identity import Identity
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["search", "search_again", "search_panel", "thread_count"]

Floats = NDArray[np.float64]
Faults = dict[int, TaskFault]  # by window

# Plain numbers: an enum compares slowly.
_TASK_ERROR, _CLOSED, _STATUS = int(Status.TASK_ERROR), MODES["closed"], int(OutI.STATUS)
_LONG = 1024  # numbers that an algorithm is told besides
_PREPARED = 64  # combinations of policy and shapes remembered for a task


def search(
    task: Task[State, Params],
    state: State,
    trace: Trace,
    policy: Policy,
    *,
    params: Params | None = None,
    actions: ArrayLike | None = None,
    engine: Engine = "auto",
) -> Plan:
    """Search one window. A dead end is an answer (`plan.action` is None); a broken task raises `TaskError`."""
    last: _Known | None = task.__dict__.get("_kept_call") if type(task) is Task and type(trace) is Trace else None
    row = None if last is None else last.row_as_before(task.identity, state, trace, policy, params, actions, engine)
    if last is None or row is None:
        known, row = _known(task, state, trace, policy, params, actions, engine)
    else:
        known = last
    settings, kernel = known.settings, known.kernel
    closed = settings.mode == _CLOSED
    # Looked at once for each trace; and as calling the class does, which takes twice as long.
    forecast = None if closed else trace.__dict__.get("_kept_forecast")
    inputs = tuple.__new__(Inputs, (row, known.params, known.grid, *(forecast or forecast_arrays(trace, settings))))
    outputs = known.outputs()
    faults: Faults = {}
    if closed and unstructured(trace, settings).any():
        outputs.blank(0, Status.NO_STRUCTURE)
    elif kernel is None:
        run_window(task, settings, known.layout, inputs, outputs, 0, faults)
    else:
        try:
            kernel.entry(kernel.iset, kernel.fset, *inputs, kernel.discounts, *outputs, 0, 1)
        except Exception:  # a rule raised in compiled code: the plain engine says where
            run_window(task, settings, known.layout, inputs, outputs, 0, faults)
    plan = Plan.trusted(known.plan, task, trace, inputs, outputs)
    if outputs.out_i.item(_STATUS) == _TASK_ERROR:
        cause = None
        if faults:
            plan = dataclasses.replace(plan, fault=faults[0].detail)
            cause = faults[0].__cause__  # the user's own traceback
        raise (plan.error or TaskError("unknown fault", task=task.name)) from cause
    return plan


def search_panel(
    task: Task,
    states: Any,
    traces: Trace | ArrayLike | Sequence[Trace],
    policy: Policy,
    *,
    params: Any = None,
    actions: ArrayLike | None = None,
    threads: int | None = None,
    engine: Engine = "auto",
    keep_paths: bool = False,
    progress: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> PanelPlan:
    """Search W windows. `states`: (W, n) array, State of arrays or a sequence of states; a trace of one window may be
    shared by all of them. `params` and `actions` ((W, m), NaN = unavailable) may differ by window. A broken window has
    status TASK_ERROR and stops no other. `keep_paths` also keeps the best path of every first action; `progress` is
    called with windows done. `stop` ends the search when it says so: it is asked between nodes by the plain engine and
    between chunks of windows by the compiled one, from all threads; windows not done by then have status OUT_OF_TIME.
    Engine "cuda" runs the compiled kernels on a GPU, where tasks that would not give the same bytes are refused; what
    is too large for it is done by the CPU. `threads` are cores, all when None.
    """
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    task.check_unchanged()
    trace = panel_trace(traces)
    layout, rows = panel_states(task, states, trace.windows)
    grid = action_grid(task, actions, len(rows))
    settings = _resolved(policy, task, trace, grid.shape[1])
    inputs = inputs_of(rows, params_rows(task, params, len(rows)), grid, trace, settings)
    return _searched(task, trace, policy, settings, layout, inputs, threads, engine, keep_paths, progress, stop)


def search_again(
    plan: PanelPlan, policy: Policy, *, threads: int | None, engine: Engine, keep_paths: bool,
    stop: Callable[[], bool] | None,
) -> PanelPlan:  # fmt: skip
    """The windows of a panel by another policy: what they are was checked and laid out for the first one."""
    task, trace, given = plan.task, plan.trace, plan.inputs
    settings = _resolved(policy, task, trace, given.actions.shape[1])
    inputs = inputs_of(given.states, given.params, given.actions, trace, settings)
    return _searched(task, trace, policy, settings, plan.layout, inputs, threads, engine, keep_paths, None, stop)


def _resolved(policy: Policy, task: Task, trace: Trace, actions: int) -> Settings:
    """`resolve`, once for a policy and all traces of a shape; kept on the task, as policies do not change."""
    known: dict[Any, tuple[Policy, Settings]] = task.__dict__.setdefault("_kept_settings", {})
    key = (id(policy), trace.mean.shape[1:], trace.q.shape[2], actions)
    found = known.get(key)
    if found is None or found[0] is not policy:
        found = (policy, resolve(policy, task, trace, actions))  # the policy is held, so that its id is no other's
        if len(known) >= _PREPARED:
            known.clear()
        if len(found[1].extra_i) <= _LONG:  # a warm start for a whole panel is long and not asked for twice
            known[key] = found
    return found[1]


def _searched(
    task: Task, trace: Trace, policy: Policy, settings: Settings, layout: Layout, inputs: Inputs, threads: int | None,
    engine: Engine, keep_paths: bool, progress: Callable[[int], None] | None, stop: Callable[[], bool] | None,
) -> PanelPlan:  # fmt: skip
    count = thread_count(threads)
    asked = (policy, task, settings)
    on_device = engine == "cuda"
    kernel = (
        None
        if on_device
        else choose_kernel(
            task, layout, settings, engine, edges_asked(*asked, inputs), inputs=_with_structure(inputs, trace, settings)
        )
    )
    windows = inputs.windows
    outputs = Outputs.empty(windows, inputs.actions.shape[1], settings.depth, keep_paths, branches(settings))
    bare = np.resize(unstructured(trace, settings), windows)
    faults: Faults = {}

    def plainly(w: int) -> None:
        run_window(task, settings, layout, inputs, outputs, w, faults, stop)

    if bare.all():
        pass
    elif kernel is None and not on_device and run_shared(task, settings, layout, inputs, outputs, stop):
        if progress is not None:
            progress(windows)
    elif on_device:
        from ucsearch.engine.cuda.engine import Way, run_on_device, take

        left = run_on_device(task, layout, settings, inputs.repeated(), outputs, Way(count, progress, stop))
        if left.size:
            rest = take(inputs.repeated(), left)
            kernel = choose_kernel(task, layout, settings, "auto", edges_asked(*asked, rest), inputs=rest)
            _rest(task, settings, layout, rest, outputs, left, kernel, count, faults, stop)
    else:
        done = 0
        while kernel is None and done < windows:
            plainly(done)
            done += 1
            if progress is not None:
                progress(1)
            if engine == "auto" and settings.algorithm == "closed" and stop is None:
                # How many states repeat is known once some windows are done. A time budget is not spent on compiling.
                ahead = int(outputs.out_i[:done, OutI.EXPANSIONS].mean() * (windows - done))
                if ahead >= WORTH_COMPILING:
                    kernel = choose_kernel(task, layout, settings, engine, ahead, inputs=inputs)
        if kernel is not None:
            faults.clear()
            run_compiled(kernel, settings, inputs.repeated(), outputs, plainly, count, _beyond(done, progress), stop)
    for w in np.flatnonzero(bare).tolist():
        outputs.blank(w, Status.NO_STRUCTURE)
    chosen = "cuda" if on_device else "python" if kernel is None else "compiled"
    said = {w: fault.detail for w, fault in faults.items()}
    return PanelPlan(task, trace, policy, settings, layout, inputs, outputs, chosen, said)


def _beyond(done: int, progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """What is told of windows, less the first ones: those were told before."""
    if progress is None or not done:
        return progress
    lock, told = threading.Lock(), [-done]

    def tell(count: int) -> None:
        with lock:
            before = max(told[0], 0)
            told[0] += count
            more = max(told[0], 0) - before
        if more:
            progress(more)

    return tell


def _rest(
    task: Task,
    settings: Settings,
    layout: Layout,
    inputs: Inputs,
    outputs: Outputs,
    windows: NDArray[np.int64],
    kernel: Any,
    threads: int,
    faults: Faults,
    stop: Callable[[], bool] | None,
) -> None:
    """The windows that a GPU left, given as a panel of their own, by the CPU and into their places."""
    own = Outputs.empty(len(windows), outputs.flags.shape[1], settings.depth, outputs.paths.shape[0] > 0)
    found: Faults = {}

    def plainly(w: int) -> None:
        run_window(task, settings, layout, inputs, own, w, found, stop)

    if kernel is not None:
        run_compiled(kernel, settings, inputs, own, plainly, threads, None, stop)
    else:
        for w in range(len(windows)):
            plainly(w)
    pairs: list[tuple[Any, Any]] = list(zip(outputs, own, strict=True))
    for whole, part in pairs:
        if part.shape[0]:
            whole[windows] = part
    faults.update({int(windows[w]): fault for w, fault in found.items()})


# -------------------------------------------------------------------- preparation


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What calls with the same task, policy and shapes share; kept on the task and let go with it."""

    policy: Policy
    shapes: str  # of the trace
    engine: str
    layout: Layout
    row: Callable[[Any], Floats | None]  # of a state, where nothing has to be looked at
    settings: Settings
    params: Floats
    grid: Floats
    edges: int  # of one call
    outputs: Callable[[], Outputs]  # made anew for each call
    total: int = 0  # evaluated by the plain engine so far
    kernel: Single | None = None  # None: the plain engine
    plan: dict[str, Any] = field(default_factory=dict)  # what their results have in common

    def run_by(self, kernel: Any, total: int = 0) -> _Known:
        ready = None if kernel is None else single(kernel, self.settings)
        common = {"policy": self.policy, "settings": self.settings, "layout": self.layout, "window": 0, "fault": ""}
        common["engine"] = "python" if kernel is None else "compiled"
        return dataclasses.replace(self, kernel=ready, total=total, plan=common)

    def row_as_before(
        self, identity: Identity, state: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None,
        engine: Engine,
    ) -> Floats | None:  # fmt: skip
        """A state's flat row, where this call is like the last one and the rules are still those of `identity`."""
        if (
            self.policy is policy and self.engine is engine and self.shapes is trace.__dict__.get("_kept_shapes")
            and self.layout.kind is type(state) and params is None and actions is None
            and not identity.changed()
        ):  # fmt: skip
            return self.row(state)
        return None


def _known(
    task: Task, state: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None, engine: Engine
) -> tuple[_Known, Floats]:
    """And the state as a flat row."""
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    task.check_unchanged()
    if not isinstance(trace, Trace):
        raise InputError("trace", type(trace).__name__, "a uc.Trace", hint="Build one with Trace.from_members(array).")
    if params is not None or actions is not None or getattr(policy, "mode", "") == "closed":
        return _prepare(task, state, trace, policy, params, actions, engine)
    calls: dict[Any, _Known] = task.__dict__.setdefault("_kept_calls", {})
    key = (id(policy), _shapes(trace), type(state), str(engine))
    known = calls.get(key)
    row = None if known is None or known.policy is not policy else known.row(state)
    if known is not None and row is not None and known.kernel is None and engine == "auto":
        # A kernel may have been loaded since, or the plain engine may have worked long enough to be worth one.
        kernel, total = ready_kernel(task, known.layout, known.settings), known.total + known.edges
        if kernel is None and total >= WORTH_COMPILING:
            kernel = choose_kernel(task, known.layout, known.settings, engine, known.edges, known.total)
            total = 0
        if kernel is None:
            calls[key] = known = known.run_by(None, total)
        else:
            row = None  # prepared anew, with the kernel
    if known is None or row is None:
        known, row = _prepare(task, state, trace, policy, params, actions, engine)
        if len(calls) >= _PREPARED:
            calls.clear()
        calls[key] = known
    if known.kernel is not None:
        task.__dict__["_kept_call"] = known
    return known, row


def _with_structure(inputs: Inputs, trace: Trace, settings: Settings) -> Inputs:
    """The windows that a closed search can look at; in other modes all."""
    bare = np.resize(unstructured(trace, settings), inputs.windows)
    return take(inputs, np.flatnonzero(~bare)) if bare.any() else inputs


def _shapes(trace: Trace) -> str:
    """What a search prepares itself by, in words of which there is one each; looked at once for each trace."""
    found: str | None = trace.__dict__.get("_kept_shapes")
    if found is None:
        found = sys.intern(repr((trace.members.shape, trace.mean.shape, trace.q.shape, trace.panel)))
        trace.__dict__["_kept_shapes"] = found
    return found


def _prepare(
    task: Task, state: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None, engine: Engine
) -> tuple[_Known, Floats]:
    if trace.panel and trace.windows != 1:
        raise InputError(
            "trace", f"{trace.windows} windows", "one window",
            hint="Use search_panel, or pass fields= for (members, horizon, fields) arrays.",
        )  # fmt: skip
    layout = task.layout(state)
    grid = action_grid(task, actions, 1)
    settings = resolve(policy, task, trace, grid.shape[1])
    row = read_only(np.array([layout.flatten(state, "state")]))
    inputs = inputs_of(row, params_rows(task, params, 1), grid, trace, settings)
    edges = edges_asked(policy, task, settings, inputs)
    structured = _with_structure(inputs, trace, settings)
    kernel = choose_kernel(task, layout, settings, engine, edges, inputs=structured)
    known = _Known(
        policy, _shapes(trace), engine, layout, layout.quick_row, settings, inputs.params, inputs.actions, edges,
        one_window(grid.shape[1], settings.depth, branches(settings)),
    )  # fmt: skip
    return known.run_by(kernel), row


def thread_count(threads: int | None) -> int:
    if threads is None:
        return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise InputError("threads", repr(threads), "a whole number from 1 to 1024")
    return threads
