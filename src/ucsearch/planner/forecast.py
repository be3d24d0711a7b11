"""The job behind `ucsearch forecast`: a sales history in, a forecasts file with members out, and the archive of past
forecasts that recalibration needs.

Equal inputs and seed give equal bytes, whatever the threads and whichever other series are in the file.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.forecast.recalibrate import Archive
from ucsearch.planner.files.archive import Past, write_archive
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.sales import Data, History, Sales, read_sales
from ucsearch.planner.files.table import Problem, Style, check_writable, refuse_overwriting, write_table
from ucsearch.planner.history import Newest, Preparation, prepare, season_of, why_unusable
from ucsearch.planner.settings import Settings, forecaster_classes

__all__ = ["ForecastReport", "Plan", "plan_forecast", "run_forecast", "with_forecaster"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ForecastReport:
    """What was done."""

    series: int
    models: dict[str, int]  # series by the model that forecast them
    period: str
    season: int
    horizon: int
    clipped: int  # values that were far out
    unknown: int  # periods of which the demand is not known
    problems: tuple[Problem, ...]
    out: Path
    archive: Path | None


@dataclass(frozen=True)
class Plan:
    """What is to be forecast, and how."""

    settings: Settings
    sales: Sales
    histories: tuple[History, ...]  # those that can be
    problems: tuple[Problem, ...]
    how: Preparation

    @property
    def horizon(self) -> int:
        return self.how.horizon

    @property
    def season(self) -> int:
        return self.how.season


class _Made(NamedTuple):
    history: History
    forecast: Newest


def plan_forecast(
    settings: Settings, data: Data, *, horizon: int | None = None, season: int | None = None, seed: int | None = None,
    any_sign: bool = False,
) -> Plan:  # fmt: skip
    """Read the history and see which series can be forecast. `any_sign`: the settings say nothing of a floor, so it
    goes where a series has been below it."""
    sales = read_sales(data, settings)
    floor = getattr(settings.forecaster, "floor", -math.inf)
    if any_sign and any(np.nanmin(h.y, initial=math.inf) < floor for h in sales.histories):
        settings = replace(settings, forecaster=replace(settings.forecaster, floor=-math.inf))
    how = prepare(settings, season=season or season_of(settings, sales), horizon=horizon, seed=seed)
    refused = why_unusable(sales, settings, how.season, how.horizon)
    problems = [*sales.problems, *(Problem(sales.file, "", "", name, text) for name, text in refused.items())]
    if sales.uneven:
        text = (
            f"saw {sales.uneven}, and no one period between all dates: rows are counted as periods, and forecasts have "
            "steps. If dates are missing, say the period and what a gap means: --set period=day --set "
            "columns.gaps=unknown (out of order, not counted), or =zero (nothing was sold)"
        )
        problems.append(Problem(sales.file, "", "", "", text, refuses=False))
    found = tuple(h for h in sales.histories if h.series not in refused)
    if not found:
        raise DataError("\n".join([f"{sales.file}: no series can be forecast", *map(str, problems[:20])]))
    return Plan(settings, sales, found, tuple(problems), how)


def with_forecaster(settings: Settings, name: str, option: str = "--forecaster") -> Settings:
    """The settings with the forecaster of that name: their own where it is one, else one that knows no negative
    demand."""
    classes = forecaster_classes()
    if name not in classes:
        raise InputError(option, repr(name), f"one of {', '.join(classes)}")
    own = isinstance(settings.forecaster, classes[name])
    return settings if own else replace(settings, forecaster=classes[name](floor=0.0))


def run_forecast(
    settings: Settings, data: str | Path, out: str | Path, *, archive: str | Path | None = None,
    horizon: int | None = None, season: int | None = None, seed: int | None = None, issued: str = "",
    any_sign: bool = False, progress: Progress | None = None,
) -> ForecastReport:  # fmt: skip
    """Forecast every series of `data` from its last period on. `issued` is written beside each forecast; `any_sign` as
    in `plan_forecast`."""
    inputs = {"the settings": settings.file or None, "the sales": data}
    refuse_overwriting({"the forecasts": out, "the archive": archive}, inputs)
    check_writable(out)
    if archive is not None and settings.fields:
        raise InputError("archive", "a file", f"none: outcomes have the fields {', '.join(settings.fields)}")
    if archive is not None:
        check_writable(archive)
    plan = plan_forecast(settings, data, horizon=horizon, season=season, seed=seed, any_sign=any_sign)
    made: list[_Made] = []

    def pasts() -> Iterator[Past]:
        for i, one in enumerate(_all(plan, archive is not None)):
            made.append(one._replace(forecast=one.forecast._replace(past=None)))
            if progress is not None:
                progress(i + 1, len(plan.histories))
            if one.forecast.past is not None:
                yield _past(one.history, one.forecast.past, one.forecast.first, plan.sales.period)

    if archive is None:
        deque(pasts(), maxlen=0)
    else:
        write_archive(archive, plan.horizon, pasts())
    _write(Path(out), made, plan, issued)
    models = dict(sorted(Counter(one.forecast.model for one in made).items()))
    return ForecastReport(
        len(made), models, plan.sales.period, plan.season, plan.horizon, sum(one.forecast.clipped for one in made),
        sum(one.history.unknown for one in made),
        plan.problems, Path(out), None if archive is None else Path(archive),
    )  # fmt: skip


def _all(plan: Plan, with_past: bool) -> Iterator[_Made]:
    """Every series in order; several at a time, because kernels do not hold the interpreter's lock."""
    threads = plan.settings.run.threads or os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[_Made]] = deque()
        for history in plan.histories:
            ahead.append(pool.submit(_forecast, plan, history, with_past))
            if len(ahead) >= 4 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _forecast(plan: Plan, history: History, with_past: bool) -> _Made:
    return _Made(history, plan.how.newest(history.series, history.y, with_past, history.known))


