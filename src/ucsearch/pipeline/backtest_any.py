"""`ucsearch backtest` for tasks other than inventory: replay the last periods of a history, for several policies.

Everybody begins in the same state, sees forecasts of earlier periods only, and earns or pays what the task's own rules
say at what really happened. What is left at the end counts at the last forecast's value. Rules with knobs are shown as
they are and tuned on the periods before the counted ones.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.choosers import Certified
from ucsearch.backtest.intervals import Interval, paired
from ucsearch.backtest.linear import LinearStorage, has_solver
from ucsearch.backtest.panel import Panel, Stretch, make_panel
from ucsearch.backtest.practice import Nothing
from ucsearch.backtest.roster import Budget, Entry, practitioners
from ucsearch.backtest.tune import tune
from ucsearch.backtest.walk import Choice, Chooser, Seen, Walk, parts_of, walk
from ucsearch.dispatch.decision import DecisionPanel, Outcome
from ucsearch.effort import Run
from ucsearch.engine.api import search_panel
from ucsearch.engine.choose import engine_for
from ucsearch.errors import DataError, InputError
from ucsearch.forecast.streams import draw_key
from ucsearch.pipeline.cases import Case, Kinds, StateFile, panel_inputs
from ucsearch.pipeline.sales import read_sales
from ucsearch.pipeline.tables import Problem, open_table, write_table
from ucsearch.policies import Exact
from ucsearch.settings import Settings
from ucsearch.tasks.binding import Binding
from ucsearch.tasks.storage import Storage
from ucsearch.tasks.words import task_words
from ucsearch.trace import Trace

__all__ = ["POLICY", "AnyResult", "Outcomes", "run_backtest_any"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
POLICY, HINDSIGHT, TUNED = "policy", "hindsight", ", tuned"
_TRIES = 7  # settings of a rule that are tried
_FEW = 5  # series below which seasons, not series, are the unit of an interval
_HINDSIGHT_NODES = 2_000_000


class Outcomes(NamedTuple):
    """What one policy did: (S, T) series by period."""

    reward: Floats
    parts: dict[str, Floats]  # the task's own, by name


@dataclass(frozen=True, eq=False)
class AnyResult:
    series: tuple[str, ...]
    tracks: dict[str, Outcomes]  # by policy
    released: float  # share of the policy's decisions that were released, not a fallback
    reasons: dict[str, int]  # of those that were not
    knobs: dict[str, dict[str, Any]]  # of the tuned rules
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    settings: Settings

    @property
    def falls_back_too_often(self) -> bool:
        return 1.0 - self.released > self.settings.run.max_fallback_share

    @property
    def sign(self) -> float:
        """Costs are shown as costs."""
        return -1.0 if self.settings.task.form == "cost" else 1.0

    def difference(self, name: str) -> Interval | None:
        """How much more than `name` the policy earned, per series or, of few series, per season, with an interval."""
        own, other = self.tracks[POLICY].reward, self.tracks[name].reward
        if len(self.series) >= _FEW:
            a, b, units = own.sum(axis=1), other.sum(axis=1), list(self.series)
        else:
            season = max(1, self.settings.season)
            count = own.shape[1] // season
            a, b = (x[:, : count * season].reshape(len(x), count, season).sum(axis=2).ravel() for x in (own, other))
            units = [str(i) for i in range(len(a))]
        if len(units) < 3:
            return None
        return paired(a, b, units, seed=self.settings.backtest.seed, name=name)

    def text(self) -> str:
        """A table in the user's units and currency."""
        s = self.settings
        money = s.currency or "currency"
        word = "cost" if self.sign < 0.0 else "profit"
        words = task_words(s.task.task().name, s.units, s.currency)
        shown = {} if words is None else {**words.sums, **words.means}
        unit = "series" if len(self.series) >= _FEW else "season"
        names = [f"{n} [{u}]" if u else n for n, u in shown.values()]
        rows = [["", f"{word} [{money}]", f"policy better by, per {unit}", *names]]
        for name, track in self.tracks.items():
            found = None if name == POLICY else self.difference(name)
            ahead = "" if found is None else f"{found.mean:+,.2f} ({found.low:+,.2f} to {found.high:+,.2f})"
            figures = []
            for key in shown:
                values = track.parts.get(key)
                mean = words is not None and key in words.means
                figures.append("" if values is None else f"{values.mean() if mean else values.sum():,.1f}")
            rows.append([name, f"{self.sign * track.reward.sum():,.2f}", ahead, *figures])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(f"{x:{'<' if i == 0 else '>'}{widths[i]}}" for i, x in enumerate(row)) for row in rows]
        count, periods = self.tracks[POLICY].reward.shape
        step = "period" if s.period == "any" else s.period
        title = f"{count} series over {periods} periods of one {step}; {100.0 * self.released:.1f} % of the policy's "
        tuned = [f"{n}{TUNED}: {', '.join(f'{k} {v:g}' for k, v in found.items())}" for n, found in self.knobs.items()]
        return "\n".join([title + "decisions were released, the rest fell back", "", *lines, "", *tuned, *self.notes])

    def write(self, path: str | Path) -> int:
        """One row per series and policy."""
        names = list(self.tracks[POLICY].parts)

        def rows() -> Iterator[Sequence[Any]]:
            for i, series in enumerate(self.series):
                for policy, track in self.tracks.items():
                    figures = [float(track.parts[n][i].sum()) if n in track.parts else None for n in names]
                    yield [series, policy, float(track.reward[i].sum()), *figures]

        columns = {"series": str, "policy": str, "reward": float, **dict.fromkeys(names, float)}
        return write_table(path, columns, rows)


