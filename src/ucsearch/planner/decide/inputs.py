"""What a decide job has before it: both files, the order of the series, and what is known to be wrong beforehand."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.api import refuse
from ucsearch.decision.decision import Decision
from ucsearch.decision.gate import Calibration
from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Status
from ucsearch.engine.choose import engine_for
from ucsearch.errors import InputError
from ucsearch.forecast.recalibrate import (
    LEAST_PATHS,
    Correction,
    Recalibration,
    Sums,
    recalibrate_trace,
)
from ucsearch.planner.decide.dates import Age, date_problems, time_problem
from ucsearch.planner.decide.room import Room
from ucsearch.planner.decide.states import Case, StateFile
from ucsearch.planner.files.archive import read_corrections
from ucsearch.planner.files.series_file import SeriesFile, Values, make_trace
from ucsearch.planner.files.table import Problem
from ucsearch.planner.settings import Settings
from ucsearch.policies import Exact, Policy
from ucsearch.records.canonical import blob_id, encode_array
from ucsearch.records.record import Recalibrated
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = [
    "EDGES",
    "TRIED",
    "Gathered",
    "Group",
    "Standing",
    "Work",
    "ahead",
    "correction_for",
    "engine_after_a_try",
    "gathered",
    "is_too_much",
    "paths_of",
    "recalibrated_trace",
    "recorded_changes",
]


class Standing(NamedTuple):
    """What a service knows when it decides: its monitors' figures by series, and whether a person paused it."""

    calibrations: Mapping[str, Calibration]
    paused: bool = False


class Work:
    """Both files, the order of the series, and what is known to be wrong before any value is read."""

    def __init__(
        self, settings: Settings, forecasts: SeriesFile, states: StateFile, age: Age | None,
        archive: str | Path | None, begins: bool = False, standing: Standing | None = None, usual: Any = None,
        more: Sequence[Problem] = (),
    ) -> None:  # fmt: skip
        self.settings, self.forecasts, self.states = settings, forecasts, states
        self.room: Room | None = None  # who says beforehand whether closed loop fits
        self.standing, self.age = standing, age
        how = settings.recalibration
        if how.active and archive is None and not begins:
            raise InputError(
                "archive", "nothing", f"past forecasts, because forecast.recalibrate is {how.method!r}",
                hint="[files] archive names a file for them; `ucsearch forecast` writes some.",
            )  # fmt: skip
        self.fixes = read_corrections(archive, settings, forecasts) if archive is not None and how.active else None
        self.problems = [*forecasts.problems, *states.problems, *date_problems(forecasts, states, age, usual), *more]
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
        """Whether actions are orders."""
        return bool(self.settings.task.places_orders)

    def paths(self, series: str) -> int:
        """Members that recalibration gives a series; 0 where it keeps its own."""
        fix = None if self.fixes is None else self.fixes.get(series)
        return 0 if fix is None else paths_of(fix, self.settings.recalibration)

    def _engine(self, count: int, case: Case) -> Any:
        if self.settings.run.engine != "auto":
            return self.settings.run.engine
        if case.kind.policy.mode == "closed" and case.kind.delay > 1:
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
        needed = case.kind.config.steps_needed(self.settings.policy, self.settings.actions)
        if steps < needed:
            seen = f"{steps} step{'' if steps == 1 else 's'}"
            text = f"saw {seen}, expected at least {needed} (policy.depth, and the lead time + 1)"
            return Problem(str(self.forecasts.table.path), "", self.forecasts.layout.time, values.series, text)
        return time_problem(values, self.forecasts, self.settings.columns.dates, self.age) or self._crossed(values)

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
        case, sizes = self.states.cases.get(series), self.settings.actions
        known = sizes.multiples is None and not sizes.lots  # the others follow from the forecast
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


T = TypeVar("T")


class Group(NamedTuple):
    """Series of one kind and shape, to be decided in one call."""

    values: list[Values]
    cases: list[Case]
    trace: Trace  # one panel of all of them


