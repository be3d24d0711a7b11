"""The job behind `ucsearch backtest`: replay the last periods of a history, period by period, for several policies.

At every period each policy sees the stock it has brought about itself and a forecast made from earlier periods only.
Then the period's real demand comes, by the task's own rules.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.choosers import Certified, Deterministic, How
from ucsearch.backtest.ordering import foreseen_orders
from ucsearch.backtest.panel import Panel, Stretch
from ucsearch.backtest.roster import ordering_rules
from ucsearch.backtest.walk import Choice, Chooser, Seen, Walk, parts_of, walk
from ucsearch.comparators import DelayAwareGreedy
from ucsearch.dispatch.decision import DecisionPanel, Outcome
from ucsearch.engine.api import search_panel
from ucsearch.engine.choose import engine_for
from ucsearch.errors import DataError, InputError
from ucsearch.forecast.recalibrate import LEAST_PATHS
from ucsearch.forecast.streams import draw_key, series_stream
from ucsearch.pipeline.cases import ORDERING_TASK, Case, Kind, Kinds, StateFile, panel_inputs
from ucsearch.pipeline.forecasts import ForecastFile
from ucsearch.pipeline.recalibrated import walk_recalibrated
from ucsearch.pipeline.tables import Problem, open_table, write_table
from ucsearch.policies import Exact
from ucsearch.settings import Settings
from ucsearch.task import Task
from ucsearch.tasks.inventory_rules import position_of
from ucsearch.trace import Trace

__all__ = ["POLICIES", "BacktestResult", "Track", "run_backtest"]

Floats = NDArray[np.float64]
POLICIES = ("policy", "base-stock", "(s,S)", "greedy", "hindsight")
_AT_ONCE = 256  # series whose forecasts are held at a time

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Track:
    """What one policy did: (S, T) series by counted period, in units and currency."""

    cost: Floats  # holding, shortage and ordering, salvage of the last period deducted
    revenue: Floats
    demand: Floats
    served: Floats  # from stock, in the period it was asked for
    stock: Floats  # at the end of the period, not below 0
    order: Floats

    def figures(self) -> dict[str, float]:
        """The totals a planner looks at."""
        asked = self.demand.sum()
        return {
            "cost": float(self.cost.sum()),
            "revenue": float(self.revenue.sum()),
            "fill_rate": float(self.served.sum() / asked) if asked > 0.0 else math.nan,
            "service_level": float((self.served >= self.demand).mean()),
            "average_stock": float(self.stock.sum(axis=0).mean()),
            "orders": float((self.order > 0.0).sum()),
            "ordered": float(self.order.sum()),
        }

    def of(self, i: int) -> Track:
        """One series of it."""
        return Track(*(getattr(self, f.name)[i : i + 1] for f in dataclasses.fields(self)))


@dataclass(frozen=True, eq=False)
class BacktestResult:
    series: tuple[str, ...]
    tracks: dict[str, Track]  # by policy
    released: float  # share of the policy's decisions that were released, not a fallback
    problems: tuple[Problem, ...]
    settings: Settings
    reasons: dict[str, int]  # of the policy's decisions that were not released

    @property
    def falls_back_too_often(self) -> bool:
        return 1.0 - self.released > self.settings.run.max_fallback_share

    def text(self) -> str:
        """A table in the user's units and currency."""
        s = self.settings
        count, periods = next(iter(self.tracks.values())).cost.shape
        money, word = s.currency or "currency", "period" if s.period == "any" else s.period
        with_revenue = any(t.revenue.any() for t in self.tracks.values())
        head = ["", f"cost [{money}]", "vs base-stock", "fill rate", "service level", f"stock [{s.units}]", "orders"]
        if with_revenue:
            head.insert(2, f"profit [{money}]")
        base = self.tracks["base-stock"].figures()["cost"]
        rows = [head]
        for name, track in self.tracks.items():
            f = track.figures()
            change = f"{100.0 * (f['cost'] / base - 1.0):+.1f} %" if base != 0.0 else ""
            row = [
                name, f"{f['cost']:,.2f}", change, f"{100.0 * f['fill_rate']:.1f} %",
                f"{100.0 * f['service_level']:.1f} %", f"{f['average_stock']:,.1f}", f"{f['orders']:,.0f}",
            ]  # fmt: skip
            if with_revenue:
                row.insert(2, f"{f['revenue'] - f['cost']:,.2f}")
            rows.append(row)
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ["  ".join(f"{x:{'<' if i == 0 else '>'}{widths[i]}}" for i, x in enumerate(row)) for row in rows]
        title = f"{count} series over {periods} periods of one {word}; {100.0 * self.released:.1f} % of the policy's "
        return "\n".join([title + "decisions were released, the rest fell back", "", *lines])

    def write(self, path: str | Path) -> int:
        """One row per series and policy."""
        names = list(next(iter(self.tracks.values())).figures())

        def rows() -> Iterator[Sequence[Any]]:
            for i, series in enumerate(self.series):
                for policy, track in self.tracks.items():
                    figures = track.of(i).figures()
                    yield [series, policy, *(figures[n] for n in names)]

        return write_table(path, {"series": str, "policy": str, **dict.fromkeys(names, float)}, rows)


