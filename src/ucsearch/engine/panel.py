"""Many searches at once: what `search_panel` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, OutF, OutI, Outputs
from ucsearch.engine.plan import Plan
from ucsearch.engine.status import Status
from ucsearch.errors import TaskError
from ucsearch.layout import Layout, own_row
from ucsearch.policies import Policy, Settings
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["PanelPlan", "Start"]

Floats = NDArray[np.float64]


class Start(NamedTuple):
    """Where a window's plan starts, in values that rules take."""

    state: Any
    params: Any
    actions: list[float]  # (m,) NaN where unavailable


@dataclass(frozen=True, eq=False)
class PanelPlan:
    """Many searches at once: arrays with one row per window, and a `Plan` for each on demand."""

    task: Task  # the rules
    trace: Trace  # the forecast, W windows
    policy: Policy  # how it was searched
    settings: Settings  # the policy resolved against task and trace
    layout: Layout  # how states lie in arrays
    inputs: Inputs  # what the engine read
    outputs: Outputs  # what the engine wrote, row by row
    engine: str  # "python" or "compiled"
    faults: Mapping[int, str] = field(default_factory=dict)  # by window, what a task function raised, in words

    def __len__(self) -> int:
        return int(self.outputs.out_i.shape[0])

    def __repr__(self) -> str:
        found = int((self.outputs.out_i[:, OutI.FIRST] >= 0).sum())
        return f"PanelPlan({self.task.name}: {len(self)} windows, {found} with a path, {self.engine})"

    def __getitem__(self, w: int) -> Plan:
        if not -len(self) <= w < len(self):
            raise IndexError(f"window {w} of {len(self)}")
        trace = self.trace.window(w % len(self) if self.trace.windows > 1 else 0)
        return Plan(
            self.task, trace, self.policy, self.settings, self.layout, self.inputs, self.outputs, w % len(self),
            self.engine, self.faults.get(w % len(self), ""),
        )  # fmt: skip

    def start(self, w: int) -> Start:
        """State, parameters and actions of window w."""
        return Start(self._states[w], own_row(self._params, w), own_row(self._actions, w))

    @cached_property
    def _states(self) -> list[Any]:
        """Built once for all windows: column by column, which is faster."""
        columns = [
            c.tolist() if c.ndim == 1 else map(tuple, c.tolist()) for c in self.layout.columns(self.inputs.states)
        ]
        return list(map(self.layout.kind, *columns))

    @cached_property
    def _params(self) -> list[Any]:
        layout = self.task.params_layout
        return [None if layout is None else layout.build(row) for row in self.inputs.params.tolist()]

    @cached_property
    def _actions(self) -> list[list[Any]]:
        return [[self.task.action_of(a) for a in row] for row in self.inputs.actions.tolist()]

    @property
    def status(self) -> NDArray[np.int64]:
        """(W,) codes of `Status`."""
        return self.outputs.out_i[:, OutI.STATUS]

    @property
    def action(self) -> Floats:
        """(W,) first actions, NaN where there is none; of tuples the numbers that stand for them (`task.action_of`)."""
        index = self.outputs.out_i[:, OutI.FIRST]
        actions = np.broadcast_to(self.inputs.actions, (len(self), self.inputs.actions.shape[1]))
        picked = np.take_along_axis(actions, np.maximum(index, 0)[:, None], axis=1)[:, 0]
        return np.where(index >= 0, picked, np.nan)

    @property
    def score(self) -> Floats:
        return self.outputs.out_f[:, OutF.SCORE]

    @property
    def reward(self) -> Floats:
        return self.outputs.out_f[:, OutF.REWARD]

    @property
    def uncertainty(self) -> Floats:
        return self.outputs.out_f[:, OutF.UNCERTAINTY]

    @property
    def upper(self) -> Floats:
        """(W,) proved upper bounds, NaN where nothing bounds the score."""
        return self.outputs.out_f[:, OutF.UPPER]

    @property
    def expansions(self) -> NDArray[np.int64]:
        return self.outputs.out_i[:, OutI.EXPANSIONS]

    @property
    def action_scores(self) -> NDArray[np.int64]:
        return self.outputs.out_i[:, OutI.ACTION_SCORES]

    @property
    def path(self) -> Floats:
        """(W, d) actions, NaN where there is no path; of tuples the numbers that stand for them (`task.action_of`)."""
        index = self.outputs.path
        actions = np.broadcast_to(self.inputs.actions, (len(self), self.inputs.actions.shape[1]))
        picked = np.take_along_axis(actions, np.maximum(index, 0).astype(np.int64), axis=1)
        return np.where(index >= 0, picked, np.nan)

    def errors(self) -> list[TaskError]:
        """What went wrong, window by window; empty when nothing did."""
        bad = np.flatnonzero(self.status == Status.TASK_ERROR)
        return [e for e in (self[int(w)].error for w in bad) if e is not None]

    def raise_for_errors(self) -> PanelPlan:
        """Raise the first window's `TaskError`, if any; else return self."""
        bad = np.flatnonzero(self.status == Status.TASK_ERROR)
        if bad.size:
            error = self[int(bad[0])].error
            if error is not None:
                raise error
        return self

    def frame(self, backend: str = "auto") -> Any:
        """One row per window as a data frame."""
        from ucsearch.formatting import make_frame

        names = [s.name.lower() for s in Status]
        return make_frame(
            {
                "window": np.arange(len(self)),
                "status": [names[int(s)] for s in self.status],
                "action": self.action,
                "score": self.score,
                "reward": self.reward,
                "uncertainty": self.uncertainty,
                "upper": self.upper,
                "expansions": self.expansions,
                "action_scores": self.action_scores,
            },
            backend,
        )