def run_backtest_any(
    settings: Settings, data: str | Path, *, states: str | Path | None = None, earlier: int | None = None,
    progress: Progress | None = None,
) -> AnyResult:  # fmt: skip
    """Replay the last `backtest.periods` of the history. `states` gives parameters and where everybody begins; without
    it, where the task says. Rules are tuned on `earlier` periods before (as many, if not given; 0: not at all)."""
    if getattr(settings.task, "is_planned", False):
        raise InputError("task.stability_cost, task.change_budget", "a plan to keep", "none in a backtest")
    test = settings.backtest
    before = test.periods if earlier is None else earlier
    needed = test.periods + int(settings.forecaster.min_history(test.season)) + 1
    sales = read_sales(data, settings)
    book = None if states is None else StateFile(open_table(states, settings.columns.decimal), settings)
    kinds, problems = Kinds(settings), [*sales.problems, *([] if book is None else book.problems)]
    groups: dict[int, list[tuple[str, Floats, Case]]] = {}
    for h in sales.histories:
        text = ""
        if h.y.size < needed:
            text = f"saw {h.y.size} periods, expected at least {needed}"
        elif book is not None and h.series not in book.cases:
            text = f"not usable in {book.table.path}"
        if text:
            problems.append(Problem(str(data), "", "", h.series, text))
            continue
        config = settings.task
        if book is not None:
            case = book.cases[h.series]
        else:
            case = Case(kinds.kind(config, {}), config.state(**config.fit().start), config.params(), config)
        groups.setdefault(case.kind.number, []).append((h.series, h.y, case))
    if not groups:
        raise DataError("\n".join([f"{data}: no series to replay", *map(str, problems[:20])]))
    found = [_replay(group, settings, before, progress) for group in groups.values()]
    policies = [n for n in found[0].tracks if all(n in one.tracks for one in found)]
    tracks = {n: _joined([one.tracks[n] for one in found]) for n in policies}
    reasons: Counter[str] = sum((one.reasons for one in found), Counter())
    total = sum(len(g) for g in groups.values()) * test.periods
    return AnyResult(
        tuple(name for group in groups.values() for name, _, _ in group), tracks,
        1.0 - sum(reasons.values()) / total, dict(sorted(reasons.items())), found[0].knobs, tuple(problems),
        tuple(dict.fromkeys(note for one in found for note in one.notes)), settings,
    )  # fmt: skip


def _joined(parts: Sequence[Outcomes]) -> Outcomes:
    names = parts[0].parts
    return Outcomes(
        np.concatenate([p.reward for p in parts]), {n: np.concatenate([p.parts[n] for p in parts]) for n in names}
    )


class _Replayed(NamedTuple):
    tracks: dict[str, Outcomes]
    reasons: Counter[str]
    knobs: dict[str, dict[str, Any]]
    notes: list[str]


