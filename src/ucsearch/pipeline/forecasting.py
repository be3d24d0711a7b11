"""The job behind `ucsearch forecast`: a sales history in, a forecasts file with members out, and the archive of past
forecasts that recalibration needs.

Equal inputs and seed give equal bytes, whatever the threads and whichever other series are in the file.
"""

from __future__ import annotations

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
from ucsearch.forecast.auto import Auto
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.outliers import clip_outliers
from ucsearch.forecast.pairing import pair_paths
from ucsearch.forecast.recalibrate import Archive
from ucsearch.forecast.streams import draw_key, series_stream
from ucsearch.forecast.walked import past_forecasts
from ucsearch.pipeline.archive import Past, write_archive
from ucsearch.pipeline.lead_times import steps_wanted
from ucsearch.pipeline.periods import day_text, later
from ucsearch.pipeline.sales import History, Sales, ended_early, read_sales
from ucsearch.pipeline.seasons import usual_season
from ucsearch.pipeline.tables import Problem
from ucsearch.pipeline.written import check_writable, refuse_overwriting, write_table
from ucsearch.settings import Settings, forecaster_classes

__all__ = [
    "ForecastReport", "Plan", "forecast_one", "plan_forecast", "run_forecast", "steps_ahead", "why_not",
    "with_forecaster",
]  # fmt: skip

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
    horizon: int
    season: int
    clip: bool
    seed: int

    @property
    def model(self) -> Forecaster:
        found: Forecaster = self.settings.forecaster
        return found

    def stream(self, series: str) -> np.uint64:
        return series_stream(draw_key(np.random.default_rng(self.seed)), series)


class _Made(NamedTuple):
    history: History
    model: str
    members: Floats  # (J, H), or (J, H, F)
    clipped: int
    past: Archive | None
    begin: int  # index of the first origin of `past`


def plan_forecast(
    settings: Settings, data: str | Path, *, horizon: int | None = None, season: int | None = None, clip: bool = True,
    seed: int | None = None,
) -> Plan:  # fmt: skip
    """Read the history and see which series can be forecast."""
    sales = read_sales(data, settings)
    length = horizon or settings.forecast.steps or steps_ahead(settings)
    cycle = season or settings.forecast.season or settings.backtest.season or usual_season(sales, settings)
    early = {h.series: newest for h, newest in ended_early(sales)}
    problems, found = list(sales.problems), []
    for h in sales.histories:
        text = why_not(h, settings, cycle, early.get(h.series))
        if text:
            problems.append(Problem(str(data), "", "", h.series, text))
        else:
            found.append(h)
    if not found:
        raise DataError("\n".join([f"{data}: no series can be forecast", *map(str, problems[:20])]))
    number = settings.backtest.seed if seed is None else seed
    return Plan(settings, sales, tuple(found), tuple(problems), length, cycle, clip, number)


def why_not(h: History, settings: Settings, season: int, newest: Any = None) -> str:
    """Why a series cannot be forecast, "" when it can. `newest`: where the others end, if it does not end there."""
    needed = settings.forecaster.min_history(season)
    if newest is not None:
        text = f"saw {day_text(h.last)} as its last date, expected {day_text(newest)} as in the other "
        return text + "series (columns.gaps = 'zero' counts missing periods as no demand)"
    if len(h.y) < needed:
        fewer = settings.forecaster.min_history(1)
        text = f"saw {len(h.y)} periods, expected at least {needed} for {settings.forecaster.name}, season {season}"
        return text + (f" (--season 1, none, needs {fewer})" if season > 1 and fewer <= len(h.y) else "")
    if h.y.min() < 0.0 <= getattr(settings.forecaster, "floor", -np.inf):
        wanted = "expected demand of at least 0: write returns as 0 or keep them elsewhere"
        return f"saw {h.least(settings.period)}, {wanted} (or take floor = 0 from the forecaster)"
    return ""


def with_forecaster(settings: Settings, name: str, option: str = "--forecaster") -> Settings:
    """The settings with the forecaster of that name: their own where it is one, else one that knows no negative
    demand."""
    classes = forecaster_classes()
    if name not in classes:
        raise InputError(option, repr(name), f"one of {', '.join(classes)}")
    own = isinstance(settings.forecaster, classes[name])
    return settings if own else replace(settings, forecaster=classes[name](floor=0.0))


