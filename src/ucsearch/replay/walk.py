"""The receding horizon: forecast, decide, let the real outcome happen, go on; all episodes of a panel side by side.

At decision t a policy sees forecasts made from values before t, and the state its own earlier decisions led to. What it
may not do is replaced by the task's fallback. Where not even that is allowed the episode is stuck: it stays as it is,
earns nothing more, and whoever compares leaves it out for everybody (or, with `stuck="raise"`, nobody goes on).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import checked_fallback
from ucsearch.engine.inputs import action_grid
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import TaskError
from ucsearch.layout import Layout
from ucsearch.replay.panel import Panel
from ucsearch.trace import Trace

__all__ = ["Choice", "Chooser", "Seen", "Walk", "parts_of", "walk"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Seen(NamedTuple):
    """Everything a policy may see at decision t of N episodes."""

    t: int  # from 0
    rows: Floats  # (N, n) states
    layout: Layout  # of the rows
    trace: Trace  # forecasts made now
    table: Floats  # (N, m) actions, of tuples the numbers that stand for them; NaN: unavailable
    mask: Bools  # (N, m) allowed now
    actions: Floats | None  # (N, m) or (N, m, width) as searches take them; None: the task's own
    params: Floats | None  # (N, p) where they are not the task's own
    past: Callable[[int], Floats]  # episode -> outcomes before now, oldest first

    @property
    def state(self) -> Any:
        """The states as the task's own record of arrays."""
        return self.layout.columns(self.rows)


@dataclass(frozen=True, eq=False)
class Choice:
    """What a policy answers for N episodes."""

    action: Floats  # (N,); NaN: it found none
    expansions: Ints  # (N,)
    oracle_nodes: Ints | None = None  # (N,) of the proof
    activity_nodes: Ints | None = None  # (N,) spent to see whether risk changed the action; no decision needs them
    certificate: dict[str, Floats] | None = None  # (N,) per field

    @classmethod
    def at(cls, seen: Seen, index: Ints, expansions: Ints | None = None, **more: Any) -> Choice:
        """By index into the table of `seen`; -1 where nothing was found. No `expansions` count as 0; `more` are further
        fields."""
        index = np.asarray(index, np.int64)
        action = seen.table[np.arange(len(index)), np.clip(index, 0, seen.table.shape[1] - 1)]
        action = np.where(
            index < 0, np.nan, np.where(index < seen.table.shape[1], action, np.inf)
        )  # inf: no such action
        return cls(action, np.zeros(len(index), np.int64) if expansions is None else expansions, **more)


class Chooser(Protocol):
    """A policy in a walk. With `free = True` it may take actions that are not in the table but within the rules; with
    `foresees = True` its trace is what will really happen."""

    def __call__(self, seen: Seen) -> Choice: ...


@dataclass(frozen=True, eq=False)
class Walk:
    """What one policy did in N episodes of T decisions."""

    rewards: Floats  # (N, T); the value of the final state, if the task has one, is part of the last
    actions: Floats  # (N, T); NaN once stuck
    states: Floats  # (N, T + 1, n) before every decision, and after the last
    expansions: Ints  # (N,)
    oracle_nodes: Ints  # (N,)
    activity_nodes: Ints  # (N,)
    violations: Ints  # (N,) answers that the rules forbid; the fallback took their place
    fallbacks: Ints  # (N,) decisions that the fallback made, violations included
    stuck: Bools  # (N,) ended in a state without an allowed action
    figures: dict[str, Floats]  # (N,) the task's own
    certificate: dict[str, Floats]  # (N, T)
    seconds: float = 0.0  # spent deciding, all episodes together; 0 without a clock

    @property
    def totals(self) -> Floats:
        """(N,) reward of whole episodes."""
        return np.asarray(self.rewards.sum(axis=1))