class Gathered(NamedTuple):
    """What was read for one chunk."""

    number: int  # of the chunk
    groups: list[Group]
    refused: dict[str, Problem]  # by series
    fresh: list[Problem]  # those not found before


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one being made in another thread while the last one is used (compiled searches, files
    and hashes do not hold the interpreter's lock)."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, items, end)
        while (item := future.result()) is not end:
            future = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def gathered(plan: Work, settings: Settings, todo: Sequence[int]) -> Iterator[Gathered]:
    """The forecasts of these chunks, checked and grouped."""
    stream: Iterator[Values] = iter(())
    at = -1
    held = len(plan.forecasts.order)
    for number in todo:
        lo, hi = plan.chunks[number]
        if at != lo:
            stream = plan.forecasts.values(lo)
        ready: dict[tuple[Any, ...], list[tuple[Values, Case]]] = {}
        refused: dict[str, Problem] = {}
        fresh: list[Problem] = []
        for series in plan.series[lo : min(hi, held)]:
            values = next(stream)
            problem = plan.check(values)
            if problem is None and values.table is not None:
                case = plan.states.cases[series]
                key = (
                    case.kind.number, values.table.shape, bool(values.cutoff), bool(values.issued), values.model,
                    plan.paths(series),
                )  # fmt: skip
                ready.setdefault(key, []).append((values, case))
            elif problem is not None:
                refused[series] = problem
                if series not in plan.by_series:
                    fresh.append(problem)
        at = hi
        yield Gathered(number, [_grouped(plan, settings, group) for group in ready.values()], refused, fresh)


def _grouped(plan: Work, settings: Settings, group: list[tuple[Values, Case]]) -> Group:
    values, cases = [v for v, _ in group], [c for _, c in group]
    tables = [v.table for v in values if v.table is not None]
    trace = make_trace(
        tables[0][None] if len(tables) == 1 else np.stack([t.T for t in tables]).transpose(0, 2, 1),
        plan.forecasts.layout.kind, plan.forecasts.layout.levels, settings.forecast,
        [v.cutoff for v in values] if values[0].cutoff else None,
        [v.issued for v in values] if values[0].issued else None, values[0].model, max(1, len(settings.fields)),
    )  # fmt: skip
    return Group(values, cases, trace)


EDGES = 100_000  # (state, action) pairs over all steps: some seconds, since each is scored for every member
TRIED = 8_000  # nodes of trees over members, all series together: some five seconds, less than compiling takes
_LEAST = 200  # of one series
_OUTCOME = 0.0  # where states hang on outcomes this is only a guess


def is_too_much(case: Case, settings: Settings) -> bool:
    """Whether exact plans of this series pass through more than `EDGES` pairs of states and actions."""
    policy, sizes = settings.policy, settings.actions
    if not isinstance(policy, Exact) or policy.mode != "mean" or sizes.lots or sizes.multiples is not None:
        return False
    try:
        return _edges(case, policy.depth) > EDGES
    except Exception:  # rules that need more than a number, or fail: the search says so itself
        return False


def engine_after_a_try(
    task: Task, states: Any, trace: Trace, policy: Policy, params: Any, actions: Any
) -> Literal["compiled", "python"]:
    """For a few series: the plain engine where that is soon done, else kernels are compiled. How many nodes a tree over
    members has, only a try can tell."""
    if not isinstance(policy, Exact) or policy.mode != "members":
        return "python"
    short: Any = dataclasses.replace(policy, node_budget=min(policy.node_budget, max(_LEAST, TRIED // trace.windows)))
    try:
        found = search_panel(task, states, trace, short, params=params, actions=actions, engine="auto")
    except Exception:  # the search says itself what is wrong
        return "python"
    return "compiled" if (found.status == Status.NOT_PROVED).any() else "python"


def _edges(case: Case, depth: int) -> int:
    task, p = case.kind.task, case.params
    layer: set[Any] = {case.state}
    count = 0
    for h in range(depth):
        following: set[Any] = set()
        for s in layer:
            for a in task.actions:
                if task.feasible_at(s, a, h, p):
                    following.add(task.step_at(s, a, _OUTCOME, h, p))
                    count += 1
            if count > EDGES:
                return count
        layer = following
    return count


Floats = NDArray[np.float64]


def correction_for(found: dict[str, Correction], series: str, steps: int) -> Correction:
    """The series' own, or none at all for a series without a past."""
    if series in found:
        return found[series]
    nothing = np.zeros(steps)
    return Correction(nothing, np.ones(steps), Sums(*(nothing,) * 9), np.zeros((0, steps)))


def paths_of(fix: Correction, how: Recalibration) -> int:
    """How many members a window has after method "paths"; 0 where it keeps its own."""
    count = 0 if fix.paths is None or how.method != "paths" else len(fix.paths)
    return count if count >= LEAST_PATHS else 0


def recalibrated_trace(raw: Trace, fixes: Sequence[Correction], how: Recalibration) -> Trace:
    """The trace that is planned on: `raw` itself where too little is known of its past."""
    if how.method == "paths" and not paths_of(fixes[0], how):
        return raw
    return recalibrate_trace(raw, fixes, how)


def recorded_changes(raw: Trace, fixes: Sequence[Correction], how: Recalibration, steps: int) -> list[Recalibrated]:
    """What the records of the first `steps` steps say about how their members came about; every step has its own."""
    return [_recorded(raw.window(w), fix, how, steps) for w, fix in enumerate(fixes)]


def _recorded(raw: Trace, fix: Correction, how: Recalibration, steps: int) -> Recalibrated:
    blobs: dict[str, bytes] = {}

    def kept(array: object) -> dict[str, str]:
        blob = encode_array(np.asarray(array))
        name = blob_id(blob)
        blobs[name] = blob
        return {"$blob": name}

    floor: float | str = how.floor if np.isfinite(how.floor) else "-inf"
    part: dict[str, object] = {
        "method": how.method, "season": how.season, "cycles": how.cycles, "scale": how.scale, "floor": floor,
        "members": kept(raw.members[:, :, :steps]), "weights": kept(raw.weights),
    }  # fmt: skip
    if how.method == "paths":
        part["errors"] = kept(None if fix.paths is None else fix.paths[:, :steps])
    else:
        part["b"], part["c"] = fix.b[:steps].tolist(), fix.c[:steps].tolist()
        part["sums"] = {name: row[:steps].tolist() for name, row in fix.sums._asdict().items()}
    return Recalibrated(part, blobs)
