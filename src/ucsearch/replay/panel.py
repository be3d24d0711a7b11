"""What is walked through: a task, the episodes of many series, and the forecasts every policy sees on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, forecast_paths
from ucsearch.forecast.streams import series_stream
from ucsearch.layout import Layout
from ucsearch.task import Task
from ucsearch.tasks.base import Binding
from ucsearch.trace import Trace

__all__ = ["Grid", "Panel", "SharedPanel", "Stretch", "make_panel"]

Floats = NDArray[np.float64]
Grid = Callable[[Trace], tuple[Floats | None, Floats | None]]
"""Actions (N, m) and parameters (N, p) that go with a forecast; None where they are the task's own."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """One window: `decisions` consecutive decisions on one series. `y` ends where the window's last look-ahead ends."""

    family: str  # the data set it comes from
    series: str  # its name
    window: int  # number of the window on this series, from 0
    start: int  # index of the first period decided
    decisions: int  # T
    season: int  # periods after which the series repeats; 1: none
    y: Floats  # (T,), or (T, F) where an outcome has F fields, in units of the series' own scale
    scale: float  # of its fitting part: the mean absolute value, or the standard deviation of its steps


@dataclass(frozen=True, eq=False)
class Panel:
    """N episodes of T decisions, with forecasts of J members and H steps; outcomes of several fields end in F."""

    task: Task  # the rules
    config: Any  # the record of parameters behind the task; None for a bare task
    layout: Layout  # how a state becomes a row of n numbers and back
    starts: Floats  # (N, n) where each episode begins
    stretches: tuple[Stretch, ...]  # (N,) where each episode comes from
    members: Floats  # (N, T, J, H) or (N, T, J, H, F)
    realised: Floats  # (N, T) or (N, T, F): what happened
    future: Floats  # (N, T, H) or (N, T, H, F): what happened from each decision on; at the end something stands in
    history: tuple[Floats, ...]  # (N,) outcomes before the first decision, oldest first
    model: str  # who made the forecasts
    grid: Grid | None = None  # None: the task's own actions and these parameters:
    params: Floats | None = None  # (N, p) of each episode; None: the task's own

    def __len__(self) -> int:
        return len(self.stretches)

    @property
    def decisions(self) -> int:
        return int(self.realised.shape[1])

    @property
    def series(self) -> tuple[str, ...]:
        return tuple(s.series for s in self.stretches)

    @property
    def delay(self) -> int:
        """Steps from an action to its effect."""
        return int(getattr(self.config, "effect_delay", getattr(self.config, "delay", 0)))

    def trace(self, t: int) -> Trace:
        """The forecasts that are known at decision `t`, of all episodes."""
        return Trace.from_members(self.members[:, t], model=self.model)

    def hindsight(self, t: int) -> Trace:
        """What really came from decision `t` on, as a trace of one member: for policies that foresee."""
        return Trace.from_members(self.future[:, t][:, None], model="hindsight")

    def past(self, n: int, t: int) -> Floats:
        """Outcomes of the series of episode `n` before decision `t`, as files have them: without what is drawn."""
        history, since = self.history[n], self.realised[n, :t]
        return np.concatenate([history, since[:, 0] if since.ndim > history.ndim else since])

    def grids(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        """Actions (N, m) and parameters (N, p) that go with a forecast; None where they are the task's own."""
        return (None, self.params) if self.grid is None else self.grid(trace)


class SharedPanel(Panel):
    """A panel that several policies walk through: what is known at a decision is made once for all of them."""

    def trace(self, t: int) -> Trace:
        traces: dict[int, Trace] = self.__dict__.setdefault("_traces", {})
        trace = traces.get(t)
        # Two threads may both make it; the first one stays, because `grids` knows it by identity.
        return trace if trace is not None else traces.setdefault(t, super().trace(t))

    def grids(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        newest: dict[int, tuple[Trace, tuple[Floats | None, Floats | None]]]
        newest = self.__dict__.setdefault("_grids", {})
        held = newest.get(id(trace))
        if held is None or held[0] is not trace:
            held = (trace, super().grids(trace))
            newest[id(trace)] = held
        return held[1]


def make_panel(
    stretches: Sequence[Stretch], binding: Binding, forecaster: Forecaster, *, horizon: int, key: int,
    starts: Sequence[Any] | None = None, paths: Sequence[Floats] | None = None,
) -> Panel:  # fmt: skip
    """Forecast every decision of every window, each from the values before it. `binding` says how the series become
    outcomes of a task (`ucsearch.tasks.base.bind`); `key` is a 64-bit number all draws follow from. `starts` are the
    states they begin in; where the task says, if not given. `paths`: forecasts that were made before, (T, J, H) or
    (T, J, H, F) for each window, in units of its series."""
    if not stretches:
        raise InputError("stretches", "none", "at least one window")
    members, realised, future, history = [], [], [], []
    for n, s in enumerate(stretches):
        marks = np.arange(s.start - 1, s.start - 1 + s.decisions, dtype=np.int64)
        if paths is not None:
            values = paths[n]
        else:
            # The stream is the series' own: a window's forecasts do not depend on what else is in the panel.
            model = forecaster.of(s) if hasattr(forecaster, "of") else forecaster  # stored ones look their window up
            stream = series_stream(key, f"{s.family}/{s.series}/{s.window}")
            values = forecast_paths(model, s.y, marks, horizon, s.season, stream)
        before = s.y[marks]
        members.append(binding.outcomes(values, np.repeat(before[:, None], values.shape[1], axis=1)))
        realised.append(binding.outcomes(s.y[marks + 1][:, None], before)[:, 0])
        at = np.minimum(marks[:, None] + 1 + np.arange(horizon), len(s.y) - 1)
        future.append(binding.outcomes(s.y[at], before))
        history.append(binding.outcomes(s.y[1 : s.start], s.y[0]))
    task = binding.task
    first = starts
    if first is None:
        first = binding.start(Trace.from_members(np.stack([m[0] for m in members]), model=forecaster.name))
    layout = task.layout(first[0])
    return Panel(
        task, binding.config, layout, np.array([layout.flatten(s, "state") for s in first]), tuple(stretches),
        np.stack(members), np.stack(realised), np.stack(future), tuple(history), forecaster.name,
        None if binding.multiples is None else binding.grid,
    )  # fmt: skip