def _past(history: History, archive: Archive, first: int, period: str) -> Past:
    """From the first origin on."""
    cut = Archive(archive.y[first:], archive.mean[first:], archive.spread[first:], archive.model[first:])
    return Past(history.series, _times(history, np.arange(first, len(archive.y)), period), cut)


def _times(history: History, places: NDArray[np.int64], period: str) -> Any:
    if history.first is None:
        return (places + 1).astype(np.float64)
    return np.array([later(history.first, int(i), period) for i in places], dtype="datetime64[s]")


def _write(out: Path, made: Sequence[_Made], plan: Plan, issued: str) -> None:
    dated = made[0].history.first is not None and not plan.sales.uneven
    size = min(one.forecast.members.shape[0] for one in made)
    head: dict[str, type] = {"series": str, "date" if dated else "step": str if dated else int, "model": str}
    head |= ({"cutoff": str} if dated else {}) | ({"issued": str} if issued else {})
    fields = [f"{field}_" for field in plan.settings.fields] or [""]
    head |= {f"{field}member_{j + 1}": float for field in fields for j in range(size)}

    def told(moment: Any) -> str:
        return day_text(moment, plan.sales.period, plan.sales.offset)

    def rows() -> Iterator[Sequence[Any]]:
        for one in made:
            h = one.history
            times = [] if h.last is None else [later(h.last, i + 1, plan.sales.period) for i in range(plan.horizon)]
            for i in range(plan.horizon):
                row: list[Any] = [h.series, told(times[i]) if dated else i + 1, one.forecast.model]
                row += [told(h.last)] if dated else []
                row += [issued] if issued else []
                yield [*row, *one.forecast.members[:size, i].T.ravel().tolist()]

    file = plan.sales.file
    style = Style.of(file, plan.settings.columns.decimal) if file else Style()
    write_table(out, head, rows, style=style)
