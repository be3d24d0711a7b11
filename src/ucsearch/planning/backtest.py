"""The job behind `ucsearch backtest`: replay the last periods of a history, period by period, for several policies.

At every period each policy sees the stock it has brought about itself and a forecast made from earlier periods only.
Then the period's real demand comes, by the task's own rules.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.comparators import DelayAwareGreedy
from ucsearch.dispatch.api import decide_panel
from ucsearch.dispatch.decision import Outcome
from ucsearch.engine.api import search_panel
from ucsearch.errors import DataError, InputError
from ucsearch.forecast.recalibrate import LEAST_PATHS
from ucsearch.forecast.streams import draw_key, series_stream
from ucsearch.planning.cases import ORDERING_TASK, Case, Kinds, StateFile, panel_inputs
from ucsearch.planning.forecasts import ForecastFile
from ucsearch.planning.recalibrated import walk_recalibrated
from ucsearch.planning.rivals import base_stock, foreseen_actions, reorder_point
from ucsearch.planning.tables import Problem, open_table, write_table
from ucsearch.policies import Exact
from ucsearch.settings import Settings
from ucsearch.tasks import inventory_rules as rules
from ucsearch.trace import Trace

__all__ = ["POLICIES", "BacktestResult", "Track", "run_backtest"]

Floats = NDArray[np.float64]
POLICIES = ("policy", "base-stock", "(s,S)", "greedy", "hindsight")
_FEW = 50  # decisions that take the plain engine less time than compiling for them
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
    done, total = 0, len(found) * (settings.backtest.periods + settings.backtest.warmup)
    results: dict[str, dict[str, Track]] = {}
    released = 0.0
    for group in groups.values():
        for lo in range(0, len(group), _AT_ONCE):
            part = group[lo : lo + _AT_ONCE]
            replay = _Replay(part, settings, "python" if total <= _FEW else "compiled")

            def tick(count: int) -> None:
                nonlocal done
                done += count
                if progress is not None:
                    progress(done, total)

            tracks = replay.run(tick)
            released += replay.released
            for i, one in enumerate(part):
                results[one.series] = {name: track.of(i) for name, track in tracks.items()}
    names = tuple(one.series for one in found)
    merged = {
        policy: Track(
            *(np.concatenate([getattr(results[s][policy], f.name) for s in names]) for f in dataclasses.fields(Track))
        )
        for policy in POLICIES
    }
    return BacktestResult(names, merged, released / total, tuple(problems), settings)


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

    def run(self, tick: Callable[[int], None]) -> dict[str, Track]:
        deciders: dict[str, Callable[[list[Case], int], Sequence[float]]] = {
            "policy": self._policy,
            "base-stock": self._by_rule(base_stock),
            "(s,S)": self._by_rule(reorder_point),
            "greedy": self._greedy,
            "hindsight": self._hindsight,
        }
        cases = {name: [one.case for one in self.group] for name in POLICIES}
        shape = (len(self.group), self.length)
        written = {n: {f.name: np.zeros(shape) for f in dataclasses.fields(Track)} for n in POLICIES}
        for t in range(self.length):
            for name in POLICIES:
                actions = deciders[name](cases[name], t)
                for i, action in enumerate(actions):
                    cases[name][i] = self._happen(cases[name][i], float(action), i, t, written[name])
            tick(len(self.group))
        skip = self.settings.backtest.warmup
        return {n: Track(**{k: v[:, skip:] for k, v in arrays.items()}) for n, arrays in written.items()}

    def _happen(self, case: Case, action: float, i: int, t: int, out: dict[str, Floats]) -> Case:
        """One period of real demand."""
        task, s, p = case.kind.task, case.state, case.params
        if not (math.isfinite(action) and task.feasible(s, action, p)):
            action = float(task.fallback(s, p))
            if not task.feasible(s, action, p):
                raise DataError(f"series {self.group[i].series}: no order is allowed in {s!r}, not even the fallback")
        y = self._demand(i, t)
        free = p._replace(price=0.0)
        quantity = float(rules.ordered(s, action, p))
        arrived = s.pipeline[0] if case.kind.lead_time > 0 else quantity
        after = task.step(s, action, y, p)
        out["cost"][i, t] = -task.reward(s, action, y, free)
        out["revenue"][i, t] = task.reward(s, action, y, p) + out["cost"][i, t]
        out["demand"][i, t] = y
        out["served"][i, t] = min(max(s.on_hand + arrived, 0.0), y)
        out["stock"][i, t] = max(after.on_hand, 0.0)
        out["order"][i, t] = quantity
        if t == self.length - 1 and task.terminal is not None:
            out["cost"][i, t] -= task.terminal(after, p)
        return case._replace(state=after)

    def _demand(self, i: int, t: int) -> float:
        y = self.group[i].y
        return float(y[y.size - self.length + t])

    def _future(self, i: int, t: int) -> Floats:
        """(H,) real demand from period t on; past the end of the data the last season comes again."""
        y, season = self.group[i].y, self.settings.backtest.season
        at = y.size - self.length + t + np.arange(self.horizon)
        late = at >= y.size
        at[late] = y.size - season + (at[late] - y.size) % season
        return y[at]

    # ---------------------------------------------------------------- who decides

    def _policy(self, cases: list[Case], t: int) -> Sequence[float]:
        s = self.settings
        trace = Trace.from_members(self.members[:, t], model=s.forecaster.name)
        states, params, actions = panel_inputs(cases, trace, s)
        gate = dataclasses.replace(s.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
        if gate.is_empty:
            gate = dataclasses.replace(gate, certificate=True)
        panel = decide_panel(
            self.kind.task, states, trace, s.policy, gate=gate, calibration=s.calibration, kind=s.proof.kind,
            eps_m=s.proof.eps_m, params=params, actions=actions, threads=s.run.threads, engine=self.engine,
            node_budget=s.proof.node_budget,
        )  # fmt: skip
        self.released += float((panel.outcome == Outcome.RELEASED.value).sum())
        chosen: Sequence[float] = panel.action.tolist()
        return chosen

    def _by_rule(self, rule: Callable[[Case, Floats, Settings], float]) -> Callable[[list[Case], int], Sequence[float]]:
        return lambda cases, t: [rule(case, self.members[i, t], self.settings) for i, case in enumerate(cases)]

    def _greedy(self, cases: list[Case], t: int) -> Sequence[float]:
        """The best of the searched actions by what has accrued when its order arrives."""
        trace = Trace.from_members(self.members[:, t])
        states, params, actions = panel_inputs(cases, trace, self.settings)
        policy = DelayAwareGreedy(delay=self.kind.lead_time, risk=0.0)
        # At risk 0 only the mean counts.
        plan = search_panel(
            self.kind.task, states, Trace.from_members(trace.mean[:, None, :, 0]), policy, params=params,
            actions=actions, engine=self.settings.run.engine, threads=self.settings.run.threads,
        )  # fmt: skip
        chosen: Sequence[float] = plan.action.tolist()
        return chosen

    def _hindsight(self, cases: list[Case], t: int) -> Sequence[float]:
        """The same planning ahead, told the demand that really came."""
        future = np.stack([self._future(i, t) for i in range(len(cases))])
        # The forecast scales everything but the grid, which must fit what is known.
        states, params, actions = panel_inputs(cases, Trace.from_members(self.members[:, t]), self.settings)
        if actions is not None:
            actions = np.stack([foreseen_actions(c, future[i], self.settings) for i, c in enumerate(cases)])
        policy = Exact(depth=self.horizon, risk=0.0, node_budget=self.settings.proof.node_budget)
        trace = Trace.from_members(future[:, None, :])
        plan = search_panel(
            self.kind.task, states, trace, policy, params=params, actions=actions, engine=self.engine,
            threads=self.settings.run.threads,
        )  # fmt: skip
        chosen: Sequence[float] = plan.action.tolist()
        return chosen
