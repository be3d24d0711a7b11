"""What searches return: the first action of a feasible path, the path, and what is known about the rivals.

`Plan` is one window's, `PanelPlan` that of many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import HIGH, LOW, MIDDLE, Fault, First, Inputs, OutF, OutI, Outputs, Status
from ucsearch.engine.plain.closed import at_level
from ucsearch.engine.plain.run import make_window
from ucsearch.engine.plain.window import Node, TaskFault, Window
from ucsearch.errors import InputError, TaskError
from ucsearch.formatting import figure
from ucsearch.layout import Layout, every_row, own_row
from ucsearch.policies import MODES, Policy, Settings
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["Branch", "FirstAction", "PanelPlan", "Plan", "WindowStart", "explain_progress", "more_effort"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Branch:
    """What a closed-loop policy does when every outcome is low, middle or high under the law."""

    name: str  # "low", "middle" or "high": the outcome at the 10, 50 and 90 % level of its step
    outcomes: tuple[Any, ...]  # (d,) as the task's functions see them
    states: tuple[Any, ...]  # (d + 1,) the start included
    actions: tuple[float, ...]  # (d,) the first one is the same in all branches
    rewards: tuple[float, ...]  # (d,)


@dataclass(frozen=True)
class FirstAction:
    """A row of the first-action table."""

    action: float
    label: str
    feasible: bool  # allowed now
    stands_for: bool  # False when a smaller action has the same effect
    generated: bool  # expanded at the root
    retained: bool  # starts a retained path of full depth
    dead: bool  # proved to have no completion of full depth
    score: float  # best retained path score; NaN when none
    reward: float
    uncertainty: float
    upper: float  # proved upper bound on its score; NaN when nothing bounds it
    exact: bool  # score is exact
    path: tuple[float, ...]  # () when no path is retained
    step_reward: float  # q of the first step alone; NaN when not allowed
    step_uncertainty: float  # u of the first step alone


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A frozen record of one search. Everything is derived from what the engine wrote down."""

    task: Task  # the rules
    trace: Trace  # the forecast
    policy: Policy  # how it was searched
    settings: Settings  # the policy resolved against task and trace
    layout: Layout  # how states lie in arrays
    inputs: Inputs  # what the engine read
    outputs: Outputs  # what the engine wrote
    window: int  # number of the window in the trace
    engine: str  # "python" or "compiled"
    fault: str = ""  # what a task function raised, in words

    @property
    def status(self) -> Status:
        """How the search ended."""
        return Status(int(self.outputs.out_i[self.window, OutI.STATUS]))

    @property
    def found(self) -> bool:
        """Whether there is a feasible path of full depth."""
        return int(self.outputs.out_i[self.window, OutI.FIRST]) >= 0

    @property
    def proved(self) -> bool:
        """Whether the first action is proved optimal under the forecast."""
        return self.status is Status.PROVED

    @property
    def action_index(self) -> int:
        """Index into the task's actions; -1 when no path was found."""
        return int(self.outputs.out_i[self.window, OutI.FIRST])

    @property
    def action(self) -> Any:
        """The first action, a number or a tuple, or None when no path was found: never a guess."""
        index = int(self.outputs.out_i[self.window, OutI.FIRST])
        if index < 0:
            return None
        return self.task.action_of(float(own_row(self.inputs.actions, self.window)[index]))

    @property
    def label(self) -> str | None:
        return None if self.action is None else self.task.label(self.action_index, self.action)

    @property
    def actions(self) -> tuple[Any, ...]:
        """(m,) this window's actions, NaN where unavailable."""
        return tuple(map(self.task.action_of, own_row(self.inputs.actions, self.window).tolist()))

    @property
    def offered(self) -> str:
        """The set that the first action is compared in, as it stands in a sentence after "best"."""
        return self.task.offered(self.actions, self.task.pack_in(own_row(self.inputs.params, self.window).tolist()))

    @property
    def path(self) -> tuple[Any, ...]:
        """The whole path of actions; () when none was found."""
        if not self.found:
            return ()
        actions = self.actions
        return tuple(actions[i] for i in self.outputs.path[self.window].tolist())

    @property
    def score(self) -> float:
        """S = reward - risk * uncertainty."""
        return float(self.outputs.out_f[self.window, OutF.SCORE])

    @property
    def reward(self) -> float:
        return float(self.outputs.out_f[self.window, OutF.REWARD])

    @property
    def uncertainty(self) -> float:
        return float(self.outputs.out_f[self.window, OutF.UNCERTAINTY])

    @property
    def upper(self) -> float:
        """Proved upper bound on the best score; NaN when nothing bounds it."""
        return float(self.outputs.out_f[self.window, OutF.UPPER])

    @property
    def optimality_gap(self) -> float:
        """upper - score, never below 0; NaN when nothing bounds it."""
        gap = self.upper - self.score
        return gap if not gap < 0.0 else 0.0

    @property
    def expansions(self) -> int:
        return int(self.outputs.out_i[self.window, OutI.EXPANSIONS])

    @property
    def action_scores(self) -> int:
        return int(self.outputs.out_i[self.window, OutI.ACTION_SCORES])

    @property
    def simulations(self) -> int:
        return 0 if self.is_closed else int(self.outputs.out_i[self.window, OutI.SIMULATIONS])

    @property
    def reached(self) -> int:
        """Closed mode: distinct states that were valued; its expansions are transitions (state, action, outcome)."""
        return int(self.outputs.out_i[self.window, OutI.SIMULATIONS]) if self.is_closed else 0

    @property
    def continuation(self) -> int:
        """Which continuation (grid points counted through) scored the path; -1 without one."""
        return int(self.outputs.out_i[self.window, OutI.CONTINUATION])

    @property
    def error(self) -> TaskError | None:
        """What a task function did wrong, naming window, step and action; None when nothing did."""
        kind, step, action = (int(x) for x in self.outputs.out_i[self.window, OutI.FAULT :])
        if kind == Fault.NONE:
            return None
        return TaskError(
            self.fault or Fault.TEXT[kind],
            task=self.task.name,
            window=self.window,
            step=step,
            action=self.actions[action],
        )

    @property
    def blocked(self) -> int:
        """How many of this window's actions the rules do not allow now."""
        return sum(not bits & First.FEASIBLE for bits in self.outputs.flags[self.window].tolist())

    @cached_property
    def first_actions(self) -> tuple[FirstAction, ...]:
        """Every action of this window: allowed or not, its best retained path, and what bounds it."""
        rows = []
        flags, table = self.outputs.flags[self.window].tolist(), self.outputs.table[self.window].tolist()
        actions = self.actions
        for i, action in enumerate(actions):
            bits = flags[i]
            path: tuple[Any, ...] = ()
            if bits & First.RETAINED and self.outputs.paths.shape[0]:
                path = tuple(actions[x] for x in self.outputs.paths[self.window, i].tolist())
            score, reward, uncertainty, upper, step_reward, step_uncertainty, _ = table[i]
            rows.append(
                FirstAction(
                    action, self.task.label(i, action), bool(bits & First.FEASIBLE), not bits & First.DUPLICATE,
                    bool(bits & First.GENERATED), bool(bits & First.RETAINED), bool(bits & First.DEAD),
                    score, reward, uncertainty, upper, bool(bits & First.EXACT), path, step_reward, step_uncertainty,
                )
            )  # fmt: skip
        return tuple(rows)

    @cached_property
    def _replay(self) -> tuple[list[Node], list[tuple[float, float]]]:
        """Nodes along the path and (q, u) of each step, by the plain engine."""
        if not self.found:
            return [], []
        if self.is_closed:
            middle = self.branches[1]
            nodes = [Node((x,), (), 0.0, 0.0, 0.0, 0.0, ()) for x in middle.states]
            return nodes, [(r, 0.0) for r in middle.rewards]
        window = self._plain_window()
        node = window.root(self.layout.build(self.inputs.states[self.window].tolist()))
        nodes, edges = [node], []
        for h, index in enumerate(self.outputs.path[self.window].tolist()):
            (candidate,) = [c for c in window.score(node, h) if c.action == index]
            extended = window.extend(node, candidate, h)
            if extended is None:
                raise InputError("plan.path", f"a dropped step {h}", "a feasible path")
            node = extended
            nodes.append(node)
            edges.append((candidate.q, candidate.u))
        return nodes, edges

    def start(self) -> tuple[Window, Any]:
        """This window's rules in the plain engine (without a bound), and the state it starts from."""
        settings = self.settings._replace(use_bound=False)
        window = make_window(self.task, settings, self.layout, self.inputs, self.window)
        return window, self.layout.build(self.inputs.states[self.window].tolist())

    @property
    def is_closed(self) -> bool:
        """Whether policies were valued, not fixed plans."""
        return self.settings.mode == MODES["closed"]

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Closed mode: the policy's steps after low, middle and high outcomes; () when there is none to show."""
        paths = self.outputs.paths
        if not self.is_closed or not self.found or not paths.shape[0]:
            return ()
        m = len(self.actions)
        rows = ((LOW, "low", m), (MIDDLE, "middle", self.action_index), (HIGH, "high", m + 1))
        window = self._plain_window()
        return tuple(self._branch(window, name, level, paths[self.window, row].tolist()) for level, name, row in rows)

    def _branch(self, window: Window, name: str, level: float, path: list[int]) -> Branch:
        after, starts = [int(x) for x in window.q[0]], [int(x) for x in window.u[0]]
        kind, state = 0, self.layout.build(self.inputs.states[self.window].tolist())
        outcomes, states, rewards = [], [state], []
        for h, index in enumerate(path):
            low, high = starts[kind], starts[kind + 1]
            k = low + at_level(window.weights[low:high], level)
            y = window.members[k][0]
            args = (state, window.actions[index], y, h, window.params)
            rewards.append(window.number(self.task.reward_at, Fault.REWARD, h, index, *args))
            state, kind = window.move(state, index, y, h), after[k]
            outcomes.append(y)
            states.append(state)
        actions = tuple(window.actions[i] for i in path)
        return Branch(name, tuple(outcomes), tuple(states), actions, tuple(rewards))

    def _plain_window(self) -> Window:
        return make_window(self.task, self.settings, self.layout, self.inputs, self.window)

    @property
    def states(self) -> tuple[Any, ...]:
        """States along the path, the start included: d + 1 of them (members mode: a tuple per member each)."""
        members = self.settings.mode == MODES["members"]
        return tuple(n.states if members else n.states[0] for n in self._replay[0])

    @property
    def step_rewards(self) -> tuple[float, ...]:
        """(d,) q of each step, undiscounted."""
        return tuple(q for q, _ in self._replay[1])

    @property
    def step_uncertainties(self) -> tuple[float, ...]:
        """(d,) u of each step, undiscounted (members mode: the edge's own spread; U of the path is not their sum)."""
        return tuple(u for _, u in self._replay[1])

    @property
    def _out_of_budget(self) -> bool:
        return self.status is Status.NOT_PROVED

    def explain(self) -> str:
        """What the search found, in words; where its budget ended, what is known so far and what to raise."""
        best = f'starts with "{self.label}" and scores {figure(self.score)}' if self.found else ""
        upper = self._upper_at_root() if self._out_of_budget else self.upper
        most = "" if math.isnan(upper) else f"cannot score more than {figure(upper)}"
        if self._out_of_budget:
            s = self.settings
            progress = explain_progress(self.expansions, s.node_budget, self.is_closed, best, most)
            return progress + more_effort(s.node_budget, s.depth)
        if self.error is not None:
            return f"A rule of the task failed: {self.error}."
        if self.proved:
            offered = sum(a == a for a in self.actions)
            return f'"{self.label}" is proved best among {offered} actions offered: it scores {figure(self.score)}.'
        if self.found:
            return f"The plan found {best}; {f'the best possible plan {most}' if most else 'nothing is proved'}."
        return _NOTHING[self.status]

    def _upper_at_root(self) -> float:
        """What the task's bound says of every plan, asked at the root; NaN without a bound."""
        if self.is_closed or not self.settings.use_bound:
            return math.nan
        window = self._plain_window()
        root = window.root(self.layout.build(self.inputs.states[self.window].tolist()))
        try:
            return max((window.limit_of_candidate(root, c, 0) for c in window.score(root, 0)), default=math.nan)
        except TaskFault:
            return math.nan

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values; NaN becomes None."""
        return {
            "task": self.task.name,
            "task_version": self.task.version,
            "trace_hash": self.trace.hash,
            "window": self.window,
            "status": self.status.name.lower(),
            "action": self.action,
            "label": self.label,
            "path": list(self.path),
            "states": [_plain(s) for s in self.states],
            "score": _none(self.score),
            "reward": _none(self.reward),
            "uncertainty": _none(self.uncertainty),
            "upper": _none(self.upper),
            "step_rewards": list(self.step_rewards),
            "step_uncertainties": list(self.step_uncertainties),
            "first_actions": [
                {k: _none(v) if isinstance(v, float) else v for k, v in vars(row).items()} for row in self.first_actions
            ],
            "counters": {
                "expansions": self.expansions,
                "action_scores": self.action_scores,
                "simulations": self.simulations,
            },
            "settings": self.settings._asdict(),
            "engine": self.engine,
        }

    def frame(self, backend: str = "auto") -> Any:
        """The first-action table as a data frame (polars, pandas or pyarrow, whichever is installed)."""
        from ucsearch.formatting import make_frame

        rows = [vars(r) for r in self.first_actions]
        columns = {k: [r[k] for r in rows] for k in rows[0] if k != "path"}
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        if not self.found:
            spent = f": {self.expansions} of {self.settings.node_budget} nodes used" if self._out_of_budget else ""
            return f"Plan({self.task.name}: {self.status.name.lower()}, no action{spent})"
        return (
            f"Plan({self.task.name}: action {self.action:g}, score {self.score:.6g} = {self.reward:.6g} - "
            f"{self.settings.risk:g} x {self.uncertainty:.6g}, {self.status.name.lower()}, "
            f"{self.expansions} expansions)"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(r.label)}</td><td>{_cell(r.score)}</td><td>{_cell(r.reward)}</td><td>{_cell(r.uncertainty)}</td>"
            f"<td>{_cell(r.upper)}</td><td>{_verdict(r, self.action)}</td></tr>"
            for r in self.first_actions
        )
        head = "".join(f"<th>{h}</th>" for h in ("first action", "score", "reward", "uncertainty", "at most", ""))
        return f"<p>{escape(repr(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


_NOTHING = {
    Status.DEAD_END: "No feasible plan exists: no action keeps the rules to the end of the horizon.",
    Status.SEARCH_EXHAUSTED: "The search lost every plan, although one may exist: widen the beam or raise top_k.",
    Status.NO_STRUCTURE: "The forecast does not say what is learned when: declare it, or use another mode than closed.",
    Status.OUT_OF_TIME: "The search was stopped before it found a plan.",
}


def _verdict(row: FirstAction, chosen: float | None) -> str:
    if row.action == chosen:
        return "chosen"
    if not row.feasible:
        return "not allowed"
    if not row.stands_for:
        return "same effect as a smaller action"
    if row.dead:
        return "dead end"
    if not row.generated:
        return "pruned at the root"
    return "" if row.retained else "pruned"


def _cell(x: float) -> str:
    return "" if math.isnan(x) else f"{x:.6g}"


def _none(x: float) -> float | None:
    return None if isinstance(x, float) and not np.isfinite(x) else x


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else float(value)


def explain_progress(nodes: int, budget: int, closed: bool, best: str, most: str) -> str:
    """How much was spent, the `best` plan so far ("" without one), and what bounds every plan (`most`, "" unknown)."""
    unit = "transitions" if closed else "nodes"
    plan = f"The best plan so far {best}" if best else "No complete plan was found so far"
    bound = f"the best possible plan {most}" if most else "nothing bounds what other plans may reach"
    return f"The search stopped at its budget: {nodes:,} of {budget:,} {unit} are used. {plan}; {bound}."


def more_effort(budget: int, depth: int) -> str:
    """What to change so that the search ends with a proof."""
    return (
        f" To get a proof, raise node_budget (now {budget:,}), plan fewer steps (depth, now {depth}) "
        "or offer fewer actions."
    )


# -------------------------------------------------------------------- panels


class WindowStart(NamedTuple):
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

    def start(self, w: int) -> WindowStart:
        """State, parameters and actions of window w."""
        return WindowStart(self._states[w], own_row(self._params, w), own_row(self._actions, w))

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
        actions = every_row(self.inputs.actions, len(self))
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
        actions = every_row(self.inputs.actions, len(self))
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
