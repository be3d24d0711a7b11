"""One policy through all windows side by side: decide, let the real outcome happen, go on.

Every policy walks from its own past: the state at a decision is what its earlier decisions made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.dispatch.api import checked_fallback
from ucsearch.engine.simulate import Simulator
from ucsearch.scoreboard.problem import Problem
from ucsearch.trace import Trace

__all__ = ["Choice", "Chooser", "Walk", "as_state", "walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choice:
    """What a policy answers for N windows."""

    index: Ints  # (N,) action, -1 where it found none
    expansions: Ints  # (N,) nodes, those of an oracle included


Chooser = Callable[[int, Floats, Trace, Bools], Choice]  # step, states (N, n), forecasts, mask (N, m)


@dataclass(frozen=True, eq=False)
class Walk:
    """What a policy did in N windows of T decisions."""

    rewards: Floats  # (N, T); the value of the final state, if the task has one, is part of the last
    actions: Floats  # (N, T)
    expansions: Ints  # (N,)
    violations: Ints  # (N,) answers that the rules forbid; the fallback took their place
    fallbacks: Ints  # (N,) decisions that the fallback made, violations included
    stuck: Bools  # (N,) windows that ended in a state without an allowed action
    seconds: float  # spent deciding, all windows together


def as_state(problem: Problem, rows: Floats) -> Any:
    """Flat states (N, n) as one State of arrays: with several tuple fields a flat array alone would be ambiguous."""
    layout, at, columns = problem.layout, 0, []
    for length in layout.lengths:
        columns.append(rows[:, at : at + length] if length else rows[:, at])
        at += length or 1
    return problem.setup.task.state(*columns)


def walk(
    problem: Problem, chooser: Chooser, simulator: Simulator, *, clock: Callable[[], float],
    tick: Callable[[], None] | None = None,
) -> Walk:  # fmt: skip
    """Run `chooser` through all windows. Only its own answers are timed."""
    task, layout = problem.setup.task, problem.layout
    count, steps = len(problem), problem.steps
    states, every = problem.states(), np.arange(count)
    grid = task.action_array
    rewards, taken = np.zeros((count, steps)), np.zeros((count, steps))
    expansions, violations, fallbacks = (np.zeros(count, np.int64) for _ in range(3))
    stuck, seconds = np.zeros(count, np.bool_), 0.0
    mask = simulator.mask(states)
    for t in range(steps):
        trace = problem.trace(t)
        begin = clock()
        choice = chooser(t, states, trace, mask)
        seconds += clock() - begin
        index = np.array(choice.index, np.int64)
        inside = (index >= 0) & (index < grid.size)
        allowed = inside & mask[every, np.where(inside, index, 0)]
        violations += (index >= 0) & ~allowed & ~stuck
        for n in np.flatnonzero(~allowed & ~stuck).tolist():
            params = None if task.params_layout is None else task.params
            action, good = checked_fallback(task, layout.build(states[n].tolist()), params, grid)
            fallbacks[n] += 1
            stuck[n] = not good
            index[n] = int(np.argmax(grid == action)) if good else -1
        index[stuck] = -1
        done = simulator.advance(states, index, problem.realised[:, t, None])
        rewards[:, t], taken[:, t] = done.rewards, np.where(index >= 0, grid[np.maximum(index, 0)], 0.0)
        expansions += np.where(stuck, 0, choice.expansions)
        states, mask = done.states, done.mask
        if tick is not None:
            tick()
    if task.terminal is not None:
        for n in range(count):
            rewards[n, -1] += float(task.terminal(layout.build(states[n].tolist()), task.params))
    return Walk(rewards, taken, expansions, violations, fallbacks, stuck, seconds)
