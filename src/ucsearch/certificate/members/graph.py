"""The states each member can reach on its own, as a graph that is built once and then walked many times.

A member knows its outcomes, so its part is an ordinary deterministic graph: layer h holds the distinct states (equal
floats, nothing rounded) that some action sequence feasible for this member leads to. Task functions are called here
and nowhere else: in plain Python, or in the kernel `engine/kernels/members.py`, which numbers states
and edges in the same order and so returns the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault, Inputs, OutI, Outputs, Status
from ucsearch.engine.plain.run import make_window
from ucsearch.engine.plain.window import TaskFault, Window
from ucsearch.engine.registry import register
from ucsearch.layout import Layout
from ucsearch.policies import Settings
from ucsearch.task import Task

__all__ = ["ALGORITHM", "Graph", "compiled_graph", "plain_graph", "window_graph"]

ALGORITHM = "members_graph"
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


class Graph(NamedTuple):
    """n nodes and E edges over all J members. Members follow one another, layers within a member likewise, and the
    edges of a node lie together in ascending order of action."""

    starts: Longs  # (J * (d + 1) + 1,) layer h of member j is starts[j * (d + 1) + h] up to the next entry
    first: Longs  # (n + 1,) edges of node i are first[i] up to first[i + 1]
    act: Ints  # (E,) action index
    child: Ints  # (E,) node in the layer below
    gain: Floats  # (E,) discounted reward
    end: Floats  # (n,) discounted terminal value; 0 outside the last layer
    nodes: int  # states created, the J roots not counted
    status: int  # PROVED: complete; NOT_PROVED: out of budget; TASK_ERROR. Only the first may be used
    fault: tuple[int, int, int]  # kind, step, action index


class _Stop(Exception):
    """The node budget is used up."""


class _Builder:
    """Nodes and edges as lists; `settings.node_budget` limits the nodes."""

    def __init__(self, window: Window) -> None:
        self.window, self.nodes = window, 0
        self.starts: list[int] = [0]
        self.first: list[int] = []
        self.act: list[int] = []
        self.child: list[int] = []
        self.gain: list[float] = []
        self.end: list[float] = []

    def member(self, j: int, state: Any) -> None:
        window, depth = self.window, self.window.depth
        layer = {state: self.starts[-1]}
        self.starts.append(self.starts[-1] + 1)
        for h in range(depth):
            following: dict[Any, int] = {}
            begin = self.starts[-1]
            for known in layer:
                self.first.append(len(self.act))
                self.end.append(0.0)
                for x in window.available:
                    if window.allowed((known,), x, h):
                        self._edge(known, x, j, h, following, begin)
            self.starts.append(begin + len(following))
            layer = following
        for known in layer:
            self.first.append(len(self.act))
            self.end.append(window.discounts[depth] * window.terminal(known, depth - 1, 0))

    def _edge(self, known: Any, x: int, j: int, h: int, following: dict[Any, int], begin: int) -> None:
        window, outcome = self.window, self.window.members[j][h]
        args = (known, window.actions[x], outcome, h, window.params)
        reward = window.number(window.task.reward_at, Fault.REWARD, h, x, *args)
        new = window.move(known, x, outcome, h)
        if h + 1 == window.depth and not window.ended((new,), h, x):
            return  # as if the last action were not allowed
        if new not in following:
            if self.nodes >= window.settings.node_budget:
                raise _Stop
            self.nodes += 1
            following[new] = begin + len(following)
        self.act.append(x)
        self.child.append(following[new])
        self.gain.append(window.discounts[h] * reward)

    def graph(self, status: Status, fault: tuple[int, int, int]) -> Graph:
        return Graph(
            np.array(self.starts, np.int64), np.array([*self.first, len(self.act)], np.int64),
            np.array(self.act, np.int32), np.array(self.child, np.int32), np.array(self.gain, np.float64),
            np.array(self.end, np.float64), self.nodes, int(status), fault,
        )  # fmt: skip


def plain_graph(window: Window, state: Any) -> Graph:
    """The specification of the kernel, for one window."""
    builder = _Builder(window)
    try:
        for j in range(len(window.members)):
            builder.member(j, state)
    except _Stop:
        return builder.graph(Status.NOT_PROVED, (0, 0, 0))
    except TaskFault as fault:
        return builder.graph(Status.TASK_ERROR, (fault.kind, fault.step, fault.action))
    return builder.graph(Status.PROVED, (0, 0, 0))


register(ALGORITHM, plain_graph, module="ucsearch.engine.kernels.members")


def window_graph(task: Task, settings: Settings, layout: Layout, inputs: Inputs, w: int) -> Graph:
    """Window w through the plain functions."""
    window = make_window(task, settings, layout, inputs, w)
    return plain_graph(window, layout.build(inputs.states[w].tolist()))


def compiled_graph(kernel: Callable[..., Any], settings: Settings, inputs: Inputs, discounts: Floats, w: int) -> Graph:
    """Window w through the kernel, which reads only depth and budget of the settings."""
    whole = np.zeros(13, np.int64)
    whole[0], whole[8] = settings.depth, settings.node_budget
    outputs = Outputs.empty(1, inputs.actions.shape[1], settings.depth, False)
    found = kernel(whole, np.zeros(4), *inputs, discounts, *outputs, w, w + 1)
    arrays = cast(tuple[Longs, Longs, Ints, Ints, Floats, Floats], found)
    status, nodes = int(outputs.out_i[0, OutI.STATUS]), int(outputs.out_i[0, OutI.EXPANSIONS])
    kind, step, action = (int(x) for x in outputs.out_i[0, OutI.FAULT :])
    return Graph(*arrays, nodes, status, (kind, step, action))