def run_backtest(
    settings: Settings, data: str | Path, *, states: str | Path | None = None, progress: Progress | None = None
) -> BacktestResult:
    """Replay the history in `data`. Of `states` only parameters are used (lead times, costs), not today's stock."""
    if settings.task.task().name != ORDERING_TASK:
        raise InputError(
            "task.name", settings.task.task().name, f"{ORDERING_TASK!r}: backtest knows ordering rules only"
        )
    if settings.task.is_planned:
        raise InputError("task.stability_cost, task.change_budget", "a plan to keep", "none in a backtest")
    decimal = settings.columns.decimal
    sales = ForecastFile.history(open_table(data, decimal), settings)
    book = None if states is None else StateFile(open_table(states, decimal), settings)
    found, problems = _histories(sales, book, settings)
    if not found:
        lines = [str(p) for p in problems] or [f"{data}: no series to replay"]
        raise DataError("\n".join(lines[:20]))
    groups: dict[int, list[_History]] = {}
    for one in found:
        groups.setdefault(one.case.kind.number, []).append(one)
    total = len(found) * (settings.backtest.periods + settings.backtest.warmup)
    done = 0
    results: dict[str, dict[str, Track]] = {}
    released = 0.0
    reasons: Counter[str] = Counter()
    for group in groups.values():
        for lo in range(0, len(group), _AT_ONCE):
            part = group[lo : lo + _AT_ONCE]
            replay = _Replay(part, settings, engine_for(total))

            def tick(count: int) -> None:
                nonlocal done
                done += count
                if progress is not None:
                    progress(done, total * len(POLICIES))

            tracks = replay.run(tick)
            released += replay.released
            reasons += replay.reasons
            for i, one in enumerate(part):
                results[one.series] = {name: track.of(i) for name, track in tracks.items()}
    names = tuple(one.series for one in found)
    merged = {
        policy: Track(
            *(np.concatenate([getattr(results[s][policy], f.name) for s in names]) for f in dataclasses.fields(Track))
        )
        for policy in POLICIES
    }
    return BacktestResult(names, merged, released / total, tuple(problems), settings, dict(sorted(reasons.items())))


# -------------------------------------------------------------------- histories


@dataclass(frozen=True, eq=False)
class _History:
    series: str
    y: Floats  # (T,)
    case: Case  # with the stock it starts from


