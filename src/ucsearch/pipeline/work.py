"""What a decide job has before it: both files, the order of the series, and what is known to be wrong beforehand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.dispatch.api import refuse
from ucsearch.dispatch.decision import Decision
from ucsearch.dispatch.gate import Calibration
from ucsearch.engine.choose import engine_for
from ucsearch.errors import InputError
from ucsearch.pipeline.archive import read_corrections
from ucsearch.pipeline.cases import ORDERING_TASK, Case, StateFile
from ucsearch.pipeline.dates import date_problems
from ucsearch.pipeline.forecasts import ForecastFile, Values
from ucsearch.pipeline.lead_times import is_followed, steps_needed
from ucsearch.pipeline.plain_effort import is_too_much
from ucsearch.pipeline.recalibrated import paths_of
from ucsearch.pipeline.tables import Problem
from ucsearch.settings import Settings

__all__ = ["Standing", "Work"]


class Standing(NamedTuple):
    """What a service knows when it decides: its monitors' figures by series, and whether a person paused it."""

    calibrations: Mapping[str, Calibration]
    paused: bool = False


class Work:
    """Both files, the order of the series, and what is known to be wrong before any value is read."""

    def __init__(
        self, settings: Settings, forecasts: ForecastFile, states: StateFile, now: datetime | None,
        archive: str | Path | None, begins: bool = False, standing: Standing | None = None, usual: Any = None,
    ) -> None:  # fmt: skip
        self.settings, self.forecasts, self.states = settings, forecasts, states
        self.standing = standing
        how = settings.recalibration
        if how.active and archive is None and not begins:
            raise InputError(
                "archive", "nothing", f"past forecasts, because forecast.recalibrate is {how.method!r}",
                hint="`ucsearch forecast --archive FILE` writes some; --keep FILE begins with today's.",
            )  # fmt: skip
        self.fixes = read_corrections(archive, settings, forecasts) if archive is not None and how.active else None
        self.problems = [*forecasts.problems, *states.problems, *date_problems(forecasts, states, now, usual)]
        known = set(forecasts.order)
        self.rest = [s for s in states.places if s not in known]  # states without a forecast
        f, s = str(forecasts.table.path), str(states.table.path)
        for series in forecasts.order:
            if series and series not in states.places:
                self.problems.append(Problem(s, "", "", series, f"saw no row, expected one as in {f}"))
        for series in self.rest:
            if series:
                self.problems.append(Problem(f, "", "", series, f"saw no rows, expected some as in {s}"))
        self.by_series: dict[str, Problem] = {}
        for problem in self.problems:
            if problem.refuses:
                self.by_series.setdefault(problem.series, problem)
        self.series = [*forecasts.order, *self.rest]
        size = settings.run.chunk
        self.chunks = [(lo, min(lo + size, len(self.series))) for lo in range(0, len(self.series), size)]
        counts = Counter(case.kind.number for case in states.cases.values())
        first = {case.kind.number: case for case in reversed(states.cases.values())}
        self.engines = {number: self._engine(count, first[number]) for number, count in counts.items()}

    @property
    def has_orders(self) -> bool:
        """Whether an action and what it orders are two numbers."""
        return bool(self.settings.task.task().name == ORDERING_TASK)

    def paths(self, series: str) -> int:
        """Members that recalibration gives a series; 0 where it keeps its own."""
        fix = None if self.fixes is None else self.fixes.get(series)
        return 0 if fix is None else paths_of(fix, self.settings.recalibration)

    def _engine(self, count: int, case: Case) -> Any:
        if self.settings.run.engine != "auto":
            return self.settings.run.engine
        if case.kind.policy.mode == "closed" and case.kind.lead_time > 1:
            return "compiled"  # two decisions with open orders of two periods take plain Python as long as compiling
        found = engine_for(count, case.kind.policy.mode)
        return "compiled" if found == "python" and is_too_much(case, self.settings) else found

    def check(self, values: Values) -> Problem | None:
        """Why a series cannot be decided; None when it can."""
        known = self.by_series.get(values.series) or values.problem
        if known is not None or values.table is None:
            return known
        case = self.states.cases[values.series]
        steps = min(len(values.table), self.settings.forecast.steps or len(values.table))
        needed = self.settings.policy.depth
        if self.settings.actions.multiples or is_followed(case.kind.config):
            needed = steps_needed(case.kind.config, self.settings)
        if steps < needed:
            text = f"saw {steps} steps, expected at least {needed} (policy.depth, and the lead time + 1)"
            return Problem(str(self.forecasts.table.path), "", self.forecasts.layout.time, values.series, text)
        return self._crossed(values)

    def _crossed(self, values: Values) -> Problem | None:
        if self.forecasts.layout.kind != "quantiles" or self.settings.forecast.crossing == "sort":
            return None
        if values.table is None:
            return None
        # With a row for each variable there is one name for the columns of all; with columns for each, one of each.
        names, levels = self.forecasts.layout.values, len(self.forecasts.layout.levels)
        by_field = values.table.reshape(len(values.table), -1, levels)
        crossed = np.argwhere(np.diff(by_field, axis=2) < 0.0)
        if not len(crossed):
            return None
        step, field, k = (int(x) for x in crossed[0])
        low, high = by_field[step, field, k : k + 2].tolist()
        k += field * levels % len(names)
        text = f"saw crossed quantiles at step {step + 1}, {high:g} below {names[k]} ({low:g}), "
        text += "expected ascending ones (forecast.crossing = 'sort' would repair it)"
        return Problem(str(self.forecasts.table.path), "", names[k + 1], values.series, text)

    def refuse(self, series: str, problem: Problem, now: datetime | None) -> Decision:
        """A series that cannot be used: nothing is sent."""
        case, known = self.states.cases.get(series), self.settings.actions.multiples is None
        task = self.settings.task.task() if case is None else case.kind.task
        state, params = (case.state, case.params) if case is not None else (None, None)
        return refuse(
            task, state, self.settings.gate, str(problem), params=params, actions=None if known else (), now=now
        )

    def all_problems(self) -> list[Problem]:
        """Every problem there is, values included (the forecasts are read once more for it)."""
        found = list(self.problems)
        for values in self.forecasts.values():
            if values.series not in self.by_series and (problem := self.check(values)) is not None:
                found.append(problem)
        return found
