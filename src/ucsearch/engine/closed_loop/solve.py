"""`solve`: the best policy for every state that can be reached, by one closed-loop search.

`decide` searches from one state and keeps its first action. Where the same law holds for many states, as in a
simulation or in a study of a stationary problem, one search values all of them, and what it found can be asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.engine.arrays import Fault, Inputs
from ucsearch.engine.inputs import action_grid, inputs_of, panel_states, params_rows, unstructured
from ucsearch.engine.plain.closed import backward, forward
from ucsearch.engine.plain.run import make_window
from ucsearch.engine.plain.window import TaskFault, Window
from ucsearch.errors import BudgetError, InputError, TaskError
from ucsearch.formatting import make_frame
from ucsearch.layout import Layout
from ucsearch.policies import RUN, Exact, Run, Settings, resolve
from ucsearch.spreads import tail_mean
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["SolvedPolicy", "solve"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BUDGET = 20_000_000


class Solved(NamedTuple):
    """Everything that some states reach under one law, layer by layer, and what it is worth."""

    layers: Ints  # (d + 2,) the first state of each step
    states: Floats  # (S, n)
    classes: Ints  # (S,) class of information, -1 past the last step
    value: Floats  # (S,) -inf where no policy keeps the rules
    action: Ints  # (S,) index of the best action, -1 at a dead end and past the last step
    transitions: int  # that were evaluated


def solve(
    task: Task[State, Params],
    law: Trace,
    depth: int | None = None,
    *,
    states: State | Sequence[State] | Floats,
    params: Params | None = None,
    actions: ArrayLike | None = None,
    discount: float = 1.0,
    risk: float = 0.0,
    tail: float = 0.2,
    node_budget: int = _BUDGET,
    run: Run = RUN,
) -> SolvedPolicy[State]:
    """Value every state that can be reached from `states`, and say what to do in each.

    Args:
        task: the rules.
        law: a forecast of one window that says what is learned when, such as `trace.declare("independent")`.
        depth: steps to plan; the whole law when None.
        states: one or more states to start from: a state, a sequence of them, an array (N, n).
        params: parameters of the rules in place of the task's own, the same for all states.
        actions: actions on offer in place of the task's own, the same for all states.
        discount: weight of the next step's value.
        risk: 0 values expectation; up to 1 the nested tail measure, as `uc.Exact(mode="closed")` does.
        tail: share of the worst outcomes for `risk`.
        node_budget: transitions (state, action, outcome) that may be evaluated.
        run: how the work is done.

    Returns:
        A `SolvedPolicy`: `action(state, step)`, `value(state, step)`, `table()`.

    Raises:
        InputError: `law` has no law, several windows or too few steps.
        BudgetError: more transitions than `node_budget` can be reached.
        TaskError: a rule failed.
    """
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    if not isinstance(law, Trace) or law.windows != 1:
        raise InputError("law", repr(law), "a uc.Trace of one window")
    _ = law.laws  # refuses members of which nobody said what is learned when
    steps = law.horizon if depth is None else depth
    policy = Exact(depth=steps, mode="closed", discount=discount, risk=risk, tail=tail, node_budget=node_budget)
    layout, rows = panel_states(task, states, 1)
    grid, own = action_grid(task, actions, 1), params_rows(task, params, 1)
    settings = resolve(policy, task, law, grid.shape[1])
    if unstructured(law, settings, law.windows).any():
        raise InputError("law", "a tree in which nothing is learned after the first step", "another law")
    return SolvedPolicy(task, law, settings, layout, inputs_of(rows, own, grid, law, settings), run)


class SolvedPolicy(Generic[State]):
    """What to do in every state that can be reached, and what it is worth. Made by `uc.solve`."""

    def __init__(
        self, task: Task[State, Any], law: Trace, settings: Settings, layout: Layout, inputs: Inputs, run: Run
    ) -> None:  # fmt: skip
        self.task, self.law, self.settings, self.layout = task, law, settings, layout
        self._inputs, self._run = inputs, run
        self._parts = [self._solved(inputs.states)]
        # By part and step, filled when first asked: where each state stands, by its class and bits.
        self._places: dict[tuple[int, int], dict[bytes, int]] = {}

    def __repr__(self) -> str:
        states, moves = (sum(x) for x in zip(*((len(p.states), p.transitions) for p in self._parts), strict=True))
        return f"SolvedPolicy({self.task.name}: {states} states over {self.depth} steps, {moves} transitions)"

    @property
    def depth(self) -> int:
        """Steps that were planned."""
        return self.settings.depth

    @property
    def transitions(self) -> int:
        """Transitions (state, action, outcome) that were evaluated."""
        return sum(part.transitions for part in self._parts)

    def action(self, state: State, step: int = 0, seen: Sequence[Any] = ()) -> Any:
        """The best action, a number or a tuple, in `state` at `step`; None where no policy keeps the rules.

        Args:
            state: a state of the task. At step 0 a state that was not reached is solved now, and remembered.
            step: 0 is the first decision.
            seen: outcomes of the steps before; needed where the law is a tree or a chain, ignored where steps are
                independent.

        Raises:
            InputError: the state cannot be reached at this step.
        """
        part, i = self._find(state, step, seen, self.depth - 1)
        return None if part.action[i] < 0 else self._actions[part.action[i]]

    def value(self, state: State, step: int = 0, seen: Sequence[Any] = ()) -> float:
        """What the best policy is worth from `state` at `step` on; -inf where none keeps the rules. At `depth` it is
        the terminal value. Arguments and errors as for `action`."""
        part, i = self._find(state, step, seen, self.depth)
        return float(part.value[i])

    def action_values(self, state: State, step: int = 0, seen: Sequence[Any] = ()) -> dict[Any, float]:
        """What each allowed action is worth in `state` at `step` when the best policy follows. Arguments and errors as
        for `action`."""
        part, i = self._find(state, step, seen, self.depth - 1)
        window, here, kind = self._window, self.layout.build(part.states[i].tolist()), int(part.classes[i])
        found = {}
        try:
            for x in window.available:
                if window.allowed((here,), x, step):
                    found[window.actions[x]] = self._worth(part, here, x, step, kind)
        except TaskFault as fault:
            raise self._failed(fault) from fault.__cause__
        return found

    def actions(self, states: Any) -> Floats:
        """(N,) best first actions of many states, NaN where no policy keeps the rules: for a simulation; of tuples
        their places in `task.actions`. States that were not reached are solved together."""
        layout, rows = panel_states(self.task, states, 1)
        if layout != self.layout:
            raise InputError("states", f"{layout.lengths}", f"tuples as long as those solved, {self.layout.lengths}")
        missing = [row for row in rows if self._place(row, 0, 0) is None]
        if missing:
            self._parts.append(self._solved(np.unique(np.array(missing), axis=0)))
        out = np.full(len(rows), np.nan)
        for n, row in enumerate(rows):
            part, i = self._place(row, 0, 0) or (self._parts[0], -1)
            if i >= 0 and part.action[i] >= 0:
                out[n] = self._inputs.actions[0, part.action[i]]
        return out

    def table(self, step: int | None = 0, backend: str = "auto") -> Any:
        """One row for each state, as a data frame: its fields, the best action with its label, the value.

        Args:
            step: of which step; None for all.
            backend: "polars", "pandas", "pyarrow", or whichever is installed.
        """
        if step is not None and not 0 <= step < self.depth:
            raise InputError("step", step, f"from 0 to {self.depth - 1}, or None for all")
        steps = range(self.depth) if step is None else (step,)
        rows: list[tuple[Any, ...]] = []
        for part in self._parts:
            for h in steps:
                for i in range(int(part.layers[h]), int(part.layers[h + 1])):
                    x = int(part.action[i])
                    action = math.nan if x < 0 else self._actions[x]
                    label = "" if x < 0 else self.task.label(x, action)
                    rows.append((h, *part.states[i].tolist(), action, label, float(part.value[i])))
        names = ("step", *self.layout.names, "action", "label", "value")
        return make_frame({name: [row[k] for row in rows] for k, name in enumerate(names)}, backend)

    # ---------------------------------------------------------------- inside

    @cached_property
    def _actions(self) -> list[Any]:
        return list(self._window.actions)

    @cached_property
    def _window(self) -> Window:
        return make_window(self.task, self.settings, self.layout, self._inputs, 0)

    def _solved(self, rows: Floats) -> Solved:
        window = make_window(self.task, self.settings, self.layout, self._inputs._replace(states=rows), 0)
        after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
        roots = [self.layout.build(row) for row in rows.tolist()]
        try:
            graph = forward(window, roots, after, starts, self.settings.node_budget)
            if len(graph.layers) != self.depth + 2:
                raise BudgetError(
                    "node_budget", f"{self.settings.node_budget}", "more transitions",
                    hint=f"{len(graph.states)} states were met by step {len(graph.layers) - 1} of {self.depth}.",
                )  # fmt: skip
            values = backward(window, graph, starts)
        except TaskFault as fault:
            raise self._failed(fault) from fault.__cause__
        flat = [[y for x in s for y in (x if isinstance(x, tuple) else (x,))] for s in graph.states]
        return Solved(
            np.array(graph.layers), np.array(flat).reshape(len(flat), self.layout.size), np.array(graph.classes),
            np.array(values.score), np.array(values.action), len(graph.rewards),
        )  # fmt: skip

    def _failed(self, fault: TaskFault) -> TaskError:
        said = fault.detail or Fault.TEXT[fault.kind]
        return TaskError(said, task=self.task.name, step=fault.step, action=self._actions[fault.action])

    def _find(self, state: Any, step: int, seen: Sequence[Any], last: int) -> tuple[Solved, int]:
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= last:
            raise InputError("step", repr(step), f"a whole number from 0 to {last}")
        if self.task.layout(state) != self.layout:
            raise InputError("state", repr(state), f"tuples as long as those solved, {self.layout.lengths}")
        row = np.array(self.layout.flatten(state, "state"))
        kind = self._class(step, seen)
        found = self._place(row, step, kind)
        if found is None and step == 0:
            self._parts.append(self._solved(row[None]))
            found = self._place(row, step, kind)
        if found is None:
            raise InputError(
                "state", repr(state), f"a state that can be reached at step {step}",
                hint="Solve from a state that leads there: uc.solve(..., states=...).",
            )  # fmt: skip
        return found

    def _class(self, step: int, seen: Sequence[Any]) -> int:
        """What is known at this step: one class a step where steps are independent."""
        if step == self.depth:
            return -1
        if self.law.coupling == "independent":
            return step
        if len(seen) != step:
            expected = f"{step}, those of the steps before, under a {self.law.coupling} law"
            raise InputError("seen", f"{len(seen)} outcomes", expected)
        law, kind = self.law.law(), 0
        for h, y in enumerate(seen):
            point = tuple(float(x) for x in (y if isinstance(y, tuple) else (y,)))
            if point not in law.points[kind]:
                raise InputError("seen", repr(y), f"an outcome of the law: {law.points[kind]}", index=h)
            kind = law.after[kind][law.points[kind].index(point)]
        return kind

    def _place(self, row: Floats, step: int, kind: int) -> tuple[Solved, int] | None:
        for n, part in enumerate(self._parts):
            if (n, step) not in self._places:
                span = range(int(part.layers[step]), int(part.layers[step + 1]))
                self._places[n, step] = {_key(part.states[i], int(part.classes[i])): i for i in span}
            i = self._places[n, step].get(_key(row, kind))
            if i is not None:
                return part, i
        return None

    def _worth(self, part: Solved, here: Any, x: int, step: int, kind: int) -> float:
        window, s = self._window, self.settings
        starts, after = window.u[0], window.q[0]
        low, high = int(starts[kind]), int(starts[kind + 1])
        scores, total = [], 0.0
        for k in range(low, high):
            y = window.members[k][0]
            args = (here, window.actions[x], y, step, window.params)
            earned = window.number(self.task.reward_at, Fault.REWARD, step, x, *args)
            new = np.array(self.layout.flatten(window.move(here, x, y, step), "state"))
            found = self._place(new, step + 1, -1 if step + 1 == self.depth else int(after[k]))
            value = -math.inf if found is None else float(found[0].value[found[1]])
            if value == -math.inf:
                return -math.inf
            scores.append(earned + s.discount * value)
            total += window.weights[k] * scores[-1]
        if s.risk > 0.0:
            total = (1.0 - s.risk) * total + s.risk * tail_mean(scores, window.weights[low:high], s.tail)
        return total


def _key(row: Floats, kind: int) -> bytes:
    return row.tobytes() + kind.to_bytes(8, "little", signed=True)
