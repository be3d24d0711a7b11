"""The archive of past forecasts that recalibration needs: one row per series and time.

`demand` is what happened at that time; `m_1`, `a_1`, `m_2`, ... are mean and mean absolute deviation of the members of
the forecast that was made with that time as its last observation, for 1, 2, ... periods later. Cells may be empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.recalibrate import Archive, Correction, correction_at
from ucsearch.planner.files.calendar import count_periods, has_local_dates, later
from ucsearch.planner.files.columns import usual_names
from ucsearch.planner.files.numbers import parse_dates
from ucsearch.planner.files.sales import History, read_sales
from ucsearch.planner.files.series_file import SeriesFile, Values, make_trace
from ucsearch.planner.files.table import open_table, whole_series, write_table
from ucsearch.planner.settings import Settings

__all__ = ["Past", "extend_archive", "read_archive", "read_corrections", "write_archive"]

Floats = NDArray[np.float64]


class Past(NamedTuple):
    """One series of an archive."""

    series: str
    time: Any  # (T,) datetime64[s], or steps as floats
    archive: Archive


def write_archive(path: str | Path, horizon: int, found: Iterator[Past]) -> int:
    """Rows of all series, whole or not at all."""
    steps = [f"{letter}_{h}" for h in range(1, horizon + 1) for letter in "ma"]

    def rows() -> Iterator[Sequence[Any]]:
        for past in found:
            names = past.archive.model or ("",) * len(past.archive.y)
            pairs = np.stack([past.archive.mean, past.archive.spread], axis=2).reshape(len(names), -1)
            for t, name in enumerate(names):
                yield [past.series, _text(past.time[t]), name, float(past.archive.y[t]), *pairs[t].tolist()]

    head: dict[str, type] = {"series": str, "date": str, "model": str, "demand": float, **dict.fromkeys(steps, float)}
    return write_table(path, head, rows)


def _text(time: Any) -> str:
    return str(time).removesuffix("T00:00:00") if isinstance(time, np.datetime64) else f"{float(time):g}"


def read_archive(path: str | Path, settings: Settings) -> Iterator[Past]:
    """Its series one by one."""
    table = open_table(path, settings.columns.decimal)
    names = usual_names(table, settings.columns)
    have = table.columns
    horizon = sum(f"m_{h}" in have for h in range(1, len(have) + 1))
    steps = [f"{letter}_{h}" for letter in "ma" for h in range(1, horizon + 1)]
    for name in (names.series, names.date, names.demand, "m_1", *steps):
        if name not in have:
            raise InputError(str(path), f"columns {', '.join(have[:12])}", f"an archive with a column {name!r}")
    extra = [names.model] if names.model in have else []
    seen: set[str] = set()
    for block, series in whole_series(table, [names.series, names.date, names.demand, *extra, *steps], names.series):
        values = {}
        for column in (names.demand, *steps):
            values[column], bad = block.numbers(column)
            if bad:
                at, text = next(iter(bad.items()))
                place = f"{path}, {table.unit} {block.places[at]}, column {column}"
                raise InputError(place, repr(text), "a number or nothing")
        texts = block.texts(names.date)
        time = _times(texts, settings)
        model = block.texts(names.model) if extra else [""] * len(series)
        edges = [0, *(i for i in range(1, len(series)) if series[i] != series[i - 1]), len(series)]
        for lo, hi in pairwise(edges):
            if hi == lo:
                continue
            if series[lo] in seen or not series[lo]:
                place = f"{path}, {table.unit} {block.places[lo]}"
                raise InputError(place, f"the series {series[lo]!r} again", "its rows together, under a name")
            seen.add(series[lo])
            mean = np.stack([values[f"m_{h}"][lo:hi] for h in range(1, horizon + 1)], axis=1)
            spread = np.stack([values[f"a_{h}"][lo:hi] for h in range(1, horizon + 1)], axis=1)
            kept = tuple(model[lo:hi]) if any(model[lo:hi]) else ()
            place = f"{path}, {table.unit} {block.places[lo]}"
            yield _regular(Past(series[lo], time[lo:hi], Archive(values[names.demand][lo:hi], mean, spread, kept)),
                           settings.period, place)  # fmt: skip


def _times(texts: list[str], settings: Settings) -> Any:
    found = parse_dates(texts, settings.columns.dates, wall_clock=has_local_dates(settings.period))
    if np.isnat(found).any():
        try:
            return np.array(texts, dtype=np.float64)
        except ValueError:
            bad = texts[int(np.argmax(np.isnat(found)))]
            raise InputError("archive.date", repr(bad), "a date such as 2024-05-20, or a step") from None
    return found


def _regular(past: Past, period: str, place: str) -> Past:
    """On every period of its time axis; what has no row is not known."""
    dated = np.issubdtype(past.time.dtype, np.datetime64)
    if dated and period == "any":
        raise InputError("period", "'any' with an archive of dates", "the step between dates, such as period = 'day'")
    at = count_periods(past.time, period) if dated else (past.time - past.time[0]).astype(np.int64)
    if not (np.diff(at) > 0).all():
        raise InputError(place, f"times of {past.series!r} that do not ascend", "ascending times")
    if at[-1] == at.size - 1:
        return past
    a = past.archive
    length, horizon = int(at[-1]) + 1, a.mean.shape[1]
    y, mean, spread = np.full(length, np.nan), np.full((length, horizon), np.nan), np.full((length, horizon), np.nan)
    y[at], mean[at], spread[at] = a.y, a.mean, a.spread
    names = [""] * length
    for i, name in zip(at.tolist(), a.model, strict=False):
        names[i] = name
    steps = range(length)
    time = np.array([later(past.time[0], i, period) for i in steps]) if dated else past.time[0] + np.arange(length)
    return Past(past.series, time, Archive(y, mean, spread, tuple(names) if a.model else ()))


def read_corrections(path: str | Path, settings: Settings, forecasts: SeriesFile) -> dict[str, Correction]:
    """What each series' forecast is corrected by: the archive up to the time its forecast begins after. A series that
    the archive does not hold is not corrected."""
    how, models = settings.recalibration, forecasts.models()
    found: dict[str, Correction] = {}
    for past in read_archive(path, settings):
        span = forecasts.spans.get(past.series)
        if span is None:
            continue
        archive = past.archive
        if forecasts.layout.dated and np.issubdtype(past.time.dtype, np.datetime64):
            begin = int(count_periods(np.array([past.time[0], span[0]]), settings.period)[1])
            archive = _until(archive, begin)
        model = models.get(past.series) or settings.forecast.model or _newest(archive)
        steps = min(span[2], settings.forecast.steps or span[2])
        found[past.series] = correction_at(archive.of_model(model), how, steps)
    return found


def _until(a: Archive, begin: int) -> Archive:
    """Times 0 .. begin - 1: what was known when a forecast for time `begin` was made."""
    keep = max(0, min(begin, len(a.y)))
    more = max(0, begin - len(a.y))
    pad = np.full((more, a.mean.shape[1]), np.nan)
    return Archive(
        np.concatenate([a.y[:keep], np.full(more, np.nan)]), np.concatenate([a.mean[:keep], pad]),
        np.concatenate([a.spread[:keep], pad]), (*a.model[:keep], *("",) * more) if a.model else (),
    )  # fmt: skip


def _newest(a: Archive) -> str:
    return next((name for name in reversed(a.model) if name), "")


# -------------------------------------------------------------------- keeping it


def extend_archive(
    out: str | Path, settings: Settings, forecasts: SeriesFile, *, old: str | Path | None, sales: str | Path | None
) -> int:
    """Write the archive `old` with today's forecasts, as they are before recalibration, and with outcomes from a sales
    history; `out` may be `old`. What the archive knows already stays."""
    if not forecasts.layout.dated or settings.period == "any":
        raise InputError(
            "archive", "forecasts without dates or a period", "dates, and period in the settings, to keep one"
        )
    today = {v.series: v for v in forecasts.values() if v.table is not None}
    known = {} if sales is None else {h.series: h for h in read_sales(sales, settings).histories}
    horizon = max(v.table.shape[0] for v in today.values() if v.table is not None) if today else 1
    if old is not None and Path(old).exists():
        horizon = max(horizon, sum(c.startswith("m_") for c in open_table(old).columns))

    def all_series() -> Iterator[Past]:
        seen = set()
        if old is not None and Path(old).exists():
            for past in read_archive(old, settings):
                seen.add(past.series)
                yield _extended(past, horizon, settings, forecasts, today.get(past.series), known.get(past.series))
        for series, values in today.items():
            if series not in seen:
                begin = later(forecasts.spans[series][0], -1, settings.period)
                blank = np.full((1, horizon), np.nan)
                first = Past(series, np.array([begin]), Archive(np.array([np.nan]), blank, blank.copy(), ("",)))
                yield _extended(first, horizon, settings, forecasts, values, known.get(series))

    return write_archive(out, horizon, all_series())


def _extended(
    past: Past,
    horizon: int,
    settings: Settings,
    forecasts: SeriesFile,
    values: Values | None,
    history: History | None,
) -> Past:
    a, period, start = past.archive, settings.period, past.time[0]
    ends = [len(a.y) - 1]
    cutoff = None
    if values is not None:
        cutoff = later(forecasts.spans[past.series][0], -1, period)
        ends.append(int(count_periods(np.array([start, cutoff]), period)[1]))
    if history is not None and history.last is not None:
        ends.append(int(count_periods(np.array([start, history.last]), period)[1]))
    length = max(ends) + 1
    y, mean, spread = np.full(length, np.nan), np.full((length, horizon), np.nan), np.full((length, horizon), np.nan)
    names = [*(a.model or ("",) * len(a.y)), *("",) * (length - len(a.y))]
    y[: len(a.y)] = a.y
    mean[: len(a.y), : a.mean.shape[1]], spread[: len(a.y), : a.mean.shape[1]] = a.mean, a.spread
    if history is not None and history.first is not None:
        at = int(count_periods(np.array([start, history.first]), period)[1]) + np.arange(history.y.size)
        inside = (at >= 0) & (at < length)
        fresh = inside & np.isnan(y[np.clip(at, 0, length - 1)])
        y[at[fresh]] = history.y[fresh]
    if values is not None and values.table is not None and ends[1] >= 0 and np.isnan(mean[ends[1]]).all():
        layout = forecasts.layout
        trace = make_trace(values.table[None], layout.kind, layout.levels, settings.forecast, None, None)
        steps, centre = trace.horizon, trace.mean[0, :, 0]
        mean[ends[1], :steps] = centre
        off = np.abs(trace.members[0, :, :, 0] - centre)
        spread[ends[1], :steps] = (trace.weights[0][:, None] * off).sum(axis=0)
        names[ends[1]] = values.model or settings.forecast.model
    time = np.array([later(start, i, period) for i in range(length)], dtype="datetime64[s]")
    return Past(past.series, time, Archive(y, mean, spread, tuple(names)))
