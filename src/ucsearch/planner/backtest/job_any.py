"""`ucsearch backtest` for tasks other than inventory: replay the last periods of a history, for several policies.

Everybody begins in the same state, sees forecasts of earlier periods only, and earns or pays what the task's own rules
say at what really happened. What a state holds, such as the charge of a battery, counts in every period by how much
its value has changed: at the task's end value, or at the last forecast's where `end_price = "forecast"`. So a charge
that is carried over midnight counts on the day that bought it, and doing nothing earns nothing. Rules with knobs are
shown as they are and tuned on the periods before the counted ones. Every finished walk is kept until the run is done.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import DecisionPanel, Outcome
from ucsearch.engine.api import search_panel
from ucsearch.engine.choose import engine_for
from ucsearch.errors import DataError, InputError
from ucsearch.options import Run
from ucsearch.planner.backtest.result import GIVEN, HINDSIGHT, POLICY, TUNED
from ucsearch.planner.backtest.result_any import AnyResult, Outcomes
from ucsearch.planner.backtest.resume import Arrays, Kept, file_hash
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kinds, StateFile, state_columns
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.files.table import Problem, open_table
from ucsearch.planner.history import needed_periods, prepare, why_not_replayed, with_season
from ucsearch.planner.settings import Settings
from ucsearch.policies import Exact
from ucsearch.replay.choosers import Certified
from ucsearch.replay.linear import LinearStorage, has_solver
from ucsearch.replay.panel import Panel, Stretch, make_panel
from ucsearch.replay.practice import Nothing
from ucsearch.replay.roster import Budget, Entry, practitioners
from ucsearch.replay.tune import ROUNDS, Chosen, Grid, choose, pooled_best
from ucsearch.replay.walk import Choice, Chooser, Seen, Walk, parts_of, walk
from ucsearch.tasks.base import Binding
from ucsearch.tasks.storage.record import Storage
from ucsearch.trace import Trace

__all__ = ["GIVEN", "HINDSIGHT", "POLICY", "AnyResult", "Group", "Stage", "read_groups", "run_backtest_any"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
_HINDSIGHT_NODES = 2_000_000


class One(NamedTuple):
    """A series, ready to be replayed."""

    name: str
    y: Floats  # (T,), or (T, F)
    case: Case


Group = list[One]  # series of one kind


def run_backtest_any(
    settings: Settings, data: Data, *, states: str | Path | None = None, earlier: int | None = None,
    progress: Progress | None = None, keep: Path | None = None, given: Settings | None = None,
) -> AnyResult:  # fmt: skip
    """Replay the last `backtest.periods` of the history. `states` gives parameters and where everybody begins; without
    it, where the task says. Rules are tuned on wide grids on the `earlier` periods before (as many, if not given; 0:
    not at all). Finished walks are kept in the folder `keep`. `given`: settings to show beside, which also say what is
    left at the end is worth."""
    before = settings.backtest.periods if earlier is None else earlier
    data = read_sales(data, settings)
    settings = with_season(settings, data)
    given = None if given is None else with_season(given, data)
    groups, problems = read_groups(settings, data, states)
    beside = None if given is None else read_groups(given, data, states)[0]
    follows = {
        "settings": repr(settings), "given": repr(given), "data": file_hash(data.file), "states": file_hash(states),
        "earlier": before,
    }  # fmt: skip
    kept = Kept(keep, "backtest", follows)
    found = []
    for i, group in enumerate(groups):
        other = None if given is None or beside is None else Stage(beside[i], given, 0, given.backtest.periods)
        stage = Stage(group, settings, 0, settings.backtest.periods, other)
        found.append(_Replay(stage, kept, progress, f"{i}", len(groups)).run(before))
    policies = [n for n in found[0].tracks if all(n in one.tracks for one in found)]
    tracks = {n: _joined([one.tracks[n] for one in found]) for n in policies}
    reasons: Counter[str] = sum((one.reasons for one in found), Counter())
    total = sum(len(g) for g in groups) * (settings.backtest.periods + settings.backtest.warmup)
    kept.done()
    return AnyResult(
        tuple(one.name for group in groups for one in group), tracks,
        1.0 - sum(reasons.values()) / total, dict(sorted(reasons.items())), found[0].knobs, tuple(problems),
        tuple(dict.fromkeys(note for one in found for note in one.notes)), settings, found[0].spent,
        before if found[0].knobs else 0,
    )  # fmt: skip


def read_groups(settings: Settings, data: Data, states: str | Path | None) -> tuple[list[Group], list[Problem]]:
    """Series that can be replayed, by kind, and what is wrong with the others."""
    if getattr(settings.task, "is_planned", False):
        raise InputError("task.stability_cost, task.change_budget", "a plan to keep", "none in a backtest")
    sales = read_sales(data, settings)
    refused = why_not_replayed(sales, settings)
    book = None if states is None else StateFile(open_table(states, settings.columns.decimal), settings)
    kinds, problems = Kinds(settings), [*sales.problems, *([] if book is None else book.problems)]
    groups: dict[int, Group] = {}
    for h in sales.histories:
        text = refused.get(h.series, "")
        if not text and book is not None and h.series not in book.cases:
            text = f"not usable in {book.table.path}"
        if text:
            problems.append(Problem(sales.file, "", "", h.series, text))
            continue
        config = settings.task
        if book is not None:
            case = book.cases[h.series]
        else:
            case = Case(kinds.kind(config, {}), _begin(config), config.params(), config)
        groups.setdefault(case.kind.number, []).append(One(h.series, h.y, case))
    if not groups:
        raise DataError("\n".join(map(str, problems[:20])) or f"{sales.file}: no series to replay")
    return list(groups.values()), problems


def _begin(config: Any) -> Any:
    """Where the task says that everybody begins."""
    start = config.fit().start
    lacking = [n for n in state_columns(config).required if n not in start]
    if lacking:
        raise InputError("states", "nothing", f"a file that says where each series begins ({', '.join(lacking)})")
    return config.state(**start)


def _joined(parts: Sequence[Outcomes]) -> Outcomes:
    names = parts[0].parts
    return Outcomes(
        np.concatenate([p.reward for p in parts]), {n: np.concatenate([p.parts[n] for p in parts]) for n in names}
    )


class Stage:
    """The `periods` before the last `skip` ones of some series and the warm-up before them, with their forecasts. What
    a state holds counts as `judge` values it, itself by default."""

    def __init__(self, group: Group, settings: Settings, skip: int, periods: int, judge: Stage | None = None) -> None:
        self.group, self.settings, self.judge = group, settings, judge
        wanted: Any = settings.run.engine
        engine: Any = engine_for(len(group) * periods) if wanted == "auto" else wanted
        if wanted == "auto" and settings.policy.mode == "members":
            engine = "auto"  # a single tree over members can be as much work as compiling, so the work decides
        self.how = Run(engine=engine, threads=settings.run.threads)
        self.skip, self.periods, self.warmup = skip, periods, settings.backtest.warmup
        self.panel = self._made(group)

    def _made(self, group: Group) -> Panel:
        settings, kind, length = self.settings, group[0].case.kind, self.periods + self.warmup
        how = prepare(settings, config=kind.config)
        stretches, paths = [], []
        for one in group:
            y = one.y[: len(one.y) - self.skip]
            stretches.append(Stretch("", one.name, 0, len(y) - length, length, settings.season, y, 1.0))
            cutoffs = np.arange(len(y) - length - 1, len(y) - 1, dtype=np.int64)
            paths.append(how.forecasts(one.name, y, cutoffs, settings.recalibration))
        size = min(x.shape[1] for x in paths)  # error paths differ in number, and the newest come first
        cases = [one.case for one in group]
        made = make_panel(
            stretches, Binding(kind.config), settings.forecaster, horizon=how.horizon, key=0,
            starts=[case.state for case in cases], paths=[x[:, :size] for x in paths],
        )  # fmt: skip
        return _bound_to(made, cases, settings)

    def entries(self) -> list[Entry]:
        depth = min(self.settings.policy.depth, self.panel.members.shape[3])
        return practitioners(self.panel, Budget(depth=depth, risk=0.0), how=self.how)

    def policy(self, count: Callable[[int, DecisionPanel], None] | None = None) -> Chooser:
        """What `decide` would have sent."""
        s = self.settings
        gate = dataclasses.replace(s.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
        if gate.is_empty:
            gate = dataclasses.replace(gate, certificate=True)
        return Certified(
            self.panel.task, s.policy, proof=s.proof, how=self.how, gate=gate, keep=count, calibration=s.calibration
        )

    def walk(self, chooser: Chooser, where: Panel | None = None) -> Walk:
        """The counted periods. Every reward holds the change of what the state is worth, as the judge values it."""
        panel = self.panel if where is None else where
        done = walk(panel, chooser, engine=self.how.simulator, stuck="keep", with_end=False)
        if done.stuck.any():
            name = panel.series[int(np.argmax(done.stuck))]
            raise DataError(f"series {name}: no action is allowed, not even the fallback")
        judge = panel
        if self.judge is not None:
            judge = self.judge.panel if where is None else self.judge.smooth()[1]  # whose states are as those here
        rewards = done.rewards + np.diff(values_of(judge, done.states), axis=1)
        late = {name: values[:, self.warmup :] for name, values in done.certificate.items()}
        return dataclasses.replace(
            done, rewards=rewards[:, self.warmup :], actions=done.actions[:, self.warmup :],
            states=done.states[:, self.warmup :], certificate=late,
        )  # fmt: skip

    def counted(self, where: Panel | None = None) -> Panel:
        """The panel of the counted periods alone, for what is told about a walk."""
        panel = self.panel if where is None else where
        return dataclasses.replace(
            panel, members=panel.members[:, self.warmup :], realised=panel.realised[:, self.warmup :],
            future=panel.future[:, self.warmup :],
            history=tuple(panel.past(n, self.warmup) for n in range(len(panel))),
        )  # fmt: skip

    def smooth(self) -> tuple[Storage, Panel]:
        """The same stores without a lattice, for a solver that knows no steps."""
        cases = []
        for one in self.group:
            case, c = one.case, one.case.config
            smooth = dataclasses.replace(c, power=None, powers=(min(c.powers), 0.0, max(c.powers)), level_step=None)
            state = smooth.state(0.0)
            same = {n: getattr(case.state, n) for n in type(state)._fields}
            kind = dataclasses.replace(case.kind, config=smooth, task=smooth.task())
            cases.append(Case(kind, state._replace(**same), smooth.params(), smooth))
        group = [one._replace(case=case) for one, case in zip(self.group, cases, strict=True)]
        return cases[0].config, self._made(group)


def values_of(panel: Panel, states: Floats) -> Floats:
    """(N, T) what states (N, T, n) are worth, all with the parameters that go with the last forecast: with one price
    for every period, changes of it add up to the value at the end less the value at the beginning."""
    terminal, rows = panel.task.terminal, panel.task.params_layout
    if terminal is None:
        return np.zeros(states.shape[:2])
    given: list[Any] = [None] * len(states)
    if rows is not None:
        _, params = panel.grids(panel.trace(panel.decisions - 1))
        own = np.broadcast_to(np.asarray(params), (len(states), rows.size))
        given = [rows.build(row.tolist()) for row in own]
    return np.array(
        [
            [float(terminal(panel.layout.build(row), p)) for row in several.tolist()]
            for several, p in zip(states, given, strict=True)
        ]
    )


class _Replayed(NamedTuple):
    tracks: dict[str, Outcomes]
    reasons: Counter[str]
    knobs: dict[str, Chosen]
    spent: dict[str, float]  # what rules cost on the periods before
    notes: list[str]


class _Replay:
    """Everybody through the counted periods of series of one kind; each walk is kept when it is done."""

    def __init__(self, stage: Stage, kept: Kept, progress: Progress | None, name: str, groups: int) -> None:
        self.stage, self.kept, self.progress = stage, kept, progress
        self.name, self.groups = name, groups
        self.found: dict[str, Outcomes] = {}
        self.reasons: Counter[str] = Counter()
        self.begins = stage.panel.starts  # (N, n) where the policy stood when the counted periods began
        self.done = self.total = 0

    def run(self, before: int) -> _Replayed:
        stage, settings = self.stage, self.stage.settings
        entries, notes = stage.entries(), []
        tunable = [e for e in entries if e.knobs] if before > 0 else []
        shortest = min(len(one.y) for one in stage.group)
        if tunable and shortest < needed_periods(settings) + before:
            notes.append(f"no rule is tuned: histories have no {before} periods more")
            tunable = []
        self.total = len(entries) + len(tunable) + 3 + sum(len(Grid(e.knobs).settings()) for e in tunable)
        knobs, spent = self._tuned(tunable, before)
        self._add(POLICY, stage, self._counted)
        if stage.judge is not None:
            self._add(GIVEN, stage.judge, stage.judge.policy)
        for entry in entries:
            self._add(entry.name, stage, entry.make)
            if entry.name in knobs:
                self._add(entry.name + TUNED, stage, lambda e=entry: e.make(**knobs[e.name].of(0)))  # type: ignore[misc]
        if isinstance(stage.panel.config, Storage):
            if has_solver():
                smooth, where = stage.smooth()
                self._add("linear programme on the mean", stage, lambda: LinearStorage(smooth), where)
            else:
                notes.append("no linear programme: HiGHS is not installed (pip install 'ucsearch[lp]')")
        self._add("nothing", stage, Nothing)
        best = self.kept.part(f"{self.name}-hindsight", self._hindsight)
        if best:
            self.found[HINDSIGHT] = _unpacked(best)
        elif stage.judge is None:
            notes.append("no hindsight: the best plan for what really came could not be proved")
        else:
            notes.append("no hindsight beside other settings: `ucsearch backtest` of these shows it")
        return _Replayed(self.found, self.reasons, knobs, spent, notes)

    def _tuned(self, entries: Sequence[Entry], before: int) -> tuple[dict[str, Chosen], dict[str, float]]:
        """The best setting of each rule for all series on the periods before, and what rules cost there."""
        if not entries:
            return {}, {}
        s = self.stage
        judge = None if s.judge is None else Stage(s.judge.group, s.judge.settings, s.periods, before)
        earlier = Stage(s.group, s.settings, s.periods, before, judge)
        knobs, spent = {}, {}
        for place, entry in enumerate(entries):
            grid = Grid(entry.knobs)
            tried, costs = self._tried(earlier, entry, grid.settings(), f"{place}-0")
            for turn in range(1, ROUNDS + 1):
                wider = grid.widened(pooled_best(tried, costs))
                if wider == grid:
                    break
                more = [setting for setting in wider.settings() if setting not in tried]
                usable, values = self._tried(earlier, entry, more, f"{place}-{turn}")
                tried, costs, grid = tried + usable, np.concatenate([costs, values]), wider
            # One row: all series together, so that the two ways to choose are one.
            knobs[entry.name] = choose(tried, costs.sum(axis=1, keepdims=True))
            spent[entry.name], spent[entry.name + TUNED] = float(costs[0].sum()), knobs[entry.name].cost
        return knobs, spent

    def _tried(
        self, earlier: Stage, entry: Entry, settings: Sequence[dict[str, Any]], name: str
    ) -> tuple[list[dict[str, Any]], Floats]:
        """The settings that the rule takes, and (tries, S, 2) what they cost by half of the periods."""
        usable, costs = [], []
        for k, setting in enumerate(settings):
            try:
                entry.make(**setting)
            except InputError:  # two knobs that do not go together, such as a low above a high
                continue

            def halves(setting: dict[str, Any] = setting) -> Arrays:
                paid = -earlier.walk(entry.make(**setting)).rewards
                middle = paid.shape[1] // 2
                return {"cost": np.stack([paid[:, :middle].sum(axis=1), paid[:, middle:].sum(axis=1)], axis=1)}

            costs.append(self.kept.part(f"{self.name}-rule-{name}-{k}", halves)["cost"])
            usable.append(dict(setting))
            self._tick()
        return usable, np.stack(costs) if costs else np.zeros((0, len(earlier.group), 2))

    def _counted(self) -> Chooser:
        def count(t: int, decided: DecisionPanel) -> None:
            gone = decided.outcome != Outcome.RELEASED.value
            self.reasons.update(decided.cause[i].value for i in np.flatnonzero(gone).tolist())

        return self.stage.policy(count)

    def _add(self, name: str, stage: Stage, make: Callable[[], Chooser], where: Panel | None = None) -> None:
        def walked() -> Arrays:
            done = stage.walk(make(), where)
            made = _packed(stage.counted(where), done)
            if name == POLICY:
                made["begins"] = done.states[:, 0]
                made.update({f"reason {k}": np.array([float(v)]) for k, v in self.reasons.items()})
            return made

        made = self.kept.part(f"{self.name}-walk-{len(self.found)}", walked)
        if name == POLICY:
            self.begins = made["begins"]
            self.reasons = Counter({k.removeprefix("reason "): int(v[0]) for k, v in made.items() if "reason " in k})
        self.found[name] = _unpacked(made)
        self._tick()

    def _tick(self) -> None:
        self.done += 1
        if self.progress is not None:
            at, size = int(self.name), len(self.stage.group) * self.stage.periods  # decisions of a walk
            self.progress((min(self.done, self.total) + at * self.total) * size, self.total * self.groups * size)

    def _hindsight(self) -> Arrays:
        """The best plan for what really came, by one exact search over the counted periods from where the policy stood
        when they began; nothing where it is not proved."""
        stage = self.stage
        panel = dataclasses.replace(stage.counted(), starts=self.begins)
        if stage.judge is not None:  # what is left would be worth something else in the search than in the table
            return {}
        actions, params = panel.grids(panel.trace(panel.decisions - 1))
        known = Trace.from_members(panel.realised[:, None], model="hindsight")
        policy = Exact(depth=panel.decisions, risk=0.0, node_budget=_HINDSIGHT_NODES)
        plan = search_panel(
            panel.task, panel.layout.columns(panel.starts), known, policy, params=params, actions=actions,
            threads=stage.how.threads, engine=stage.how.engine,
        )  # fmt: skip
        if not all(plan[i].status.name == "PROVED" for i in range(len(panel))):
            return {}
        paths = np.array([plan[i].path for i in range(len(panel))])

        def follow(seen: Seen) -> Choice:
            return Choice(paths[:, seen.t], np.zeros(len(panel), np.int64))

        done = walk(panel, follow, engine=stage.how.simulator, stuck="keep", with_end=False)
        done.rewards[:] += np.diff(values_of(panel, done.states), axis=1)
        return _packed(panel, done)


def _packed(panel: Panel, done: Walk) -> Arrays:
    parts = parts_of(panel, done)
    parts.pop("reward", None)
    return {"reward": done.rewards, **{f"part {n}": x for n, x in parts.items()}}


def _unpacked(made: Arrays) -> Outcomes:
    parts = {n.removeprefix("part "): x for n, x in made.items() if n.startswith("part ")}
    return Outcomes(made["reward"], parts)


def _bound_to(made: Panel, cases: Sequence[Case], settings: Settings) -> Panel:
    """With the series' own actions and parameters."""
    rows = cases[0].kind.task.params_layout
    if rows is None:
        return made

    def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
        _, params, actions = panel_inputs(cases, trace, settings)
        return actions, np.broadcast_to(rows.rows(params, "params"), (len(cases), rows.size))

    own = np.array([rows.flatten(case.params, "params") for case in cases])
    return dataclasses.replace(made, grid=grid, params=own)
