"""Histories of series and their replay: what every policy sees, decides and pays, period by period."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import DecisionPanel, Outcome
from ucsearch.errors import DataError, InputError
from ucsearch.lab.comparators import DelayAwareGreedy
from ucsearch.options import Run
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kinds, StateFile
from ucsearch.planner.files.sales import Data, Sales, read_sales
from ucsearch.planner.files.table import Problem, open_table
from ucsearch.planner.history import prepare, why_not_replayed
from ucsearch.planner.settings import Settings
from ucsearch.replay.choosers import Certified, Deterministic
from ucsearch.replay.panel import Panel, SharedPanel, Stretch
from ucsearch.replay.roster import Budget, Entry, ordering_rules, practitioners
from ucsearch.replay.walk import Chooser, Seen, Walk, parts_of, walk
from ucsearch.tasks.inventory.foresight import foreseen
from ucsearch.trace import Trace

__all__ = ["CLASSICS", "PLANNED", "POLICY", "RULE", "History", "Replay", "effort_of", "read_histories"]

Floats = NDArray[np.float64]
CLASSICS = (
    "base-stock", "(s,S)", "(s,S) by formula", "(s,nQ)", "newsvendor", "rolling quantile", "planning on the mean",
    "planning on a quantile", "greedy",
)  # fmt: skip
"""What would be used instead, in the order of a table."""
RULE, PLANNED, POLICY = 1, 5, 25
"""What a decision takes, for a progress bar: about as a rule, a plan on one forecast and a proved plan take time."""


def read_histories(settings: Settings, data: Data, states: str | Path | None) -> tuple[list[History], list[Problem]]:
    """Every series that can be replayed, and what is wrong with the others."""
    if not settings.task.places_orders:
        raise InputError("task.name", settings.task.task().name, "a task of orders: ordering rules are compared only")
    if settings.task.is_planned:
        raise InputError("task.stability_cost, task.change_budget", "a plan to keep", "none in a backtest")
    decimal = settings.columns.decimal
    sales = read_sales(data, settings)
    book = None if states is None else StateFile(open_table(states, decimal), settings)
    found, problems = _histories(sales, sales.file, book, settings)
    if not found:
        lines = [str(p) for p in problems] or [f"{sales.file}: no series to replay"]
        raise DataError("\n".join(lines[:20]))
    return found, problems


@dataclass(frozen=True, eq=False)
class History:
    series: str
    y: Floats  # (T,)
    case: Case  # with the stock it starts from

    def until(self, last: int, window: int) -> History:
        """As if the newest `last` periods had not come yet, for a replay of the `window` before them."""
        y = self.y[: self.y.size - last]
        return History(self.series, y, self.case._replace(state=_opening(self.case.config, y, window)))


def _histories(
    sales: Sales, data: str, book: StateFile | None, settings: Settings
) -> tuple[list[History], list[Problem]]:
    kinds = Kinds(settings)
    refused = why_not_replayed(sales, settings)
    found: list[History] = []
    problems = [*sales.problems, *([] if book is None else book.problems)]
    for values in sales.histories:
        y = values.y
        text, column = refused.get(values.series, ""), ""
        if not text and not (y >= 0.0).all():
            text = f"saw {values.least(settings.period)}, expected demand of at least 0: write returns as 0"
            column = settings.columns.demand
        elif not text and book is not None and values.series not in book.cases:
            problem = book.refused.get(values.series)
            text = f"not usable in {book.table.path}" + ("" if problem is None else f" ({problem.place})")
        if text:
            problems.append(Problem(data, "", column, values.series, text))
            continue
        if book is None:
            config = kinds.config({})
            kind, params = kinds.kind(config, {}), config.params()
        else:
            known = book.cases[values.series]
            config, kind, params = known.config, known.kind, known.params
        window = settings.backtest.periods + settings.backtest.warmup
        found.append(History(values.series, y, Case(kind, _opening(config, y, window), params, config)))
    return found, problems


def _opening(config: Any, y: Floats, window: int) -> Any:
    """A mean period's demand in stock and in every open order; the warm-up takes it from there."""
    level = float(np.ceil(y[: y.size - window].mean()))
    return config.state(level, [level] * config.lead_time, level)


def effort_of(chooser: Chooser) -> int:
    """What a decision of the chooser takes, roughly."""
    return POLICY if isinstance(chooser, Certified) else PLANNED if isinstance(chooser, Deterministic) else RULE


# -------------------------------------------------------------------- the replay


