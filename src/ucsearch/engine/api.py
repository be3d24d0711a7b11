"""`search` for one window, `search_panel` for many. Inputs are checked before any work is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.engine.arrays import Inputs, OutI, Outputs, Status
from ucsearch.engine.choose import WORTH_COMPILING, choose_kernel, edges_asked
from ucsearch.engine.compiled.engine import run as run_compiled
from ucsearch.engine.compiled.first_use import take
from ucsearch.engine.inputs import (
    action_grid,
    branches,
    inputs_of,
    panel_states,
    panel_trace,
    params_rows,
    unstructured,
)
from ucsearch.engine.plain.run import run_shared, run_window
from ucsearch.engine.plain.window import TaskFault
from ucsearch.engine.plan import PanelPlan, Plan
from ucsearch.errors import InputError, TaskError
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Engine, Policy, Settings, check_threads, resolve
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["search", "search_again", "search_panel", "thread_count"]

Faults = dict[int, TaskFault]  # by window

_CLOSED = MODES["closed"]
_LONG = 1024  # numbers that an algorithm is told besides
_PREPARED = 64  # combinations of policy and shapes remembered for a task
_NOWHERE = np.zeros(0, np.int64)  # no window


class SearchProblem(NamedTuple):
    """What is searched, checked and laid out as arrays."""

    task: Task
    trace: Trace
    policy: Policy
    settings: Settings  # the policy resolved against task and trace
    layout: Layout  # of states
    inputs: Inputs

    @property
    def edges(self) -> int:
        """Edge evaluations asked for, roughly."""
        return edges_asked(self.policy, self.task, self.settings, self.inputs)

    def of(self, inputs: Inputs) -> SearchProblem:
        """The same about these windows."""
        return self._replace(inputs=inputs)


class SearchOptions(NamedTuple):
    """How the search is done; nothing here changes a plan that is found."""

    engine: Engine
    threads: int
    keep_paths: bool = False
    progress: Callable[[int], None] | None = None
    stop: Callable[[], bool] | None = None


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
    """Search one window. A dead end is an answer (`plan.action` is None); a broken task raises `TaskError`.

    Args:
        task: the rules.
        state: where the series stands, an instance of the task's `state`.
        trace: the frozen forecast of one window.
        policy: how to search: `UCBeam`, `CertifiedBeam`, `Exact` and so on.
        params: in place of the task's own `params`, such as one series' costs.
        actions: in place of the task's own: the grid of this series, ascending, in units of the task.
        engine: `python`, `compiled`, or `auto`, which compiles where it pays; the results are equal.

    Returns:
        The plan: first action, path, score, counters.

    Raises:
        InputError: an argument that does not fit the task.
        TaskError: a function of the task raised, or gave no usable answer.
    """
    if not isinstance(trace, Trace):
        raise InputError("trace", type(trace).__name__, "a uc.Trace", hint="Build one with Trace.from_members(array).")
    if trace.panel and trace.windows != 1:
        raise InputError(
            "trace", f"{trace.windows} windows", "one window",
            hint="Use search_panel, or pass fields= for (members, horizon, fields) arrays.",
        )  # fmt: skip
    if engine == "cuda":
        hint = "A GPU is for panels: search_panel takes 'cuda'."
        raise InputError("engine", repr(engine), "'auto', 'python' or 'compiled'", hint=hint)
    problem = _prepared(task, [state], trace, policy, params, actions)
    outputs, used, faults = _searched(problem, SearchOptions(engine, 1, keep_paths=True))
    detail = faults[0].detail if faults else ""
    plan = Plan(task, trace, policy, problem.settings, problem.layout, problem.inputs, outputs, 0, used, detail)
    if plan.status is Status.TASK_ERROR:
        cause = faults[0].__cause__ if faults else None  # the user's own traceback
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
    """Search many windows. A broken window has status TASK_ERROR and stops no other.

    Args:
        task: the rules.
        states: an array (W, n), a State of arrays, or a sequence of states.
        traces: the forecasts; a trace of one window may be shared by all.
        policy: how to search: `UCBeam`, `CertifiedBeam`, `Exact` and so on.
        params: in place of the task's own, for all windows or one row for each.
        actions: in place of the task's own: (W, m), NaN where an action is not available.
        engine: `python`, `compiled`, `cuda` or `auto`; the results are equal.
        threads: cores to use; None: all.
        keep_paths: keep the best path of every first action.
        progress: called with the number of windows done.
        stop: ends the search when it returns True; windows not done by then have status OUT_OF_TIME. It is called
            from all threads.

    Returns:
        The plans as arrays; `plan[w]` is one `Plan`.

    Raises:
        InputError: an argument that does not fit the task.
    """
    problem = _prepared(task, states, panel_trace(traces), policy, params, actions)
    return _panel(problem, SearchOptions(engine, thread_count(threads), keep_paths, progress, stop))


def search_again(
    plan: PanelPlan, policy: Policy, *, threads: int | None, engine: Engine, keep_paths: bool,
    stop: Callable[[], bool] | None,
) -> PanelPlan:  # fmt: skip
    """The windows of a panel by another policy: what they are was checked and laid out for the first one."""
    task, trace, inputs_of_plan = plan.task, plan.trace, plan.inputs
    settings = _resolved(policy, task, trace, inputs_of_plan.actions.shape[1])
    inputs = inputs_of(inputs_of_plan.states, inputs_of_plan.params, inputs_of_plan.actions, trace, settings)
    problem = SearchProblem(task, trace, policy, settings, plan.layout, inputs)
    return _panel(problem, SearchOptions(engine, thread_count(threads), keep_paths, None, stop))


# -------------------------------------------------------------------- preparation


def _prepared(
    task: Task, states: Any, trace: Trace, policy: Policy, params: Any, actions: ArrayLike | None
) -> SearchProblem:
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    task.check_unchanged()
    layout, rows = panel_states(task, states, trace.windows)
    grid = action_grid(task, actions, len(rows))
    settings = _resolved(policy, task, trace, grid.shape[1])
    inputs = inputs_of(rows, params_rows(task, params, len(rows)), grid, trace, settings)
    return SearchProblem(task, trace, policy, settings, layout, inputs)


def _resolved(policy: Policy, task: Task, trace: Trace, actions: int) -> Settings:
    """`resolve`, once for a policy and all traces of a shape; kept on the task, as policies do not change."""
    resolved: dict[Any, tuple[Policy, Settings]] = task.cache.setdefault("settings", {})
    key = (id(policy), trace.mean.shape[1:], trace.q.shape[2], actions)
    entry = resolved.get(key)
    if entry is None or entry[0] is not policy:
        entry = (policy, resolve(policy, task, trace, actions))  # the policy is held, so that its id is no other's
        if len(resolved) >= _PREPARED:
            resolved.clear()
        if len(entry[1].extra_i) <= _LONG:  # a warm start for a whole panel is long and not asked for twice
            resolved[key] = entry
    return entry[1]


def thread_count(threads: int | None) -> int:
    check_threads(threads)
    if threads is not None:
        return threads
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


# -------------------------------------------------------------------- the work


def _panel(problem: SearchProblem, work: SearchOptions) -> PanelPlan:
    outputs, used, faults = _searched(problem, work)
    return PanelPlan(*problem, outputs, used, {w: fault.detail for w, fault in faults.items()})


def _searched(problem: SearchProblem, work: SearchOptions) -> tuple[Outputs, str, Faults]:
    """What an engine wrote, which one it was, and what task functions raised."""
    task, trace, settings, inputs = problem.task, problem.trace, problem.settings, problem.inputs
    outputs = Outputs.empty(
        inputs.windows, inputs.actions.shape[1], settings.depth, work.keep_paths, branches(settings)
    )  # fmt: skip
    faults: Faults = {}
    bare = np.flatnonzero(unstructured(trace, settings, inputs.windows)) if settings.mode == _CLOSED else _NOWHERE
    used = "cuda" if work.engine == "cuda" else "python"
    if bare.size == inputs.windows:
        pass
    elif work.engine == "cuda":
        _on_device(problem, work, outputs, faults)
    else:
        structured = take(inputs, np.setdiff1d(np.arange(inputs.windows), bare)) if bare.size else inputs
        kernel = choose_kernel(task, problem.layout, settings, work.engine, problem.edges, inputs=structured)
        used = _on_cpu(problem, work, kernel, outputs, faults)
    for w in bare.tolist():
        outputs.blank(w, Status.NO_STRUCTURE)
    return outputs, used, faults


def _on_cpu(problem: SearchProblem, work: SearchOptions, kernel: Any, outputs: Outputs, faults: Faults) -> str:
    """All windows by the kernel, or by the plain engine where it is None; returns which one it was."""
    task, settings, layout, inputs, stop = problem.task, problem.settings, problem.layout, problem.inputs, work.stop
    windows, done = inputs.windows, 0

    def plainly(w: int) -> None:
        run_window(task, settings, layout, inputs, outputs, w, faults, stop)

    if kernel is None and run_shared(task, settings, layout, inputs, outputs, stop):
        done = windows
        if work.progress is not None:
            work.progress(windows)
    while kernel is None and done < windows:
        plainly(done)
        done += 1
        if work.progress is not None:
            work.progress(1)
        if work.engine == "auto" and settings.algorithm == "closed" and stop is None:
            # How many states repeat is known once some windows are done. A time budget is not spent on compiling.
            ahead = int(outputs.out_i[:done, OutI.EXPANSIONS].mean() * (windows - done))
            if ahead >= WORTH_COMPILING:
                kernel = choose_kernel(task, layout, settings, work.engine, ahead, inputs=inputs)
    if kernel is None:
        return "python"
    faults.clear()
    progress = _beyond(done, work.progress)
    run_compiled(kernel, settings, inputs.repeated(), outputs, plainly, work.threads, progress, stop)
    return "compiled"


def _on_device(problem: SearchProblem, work: SearchOptions, outputs: Outputs, faults: Faults) -> None:
    """All windows on a GPU, and those that it leaves by the CPU."""
    from ucsearch.engine.cuda.engine import StreamOptions, run_on_device

    whole = problem.inputs.repeated()
    way = StreamOptions(work.threads, work.progress, work.stop)
    undone = run_on_device(problem.task, problem.layout, problem.settings, whole, outputs, way)
    if not undone.size:
        return
    rest = problem.of(take(whole, undone))
    kernel = choose_kernel(
        problem.task, problem.layout, problem.settings, "auto", rest.edges, inputs=rest.inputs
    )  # fmt: skip
    rest_outputs = Outputs.empty(
        len(undone), outputs.flags.shape[1], problem.settings.depth, outputs.paths.shape[0] > 0
    )
    rest_faults: Faults = {}
    _on_cpu(rest, SearchOptions("compiled", work.threads, stop=work.stop), kernel, rest_outputs, rest_faults)
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(outputs, rest_outputs, strict=True))
    for all_windows, part in pairs:
        if part.shape[0]:
            all_windows[undone] = part
    faults.update({int(undone[w]): fault for w, fault in rest_faults.items()})


def _beyond(done: int, progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """What is told of windows, less the first ones: those were told before."""
    if progress is None or not done:
        return progress
    lock, total = threading.Lock(), [-done]

    def tell(count: int) -> None:
        with lock:
            before = max(total[0], 0)
            total[0] += count
            more = max(total[0], 0) - before
        if more:
            progress(more)

    return tell