def forecast_one(plan: Plan, history: History) -> tuple[str, Floats]:
    """The model that was used, and its members (J, H) or (J, H, F)."""
    made = _forecast(plan, history, False)
    return made.model, made.members


def steps_ahead(settings: Settings) -> int:
    """As many as decisions look at."""
    return steps_wanted(settings.task, settings)


def run_forecast(
    settings: Settings, data: str | Path, out: str | Path, *, archive: str | Path | None = None,
    horizon: int | None = None, season: int | None = None, clip: bool = True, seed: int | None = None, issued: str = "",
    progress: Progress | None = None,
) -> ForecastReport:  # fmt: skip
    """Forecast every series of `data` from its last period on. `issued` is written beside each forecast."""
    inputs = {"the settings": settings.file or None, "the sales": data}
    refuse_overwriting({"the forecasts": out, "the archive": archive}, inputs)
    check_writable(out)
    if archive is not None and settings.fields:
        raise InputError("archive", "a file", f"none: outcomes have the fields {', '.join(settings.fields)}")
    if archive is not None:
        check_writable(archive)
    plan = plan_forecast(settings, data, horizon=horizon, season=season, clip=clip, seed=seed)
    made: list[_Made] = []

    def pasts() -> Iterator[Past]:
        for i, one in enumerate(_all(plan, archive is not None)):
            made.append(one._replace(past=None))
            if progress is not None:
                progress(i + 1, len(plan.histories))
            if one.past is not None:
                yield _past(one, plan)

    if archive is None:
        deque(pasts(), maxlen=0)
    else:
        write_archive(archive, plan.horizon, pasts())
    _write(Path(out), made, plan, issued)
    return ForecastReport(
        len(made), dict(sorted(Counter(m.model for m in made).items())), plan.sales.period, plan.season, plan.horizon,
        sum(m.clipped for m in made), plan.problems, Path(out), None if archive is None else Path(archive),
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
    if history.y.ndim == 2:
        return _together(plan, history)
    y, far = clip_outliers(history.y) if plan.clip else (history.y, np.zeros(0, np.int64))
    model, last, stream = plan.model, y.size - 1, plan.stream(history.series)
    common: dict[str, Any] = dict(horizon=plan.horizon, season=plan.season, stream=stream)
    if isinstance(model, Auto):
        model = model.choose(y, last, **common)
    first = last
    if with_past:
        span = 2 * plan.settings.forecast.cycles * plan.season + plan.horizon
        first = max(model.min_history(plan.season) - 1, last - span)
    past, members = past_forecasts(model, y, first, last, 1, **common)
    whole = past._replace(y=history.y)  # what really happened, far out or not
    return _Made(history, model.name, members[0], int(far.size), whole if with_past else None, first)


def _together(plan: Plan, history: History) -> _Made:
    """Each field by its own model, and their paths put together as they were in the past."""
    fields = [_forecast(plan, history._replace(y=np.ascontiguousarray(y)), False) for y in history.y.T]
    size = min(one.members.shape[0] for one in fields)
    paths = pair_paths(np.stack([one.members[:size] for one in fields], axis=-1), history.y)
    models = " + ".join(dict.fromkeys(one.model for one in fields))
    return _Made(history, models, paths, sum(one.clipped for one in fields), None, 0)


def _past(one: _Made, plan: Plan) -> Past:
    """From the first origin on."""
    if one.past is None:
        raise InputError("archive", "nothing", "past forecasts")
    a, lo = one.past, one.begin
    cut = Archive(a.y[lo:], a.mean[lo:], a.spread[lo:], a.model[lo:])
    return Past(one.history.series, _times(one.history, np.arange(lo, len(a.y)), plan.sales.period), cut)


def _times(history: History, places: NDArray[np.int64], period: str) -> Any:
    if history.first is None:
        return (places + 1).astype(np.float64)
    return np.array([later(history.first, int(i), period) for i in places], dtype="datetime64[s]")


def _write(out: Path, made: Sequence[_Made], plan: Plan, issued: str) -> None:
    dated = made[0].history.first is not None
    size = min(one.members.shape[0] for one in made)
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
                row: list[Any] = [h.series, told(times[i]) if dated else i + 1, one.model]
                row += [told(h.last)] if dated else []
                row += [issued] if issued else []
                yield [*row, *one.members[:size, i].T.ravel().tolist()]

    write_table(out, head, rows)
