"""Everything that closed-loop searches reach, kept as flat arrays: for callers that value it again at other rewards.

Window w owns states, edges (state and action) and transitions (an edge's points, in order) from first[w] to
first[w + 1]; indices of states, edges and transitions in the arrays are counted from there. Both engines give the same
arrays, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.plain.closed import forward
from ucsearch.engine.plain.run import make_window
from ucsearch.errors import InputError, TaskError
from ucsearch.layout import Layout
from ucsearch.policies import Settings
from ucsearch.task import Task

__all__ = ["Graph", "joined", "reachable"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """W windows of one depth; U uses of the task, by name."""

    depth: int
    first: Ints  # (W + 1, 3) where states, edges and transitions of each window begin
    layers: Ints  # (W, d + 2) the first state of each step, from the window's first
    classes: NDArray[np.int32]  # (S,) of information, -1 past the last step
    sedge: NDArray[np.int32]  # (S + W,) first edge of each state, and one more at the end of every window
    eact: NDArray[np.int32]  # (E,) action index
    efirst: NDArray[np.int32]  # (E,) first transition
    emean: Floats  # (E,) expected reward of the step
    euse: Floats  # (U, E) units
    tto: NDArray[np.int32]  # (T,) the state that follows
    ends: Floats  # (S,) terminal value, -inf where no plan may end; 0 before the last layer
    weights: Floats  # (W, P) of the law's points
    starts: Floats  # (W, C + 1) where the points of each class begin

    @property
    def windows(self) -> int:
        return int(self.first.shape[0] - 1)


def reachable(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, counts: Ints, *, compiled: bool, threads: int = 1
) -> Graph:
    """The graph of every window. `counts` (W, 3): states, edges and transitions, as a search within its budget counted
    them; raises `TaskError` where a use is not a finite number of at least 0."""
    inputs, windows, depth = inputs.repeated(), inputs.windows, settings.depth
    first = np.zeros((windows + 1, 3), np.int64)
    np.cumsum(counts, axis=0, out=first[1:])
    states, edges, moves = (int(x) for x in first[-1])
    if counts.max(initial=0) >= 1 << 31:
        raise InputError("decisions", f"{int(counts.max())} transitions", "fewer than 2**31 in one decision")
    names = sorted(task.uses)
    graph = Graph(
        depth, first, np.zeros((windows, depth + 2), np.int64), np.zeros(states, np.int32),
        np.zeros(states + windows, np.int32), np.zeros(edges, np.int32), np.zeros(edges, np.int32), np.zeros(edges),
        np.zeros((len(names), edges)), np.zeros(moves, np.int32), np.zeros(states),
        np.ascontiguousarray(np.broadcast_to(inputs.weights, (windows, inputs.weights.shape[1]))),
        np.ascontiguousarray(inputs.u[:, 0]),
    )  # fmt: skip
    kernel = _kernel(task, layout, settings) if compiled else None
    for w in range(0 if kernel is not None else windows):
        _plain(task, layout, settings, inputs, graph, w, names)
    if kernel is not None:
        _compiled(kernel.call, task, settings, inputs, graph, threads)
    return graph


def joined(graphs: list[Graph]) -> Graph:
    """One after the other; with uses in the same order."""
    if len(graphs) == 1:
        return graphs[0]
    points, classes = (max(g.weights.shape[1] for g in graphs), max(g.starts.shape[1] for g in graphs))
    base, first = np.zeros(3, np.int64), [np.zeros((1, 3), np.int64)]
    for g in graphs:
        first.append(g.first[1:] + base)
        base = first[-1][-1]
    flat = {
        name: np.concatenate([getattr(g, name) for g in graphs])
        for name in ("layers", "classes", "sedge", "eact", "efirst", "emean", "tto", "ends")
    }
    return Graph(
        depth=graphs[0].depth, first=np.concatenate(first), euse=np.concatenate([g.euse for g in graphs], axis=1),
        weights=np.concatenate([np.pad(g.weights, ((0, 0), (0, points - g.weights.shape[1]))) for g in graphs]),
        starts=np.concatenate([np.pad(g.starts, ((0, 0), (0, classes - g.starts.shape[1])), "edge") for g in graphs]),
        **flat,
    )  # fmt: skip


def _plain(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, graph: Graph, w: int, names: list[str]
) -> None:
    window = make_window(task, settings, layout, inputs, w)
    after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
    found = forward(window, [layout.build(inputs.states[w].tolist())], after, starts, settings.node_budget)
    (s, e, t), depth = (int(x) for x in graph.first[w]), settings.depth
    sizes = (len(found.states), sum(map(len, found.edges)), len(found.rewards))
    if len(found.layers) != depth + 2 or sizes != tuple((graph.first[w + 1] - graph.first[w]).tolist()):
        raise _changed(task, w)
    graph.layers[w] = found.layers
    graph.tto[t : t + sizes[2]] = found.following
    graph.classes[s : s + sizes[0]] = found.classes
    edge = 0
    for i in range(sizes[0]):
        graph.sedge[s + w + i] = edge
        if i >= found.layers[depth]:
            fine = window.ended((found.states[i],), depth - 1, 0)
            graph.ends[s + i] = window.terminal(found.states[i], depth - 1, 0) if fine else -np.inf
            continue
        low, high = starts[found.classes[i]], starts[found.classes[i] + 1]
        for x, at in found.edges[i]:
            graph.eact[e + edge], graph.efirst[e + edge] = x, at
            total = 0.0
            for k, weight in enumerate(window.weights[low:high]):
                total += weight * found.rewards[at + k]
            graph.emean[e + edge] = total
            for j, name in enumerate(names):
                amount = float(task.uses[name](found.states[i], window.actions[x], window.params))
                if not 0.0 <= amount < np.inf:
                    raise _unusable(task, w)
                graph.euse[j, e + edge] = amount
            edge += 1
    graph.sedge[s + w + sizes[0]] = edge


def _kernel(task: Task, layout: Layout, settings: Settings) -> kernels.Kernel | None:
    """None where the task does not compile."""
    kind = kernels.KernelKind("ucsearch.engine.kernels.graph", settings.mode, False, pasted=True)
    kept: dict[Any, kernels.Kernel] = task.cache.setdefault("graph kernels", {})
    if layout in kept:
        return kept[layout]
    try:
        made = kernels.load(
            task, layout, kind, lambda kernel: _warm(kernel, task, layout, settings), f"the graph of task {task.name!r}"
        )
    except Exception:  # the search engines warn and explain; here plain Python takes over
        return None
    kept[layout] = made
    return made


def _warm(kernel: Callable[..., None], task: Task, layout: Layout, settings: Settings) -> None:
    """Machine code by running no window."""
    blank = np.zeros((1, 1, 1))
    inputs = Inputs(
        np.zeros((0, layout.size)), task.params_row, task.action_array[None], np.zeros((0, 1, task.fields)),
        np.zeros((0, 1, 1, task.fields)), np.ones((1, 1)), blank, blank,
    )  # fmt: skip
    graph = Graph(
        settings.depth, np.zeros((1, 3), np.int64), np.zeros((0, 2), np.int64), *(np.zeros(0, np.int32),) * 4,
        np.zeros(0), np.zeros((len(task.uses), 0)), np.zeros(0, np.int32), np.zeros(0), np.ones((0, 1)),
        np.zeros((0, 2)),
    )  # fmt: skip
    _compiled(kernel, task, settings, inputs, graph, 1)


def _compiled(
    kernel: Callable[..., None], task: Task, settings: Settings, inputs: Inputs, graph: Graph, threads: int
) -> None:
    windows = graph.windows
    states = inputs.states
    if task.timed:  # states carry the step index behind their own numbers
        states = np.concatenate([states, np.zeros((len(states), 1))], axis=1)
    given = []
    for array in (states, inputs.params, inputs.actions, inputs.members, inputs.weights, inputs.q, inputs.u):
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
        given.append(array)
    faults = np.zeros(windows, np.int64)

    def part(edges: tuple[int, int]) -> None:
        kernel(
            settings.depth, settings.node_budget, *given, graph.first, graph.classes, graph.sedge, graph.eact,
            graph.efirst, graph.emean, graph.euse, graph.tto, graph.ends, graph.layers, faults, *edges,
        )  # fmt: skip

    if threads == 1 or windows < 2:
        part((0, windows))
    else:
        parts = min(windows, 16 * threads)
        with ThreadPoolExecutor(max_workers=threads) as pool:
            list(pool.map(part, pairwise(windows * i // parts for i in range(parts + 1))))
    for w in np.flatnonzero(faults)[:1].tolist():
        raise _unusable(task, w) if faults[w] == 5 else _changed(task, w)


def _unusable(task: Task, w: int) -> TaskError:
    return TaskError("a use is not a finite number of at least 0", task=task.name, window=w)


def _changed(task: Task, w: int) -> TaskError:
    return TaskError("its rules do not give what they gave when it was searched", task=task.name, window=w)


def of_windows(graph: Graph, rows: Ints) -> Graph:
    """The graph of some windows."""
    spans = [np.concatenate([np.arange(graph.first[w, c], graph.first[w + 1, c]) for w in rows]) for c in range(3)]
    edges = np.concatenate([np.arange(graph.first[w, 0] + w, graph.first[w + 1, 0] + w + 1) for w in rows])
    first = np.zeros((len(rows) + 1, 3), np.int64)
    np.cumsum(graph.first[rows + 1] - graph.first[rows], axis=0, out=first[1:])
    states, own, moves = spans
    return replace(
        graph, first=first, layers=graph.layers[rows], classes=graph.classes[states], sedge=graph.sedge[edges],
        eact=graph.eact[own], efirst=graph.efirst[own], emean=graph.emean[own], euse=graph.euse[:, own],
        tto=graph.tto[moves], ends=graph.ends[states], weights=graph.weights[rows], starts=graph.starts[rows],
    )  # fmt: skip
