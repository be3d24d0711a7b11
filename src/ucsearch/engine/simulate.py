"""The task as a simulator: the same functions as the planner, fed with what really happened."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault
from ucsearch.engine.compiled import compile as kernels
from ucsearch.errors import InputError, TaskError
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout, as_finite, own_row
from ucsearch.policies import MODES
from ucsearch.task import Task

__all__ = ["SimulatedStep", "Simulator"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Kernel = Callable[..., None]


class SimulatedStep(NamedTuple):
    """What one step of N windows gave."""

    states: Floats  # (N, n)
    rewards: Floats  # (N,)
    mask: Bools  # (N, m) actions allowed next; a row without any is a dead end


_KIND = kernels.KernelKind("ucsearch.engine.kernels.simulate", MODES["mean"], False)


class Simulator:
    """Steps many windows of one task at once. Infeasible choices and non-finite results raise, naming the window."""

    def __init__(self, task: Task, layout: Layout, *, params: Floats | None = None, actions: Floats | None = None,
                 engine: str = "compiled") -> None:  # fmt: skip
        if engine not in ("python", "compiled"):
            raise InputError("engine", repr(engine), "'python' or 'compiled'")
        self.task, self.layout = task, layout
        self.params = _rows(task.params_row if params is None else params)
        self.actions = _rows(task.action_array[None] if actions is None else actions)
        self._kernel: Kernel | None = None
        if engine == "compiled":
            self._kernel = self._compile()

    @property
    def engine(self) -> str:
        return "python" if self._kernel is None else "compiled"

    def _compile(self) -> Callable[..., None] | None:
        what = f"the simulator of task {self.task.name!r}"
        try:
            self._loaded = kernels.load(self.task, self.layout, _KIND, self._warm, what)
        except Exception:  # the search engines warn and explain; here plain Python simply takes over
            return None
        return self._loaded.call

    def _warm(self, kernel: Kernel) -> None:
        self._call(kernel, np.zeros((0, self.layout.size)), np.zeros(0, np.int64), np.zeros((0, self.task.fields)))

    def on(self, params: Floats | None, actions: Floats | None) -> Simulator:
        """The same simulator with other parameters (N, p) and actions (N, m); None: the task's own."""
        other = copy(self)
        other.params = _rows(self.task.params_row if params is None else params)
        other.actions = _rows(self.task.action_array[None] if actions is None else actions)
        return other

    def params_of(self, n: int) -> Any:
        """The parameters of window `n` as the task's own record; None for a task without any."""
        layout = self.task.params_layout
        return None if layout is None else layout.build(own_row(self.params, n).tolist())

    def mask(self, states: Floats, at: Ints | int = 0) -> Bools:
        """(N, m) what is allowed in each of the states (N, n), at step index `at` where rules look at it."""
        rows = _rows(states)
        none = np.full(len(rows), -1, np.int64)
        return self._run(rows, none, np.zeros((len(rows), self.task.fields)), False, at).mask

    def step(self, states: Floats, chosen: NDArray[np.int64], outcomes: Floats) -> SimulatedStep:
        """Take action index `chosen` (N,) in `states` (N, n) with realised `outcomes` (N,) or (N, F)."""
        rows = _rows(states)
        index = np.ascontiguousarray(chosen, dtype=np.int64)
        y = as_finite(outcomes, "outcomes").reshape(len(rows), -1) + 0.0
        if y.shape[1] != self.task.fields or index.shape != (len(rows),):
            expected = f"{len(rows)} actions and outcomes of {self.task.fields} fields"
            raise InputError("outcomes", f"shapes {index.shape} and {y.shape}", expected)
        m = self.actions.shape[1]
        bad = ~((index >= 0) & (index < m))
        if bad.any():
            w = int(np.argmax(bad))
            raise InputError("chosen", int(index[w]), f"an action index from 0 to {m - 1}", index=w)
        allowed = self.mask(rows)[np.arange(len(rows)), index]
        if not allowed.all():
            w = int(np.argmax(~allowed))
            action = self.task.action_of(float(own_row(self.actions, w)[index[w]]))
            raise InputError(
                "chosen", f"action {action_figure(action)}, which is not feasible", "a feasible action", index=w
            )
        return self._run(rows, index, y, True, 0)

    def advance(self, rows: Floats, index: Ints, y: Floats, at: Ints | int = 0) -> SimulatedStep:
        """`step` for callers that keep to the mask themselves: no checks; index -1 leaves a window as it is. `at` is
        the step index of each window; what is allowed next is asked for the one after it."""
        return self._run(rows, index, y + 0.0, True, at)

    def _run(self, rows: Floats, index: Ints, y: Floats, move: bool, at: Ints | int) -> SimulatedStep:
        self.task.check_unchanged()
        if self._kernel is None:
            return self._plain(rows, index, y, move, at)
        try:
            return self._call(self._kernel, rows, index, y, move, at)
        except TaskError:
            raise
        except Exception:  # a rule raised in compiled code: plain Python says what, or knows the number
            return self._plain(rows, index, y, move, at)

    def _call(
        self, kernel: Callable[..., None], rows: Floats, index: Ints, y: Floats, move: bool = True,
        at: Ints | int = 0,
    ) -> SimulatedStep:  # fmt: skip
        count, size = len(rows), self.layout.size
        laid_out = rows
        if self.task.timed:
            laid_out = np.concatenate([rows, np.broadcast_to(np.asarray(at, float), (count,))[:, None]], axis=1)
        following = np.empty((count, 1, laid_out.shape[1]))
        rewards, faults = np.zeros(count), np.zeros(count, np.int64)
        mask = np.empty((count, self.actions.shape[1]), np.bool_)
        kernel(
            laid_out[:, None, :],
            self.params,
            self.actions,
            index,
            y[:, None, :],
            following,
            rewards,
            faults,
            mask,
            move,
        )
        if faults.any():
            self._raise(int(np.argmax(faults != 0)), int(faults[faults != 0][0]), index)
        return SimulatedStep(np.ascontiguousarray(following[:, 0, :size]) if move else rows, rewards, mask)

    def _plain(self, rows: Floats, index: Ints, y: Floats, move: bool, at: Ints | int) -> SimulatedStep:
        task, layout, params_layout = self.task, self.layout, self.task.params_layout
        following, rewards = np.array(rows), np.zeros(len(rows))
        mask = np.zeros((len(rows), self.actions.shape[1]), np.bool_)
        for w, row in enumerate(rows.tolist()):
            numbers = own_row(self.params, w).tolist()
            p = None if params_layout is None else params_layout.build(numbers)
            state, h = layout.build(row), int(np.broadcast_to(at, (len(rows),))[w])
            actions = [task.action_of(a) for a in own_row(self.actions, w).tolist()]
            if move and index[w] >= 0:
                a = actions[index[w]]
                outcome = y[w, 0].item() if task.outcome is None else task.outcome(*y[w].tolist())
                rewards[w] = float(task.reward_at(state, a, outcome, h, p))
                if not math.isfinite(rewards[w]):
                    self._raise(w, Fault.REWARD, index)
                try:
                    row = layout.flatten(task.step_at(state, a, outcome, h, p), "state")
                except InputError:
                    self._raise(w, Fault.STATE, index)
                following[w] = row
                state, h = layout.build(row), h + 1
            mask[w] = [a == a and bool(task.feasible_at(state, a, h, p)) for a in actions]
        return SimulatedStep(following, rewards, mask)

    def _raise(self, w: int, kind: int, index: NDArray[np.int64]) -> None:
        action = self.task.action_of(float(own_row(self.actions, w)[index[w]]))
        raise TaskError(Fault.TEXT[kind], task=self.task.name, window=w, action=action)


def _rows(numbers: Floats) -> Floats:
    """As the kernel reads them, with 0.0 for -0.0."""
    return np.ascontiguousarray(numbers, dtype=np.float64) + 0.0