class Replay:
    """Series of one kind, side by side through time."""

    def __init__(
        self,
        group: Sequence[History],
        settings: Settings,
        engine: str,
        tick: Callable[[int], None] = lambda count: None,
        members: Floats | None = None,  # forecasts that were made before for the same horizon and recalibration
    ) -> None:
        self.group, self.settings, self.tick = group, settings, tick
        self.engine: Any = engine if settings.run.engine == "auto" else settings.run.engine
        self.kind = group[0].case.kind
        test = settings.backtest
        self.length = test.periods + test.warmup
        self.how_forecast = prepare(settings, config=self.kind.config)
        self.horizon = self.how_forecast.horizon
        self.searched = min(self.horizon, max(settings.policy.depth, self.kind.delay + 3))  # by exact rivals
        self.skip = test.warmup  # periods that are not counted
        self.reasons: Counter[str] = Counter()
        self.members = self._forecasts() if members is None else members  # (S, O, J, H)

    def _forecasts(self) -> Floats:
        found = [self._forecast(one) for one in self.group]
        size = min(x.shape[1] for x in found)  # error paths differ in number, and the newest come first
        return np.stack([x[:, :size] for x in found])

    def _forecast(self, one: History) -> Floats:
        """(O, J, H) forecasts of every period, each from what came before it."""
        cutoffs = np.arange(one.y.size - self.length - 1, one.y.size - 1, dtype=np.int64)
        return self.how_forecast.forecasts(one.series, one.y, cutoffs, self.settings.recalibration)

    def panel(self) -> Panel:
        """The series of the group as episodes that end with their history."""
        group, cases = self.group, [one.case for one in self.group]
        layout = self.kind.task.layout(cases[0].state)
        starts = np.array([layout.flatten(case.state, "state") for case in cases])
        params_layout = self.kind.task.params_layout
        if params_layout is None:
            raise InputError("task", "no params", "params")
        begin = [one.y.size - self.length for one in group]

        def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
            _, params, actions = panel_inputs(cases, trace, self.settings)
            return actions, np.broadcast_to(params_layout.rows(params, "params"), (len(cases), params_layout.size))

        return SharedPanel(
            self.kind.task, self.kind.config, layout, starts,
            tuple(
                Stretch("", one.series, 0, at, self.length, self.settings.season, one.y, 1.0)
                for one, at in zip(group, begin, strict=True)
            ),
            self.members,
            np.stack([one.y[at:] for one, at in zip(group, begin, strict=True)]),
            np.zeros((len(group), self.length, 0)),  # nobody is told the future
            tuple(one.y[:at] for one, at in zip(group, begin, strict=True)),
            self.settings.forecaster.name,
            grid,
            np.array([params_layout.flatten(case.params, "params") for case in cases]),
        )  # fmt: skip

    # ---------------------------------------------------------------- through time

    def walk(self, panel: Panel, chooser: Chooser) -> Walk:
        engine: Any = "python" if self.engine == "python" else "compiled"
        count = len(panel) * effort_of(chooser)
        # What was paid is counted, and salvage; not what the plan thought of the orders after the last period.
        done = walk(panel, chooser, engine=engine, stuck="keep", tick=lambda: self.tick(count), left_by=panel.params)
        if done.stuck.any():
            i = int(np.argmax(done.stuck))
            raise DataError(f"series {panel.series[i]}: no order is allowed, not even the fallback")
        return done

    def counted_cost(self, done: Walk) -> Floats:
        """(S,) of the counted periods, less revenue."""
        return np.asarray(-done.rewards[:, self.skip :].sum(axis=1))

    def counted_halves(self, done: Walk) -> Floats:
        """(S, 2) the same by half of the counted periods."""
        paid = -done.rewards[:, self.skip :]
        middle = paid.shape[1] // 2
        return np.stack([paid[:, :middle].sum(axis=1), paid[:, middle:].sum(axis=1)], axis=1)

    def track(self, panel: Panel, done: Walk) -> dict[str, Floats]:
        """The columns of a `Track`, (S, T) of the counted periods."""
        parts = parts_of(panel, done)
        parts["cost"][:, -1] -= self._left(panel, done.states[:, -1])
        parts |= self._money(done.states[:, :-1], parts["order"], parts["demand"])
        return {k: v[:, self.skip :] for k, v in parts.items()}

    def _money(self, states: Floats, order: Floats, demand: Floats) -> dict[str, Floats]:
        """(S, T) parts of the cost, which add up to it but for the value of what is left at the end; and the stock
        that is paid for (a task that merges arrivals counts what comes next as stock)."""

        def of(name: str) -> Floats:
            return np.array([[getattr(one.case.params, name)] for one in self.group])

        available = states[:, :, 0] + (states[:, :, 1] if self.kind.delay > 0 else order)
        sold = np.minimum(available, demand)
        return {
            "stock": of("keep") * np.maximum(available - sold, 0.0),
            "holding": of("holding") * (available - sold),
            "shortage": of("shortage") * (demand - sold),
            "ordering": of("unit_cost") * order + of("fixed_cost") * (order > 0.0),
        }

    def _left(self, panel: Panel, last: Floats) -> Floats:
        """(S,) what is left at the end is worth."""
        terminal, layout = panel.task.terminal, panel.layout
        if terminal is None:
            return np.zeros(len(panel))
        return np.array(
            [terminal(layout.build(row), one.case.params) for row, one in zip(last.tolist(), self.group, strict=True)]
        )

    def hindsight(self, panel: Panel, begins: Floats) -> dict[str, Floats]:
        """The cheapest way through the counted periods from any of the states (S, P, n) that policies had then."""
        count, periods = len(panel), panel.decisions - self.skip
        states = np.zeros((count, periods + 1, panel.layout.size))
        actions, known, why = np.zeros((count, periods)), np.zeros(count), Counter[str]()
        for n, one in enumerate(self.group):
            starts = [panel.layout.build(row) for row in np.unique(begins[n], axis=0).tolist()]
            demand = panel.realised[n, self.skip :]
            best = foreseen(
                panel.task, one.case.params, demand, starts, free=self.free, sizes=self.kind.config.order_sizes
            )
            if isinstance(best, str):
                why[best] += 1
                continue
            known[n], actions[n] = 1.0, best.actions
            states[n] = [panel.layout.flatten(s, "state") for s in best.states]
        zero = np.zeros(count, np.int64)
        done = Walk(actions, actions, states, zero, zero, zero, zero, zero, known == 0.0, {}, {})
        late = dataclasses.replace(panel, realised=panel.realised[:, self.skip :])
        parts = parts_of(late, done)
        parts["cost"][:, -1] -= self._left(panel, states[:, -1])
        parts |= self._money(states[:, :-1], parts["order"], parts["demand"])
        out = {f"hindsight/{k}": v for k, v in parts.items()}
        return {**out, "hindsight known": known, **{f"unknown {k}": np.array([float(v)]) for k, v in why.items()}}

    def _count(self, t: int, panel: DecisionPanel) -> None:
        gone = panel.outcome != Outcome.RELEASED.value
        self.reasons.update(panel.cause[i].value for i in np.flatnonzero(gone).tolist())

    # ---------------------------------------------------------------- who decides

    @property
    def free(self) -> bool:
        """Whether rules may order what they like, because the table of orders follows the forecast."""
        sizes = self.settings.actions
        return sizes.multiples is not None or sizes.lots > 0

    @property
    def how(self) -> Run:
        return Run(engine=self.engine, threads=self.settings.run.threads)

    def policy(self, panel: Panel) -> Chooser:
        s = self.settings
        gate = dataclasses.replace(s.gate, max_trace_age_s=None)  # forecasts are fresh here by construction
        if gate.is_empty:
            gate = dataclasses.replace(gate, certificate=True)
        return Certified(
            panel.task, self.kind.policy, proof=s.proof, how=self.how, gate=gate, keep=self._count, law=self._law,
            calibration=s.calibration,
        )  # fmt: skip

    def _law(self, seen: Seen) -> Trace:
        layout = self.kind.task.params_layout
        params = None if layout is None or seen.params is None else layout.columns(seen.params)
        return self.kind.config.planned_trace(seen.trace, params, self.settings.policy, self.settings.actions)  # type: ignore[no-any-return]

    def classics(self, panel: Panel) -> dict[str, Entry]:
        """Rules by name, each with its knobs."""
        step = self.settings.actions.round_to
        found = [
            *practitioners(panel, Budget(depth=self.searched), how=self.how),
            *ordering_rules(panel, free=self.free, round_to=step, how=self.how),
            # At risk 0 only the mean counts.
            Entry("greedy", "classic", lambda: Deterministic(
                panel.task, DelayAwareGreedy(delay=self.kind.delay, risk=0.0), how=self.how
            )),
        ]  # fmt: skip
        by_name = {entry.name: entry for entry in found}
        return {name: by_name[name] for name in CLASSICS}
