"""`search` for one window, `search_panel` for many. Inputs are checked here, before any work is done."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.effort import Engine, Run
from ucsearch.engine.arrays import Inputs, OutI, Outputs
from ucsearch.engine.choose import WORTH_COMPILING, choose_kernel, edges_asked
from ucsearch.engine.compiled.engine import call_single, ready_kernel
from ucsearch.engine.compiled.engine import run as run_compiled
from ucsearch.engine.panel import PanelPlan
from ucsearch.engine.plain.run import run_window
from ucsearch.engine.plain.window import TaskFault
from ucsearch.engine.plan import Plan
from ucsearch.engine.status import Status
from ucsearch.errors import InputError, TaskError
from ucsearch.layout import Layout, as_finite, is_named_tuple_type
from ucsearch.policies import MODES, Policy, Settings, resolve
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["search", "search_panel", "thread_count"]

Floats = NDArray[np.float64]
Faults = dict[int, TaskFault]  # by window

# Plain numbers: an enum compares slowly.
_TASK_ERROR, _CLOSED, _STATUS = int(Status.TASK_ERROR), MODES["closed"], int(OutI.STATUS)
_BRANCHES = 2  # of a closed-loop policy: after low and after high outcomes
_PREPARED = 64  # combinations of policy and shapes remembered for a task


def search(
    task: Task,
    state: Any,
    trace: Trace,
    policy: Policy,
    *,
    params: Any = None,
    actions: ArrayLike | None = None,
    engine: Engine = "auto",
    run: Run | None = None,
) -> Plan:
    """Search one window. A dead end is an answer (`plan.action` is None); a broken task raises `TaskError`. The engine
    may come with `run`."""
    engine = engine if run is None else run.engine
    known, row = _known(task, state, trace, policy, params, actions, engine)
    settings, layout, kernel = known.settings, known.layout, known.kernel
    inputs = Inputs(_row(row), known.params, known.grid, *_forecast(trace, settings))
    closed = settings.mode == _CLOSED
    outputs = Outputs.empty(1, known.grid.shape[1], settings.depth, True, _BRANCHES if closed else 0)
    faults = Faults()
    if closed and _unstructured(trace, settings).any():
        outputs.blank(0, Status.NO_STRUCTURE)
    elif kernel is None:
        _plain(task, settings, layout, inputs, outputs, 0, faults)
    else:
        try:
            call_single(kernel, settings, inputs, outputs)
        except Exception:  # a rule raised in compiled code: the plain engine says where
            _plain(task, settings, layout, inputs, outputs, 0, faults)
    plan = Plan.trusted(
        task, trace, policy, settings, layout, inputs, outputs, 0,
        "python" if kernel is None else "compiled", faults[0].detail if faults else "",
    )  # fmt: skip
    if outputs.out_i.item(_STATUS) == _TASK_ERROR:
        error = plan.error
        cause = faults[0].__cause__ if faults else None  # the user's own traceback
        raise (error or TaskError("unknown fault", task=task.name)) from cause
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
    run: Run | None = None,
) -> PanelPlan:
    """Search W windows. `states`: (W, n) array, State of arrays or a sequence of states; `params` and `actions`
    ((W, m), NaN = unavailable) may differ by window. A broken window has status TASK_ERROR and stops no other.
    `keep_paths` also keeps the best path of every first action; `progress` is called with windows done. `stop` ends the
    search when it says so: it is asked between nodes by the plain engine and between chunks of windows by the compiled
    one, from all threads; windows not done by then have status OUT_OF_TIME. Engine "cuda" runs the compiled kernels on
    a GPU, where tasks that would not give the same bytes are refused; windows too large for it are done by the CPU.
    Engine, threads and progress may come with `run`.
    """
    if run is not None:
        engine, threads, progress = run.engine, run.threads, run.progress
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    trace = _panel_trace(traces)
    layout, rows = _panel_states(task, states, trace.windows)
    grid = _actions(task, actions, trace.windows)
    settings = resolve(policy, task, trace, grid.shape[1])
    inputs = _inputs(rows, _params(task, params, trace.windows), grid, trace, settings)
    count = thread_count(threads)
    asked = (policy, task, settings)
    on_device = engine == "cuda"
    kernel = None if on_device else choose_kernel(task, layout, settings, engine, edges_asked(*asked, inputs))
    outputs = Outputs.empty(trace.windows, grid.shape[1], settings.depth, keep_paths, _branches(settings))
    unstructured = _unstructured(trace, settings)
    faults: Faults = {}

    def plainly(w: int) -> None:
        _plain(task, settings, layout, inputs, outputs, w, faults, stop)

    if unstructured.all():
        pass
    elif on_device:
        from ucsearch.engine.cuda.engine import run_on_device, take

        left = run_on_device(task, layout, settings, inputs, outputs, count, progress, stop)
        if left.size:
            rest = take(inputs, left)
            kernel = choose_kernel(task, layout, settings, "auto", edges_asked(*asked, rest))
            _rest(task, settings, layout, rest, outputs, left, kernel, count, faults, stop)
    else:
        done = 0
        while kernel is None and done < trace.windows:
            plainly(done)
            done += 1
            if progress is not None:
                progress(1)
            if engine == "auto" and settings.algorithm == "closed" and stop is None:
                # How many states repeat is known once some windows are done. A time budget is not spent on compiling.
                ahead = int(outputs.out_i[:done, OutI.EXPANSIONS].mean() * (trace.windows - done))
                kernel = choose_kernel(task, layout, settings, engine, ahead) if ahead >= WORTH_COMPILING else None
        if kernel is not None:
            faults.clear()
            run_compiled(kernel, settings, inputs, outputs, plainly, count, _beyond(done, progress), stop)
    for bare in np.flatnonzero(unstructured):
        outputs.blank(int(bare), Status.NO_STRUCTURE)
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
        _plain(task, settings, layout, inputs, own, w, found, stop)

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


def _plain(
    task: Task,
    settings: Settings,
    layout: Layout,
    inputs: Inputs,
    outputs: Outputs,
    w: int,
    faults: Faults,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Window w by the plain engine; what a task function raised goes to `faults`."""
    fault = run_window(task, settings, layout, inputs, outputs, w, stop)
    if fault is not None:
        faults[w] = fault


