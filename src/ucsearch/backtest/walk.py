"""Receding horizon over many windows side by side: forecast, decide, let the real outcome happen, go on.

At period t a policy sees forecasts made from values before t only. All windows of a panel take their i-th decision
together, so that every decision of a suite is one compiled panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.panel import Stretch
from ucsearch.dispatch.api import checked_fallback
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import InputError, TaskError
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.streams import series_stream
from ucsearch.layout import Layout
from ucsearch.tasks.binding import Binding
from ucsearch.trace import Trace

__all__ = ["Choice", "Chooser", "Panel", "States", "Walk", "make_panel", "walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Panel:
    """N windows with all their forecasts. T decisions each, J members, H steps ahead."""

    stretches: tuple[Stretch, ...]
    members: Floats  # (N, T, J, H) outcomes of the task
    realised: Floats  # (N, T) what happened
    future: Floats  # (N, T, H) what happened from each decision on; the last value stands in beyond the window's end
    model: str

    def __len__(self) -> int:
        return len(self.stretches)

    @property
    def decisions(self) -> int:
        return int(self.realised.shape[1])

    def trace(self, t: int) -> Trace:
        return Trace.from_members(self.members[:, t], model=self.model)

    def hindsight(self, t: int) -> Trace:
        return Trace.from_members(self.future[:, t][:, None, :], model="hindsight")


def make_panel(
    stretches: Sequence[Stretch], binding: Binding, forecaster: Forecaster, *, horizon: int, key: int
) -> Panel:
    """Forecast every decision of every window."""
    if not stretches:
        raise InputError("stretches", "none", "at least one window")
    members, realised, future = [], [], []
    for s in stretches:
        marks = np.arange(s.start - 1, s.start - 1 + s.decisions, dtype=np.int64)
        # The stream is the series' own: a window's forecasts do not depend on what else is in the panel.
        made = forecaster.forecast(
            s.y, marks, horizon=horizon, season=s.season, stream=series_stream(key, f"{s.family}/{s.series}/{s.window}")
        )
        values = np.asarray(made.expand().members)  # (T, J, H)
        before = s.y[marks]
        members.append(binding.outcomes(values, np.repeat(before[:, None], values.shape[1], axis=1)))
        realised.append(binding.outcomes(s.y[marks + 1][:, None], before)[:, 0])
        at = np.minimum(marks[:, None] + 1 + np.arange(horizon), len(s.y) - 1)
        future.append(binding.outcomes(s.y[at], before))
    return Panel(tuple(stretches), np.stack(members), np.stack(realised), np.stack(future), forecaster.name)


@dataclass(frozen=True, eq=False)
class Choice:
    """What a policy answers for N windows."""

    index: Ints  # (N,) into the window's actions; -1: nothing feasible was found
    expansions: Ints  # (N,)
    oracle_nodes: Ints  # (N,) of the proof
    activity_nodes: Ints  # (N,) spent to see whether risk changed the action; no decision needs them
    certificate: dict[str, Floats] | None = None  # (N,) per field


class States(NamedTuple):
    """N states, flat and as the task's own record of arrays."""

    rows: Floats  # (N, n)
    layout: Layout

    @property
    def named(self) -> Any:
        columns: list[Any] = [self.rows[:, i] for i in range(self.layout.size)]
        return self.layout.build(columns)


class Chooser(Protocol):
    """A policy in a walk; called once per decision with everything it may see."""

    def __call__(
        self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None
    ) -> Choice: ...


@dataclass(frozen=True, eq=False)
class Walk:
    """What one policy did in N windows of T decisions."""

    rewards: Floats  # (N, T)
    actions: Floats  # (N, T)
    expansions: Ints  # (N,)
    oracle_nodes: Ints  # (N,)
    activity_nodes: Ints  # (N,)
    violations: Ints  # (N,) actions that were not allowed; the fallback took their place
    figures: dict[str, Floats]  # (N,)
    certificate: dict[str, Floats]  # (N, T)


def walk(
    panel: Panel, binding: Binding, chooser: Chooser, *, foresee: bool = False, tick: Callable[[], None] | None = None
) -> Walk:
    """Run a policy through all windows. `foresee` hands it what will really happen, for hindsight."""
    task = binding.task
    count, steps = len(panel), panel.decisions
    first = binding.start(panel.trace(0))
    layout = task.layout(first[0])
    states = np.array([layout.flatten(s, "state") for s in first])
    rewards, taken = np.zeros((count, steps)), np.zeros((count, steps))
    expansions, nodes, activity = (np.zeros(count, np.int64) for _ in range(3))
    violations = np.zeros(count, np.int64)
    proofs: dict[str, Floats] = {}
    history = np.zeros((count, steps, layout.size))
    every = np.arange(count)
    for t in range(steps):
        forecast = panel.trace(t)
        actions, params = binding.grid(forecast)
        choice = chooser(t, States(states, layout), panel.hindsight(t) if foresee else forecast, actions, params)
        simulator = Simulator(task, layout, params=params, actions=actions)
        allowed = simulator.mask(states)
        index = np.array(choice.index, np.int64)
        good = (index >= 0) & allowed[every, np.maximum(index, 0)]
        violations += (index >= 0) & ~good
        table = np.broadcast_to(task.action_array[None] if actions is None else actions, allowed.shape)
        for n in np.flatnonzero(~good):
            index[n] = _fallback(simulator, layout, states[n], int(n), table[n])
        happened = simulator.step(states, index, panel.realised[:, t])
        taken[:, t] = table[every, index]
        rewards[:, t] = happened.rewards
        expansions += choice.expansions
        nodes += choice.oracle_nodes
        activity += choice.activity_nodes
        for name, values in (choice.certificate or {}).items():
            proofs.setdefault(name, np.full((count, steps), np.nan))[:, t] = values
        history[:, t] = states
        states = happened.states
        if tick is not None:
            tick()
    figures = binding.figures(history, taken, panel.realised)
    return Walk(rewards, taken, expansions, nodes, activity, violations, figures, proofs)


def _fallback(simulator: Simulator, layout: Layout, row: Floats, n: int, actions: Floats) -> int:
    """The task's own fallback; a window where even that is not allowed cannot go on."""
    task, params_layout = simulator.task, simulator.task.params_layout
    own = simulator.params[n if len(simulator.params) > 1 else 0].tolist()
    params = None if params_layout is None else params_layout.build(own)
    action, good = checked_fallback(task, layout.build(row.tolist()), params, actions)
    if not good:
        raise TaskError("neither the policy's action nor the fallback is feasible", task=task.name, window=n)
    return int(np.argmax(actions == action))
