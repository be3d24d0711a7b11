"""Histories of series and their replay: what every policy sees, decides and pays or earns, period by period.

Everybody begins in the same state, sees forecasts of earlier periods only, and earns or pays what the task's own rules
say at what really happened. How the value of what is left counts is the task's to say (`OnSeries.left_counts`).
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.api import Terms
from ucsearch.decision.decision import DecisionPanel, Outcome
from ucsearch.engine.api import search_panel
from ucsearch.engine.choose import engine_for
from ucsearch.errors import DataError, InputError
from ucsearch.planner.backtest.resume import Arrays
from ucsearch.planner.backtest.trucks import ALONE, Loads, Place, trucks_of
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kinds, StateFile, state_columns
from ucsearch.planner.files.calendar import later
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.files.sales import History as Sold
from ucsearch.planner.files.table import Problem, open_table
from ucsearch.planner.history import prepare as prepare_forecasts
from ucsearch.planner.history import why_not_replayed
from ucsearch.planner.settings import Settings
from ucsearch.policies import Exact, Run
from ucsearch.replay.choosers import Certified, Deterministic
from ucsearch.replay.panel import Panel, SharedPanel, Stretch
from ucsearch.replay.roster import Entry, opponents
from ucsearch.replay.truck import TruckValues, truck_rules
from ucsearch.replay.walk import Chooser, Seen, Walk, parts_of, walk
from ucsearch.tasks.base import Foreseen
from ucsearch.trace import Trace

__all__ = ["PLANNED", "PROVED", "RULE", "History", "Replay", "effort_of", "read_histories"]

Floats = NDArray[np.float64]
RULE, PLANNED, PROVED = 1, 5, 25
"""What a decision takes, for a progress bar: about as a rule, a plan on one forecast and a proved plan take time."""
_HINDSIGHT_NODES = 2_000_000
_SPARE = 64  # periods that a calendar reaches beyond those that are replayed and planned


@dataclass(frozen=True, eq=False)
class History:
    """One series, ready to be replayed."""

    series: str
    y: Floats  # (T,), or (T, F) where an outcome has F fields
    case: Case  # with the state it starts from
    place: Place = ALONE  # its truck, and what it hangs together with
    first: Any = None  # when the first period was; None where the file counts steps
    known: Floats | None = None  # (n, K) what is known ahead
    period: str = "any"

    @property
    def unknown(self) -> int:
        """Periods of which nobody knows what was asked for."""
        return int(np.isnan(self.y).reshape(len(self.y), -1).any(axis=1).sum())

    def until(self, last: int, window: int) -> History:
        """As if the newest `last` periods had not come yet, for a replay of the `window` before them."""
        y = self.y[: len(self.y) - last]
        case = _opened(self.case, y, window, self.first, self.period)
        return replace(self, y=y, case=case)


def read_histories(
    settings: Settings, data: Data, states: str | Path | None, *, tuned: bool = True
) -> tuple[list[History], list[Problem]]:
    """Every series that can be replayed, and what is wrong with the others. Where the task does not open a replay by
    itself, series begin as `states` says; without it, as the task's `fit` does."""
    if getattr(settings.task, "is_planned", False):
        raise InputError("task.stability_cost, task.change_budget", "a plan to keep", "none in a backtest")
    sales, window = read_sales(data, settings), settings.backtest.periods + settings.backtest.warmup
    if settings.task is not None:  # both parts of the history, and what is planned past them
        reach = 2 * window + (settings.backtest.earlier or 0) + settings.policy.depth + _SPARE
        settings = replace(settings, task=settings.task.covering(reach))
    kinds, refused = Kinds(settings, tuned=tuned), why_not_replayed(sales, settings)
    begins = {sold.series: _first_day(sold.first, len(sold.y) - window, sales.period) for sold in sales.histories}
    dates = {series: day for series, day in begins.items() if day is not None}
    book = None
    if states is not None:
        book = StateFile(open_table(states, settings.columns.decimal), settings, kinds, first=dates)
    histories: list[History] = []
    loads = Loads(settings, book)
    problems = [*sales.problems, *([] if book is None else book.problems), *loads.problems]
    unloaded = {problem.series: problem for problem in loads.problems}
    for sold in sales.histories:
        text, column = refused.get(sold.series, ""), ""
        if not text and (text := _out_of_range(sold, settings)):
            column = settings.columns.demand
        elif not text and book is not None and sold.series not in book.cases:
            problem = book.refused.get(sold.series)
            text = f"not usable in {book.table.path}" + ("" if problem is None else f" ({problem.place})")
        elif not text and sold.series in unloaded:
            text, column = unloaded[sold.series].text, unloaded[sold.series].column
        if text:
            problems.append(Problem(sales.file, "", column, sold.series, text))
            continue
        case = _plain_case(kinds, sold.series) if book is None else book.cases[sold.series]
        opened = _opened(case, sold.y, window, sold.first, sales.period)
        if opened.state is None:
            opened = opened._replace(state=_begin(case.config))
        histories.append(
            History(sold.series, sold.y, opened, loads.place(sold.series), sold.first, sold.known, sales.period)
        )
    _check_trucks(histories, settings)
    if not histories:
        raise DataError("\n".join(map(str, problems[:20])) or f"{sales.file}: no series to replay")
    return histories, problems