# -------------------------------------------------------------------- preparation


class _Known(NamedTuple):
    """What calls with the same task, policy and shapes share; kept on the task and let go with it."""

    policy: Policy
    layout: Layout
    settings: Settings
    params: Floats
    grid: Floats
    kernel: Any  # None: the plain engine
    reach: Any  # the rules of which the kernel was made
    edges: int  # of one call
    total: int = 0  # evaluated by the plain engine so far


def _known(
    task: Task, state: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None, engine: Engine
) -> tuple[_Known, list[float]]:
    """And the state as a flat row."""
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    if not isinstance(trace, Trace):
        raise InputError("trace", type(trace).__name__, "a uc.Trace", hint="Build one with Trace.from_members(array).")
    if params is not None or actions is not None or getattr(policy, "mode", "") == "closed":
        return _prepare(task, state, trace, policy, params, actions, engine)
    calls: dict[Any, _Known] = task.__dict__.setdefault("_kept_calls", {})
    key = (id(policy), _shapes(trace), type(state), str(engine))
    known = calls.get(key)
    if known is not None and known.policy is policy and (row := known.layout.quick(state)) is not None:
        if known.kernel is not None:
            if known.reach is task.reach():  # else the rules have changed
                return known, row
        elif engine != "auto":
            return known, row
        else:
            # A kernel may have been loaded since, or the plain engine may have worked long enough to be worth one.
            known = known._replace(total=known.total + known.edges)
            kernel = ready_kernel(task, known.layout, known.settings)
            if kernel is None and known.total >= WORTH_COMPILING:
                before = known.total - known.edges
                kernel = choose_kernel(task, known.layout, known.settings, engine, known.edges, before)
                known = known._replace(total=0)
            calls[key] = known = known._replace(kernel=kernel, reach=task.reach())
            return known, row
    known, row = _prepare(task, state, trace, policy, params, actions, engine)
    if len(calls) >= _PREPARED:
        calls.clear()
    calls[key] = known
    return known, row


def _shapes(trace: Trace) -> tuple[Any, ...]:
    """What a search prepares itself by; looked at once for each trace."""
    found: tuple[Any, ...] | None = trace.__dict__.get("_kept_shapes")
    if found is None:
        found = (trace.members.shape, trace.mean.shape, trace.q.shape, trace.panel)
        trace.__dict__["_kept_shapes"] = found
    return found