def walk(
    panel: Panel, chooser: Chooser, *, engine: Literal["python", "compiled"] = "compiled",
    stuck: Literal["raise", "keep"] = "raise", clock: Callable[[], float] | None = None,
    tick: Callable[[], None] | None = None, left_by: Floats | None = None, with_end: bool = True,
) -> Walk:  # fmt: skip
    """Run a policy, the `chooser`, through all episodes. Only its own answers are timed, by `clock`. Where not even the
    fallback is allowed, `stuck` says whether to raise or to keep the episode as it is; `tick` is called after every
    decision. What is left at the end is valued by the last forecast's params, or by the rows `left_by` (N, q); not at
    all without `with_end`."""
    task, layout = panel.task, panel.layout
    count, steps = len(panel), panel.decisions
    free, foresees = getattr(chooser, "free", False), getattr(chooser, "foresees", False)
    expansions, nodes, activity, violations, fallbacks = (np.zeros(count, np.int64) for _ in range(5))
    out = Walk(
        np.zeros((count, steps)), np.zeros((count, steps)), np.zeros((count, steps + 1, layout.size)), expansions,
        nodes, activity, violations, fallbacks, np.zeros(count, np.bool_), {}, {},
    )  # fmt: skip
    states, seconds = np.array(panel.starts), 0.0
    simulator = Simulator(task, layout, engine=engine)
    params: Floats | None = None
    for t in range(steps):
        forecast = panel.trace(t)
        actions, params = panel.grids(forecast)
        simulator = simulator.on(params, action_grid(task, actions, count))
        mask = simulator.mask(states)
        table = np.broadcast_to(simulator.actions, mask.shape)
        trace = panel.hindsight(t) if foresees else forecast
        seen = Seen(t, states, layout, trace, table, mask, actions, params, lambda n, t=t: panel.past(n, t))  # type: ignore[misc]
        begin = clock() if clock is not None else 0.0
        choice = chooser(seen)
        seconds += clock() - begin if clock is not None else 0.0
        action = np.array(choice.action, np.float64)
        known = np.isfinite(action) & (free | (table == action[:, None]).any(axis=1))
        # The rules are asked about actions only that they may be asked about.
        good = known & simulator.on(params, np.where(known, action, np.nan)[:, None]).mask(states)[:, 0]
        out.violations[:] += ~np.isnan(action) & ~good & ~out.stuck
        for n in np.flatnonzero(~good & ~out.stuck).tolist():
            action[n] = _fallback(simulator, layout, states[n], n, table[n], stuck)
            out.fallbacks[n] += 1
        out.stuck[:] |= np.isnan(action)
        action[out.stuck] = np.nan
        taker = simulator.on(params, action[:, None])
        happened = taker.advance(states, np.where(out.stuck, -1, 0), panel.realised[:, t].reshape(count, -1))
        out.states[:, t], out.actions[:, t], out.rewards[:, t] = states, action, happened.rewards
        for total, spent in (
            (out.expansions, choice.expansions), (out.oracle_nodes, choice.oracle_nodes),
            (out.activity_nodes, choice.activity_nodes),
        ):  # fmt: skip
            if spent is not None:
                total[:] += np.where(out.stuck, 0, spent)
        for name, values in (choice.certificate or {}).items():
            out.certificate.setdefault(name, np.full((count, steps), np.nan))[:, t] = values
        states = happened.states
        if tick is not None:
            tick()
    out.states[:, steps] = states
    if with_end and task.terminal is not None:
        simulator = simulator if left_by is None else simulator.on(left_by, None)
        for n in np.flatnonzero(~out.stuck).tolist():
            out.rewards[n, -1] += float(task.terminal(layout.build(states[n].tolist()), simulator.params_of(n)))
    if panel.config is not None and hasattr(panel.config, "figures"):
        out.figures.update(panel.config.figures(out.states[:, :steps], out.actions, panel.realised))
    object.__setattr__(out, "seconds", seconds)
    return out


def parts_of(panel: Panel, done: Walk) -> dict[str, Floats]:
    """(N, T) per part of what a walk cost and moved, as the task's record of parameters tells them apart."""
    layout, simulator = panel.layout, Simulator(panel.task, panel.layout, params=panel.params, engine="python")
    out: dict[str, Floats] = {}
    for n in range(len(panel)):
        p = simulator.params_of(n)
        for t in range(panel.decisions):
            if np.isnan(done.actions[n, t]):
                continue
            state = layout.build(done.states[n, t].tolist())
            y = panel.realised[n, t].tolist()
            outcome = y if panel.task.outcome is None else panel.task.outcome(*y)
            action = panel.task.action_of(float(done.actions[n, t]))
            for name, value in panel.config.parts(state, action, outcome, p).items():
                out.setdefault(name, np.zeros(done.actions.shape))[n, t] = value
    return out


def _fallback(simulator: Simulator, layout: Layout, row: Floats, n: int, actions: Floats, stuck: str) -> float:
    """The task's own fallback; NaN where even that is not allowed."""
    task = simulator.task
    offered = [task.action_of(a) for a in actions.tolist()]
    action, good = checked_fallback(task, layout.build(row.tolist()), simulator.params_of(n), offered)
    if good:
        return task.number_of(action)
    if stuck == "raise":
        text = "neither the policy's action nor the fallback is feasible"
        raise TaskError(text, task=task.name, window=n)
    return float(np.nan)
