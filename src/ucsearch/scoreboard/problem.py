"""What is compared on: a task, its windows on several series, and the forecasts every policy sees.

A built-in task gets its outcomes from any series: demand and prices as multiples of the series' mean, returns as
changes in units of their standard deviation, both measured before the first window. So series of any scale count alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.panel import Panel, Stretch
from ucsearch.errors import DataError, InputError
from ucsearch.forecast.pairing import forecast_paths
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.forecast.streams import series_stream
from ucsearch.settings import Columns
from ucsearch.task import Task
from ucsearch.tasks import TASKS
from ucsearch.tasks.binding import Fit, OnSeries, as_outcomes

__all__ = ["Setup", "Source", "load_setup", "make_problem", "read_file", "read_known", "sample_sources"]

Floats = NDArray[np.float64]
Outcome = Literal["values", "relative", "changes"]
_FEW = 3  # series below which no interval can be given


class Source(NamedTuple):
    """One series."""

    name: str
    y: Floats  # (T,), or (T, F) where an outcome has F fields
    season: int


@dataclass(frozen=True, eq=False)
class Setup:
    """A task and how a series becomes its outcomes."""

    name: str
    task: Task
    start: Any  # the state every window starts from
    outcome: Outcome  # values: as they are; relative: mean becomes `unit`; changes: deviation becomes `unit`
    unit: float
    floor: float  # no forecast goes below
    delay: int  # steps from an action to its effect
    config: Any  # the record of parameters behind the task; None for a bare task


# -------------------------------------------------------------------- tasks


def load_setup(
    name: str, *, instance: str | None = None, start: str | None = None, outcome: Outcome | None = None,
    unit: float | None = None,
) -> Setup:  # fmt: skip
    """A built-in task by name (and instance), or "package:object": a task, or a record with `task()` and `state()`."""
    given = _json(start)
    if name in TASKS:
        kinds = TASKS[name].kind.instances()
        if instance is not None and instance not in kinds:
            raise InputError("--instance", repr(instance), f"one of {', '.join(kinds)}")
        found, shown = (TASKS[name].kind(), name) if instance is None else (kinds[instance], f"{name}, {instance}")
    else:
        if ":" not in name:
            raise InputError("TASK", repr(name), f"one of {', '.join(TASKS)}, or package:object")
        if instance is not None:
            raise InputError("--instance", repr(instance), "nothing beside package:object")
        found, shown = _imported(name), name
    fit = found.fit() if isinstance(found, OnSeries) else Fit("values", 1.0, -np.inf, {})
    delay = found.effect_delay if isinstance(found, OnSeries) else int(getattr(found, "delay", 0))
    if isinstance(found, Task):
        if given is None:
            hint = f"Give it as JSON: --start '{{\"{found.state._fields[0]}\": 0}}'."
            raise InputError("--start", "nothing", "the state a bare task starts from", hint=hint)
        task, state = found, _state_of(found, given)
    else:
        task = found.task()
        try:
            state = found.state(**(fit.start if given is None else given))
        except TypeError as error:
            raise InputError("--start", start, f"arguments of {type(found).__name__}.state ({error})") from None
    scale = fit.unit if unit is None else unit
    if not 0.0 < scale < np.inf:
        raise InputError("--unit", scale, "a finite number above 0")
    return Setup(
        shown, task, state, outcome or fit.outcome, scale, fit.floor, delay, None if isinstance(found, Task) else found
    )


def _imported(spec: str) -> Any:
    from ucsearch.verify.trust import NoTask, find_object

    try:
        found = find_object(spec)
    except NoTask as error:
        raise InputError("TASK", repr(spec), f"an object that can be imported ({error})") from error
    if not isinstance(found, Task) and not (hasattr(found, "task") and hasattr(found, "state")):
        raise InputError("TASK", f"a {type(found).__name__}", "a uc.Task, or an object with task() and state()")
    return found


def _json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError("--start", text, f"JSON ({error})") from None
    if not isinstance(found, dict):
        raise InputError("--start", text, "a JSON object of the state's fields")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}


def _state_of(task: Task, given: Mapping[str, Any]) -> Any:
    if set(given) != set(task.state._fields):
        raise InputError("--start", ", ".join(given) or "no fields", f"the fields {', '.join(task.state._fields)}")
    return task.state(**given)


# -------------------------------------------------------------------- series


def sample_sources(count: int) -> list[Source]:
    """The embedded sample."""
    from ucsearch.data.embedded import sample_demand

    return [Source(s.id, np.asarray(s.y, np.float64), s.seasonal_period) for s in sample_demand(count).series]


class _Naming(NamedTuple):
    """What reading a history needs to know."""

    columns: Columns
    period: str


def read_file(path: Path, settings: Path | None, season: int | None, fields: Sequence[str] = ()) -> list[Source]:
    """A history as `ucsearch backtest` reads it; a settings file may say what its columns are called. With `fields` it
    has a column for each of them, and their values of one date belong together."""
    from ucsearch.pipeline.forecasts import ForecastFile
    from ucsearch.pipeline.tables import open_table
    from ucsearch.settings import load_settings

    found = None if settings is None else load_settings(settings)
    names = _Naming(Columns(), "any") if found is None else _Naming(found.columns, found.period)
    if not path.exists():
        raise DataError(f"{path}: no such file")
    length = season or (1 if found is None else found.season)
    sources = []
    for values in ForecastFile.history(open_table(path, names.columns.decimal), names, fields=fields).values():
        if values.table is None:
            raise DataError(str(values.problem or f"{path}: series {values.series!r} cannot be used"))
        y = values.table if fields else values.table[:, 0]
        sources.append(Source(values.series, np.ascontiguousarray(y), length))
    return sources


def read_known(name: str, data_dir: Path | None, count: int, least: int) -> list[Source]:
    """Series of a public data set such as m4-weekly or ett-ETTh1, chosen by length and a hash of the id."""
    from ucsearch.evaluation.sources import choose, load_family

    found = load_family(name, data_dir).series
    most = min(count, sum(len(s.y) >= least for s in found))
    picked = choose(found, most, least, "", "compare")
    return [Source(s.id, np.asarray(s.y, np.float64), s.seasonal_period) for s in picked]


def make_problem(
    setup: Setup, sources: Sequence[Source], *, steps: int, windows: int, horizon: int, key: int, paths: int = 30,
    skip: int = 0,
) -> Panel:  # fmt: skip
    """The last `windows` stretches of `steps` decisions of every series, `skip` values before its end."""
    model = RidgePaths(paths=paths, floor=setup.floor)
    stretches, members, realised, future, before = [], [], [], [], []
    for source in sources:
        least = model.min_history(source.season) + 1 + windows * steps + skip
        _check_fields(setup.task, source)
        if len(source.y) < least:
            raise DataError(f"series {source.name}: {len(source.y)} values, expected at least {least}")
        begin = len(source.y) - skip - windows * steps
        y = outcomes(setup, source, begin)
        begin -= len(source.y) - len(y)
        for w in range(windows):
            at = begin + w * steps
            known, marks = y[: at + steps], np.arange(at - 1, at - 1 + steps, dtype=np.int64)
            first = at + len(source.y) - len(y)
            stretches.append(Stretch("", source.name, w, first, steps, source.season, known, 1.0))
            stream = series_stream(key, source.name)
            members.append(forecast_paths(model, known, marks, horizon, source.season, stream))
            realised.append(y[at : at + steps])
            future.append(known[np.minimum(marks[:, None] + 1 + np.arange(horizon), len(known) - 1)])
            before.append(y[:at])
    if len({s.series for s in stretches}) < _FEW:
        count = len({s.series for s in stretches})
        raise DataError(f"{count} series, expected at least {_FEW}: the series is the unit of comparison")
    layout = setup.task.layout(setup.start)
    starts = np.tile(np.array(layout.flatten(setup.start, "start")), (len(stretches), 1))
    return Panel(
        setup.task, setup.config, layout, starts, tuple(stretches), np.stack(members), np.stack(realised),
        np.stack(future), tuple(before), model.name,
    )  # fmt: skip


def _check_fields(task: Task, source: Source) -> None:
    have = 1 if source.y.ndim == 1 else source.y.shape[1]
    if have != task.fields:
        names = "" if task.outcome is None else f": {', '.join(task.outcome._fields)}"
        raise DataError(f"series {source.name}: {have} values a period, expected {task.fields}{names}")


def outcomes(setup: Setup, source: Source, begin: int) -> Floats:
    """The series as outcomes of the task; the scale is measured on the values before `begin`."""
    try:
        return as_outcomes(source.y, setup.outcome, setup.unit, begin)
    except InputError as error:
        raise DataError(f"series {source.name}: all values before its windows are equal, so it has no scale") from error