def _histories(sales: ForecastFile, book: StateFile | None, settings: Settings) -> tuple[list[_History], list[Problem]]:
    kinds = Kinds(settings)
    window = settings.backtest.periods + settings.backtest.warmup
    needed = window + int(settings.forecaster.min_history(settings.backtest.season))
    if settings.recalibration.active and settings.recalibration.method == "paths":
        depth = max(settings.policy.depth, int(getattr(settings.task, "lead_time", 0)) + 1)
        needed += LEAST_PATHS * settings.season + depth  # error paths known when the replay begins
    found: list[_History] = []
    problems = [*sales.problems, *([] if book is None else book.problems)]
    for values in sales.values():
        refused = values.problem if values.series not in sales.refused else None
        if values.table is None:
            if refused is not None:
                problems.append(refused)
            continue
        y = np.ascontiguousarray(values.table[:, 0])
        text = column = ""
        if y.size < needed:
            text, column = f"saw {y.size} periods, expected at least {needed}", sales.layout.time
        elif not (y >= 0.0).all():
            text, column = f"saw {y.min():g}, expected demand of at least 0", settings.columns.demand
        elif book is not None and values.series not in book.cases:
            problem = book.refused.get(values.series)
            text = f"not usable in {book.table.path}" + ("" if problem is None else f" ({problem.place})")
        if text:
            problems.append(Problem(str(sales.table.path), "", column, values.series, text))
            continue
        if book is None:
            config = settings.task
            kind, params = kinds.kind(config, {}), config.params()
        else:
            known = book.cases[values.series]
            config, kind, params = known.config, known.kind, known.params
        level = float(np.ceil(y[: y.size - window].mean()))
        state = config.state(level, [level] * config.lead_time, level)
        found.append(_History(values.series, y, Case(kind, state, params, config)))
    return found, problems


# -------------------------------------------------------------------- the replay