def _prepare(
    task: Task, state: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None, engine: Engine
) -> tuple[_Known, list[float]]:
    if trace.panel and trace.windows != 1:
        raise InputError(
            "trace", f"{trace.windows} windows", "one window",
            hint="Use search_panel, or pass fields= for (members, horizon, fields) arrays.",
        )  # fmt: skip
    layout = task.layout(state)
    grid = _actions(task, actions, 1)
    settings = resolve(policy, task, trace, grid.shape[1])
    own = _params(task, params, 1)
    row = layout.flatten(state, "state")
    inputs = _inputs(_row(row), own, grid, trace, settings)
    edges = edges_asked(policy, task, settings, inputs)
    reach = task.reach()
    kernel = choose_kernel(task, layout, settings, engine, edges)
    return _Known(policy, layout, settings, inputs.params, inputs.actions, kernel, reach, edges), row


def _row(values: list[float]) -> Floats:
    """(1, n), read-only as bytes are."""
    return np.ndarray((1, len(values)), np.float64, struct.pack(f"{len(values)}d", *values))


def _inputs(states: Floats, params: Floats, actions: Floats, trace: Trace, settings: Settings) -> Inputs:
    return Inputs(*map(_read_only, (states, params, actions)), *_forecast(trace, settings))


def _forecast(trace: Trace, settings: Settings) -> tuple[Floats, ...]:
    """What `Inputs` takes of a trace; looked at once for each."""
    closed = settings.mode == _CLOSED and trace.has_law
    kept = "_kept_law" if closed else "_kept_forecast"
    found: tuple[Floats, ...] | None = trace.__dict__.get(kept)
    if found is None:
        arrays = [trace.mean, trace.members, trace.weights, trace.q, trace.u]
        if closed:
            law = trace.laws  # packed as `Inputs` says
            arrays[1:] = [law.points[:, :, None], law.weights, law.after[:, None], law.starts[:, None]]
        found = trace.__dict__[kept] = tuple(map(_read_only, arrays))
    return found


def _read_only(array: Floats) -> Floats:
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array


def _branches(settings: Settings) -> int:
    """Rows of `paths` beside those of the first actions."""
    return _BRANCHES if settings.mode == _CLOSED else 0


def _unstructured(trace: Trace, settings: Settings) -> NDArray[np.bool_]:
    """(W,) closed mode without a law, or with a tree in which nothing is learned after step 0."""
    if settings.mode != MODES["closed"]:
        return np.zeros(trace.windows, bool)
    if not trace.has_law:
        return np.ones(trace.windows, bool)
    return np.asarray((settings.depth > 1) & (trace.laws.learns >= settings.depth))


def _actions(task: Task, actions: ArrayLike | None, windows: int) -> Floats:
    if actions is None:
        return task.action_array[None]
    grid = np.atleast_2d(as_finite(actions, "actions", allow_nan=True))
    m = task.action_array.size
    if grid.ndim != 2 or grid.shape[1] != m or grid.shape[0] not in (1, windows):
        raise InputError("actions", f"shape {np.shape(actions)}", f"shape ({windows}, {m}), NaN where unavailable")
    for w, i in _not_ascending(grid):
        raise InputError("actions", grid[w, i], "strictly ascending values within a window", index=(w, i))
    return grid + 0.0


def _not_ascending(grid: Floats) -> list[tuple[int, int]]:
    """The first place, if any, where an available action is not above the available ones before it."""
    filled = np.where(np.isnan(grid), -np.inf, grid)
    before = np.maximum.accumulate(filled, axis=1)[:, :-1]
    bad = np.argwhere(~np.isnan(grid[:, 1:]) & ~(grid[:, 1:] > before))
    return [(int(bad[0][0]), int(bad[0][1]) + 1)] if len(bad) else []


def _params(task: Task, params: Any, windows: int) -> Floats:
    if params is None:
        return task.params_row
    layout = task.params_layout
    if layout is None:
        raise InputError("params", type(params).__name__, "nothing, because the task has no params")
    if is_named_tuple_type(type(params)):
        leaves = [x for item in params for x in (item if isinstance(item, tuple) else (item,))]
        if all(np.ndim(x) == 0 for x in leaves):
            return np.array([layout.flatten(params, "params")])
    rows = layout.rows(params, "params")
    if rows.shape[0] not in (1, windows):
        raise InputError("params", f"{rows.shape[0]} rows", f"{windows}, one per window")
    return rows


def _panel_trace(traces: Any) -> Trace:
    if isinstance(traces, Trace):
        return traces
    if isinstance(traces, list | tuple) and traces and all(isinstance(t, Trace) for t in traces):
        return _stack(traces)
    return Trace.from_members(traces)


