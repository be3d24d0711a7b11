"""Forecasting as a step of a job: the sales of a part are forecast and decided in one go, no file in between.

What a series gets depends on nothing but its own history, the settings and what was fixed when the job was planned
(horizon, season, seed, period, the last date), so that it is the same for every partitioning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.columns import Layout, usual_names
from ucsearch.planner.files.numbers import parse_dates
from ucsearch.planner.files.sales import History, sales_of
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import Table, open_table
from ucsearch.planner.forecast import with_forecaster
from ucsearch.planner.history import horizon_of, not_known_ahead, prepare, season_of, why_not
from ucsearch.planner.settings import Settings
from ucsearch.scale.batch import BatchForecasts

__all__ = ["Forecasting", "forecast_part", "plan_forecasting"]


class Forecasting(NamedTuple):
    """How all parts forecast; plain data, kept in the job."""

    forecaster: str
    horizon: int
    season: int
    seed: int
    period: str
    last: str  # ISO date with which all histories end; "" where files count steps


def plan_forecasting(
    settings: Settings, name: str, files: Sequence[Path], first: Table, *, horizon: int | None, season: int | None,
    seed: int | None,
) -> Forecasting:  # fmt: skip
    """What is fixed for all parts; `first` is the table of the first one."""
    if settings.columns.gaps != "refuse":
        gaps = repr(settings.columns.gaps)
        raise InputError("columns.gaps", gaps, "'refuse' in a job: fill the periods without demand before it")
    if settings.fields:
        raise InputError("task.outcome", f"fields {', '.join(settings.fields)}", "one outcome: forecast before the job")
    if settings.log.keep == "reference":
        raise InputError("log.keep", "'reference'", "'used' or 'all' where forecasts are in no file")
    names = usual_names(first, settings.columns)
    if names.series not in first.columns:
        raise InputError(f"{first.path}: column {names.series}", "missing", "the name of the series in every row")
    chosen = with_forecaster(settings, name)
    sales = sales_of(first, chosen)
    if not sales.histories:
        raise DataError("\n".join([f"{first.path}: no series can be forecast", *map(str, sales.problems[:20])]))
    last = "" if sales.histories[0].last is None else _newest(files, chosen)
    return Forecasting(
        name, horizon or horizon_of(chosen), season or season_of(chosen, sales),
        chosen.backtest.seed if seed is None else seed, sales.period, last,
    )  # fmt: skip


def _newest(files: Sequence[Path], settings: Settings) -> str:
    """The last date of all files."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    newest = np.datetime64("NaT", "s")
    for path in files:
        column = usual_names(open_table(path), settings.columns).date
        if column not in pq.read_schema(path).names:  # a row for each series, a column for each date
            histories = sales_of(open_table(path), settings).histories
            dates = np.array([h.last for h in histories], "datetime64[s]")
        else:
            texts = [str(x) for x in pc.unique(pq.read_table(path, columns=[column]).column(0)).to_pylist()]
            wall_clock = settings.period in ("any", "day", "weekday", "week", "month")
            dates = parse_dates(texts, settings.columns.dates, wall_clock=wall_clock)
        newest = np.fmax.reduce(np.append(dates, newest))
    return day_text(newest)


def forecast_part(table: Table, settings: Settings, how: Forecasting, issued: str) -> SeriesFile:
    """Forecasts of all series of a range of sales; one that cannot be forecast has the reason in their place."""
    chosen = replace(with_forecaster(settings, how.forecaster), period=how.period)  # type: ignore[arg-type]
    sales = sales_of(table, chosen)
    prepared = prepare(chosen, season=how.season, horizon=how.horizon, seed=how.seed)
    last = np.datetime64(how.last, "s") if how.last else None
    refused = {p.series: p.text for p in sales.problems if p.refuses and p.series}
    order: list[str] = []
    tables: list[Any] = []
    origins: list[tuple[str, str, str]] = []
    spans: dict[str, tuple[Any, Any, int]] = {}
    for h in sales.histories:
        if h.series in refused:
            continue
        text = why_not(h, chosen, how.season, last if h.last != last else None)
        text = text or not_known_ahead(h, chosen, how.horizon)
        model, members = ("", None) if text else prepared.newest(h.series, h.y, known=h.known)[:2]
        order.append(h.series)
        tables.append(text if members is None else np.ascontiguousarray(members.T))
        origins.append((day_text(h.last, settings.period), issued, model))
        if members is not None:
            spans[h.series] = _span(h, how)
    for series, text in refused.items():
        order.append(series)
        tables.append(text)
        origins.append(("", issued, ""))
    names = usual_names(table, settings.columns)
    dated = bool(how.last)
    layout = Layout("members", names.date if dated else names.step, dated, ("members",), (), ())
    return BatchForecasts(
        table, layout, names, tuple(order), tuple(range(len(order))), {}, (), spans, how.period, False, tuple(tables),
        tuple(origins),
    )  # fmt: skip


def _span(h: History, how: Forecasting) -> tuple[Any, Any, int]:
    if h.last is None:
        return 1.0, float(how.horizon), how.horizon
    return later(h.last, 1, how.period), later(h.last, how.horizon, how.period), how.horizon