class _Replay:
    """Series of one kind, side by side through time."""

    def __init__(self, group: Sequence[_History], settings: Settings, engine: str) -> None:
        self.group, self.settings = group, settings
        self.engine: Any = engine if settings.run.engine == "auto" else settings.run.engine
        self.kind = group[0].case.kind
        test = settings.backtest
        self.length = test.periods + test.warmup
        self.horizon = max(settings.policy.depth, self.kind.lead_time + 1)
        self.released = 0.0
        self.reasons: Counter[str] = Counter()
        rng = np.random.default_rng(test.seed)
        key = draw_key(rng)
        found = [self._forecast(one, key) for one in group]
        size = min(x.shape[1] for x in found)  # error paths differ in number, and the newest come first
        self.members = np.stack([x[:, :size] for x in found])  # (S, O, J, H)

    def _forecast(self, one: _History, key: int) -> Floats:
        """(O, J, H) forecasts of every period, each from what came before it."""
        cutoffs = np.arange(one.y.size - self.length - 1, one.y.size - 1, dtype=np.int64)
        how, season = self.settings.recalibration, self.settings.backtest.season
        if how.active:
            stream = series_stream(key, one.series)
            return walk_recalibrated(
                self.settings.forecaster, one.y, cutoffs, how, horizon=self.horizon, season=season, stream=stream
            )
        made = self.settings.forecaster.forecast(
            one.y, cutoffs, horizon=self.horizon, season=self.settings.backtest.season,
            stream=series_stream(key, one.series),
        )  # fmt: skip
        return np.asarray(made.expand().members)

    def panel(self) -> Panel:
        """The series of the group as episodes that end with their history."""
        group, test, cases = self.group, self.settings.backtest, [one.case for one in self.group]
        layout = self.kind.task.layout(cases[0].state)
        starts = np.array([layout.flatten(case.state, "state") for case in cases])
        params_layout = self.kind.task.params_layout
        if params_layout is None:
            raise InputError("task", "no params", "params")
        begin = [one.y.size - self.length for one in group]

        def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
            _, params, actions = panel_inputs(cases, trace, self.settings)
            return actions, np.broadcast_to(params_layout.rows(params, "params"), (len(cases), params_layout.size))

        return Panel(
            self.kind.task, self.kind.config, layout, starts,
            tuple(
                Stretch("", one.series, 0, at, self.length, test.season, one.y, 1.0)
                for one, at in zip(group, begin, strict=True)
            ),
            self.members,
            np.stack([one.y[at:] for one, at in zip(group, begin, strict=True)]),
            np.stack([[self._future(i, t) for t in range(self.length)] for i in range(len(group))]),
            tuple(one.y[:at] for one, at in zip(group, begin, strict=True)),
            self.settings.forecaster.name,
            grid,
            np.array([params_layout.flatten(case.params, "params") for case in cases]),
        )  # fmt: skip

    def run(self, tick: Callable[[int], None]) -> dict[str, Track]:
        panel = self.panel()
        skip, found = self.settings.backtest.warmup, {}
        for name, chooser in self.choosers(panel).items():
            done = walk(
                panel, chooser, engine="python" if self.engine == "python" else "compiled", stuck="keep",
                tick=lambda: tick(len(panel)),
            )  # fmt: skip
            if done.stuck.any():
                i = int(np.argmax(done.stuck))
                raise DataError(f"series {panel.series[i]}: no order is allowed, not even the fallback")
            if name == "policy":
                self.released = float(done.certificate["released"].sum())
            parts = parts_of(panel, done)
            parts["cost"][:, -1] -= self._left(panel, done)
            found[name] = Track(**{k: v[:, skip:] for k, v in parts.items()})
        return found

    def _left(self, panel: Panel, done: Walk) -> Floats:
        """(S,) what is left at the end is worth."""
        terminal, layout = panel.task.terminal, panel.layout
        if terminal is None:
            return np.zeros(len(panel))
        rows = done.states[:, -1].tolist()
        return np.array(
            [terminal(layout.build(row), one.case.params) for row, one in zip(rows, self.group, strict=True)]
        )

    def _future(self, i: int, t: int) -> Floats:
        """(H,) real demand from period t on; past the end of the data the last season comes again."""
        y, season = self.group[i].y, self.settings.backtest.season
        at = y.size - self.length + t + np.arange(self.horizon)
        late = at >= y.size
        at[late] = y.size - season + (at[late] - y.size) % season
        return y[at]

    def _count(self, t: int, panel: DecisionPanel) -> None:
        gone = panel.outcome != Outcome.RELEASED.value
        self.reasons.update(panel.cause[i].value for i in np.flatnonzero(gone).tolist())

    # ---------------------------------------------------------------- who decides

    def choosers(self, panel: Panel) -> dict[str, Chooser]:
        s, task = self.settings, panel.task
        how = How(self.engine, s.run.threads)
        gate = dataclasses.replace(s.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
        if gate.is_empty:
            gate = dataclasses.replace(gate, certificate=True)
        free = s.actions.multiples is not None
        rules = {e.name: e for e in ordering_rules(panel, free=free, round_to=s.actions.round_to, how=how)}
        proof: dict[str, Any] = {
            "calibration": s.calibration,
            "eps_m": s.proof.eps_m,
            "node_budget": s.proof.node_budget,
        }
        return {
            "policy": Certified(task, s.policy, kind=s.proof.kind, how=how, gate=gate, keep=self._count, **proof),
            "base-stock": rules["base-stock"].make(),
            "(s,S)": rules["(s,S)"].make(),
            # At risk 0 only the mean counts.
            "greedy": Deterministic(task, DelayAwareGreedy(delay=self.kind.lead_time, risk=0.0), how=how),
            "hindsight": _Foreseen(task, s, self.kind, self.horizon, how),
        }


class _Foreseen:
    """The same planning ahead, told the demand that really came."""

    free, foresees = True, True

    def __init__(self, task: Task, settings: Settings, kind: Kind, horizon: int, how: How) -> None:
        self.task, self.settings, self.kind, self.how = task, settings, kind, how
        self.policy = Exact(depth=horizon, risk=0.0, node_budget=settings.proof.node_budget)

    def __call__(self, seen: Seen) -> Choice:
        config, actions = self.kind.config, seen.actions
        if actions is not None:
            # The forecast scales everything but the grid, which must fit what is known.
            by_level, count = config.orders == "level", len(config.order_sizes)
            positions = [position_of(seen.layout.build(row)) for row in seen.rows.tolist()]
            actions = np.stack([
                foreseen_orders(at, by_level, self.kind.lead_time, count, known, self.settings.actions.round_to)
                for at, known in zip(positions, seen.trace.members[:, 0, :, 0], strict=True)
            ])  # fmt: skip
        plan = search_panel(
            self.task, seen.state, seen.trace, self.policy, params=seen.params, actions=actions,
            threads=self.how.threads, engine=self.how.engine,
        )  # fmt: skip
        return Choice(np.array(plan.action, np.float64), np.array(plan.expansions, np.int64))