def _check_trucks(histories: Sequence[History], settings: Settings) -> None:
    """All items of a truck are replayed side by side, so they have one lead time."""
    kinds: dict[str, History] = {}
    for history in histories if settings.shared else ():
        other = kinds.setdefault(history.place.truck, history)
        if other.case.kind.number != history.case.kind.number:
            raise InputError(
                "shared", f"{other.series} and {history.series} on one truck",
                "items of one lead time and one kind of rules on a truck, in a backtest",
            )  # fmt: skip


def _first_day(first: Any, periods: int, period: str) -> Any:
    """The day that begins so many periods after the first one; None where nobody knows days."""
    return None if first is None or period == "any" or periods < 0 else later(first, periods, period)


def _opened(case: Case, y: Floats, window: int, first: Any, period: str) -> Case:
    """With the record and the state of the period that begins `window` periods before the end."""
    config, params = case.config, case.params
    day = _first_day(first, len(y) - window, period)
    if day is not None and (dated := config.dated(str(day)[:10])) is not config:
        base, fresh = config.params(), dated.params()
        changed = {name: getattr(params, name) for name in base._fields if getattr(params, name) != getattr(base, name)}
        config, params = dated, fresh._replace(**changed)
    past = y[: len(y) - window]
    state = config.opening(past[~np.isnan(past.reshape(len(past), -1)).any(axis=1)])
    return Case(case.kind, case.state if state is None else state, params, config)


def _plain_case(kinds: Kinds, series: str) -> Case:
    """Of the settings alone."""
    config = kinds.config(kinds.with_penalty(series, {}))
    return Case(kinds.kind(config, {}), None, config.params(), config)


def _out_of_range(sold: Sold, settings: Settings) -> str:
    floor, words = settings.task.fit().floor, settings.task.words()
    if not (sold.y < floor).any():
        return ""
    advice = ": write returns as 0" if settings.task.places_orders else ""
    return f"saw {sold.least(settings.period)}, expected {words.outcome} of at least {floor:g}{advice}"


def _begin(config: Any) -> Any:
    """Where the task says that everybody begins."""
    start = config.fit().start
    lacking = [n for n in state_columns(config).required if n not in start]
    if lacking:
        raise InputError("states", "nothing", f"a file that says where each series begins ({', '.join(lacking)})")
    return config.state(**start)