def _stack(traces: Sequence[Trace]) -> Trace:
    """Single traces of equal shape as one panel."""
    first = traces[0]
    for i, t in enumerate(traces):
        shape = (t.members.shape[1:], t.mean.shape[1:], t.q.shape[1:], t.windows)
        expected = (first.members.shape[1:], first.mean.shape[1:], first.q.shape[1:], 1)
        if shape != expected:
            raise InputError("traces", f"{t!r}", f"one window shaped like {first!r}", index=i)
        if t.declared._replace(unit=0.0) != first.declared._replace(unit=0.0):
            raise InputError("traces", repr(t.declared), f"{first.declared!r} as in the first trace", index=i)
        for name in ("coupling", "model", "notes"):
            if getattr(t, name) != getattr(first, name):
                wanted = f"{name} {getattr(first, name)!r} as in the first trace"
                raise InputError("traces", repr(getattr(t, name)), wanted, index=i)
        for name in ("cutoff", "issued"):
            if bool(getattr(t, name)) != bool(getattr(first, name)):
                raise InputError("traces", f"{name} {getattr(t, name)}", f"{name} in all traces or in none", index=i)
    names = ("members", "weights", "mean", "q", "u")
    members, weights, mean, q, u = (np.concatenate([getattr(t, n) for t in traces]) for n in names)
    for array in (members, weights, mean, q, u):
        array.flags.writeable = False
    cutoff = tuple(t.cutoff[0] for t in traces) if first.cutoff else ()
    issued = tuple(t.issued[0] for t in traces) if first.issued else ()
    node = None if first.node is None else np.concatenate([t.node for t in traces if t.node is not None])
    units = tuple(
        u for t in traces for u in (t.declared.unit if isinstance(t.declared.unit, tuple) else (t.declared.unit,))
    )
    declared = first.declared if len(set(units)) == 1 else first.declared._replace(unit=units)
    return Trace.trusted(
        members, weights, mean, q, u, True, first.coupling, first.model, cutoff, issued, first.notes, declared, node,
    )  # fmt: skip


def _panel_states(task: Task, states: Any, windows: int) -> tuple[Layout, Floats]:
    if isinstance(states, np.ndarray):
        layout = _layout_for(task, states)
    elif isinstance(states, task.state):
        for name, item in zip(task.state._fields, states, strict=True):
            if any(np.size(x) == 0 for x in (item if isinstance(item, tuple) else (item,))):
                raise InputError(f"states.{name}", "no values", f"{windows} values, one per window")
        first = task.state(
            *(
                tuple(float(np.ravel(x)[0]) for x in item)
                if isinstance(item, tuple)
                else tuple(float(x) for x in np.asarray(item)[0])
                if np.ndim(item) == 2
                else float(np.ravel(item)[0])
                for item in states
            )
        )
        layout = task.layout(first)
    else:
        if not isinstance(states, Iterable):
            raise InputError("states", type(states).__name__, f"an array, a {task.state.__name__} of arrays or a list")
        items = list(states)
        if not items:
            raise InputError("states", "no windows", f"{windows} states")
        layout, states = task.layout(items[0]), items
    rows = layout.rows(states, "states")
    if rows.shape[0] == 1 and windows > 1:
        rows = np.repeat(rows, windows, axis=0)
    if rows.shape[0] != windows:
        raise InputError("states", f"{rows.shape[0]} rows", f"{windows}, one per window of the traces")
    return layout, rows


def _layout_for(task: Task, states: NDArray[Any]) -> Layout:
    """The layout of a flat (W, n) array: every extra column belongs to the one field annotated as a tuple."""
    if states.ndim != 2:
        raise InputError("states", f"shape {states.shape}", "shape (W, n)")
    fields = task.state._fields
    notes = getattr(task.state, "__annotations__", {})
    tuples = [i for i, name in enumerate(fields) if "tuple" in str(notes.get(name, "")).lower()]
    lengths = [0] * len(fields)
    extra = states.shape[1] - (len(fields) - len(tuples))
    if len(tuples) == 1 and extra >= 1:
        lengths[tuples[0]] = extra
    elif tuples or extra != 0:
        raise InputError(
            "states", f"{states.shape[1]} columns", f"{len(fields)} columns {fields}",
            hint="With tuple fields pass a State of arrays or a list of states.",
        )  # fmt: skip
    return Layout(task.state, tuple(lengths))


def thread_count(threads: int | None) -> int:
    if threads is None:
        return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise InputError("threads", repr(threads), "a whole number from 1 to 1024")
    return threads
