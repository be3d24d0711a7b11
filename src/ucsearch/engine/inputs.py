"""What callers hand over, checked: states, forecasts, params and actions as the flat arrays that both engines read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.engine.arrays import Inputs, read_only
from ucsearch.errors import InputError
from ucsearch.layout import Layout, as_finite, base_of, is_named_tuple_type, is_packable, packed
from ucsearch.policies import MODES, Settings
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = [
    "action_grid", "branches", "forecast_arrays", "inputs_of", "panel_states", "panel_trace", "params_rows",
    "unstructured",
]  # fmt: skip

Floats = NDArray[np.float64]

_CLOSED = MODES["closed"]
_BRANCHES = 2  # of a closed-loop policy: after low and after high outcomes


def inputs_of(states: Floats, params: Floats, actions: Floats, trace: Trace, settings: Settings) -> Inputs:
    return Inputs(*map(read_only, (states, params, actions)), *forecast_arrays(trace, settings))


def forecast_arrays(trace: Trace, settings: Settings) -> tuple[Floats, ...]:
    """What `Inputs` takes of a trace; looked at once for each."""
    closed = settings.mode == _CLOSED and trace.has_law
    key = "_kept_law" if closed else "_kept_forecast"
    kept: tuple[Floats, ...] | None = trace.__dict__.get(key)
    if kept is None:
        arrays = [trace.mean, trace.members, trace.weights, trace.q, trace.u]
        if closed:
            law = trace.laws  # packed as `Inputs` says
            arrays[1:] = [law.points[:, :, None], law.weights, law.after[:, None], law.starts[:, None]]
        kept = trace.__dict__[key] = tuple(map(read_only, arrays))
    return kept


def branches(settings: Settings) -> int:
    """Rows of `paths` beside those of the first actions."""
    return _BRANCHES if settings.mode == _CLOSED else 0


def unstructured(trace: Trace, settings: Settings, windows: int) -> NDArray[np.bool_]:
    """(W,) closed mode without a law, or with a tree in which nothing is learned after step 0."""
    if settings.mode != MODES["closed"]:
        return np.zeros(windows, bool)
    if not trace.has_law:
        return np.ones(windows, bool)
    return np.resize((settings.depth > 1) & (trace.laws.learns >= settings.depth), windows)


def action_grid(task: Task, actions: ArrayLike | None, windows: int) -> Floats:
    if actions is None:
        return task.action_array[None]
    m = task.action_array.size
    grid = _tuples(task, actions, m) if task.width else np.atleast_2d(as_finite(actions, "actions", allow_nan=True))
    if grid.ndim != 2 or grid.shape[1] != m or grid.shape[0] not in (1, windows):
        raise InputError("actions", f"shape {np.shape(actions)}", f"shape ({windows}, {m}), NaN where unavailable")
    for w, i in _not_ascending(grid):
        raise InputError("actions", grid[w, i], "strictly ascending values within a window", index=(w, i))
    return grid + 0.0


def _tuples(task: Task, actions: ArrayLike, m: int) -> Floats:
    """(W, m) numbers that stand for tuples (m, width) or (W, m, width); NaN where one is NaN."""
    if not task.packs:
        expected = "nothing: windows may have tuples of their own where those of the task are whole and not negative"
        raise InputError("actions", f"shape {np.shape(actions)}", expected, hint="`feasible` says what is allowed.")
    given = as_finite(actions, "actions", allow_nan=True)
    given = given[None] if given.ndim == 2 else given
    if given.ndim != 3 or given.shape[1:] != (m, task.width):
        expected = f"shape (windows, {m}, {task.width}), NaN where unavailable"
        raise InputError("actions", f"shape {np.shape(actions)}", expected)
    there = given[~np.isnan(given).any(axis=2)]
    if not is_packable(there):
        at = there[[not is_packable(one) for one in there]][0]
        raise InputError("actions", tuple(at.tolist()), f"whole numbers from 0 to {base_of(task.width) - 1:.0f}")
    return packed(given + 0.0)


def _not_ascending(grid: Floats) -> list[tuple[int, int]]:
    """The first place, if any, where an available action is not above the available ones before it."""
    filled = np.where(np.isnan(grid), -np.inf, grid)
    before = np.maximum.accumulate(filled, axis=1)[:, :-1]
    bad = np.argwhere(~np.isnan(grid[:, 1:]) & ~(grid[:, 1:] > before))
    return [(int(bad[0][0]), int(bad[0][1]) + 1)] if len(bad) else []


def params_rows(task: Task, params: Any, windows: int) -> Floats:
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


def panel_trace(traces: Any) -> Trace:
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


def panel_states(task: Task, states: Any, windows: int) -> tuple[Layout, Floats]:
    """States (W, n) for a forecast of so many windows. A forecast of one window may be shared by many states, and the
    other way round."""
    if isinstance(states, np.ndarray):
        layout = _layout_for(task, states)
    elif isinstance(states, task.state):
        first = task.state(*(_first(name, x, windows) for name, x in zip(task.state._fields, states, strict=True)))
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
    if rows.shape[0] != windows and windows > 1:
        raise InputError("states", f"{rows.shape[0]} rows", f"{windows}, one per window of the traces")
    return layout, rows


def _first(name: str, item: Any, windows: int) -> Any:
    """A field in the first window: a number, or a tuple of them."""
    if type(item) is np.ndarray and item.size and item.ndim <= 2 and item.dtype == np.float64:  # as a rule
        return item.item(0) if item.ndim < 2 else tuple(item[0].tolist())
    if any(np.size(x) == 0 for x in (item if isinstance(item, tuple) else (item,))):
        raise InputError(f"states.{name}", "no values", f"{windows} values, one per window")
    if isinstance(item, tuple):
        return tuple(float(np.ravel(x)[0]) for x in item)
    return tuple(float(x) for x in np.asarray(item)[0]) if np.ndim(item) == 2 else float(np.ravel(item)[0])


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