def _filled(y: Floats) -> Floats:
    """A past without gaps, for rules that look at it: the mean of what was known before stands for each."""
    gaps = np.isnan(y)
    if not gaps.any():
        return y
    running_mean = np.cumsum(np.where(gaps, 0.0, y), axis=0) / np.maximum(np.cumsum(~gaps, axis=0), 1)
    return np.where(gaps, running_mean, y)


def effort_of(chooser: Chooser) -> int:
    """What a decision of the chooser takes, roughly."""
    proved = isinstance(chooser, Certified | TruckValues)
    return PROVED if proved else PLANNED if isinstance(chooser, Deterministic) else RULE


# -------------------------------------------------------------------- the replay


class Replay:
    """Series of one kind, side by side through time: the warm-up, then the counted periods.

    Args:
        group: the series; their histories end with the last counted period.
        settings: how they are forecast and planned.
        tick: called with the effort of decisions as they are made.
        members: forecasts (S, O, J, H) that were made before, for the same horizon and recalibration.
        judge: the same series under the settings that say what is left is worth; these by default.
    """

    def __init__(
        self,
        group: Sequence[History],
        settings: Settings,
        tick: Callable[[int], None] = lambda count: None,
        members: Floats | None = None,
        judge: Replay | None = None,
    ) -> None:
        self.group, self.settings, self.tick, self.judge = group, settings, tick, judge
        self.kind = group[0].case.kind
        test = settings.backtest
        self.length = test.periods + test.warmup
        wanted: Any = settings.run.engine
        engine: Any = engine_for(len(group) * self.length, settings.policy.mode) if wanted == "auto" else wanted
        self.how = Run(engine=engine, threads=settings.run.threads)
        self.how_forecast = prepare_forecasts(settings, config=self.kind.config)
        self.skip = test.warmup  # periods that are not counted
        self.reasons: Counter[str] = Counter()
        self.trucks = trucks_of(group, settings, self.length)  # None where series share no limit
        self.members = self._forecasts() if members is None else members

    def _forecasts(self) -> Floats:
        paths = [self._forecast(history) for history in self.group]
        size = min(x.shape[1] for x in paths)  # error paths differ in number, and the newest come first
        return np.stack([x[:, :size] for x in paths])

    def _forecast(self, history: History) -> Floats:
        """Forecasts of every period, each from what came before it."""
        cutoffs = np.arange(len(history.y) - self.length - 1, len(history.y) - 1, dtype=np.int64)
        return self.how_forecast.forecasts(
            history.series, history.y, cutoffs, self.settings.recalibration, history.known
        )

    def _happened(self, n: int) -> Floats:
        """What happened, with what is drawn: the same for every policy, and for a series whoever is beside it."""
        name = zlib.crc32(self.group[n].series.encode())
        rng = np.random.default_rng([self.settings.backtest.seed, name])
        happened: Floats = self.kind.config.with_drawn(self._realised(n), rng)
        return happened

    def _realised(self, n: int) -> Floats:
        """What happened; where nobody knows it, what was forecast one period before."""
        y = self.group[n].y[len(self.group[n].y) - self.length :]
        gaps = np.isnan(y)
        if not gaps.any():
            return y
        ahead = self.members[n, :, :, 0].mean(axis=1)
        if (y[~gaps] == np.floor(y[~gaps])).all():
            ahead = np.round(ahead)
        return np.where(gaps, ahead, y)

    @cached_property
    def panel(self) -> Panel:
        """The series of the group as episodes that end with their history."""
        group, cases, task = self.group, [history.case for history in self.group], self.kind.task
        layout, rows = task.layout(cases[0].state), task.params_layout
        begin = [len(history.y) - self.length for history in group]

        def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
            if rows is None:
                return None, None
            _, params, actions = panel_inputs(cases, trace, self.settings)
            return actions, np.broadcast_to(rows.rows(params, "params"), (len(cases), rows.size))

        return SharedPanel(
            task, self.kind.config, layout, np.array([layout.flatten(case.state, "state") for case in cases]),
            tuple(
                Stretch("", history.series, 0, at, self.length, self.settings.season, history.y, 1.0)
                for history, at in zip(group, begin, strict=True)
            ),
            self.members, np.stack([self._happened(n) for n in range(len(group))]),
            np.zeros((len(group), self.length, 0)),  # nobody is told the future
            tuple(_filled(history.y[:at]) for history, at in zip(group, begin, strict=True)),
            self.settings.forecaster.name, grid,
            None if rows is None else np.array([rows.flatten(case.params, "params") for case in cases]),
        )  # fmt: skip

    @cached_property
    def relaxed(self) -> Replay:
        """The same series without the grid of their actions and states, for rules that know none."""
        histories = []
        for history in self.group:
            case, config = history.case, history.case.config.relaxed()
            kind = dataclasses.replace(case.kind, config=config, task=config.task())
            relaxed = Case(kind, _same_state(case.state, config), config.params(), config)
            histories.append(History(history.series, history.y, relaxed))
        judge = None if self.judge is None else self.judge.relaxed
        return Replay(histories, self.settings, self.tick, self.members, judge)

    # ---------------------------------------------------------------- through time

    def walk(self, chooser: Chooser) -> Walk:
        """The warm-up and the counted periods. Rewards hold the value of what is left, as the task counts it."""
        panel, daily = self.panel, self.kind.config.left_counts == "daily"
        count = len(panel) * effort_of(chooser)
        done = walk(
            panel, chooser, engine=self.how.simulator, stuck="keep", tick=lambda: self.tick(count),
            left_by=panel.params, with_end=not daily,
        )  # fmt: skip
        if done.stuck.any():
            i = int(np.argmax(done.stuck))
            raise DataError(f"series {panel.series[i]}: no {self._action} is allowed, not even the fallback")
        return self._valued(done, self.skip)

    @property
    def _action(self) -> str:
        return str(self.settings.task.words().action)

    def _valued(self, done: Walk, first: int) -> Walk:
        """With the change of what the states are worth: in every period, or, where the task counts what is left at the
        end, from the `first` counted one on, so that nobody is given what was there by then."""
        if self.kind.config.left_counts != "daily":
            if (terminal := self.panel.task.terminal) is None:
                return done
            rewards = done.rewards.copy()
            for n, history in enumerate(self.group):
                state = self.panel.layout.build(done.states[n, first].tolist())
                rewards[n, first] -= float(terminal(state, history.case.params))
            return dataclasses.replace(done, rewards=rewards)
        judge = self if self.judge is None else self.judge
        return dataclasses.replace(done, rewards=done.rewards + np.diff(values_of(judge.panel, done.states), axis=1))

    def counted_cost(self, done: Walk) -> Floats:
        """(S,) of the counted periods, less what was earned."""
        return np.asarray(-done.rewards[:, self.skip :].sum(axis=1))

    def counted_halves(self, done: Walk) -> Floats:
        """(S, 2) the same by half of the counted periods."""
        paid = -done.rewards[:, self.skip :]
        middle = paid.shape[1] // 2
        return np.stack([paid[:, :middle].sum(axis=1), paid[:, middle:].sum(axis=1)], axis=1)

    def track(self, done: Walk) -> Arrays:
        """Reward and parts of the task, (S, T) of the counted periods."""
        parts = {"reward": done.rewards, **parts_of(self.panel, done)}
        return {name: values[:, self.skip :] for name, values in parts.items()}

    # ---------------------------------------------------------------- who decides

    def policy(self, fill: Literal["price", "greedy"] = "price") -> Chooser:
        """What `decide` would have sent; a truck can be filled greedily by value per litre instead."""
        s = self.settings
        gate = dataclasses.replace(s.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
        if gate.is_empty:
            gate = dataclasses.replace(gate, certificate=True)
        if self.trucks is not None:
            return TruckValues(
                self.panel, self.trucks, self.kind.policy, self._law, fill=fill, proof=s.proof, how=self.how, gate=gate,
                calibration=s.calibration, keep=self._count if fill == "price" else None,
                terms=Terms(gap_share=s.shared_gap, serve=s.shared_serve),
            )  # fmt: skip
        return Certified(
            self.panel.task, self.kind.policy, proof=s.proof, how=self.how, gate=gate, keep=self._count, law=self._law,
            calibration=s.calibration,
        )  # fmt: skip

    def _law(self, seen: Seen) -> Trace:
        layout = self.kind.task.params_layout
        params = None if layout is None or seen.params is None else layout.columns(seen.params)
        return self.kind.config.planned_trace(seen.trace, params, self.settings.policy, self.settings.actions)  # type: ignore[no-any-return]

    def _count(self, t: int, panel: DecisionPanel) -> None:
        gone = panel.outcome != Outcome.RELEASED.value
        self.reasons.update(panel.cause[i].value for i in np.flatnonzero(gone).tolist())

    @property
    def free(self) -> bool:
        """Whether rules may take what they like, because the table of actions follows the forecast."""
        sizes = self.settings.actions
        return sizes.multiples is not None or sizes.lots > 0

    @cached_property
    def rules(self) -> dict[str, Entry]:
        """What would be used instead, by name, in the order of a table."""
        if self.trucks is not None:
            return {entry.name: entry for entry in truck_rules(self.panel, self.trucks)}
        horizon, depth = self.members.shape[3], max(self.settings.policy.depth, self.kind.delay + 3)
        entries = opponents(
            self.panel, min(horizon, depth), free=self.free, round_to=self.settings.actions.round_to, how=self.how
        )
        return {entry.name: entry for entry in entries}

    def prepare(self) -> None:
        """Makes what several walks share, before they run side by side."""
        _ = self.panel
        if any(entry.relaxed for entry in self.rules.values()):
            _ = self.relaxed.panel

    def walk_rule(self, name: str, knobs: Sequence[dict[str, Any]] | None = None) -> tuple[Replay, Walk]:
        """A rule through time as it is, or with `knobs` for each series; and the replay in which it walked."""
        entry = self.rules[name]
        replay = self.relaxed if entry.relaxed else self
        return replay, replay.walk(entry.make() if knobs is None else entry.chooser(knobs))

    # ---------------------------------------------------------------- hindsight

    def hindsight(self, begins: Floats) -> Arrays:
        """The best way through the counted periods from any of the states (S, P, n) that policies had then; "hindsight
        known" says of which series there is one, "unknown ..." why not."""
        count, periods = len(self.group), self.length - self.skip
        panel = dataclasses.replace(
            self.panel, members=self.panel.members[:, self.skip :], realised=self.panel.realised[:, self.skip :],
            future=self.panel.future[:, self.skip :],
            history=tuple(self.panel.past(n, self.skip) for n in range(count)),
        )  # fmt: skip
        plans = self._best_plans(panel, begins)
        states, solved = np.zeros((count, periods + 1, panel.layout.size)), np.zeros(count)
        actions, rewards, why = np.full((count, periods), np.nan), np.zeros((count, periods)), Counter[str]()
        for n, plan in enumerate(plans):
            if isinstance(plan, str):
                why[plan] += 1
                continue
            solved[n], actions[n] = 1.0, plan.actions
            states[n] = [panel.layout.flatten(s, "state") for s in plan.states]
            rewards[n] = _rewards(panel, n, plan, self.group[n].case.params)
            if self.kind.config.left_counts != "daily" and (terminal := panel.task.terminal) is not None:
                rewards[n, -1] += float(terminal(plan.states[-1], self.group[n].case.params))
        zero = np.zeros(count, np.int64)
        done = Walk(rewards, actions, states, zero, zero, zero, zero, zero, solved == 0.0, {}, {})
        done = self._valued(done, 0)
        arrays = {
            f"hindsight/{name}": values for name, values in {"reward": done.rewards, **parts_of(panel, done)}.items()
        }
        return {**arrays, "hindsight known": solved, **{f"unknown {k}": np.array([float(v)]) for k, v in why.items()}}

    def _best_plans(self, panel: Panel, begins: Floats) -> list[Foreseen | str]:
        """Of every series, or why there is none."""
        if self.trucks is not None:
            return ["the best way to share a limit is not known"] * len(self.group)
        plans: list[Foreseen | str | None] = []
        for n, history in enumerate(self.group):
            starts = [panel.layout.build(row) for row in np.unique(begins[n], axis=0).tolist()]
            case = history.case
            plans.append(case.config.hindsight(case.params, panel.realised[n], starts, free=self.free))
        if None not in plans:
            return plans  # type: ignore[return-value]
        if self.judge is not None:  # what is left would be worth something else in the search than in the table
            return ["the settings beside count what is left; `ucsearch backtest` of these alone shows it"] * len(plans)
        return self._searched(dataclasses.replace(panel, starts=begins[:, 0]))

    def _searched(self, panel: Panel) -> list[Foreseen | str]:
        """By one exact search over the counted periods, from where the policy stood when they began."""
        actions, params = panel.grids(panel.trace(panel.decisions - 1))
        outcomes = Trace.from_members(panel.realised[:, None], model="hindsight")
        search = Exact(depth=panel.decisions, risk=0.0, node_budget=_HINDSIGHT_NODES)
        plan = search_panel(
            panel.task, panel.layout.columns(panel.starts), outcomes, search, params=params, actions=actions,
            threads=self.how.threads, engine=self.how.engine,
        )  # fmt: skip
        plans: list[Foreseen | str] = []
        for n in range(len(panel)):
            if plan[n].status.name != "PROVED":
                plans.append(f"the best plan could not be proved within {_HINDSIGHT_NODES:,} nodes")
                continue
            p = self.group[n].case.params
            states = [panel.layout.build(panel.starts[n].tolist())]
            for t, action in enumerate(plan[n].path):
                states.append(panel.task.step_at(states[-1], action, _outcome(panel, n, t), t, p))
            plans.append(Foreseen(0, np.array(plan[n].path), states, float("nan")))
        return plans


def _outcome(panel: Panel, n: int, t: int) -> Any:
    y = panel.realised[n, t].tolist()
    return y if panel.task.outcome is None else panel.task.outcome(*y)


def _rewards(panel: Panel, n: int, plan: Foreseen, p: Any) -> list[float]:
    steps = zip(plan.states, plan.actions.tolist(), strict=False)
    return [float(panel.task.reward_at(s, a, _outcome(panel, n, t), t, p)) for t, (s, a) in enumerate(steps)]


def _same_state(state: Any, config: Any) -> Any:
    """The state of the same fields under another record of parameters."""
    fresh = config.state(**{name: getattr(state, name) for name in state_columns(config).required})
    return fresh._replace(**{name: getattr(state, name) for name in fresh._fields if hasattr(state, name)})


def values_of(panel: Panel, states: Floats) -> Floats:
    """(N, T) what states (N, T, n) are worth, all with the parameters that go with the last forecast: with one price
    for every period, changes of it add up to the value at the end less the value at the beginning."""
    terminal, rows = panel.task.terminal, panel.task.params_layout
    if terminal is None:
        return np.zeros(states.shape[:2])
    params_of: list[Any] = [None] * len(states)
    if rows is not None:
        _, params = panel.grids(panel.trace(panel.decisions - 1))
        by_series = np.broadcast_to(np.asarray(params), (len(states), rows.size))
        params_of = [rows.build(row.tolist()) for row in by_series]
    return np.array(
        [
            [float(terminal(panel.layout.build(row), p)) for row in several.tolist()]
            for several, p in zip(states, params_of, strict=True)
        ]
    )