def _replay(
    group: Sequence[tuple[str, Floats, Case]], settings: Settings, before: int, progress: Progress | None
) -> _Replayed:  # fmt: skip
    """Series of one kind, side by side."""
    periods = settings.backtest.periods
    wanted: Any = settings.run.engine
    engine: Any = engine_for(len(group) * periods) if wanted == "auto" else wanted
    how = Run(engine=engine, threads=settings.run.threads)
    panel = _panel(group, settings, 0, periods)
    entries = _entries(panel, settings, how)
    reasons: Counter[str] = Counter()
    notes: list[str] = []
    knobs: dict[str, dict[str, Any]] = {}
    enough = all(
        y.size - periods - before > settings.forecaster.min_history(settings.backtest.season) for _, y, _ in group
    )
    tunable = [e for e in entries if e.knobs]
    if before > 0 and not enough:
        notes.append(f"no rule is tuned: histories have no {before} periods more")
    elif before > 0:
        earlier = _panel(group, settings, periods, before)
        knobs = {e.name: tune(e, earlier, tries=_TRIES, engine=how.simulator).knobs for e in tunable}
    found: dict[str, Outcomes] = {}
    total, done = len(entries) + len(knobs) + 2, 0

    def add(name: str, where: Panel, chooser: Chooser) -> None:
        nonlocal done
        found[name] = _outcomes(where, walk(where, chooser, engine=how.simulator, stuck="keep"))
        done += 1
        if progress is not None:
            progress(done, total)

    def count(t: int, decided: DecisionPanel) -> None:
        gone = decided.outcome != Outcome.RELEASED.value
        reasons.update(decided.cause[i].value for i in np.flatnonzero(gone).tolist())

    gate = dataclasses.replace(settings.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
    if gate.is_empty:
        gate = dataclasses.replace(gate, certificate=True)
    certified = Certified(
        panel.task, settings.policy, proof=settings.proof, how=how, gate=gate, keep=count,
        calibration=settings.calibration,
    )  # fmt: skip
    add(POLICY, panel, certified)
    for entry in entries:
        add(entry.name, panel, entry.make())
        if entry.name in knobs:
            add(entry.name + TUNED, panel, entry.make(**knobs[entry.name]))
    if isinstance(panel.config, Storage):
        if has_solver():
            smooth, where = _smooth(group, settings, periods)
            add("linear programme on the mean", where, LinearStorage(smooth))
        else:
            notes.append("no linear programme: HiGHS is not installed (pip install 'ucsearch[lp]')")
    add("nothing", panel, Nothing())
    best = _hindsight(panel, how)
    if best is None:
        notes.append("no hindsight: the best plan for what really came could not be proved")
    else:
        found[HINDSIGHT] = best
    return _Replayed(found, reasons, knobs, notes)


def _entries(panel: Panel, settings: Settings, how: Run) -> list[Entry]:
    depth = min(settings.policy.depth, panel.members.shape[3])
    return practitioners(panel, Budget(depth=depth, risk=0.0), how=how)


def _panel(group: Sequence[tuple[str, Floats, Case]], settings: Settings, skip: int, periods: int) -> Panel:
    """The `periods` before the last `skip` ones, with their forecasts."""
    test, kind, cases = settings.backtest, group[0][2].kind, [case for _, _, case in group]
    stretches = [
        Stretch("", name, 0, y.size - skip - periods, periods, test.season, y[: y.size - skip], 1.0)
        for name, y, _ in group
    ]
    horizon = max(settings.policy.depth, int(kind.config.effect_delay) + 1)
    key = draw_key(np.random.default_rng(test.seed))
    made = make_panel(stretches, Binding(kind.config), settings.forecaster, horizon=horizon, key=key)
    return _bound_to(made, cases, settings)


def _bound_to(made: Panel, cases: Sequence[Case], settings: Settings) -> Panel:
    """With the series' own starts and parameters."""
    task = cases[0].kind.task
    layout, rows = task.layout(cases[0].state), task.params_layout
    if rows is None:
        raise InputError("task", "no params", "params")

    def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
        _, params, actions = panel_inputs(cases, trace, settings)
        return actions, np.broadcast_to(rows.rows(params, "params"), (len(cases), rows.size))

    starts = np.array([layout.flatten(case.state, "state") for case in cases])
    own = np.array([rows.flatten(case.params, "params") for case in cases])
    config = cases[0].kind.config
    return dataclasses.replace(
        made, task=task, config=config, layout=layout, starts=starts, grid=grid, params=own
    )  # fmt: skip


def _smooth(
    group: Sequence[tuple[str, Floats, Case]], settings: Settings, periods: int
) -> tuple[Storage, Panel]:  # fmt: skip
    """The same stores without a lattice, for a solver that knows no steps."""
    cases = []
    for _, _, case in group:
        c = case.config
        smooth = dataclasses.replace(c, power=None, powers=(min(c.powers), 0.0, max(c.powers)), level_step=None)
        state = smooth.state(0.0)
        same = {n: getattr(case.state, n) for n in type(state)._fields}
        kind = dataclasses.replace(case.kind, config=smooth, task=smooth.task())
        cases.append(Case(kind, state._replace(**same), smooth.params(), smooth))
    made = _panel([(name, y, case) for (name, y, _), case in zip(group, cases, strict=True)], settings, 0, periods)
    return cases[0].config, made


def _outcomes(panel: Panel, done: Walk) -> Outcomes:
    if done.stuck.any():
        i = int(np.argmax(done.stuck))
        raise DataError(f"series {panel.series[i]}: no action is allowed, not even the fallback")
    parts = parts_of(panel, done)
    parts.pop("reward", None)
    return Outcomes(done.rewards, parts)


def _hindsight(panel: Panel, how: Run) -> Outcomes | None:
    """The best plan for what really came, by one exact search over all periods; None where it is not proved."""
    actions, params = panel.grids(panel.trace(panel.decisions - 1))
    known = Trace.from_members(panel.realised[:, None], model="hindsight")
    policy = Exact(depth=panel.decisions, risk=0.0, node_budget=_HINDSIGHT_NODES)
    plan = search_panel(
        panel.task, panel.layout.columns(panel.starts), known, policy, params=params, actions=actions,
        threads=how.threads, engine=how.engine,
    )  # fmt: skip
    if not all(plan[i].status.name == "PROVED" for i in range(len(panel))):
        return None
    paths = np.array([plan[i].path for i in range(len(panel))])

    def follow(seen: Seen) -> Choice:
        return Choice(paths[:, seen.t], np.zeros(len(panel), np.int64))

    return _outcomes(panel, walk(panel, follow, engine=how.simulator, stuck="keep"))
