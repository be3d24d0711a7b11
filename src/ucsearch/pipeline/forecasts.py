"""The forecasts file: one row per series and step (and sample), checked in a first pass, streamed in a second.

The first pass reads only the keys. It finds what makes a series unusable (rows apart, twice, out of order, missing)
before anything is decided, and fixes the order of the series. The second pass reads values, a few series at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.pipeline.columns import Kind, Layout, Named, forecast_layout, sales_layout, usual_names
from ucsearch.pipeline.numbers import parse_dates
from ucsearch.pipeline.tables import Block, Problem, Table, regrouped, whole_series
from ucsearch.settings import Columns, Forecast, Settings
from ucsearch.trace import Trace

__all__ = ["LARGEST", "ForecastFile", "Values", "count_periods", "is_regular", "later", "make_trace"]

Floats = NDArray[np.float64]
LARGEST = 1e15  # larger values could overflow in sums, and are no demand
_STEPS = {
    "15min": np.timedelta64(15, "m"),
    "30min": np.timedelta64(30, "m"),
    "hour": np.timedelta64(1, "h"),
    "day": np.timedelta64(1, "D"),
    "week": np.timedelta64(7, "D"),
}


class Values(NamedTuple):
    """One series of the second pass."""

    series: str
    table: Floats | None  # (H, K) members, mean and std or quantiles by step; None when refused
    cutoff: str
    issued: str
    problem: Problem | None
    model: str = ""


@dataclass(frozen=True)
class ForecastFile:
    """An indexed forecasts file."""

    table: Table
    layout: Layout
    columns: Columns
    order: tuple[str, ...]  # series by first appearance
    first: tuple[int, ...]  # index of their first row
    refused: dict[str, Problem]  # series that cannot be used, with the first reason
    problems: tuple[Problem, ...]  # all that was found, in file order
    spans: dict[str, tuple[Any, Any, int]]  # first and last time of each series (datetime64[s], or steps), and steps
    period: str
    fills: bool = False  # sales: periods without a row are periods without demand

    @classmethod
    def open(cls, table: Table, settings: Settings) -> ForecastFile:
        """The first pass."""
        names = usual_names(table, settings.columns)
        layout, problems = forecast_layout(table, names, settings)
        return cls._indexed(table, layout, names, settings.period, problems)

    @classmethod
    def history(cls, table: Table, settings: Named, period: str | None = None) -> ForecastFile:
        """A sales file, which is laid out likewise: one row per series and step or date, with the demand. `period`
        stands in for the settings' own."""
        names, step = usual_names(table, settings.columns), period or settings.period
        layout, problems = sales_layout(table, names, settings, step)
        fills = names.gaps == "zero" and layout.dated
        return cls._indexed(table, layout, names, step, problems, fills=fills)

    @classmethod
    def _indexed(
        cls, table: Table, layout: Layout, names: Columns, period: str, problems: list[Problem],
        fills: bool = False,
    ) -> ForecastFile:  # fmt: skip
        keys = [names.series, layout.time]
        if layout.kind == "sample":
            keys.append(names.sample)
        index = _Index(table, layout, names, period, fills)
        for block, series in whole_series(table, keys, names.series):
            index.add(block, series)
        if index.scattered:  # rows sorted by date, say
            table = regrouped(table, names.series)
            index = _Index(table, layout, names, period, fills)
            for block, series in whole_series(table, keys, names.series):
                index.add(block, series)
        if not index.first:
            raise DataError(f"{table.path}: saw no rows, expected some for every series")
        order, first = tuple(index.first), tuple(index.first.values())
        problems = [*problems, *index.problems]
        return cls(table, layout, names, order, first, index.refused, tuple(problems), index.spans, period, fills)

    def values(self, start: int = 0) -> Iterator[Values]:
        """The second pass, from the series numbered `start` on, each series once and in order."""
        if start >= len(self.order):
            return
        wanted = [self.columns.series, *self.layout.values, *self.layout.extra]
        if self.layout.kind == "sample":
            wanted += [self.layout.time, self.columns.sample]
        elif self.fills:
            wanted.append(self.layout.time)
        expected = iter(self.order[start:])
        done = set(self.order[:start])
        for block, names in whole_series(self.table, wanted, self.columns.series, self.first[start]):
            matrix = self._matrix(block)
            suspect = np.logical_or(np.isnan(matrix).any(axis=1), self.layout.kind == "mean")
            notes = [block.texts(name) for name in self.layout.extra]
            for lo, hi in _runs(names):
                series = names[lo]
                if series != next(expected, None):
                    raise DataError(f"{self.table.path}: changed while it was read (series {series!r})")
                done.add(series)
                said = {name: notes[i][lo] for i, name in enumerate(self.layout.extra)}
                problem = self.refused.get(series)
                if problem is None and suspect[lo:hi].any():
                    problem = self._check(block, matrix, lo, hi, series)
                values = None if problem is not None else self._steps(block, matrix, lo, hi)
                if values is not None and self.fills:
                    values = self._filled(block, values, lo, hi)
                names_it = (self.columns.cutoff, self.columns.issued, self.columns.model)
                cutoff, issued, model = (said.get(name, "") for name in names_it)
                yield Values(series, values, cutoff, issued, problem, model)

    def source(self, series: str) -> str:
        """Where a series' rows are: the file's SHA-256, and the first row and the one after the last, from 0."""
        at = self._places[series]
        end = self.first[at + 1] if at + 1 < len(self.first) else ""
        return f"sha256:{self._sha}:{self.first[at]}-{end}"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.order)}

    @cached_property
    def _sha(self) -> str:
        with open(self.table.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def models(self) -> dict[str, str]:
        """Who made each series' forecast, where the file says so."""
        column = self.columns.model
        if column not in self.layout.extra:
            return {}
        found: dict[str, str] = {}
        for block in self.table.blocks([self.columns.series, column]):
            for series, model in zip(block.texts(self.columns.series), block.texts(column), strict=True):
                found.setdefault(series, model)
        return found

    def _matrix(self, block: Block) -> Floats:
        """(n, K) values of a block, NaN where there is no usable number; columns are contiguous, as they come."""
        out = np.empty((len(self.layout.values), len(block))).T
        for i, name in enumerate(self.layout.values):
            out[:, i] = block.numbers(name)[0]
        out[~(np.abs(out) <= LARGEST)] = np.nan
        return out

    def _check(self, block: Block, matrix: Floats, lo: int, hi: int, series: str) -> Problem | None:
        """The first cell of a series that cannot be used."""
        file, unit = str(self.table.path), self.table.unit
        bad = np.isnan(matrix[lo:hi])
        if bad.any():
            row, k = (int(x) for x in np.argwhere(bad)[0])
            column = self.layout.values[k]
            seen = block.part(lo + row, lo + row + 1).texts(column)[0]
            limit = "" if np.isnan(block.numbers(column)[0][lo + row]) else f" within {LARGEST:g} of 0"
            text = f"saw {repr(seen) if seen else 'nothing'}, expected a number{limit}"
            return Problem(file, f"{unit} {block.places[lo + row]}", column, series, text)
        if self.layout.kind == "mean" and (matrix[lo:hi, 1] < 0.0).any():
            row = int(np.argmax(matrix[lo:hi, 1] < 0.0))
            text = f"saw {matrix[lo + row, 1]:g}, expected at least 0"
            return Problem(file, f"{unit} {block.places[lo + row]}", self.layout.values[1], series, text)
        return None

    def _steps(self, block: Block, matrix: Floats, lo: int, hi: int) -> Floats:
        """(H, K): rows as they are, or sample paths turned into one column per sample."""
        if self.layout.kind != "sample":
            return matrix[lo:hi]
        part = block.part(lo, hi)
        time, _ = _times(part, self.layout)
        order = np.lexsort((time, part.numbers(self.columns.sample)[0]))
        count = np.unique(time).size
        return np.ascontiguousarray(matrix[lo:hi, 0][order].reshape(-1, count).T)

    def _filled(self, block: Block, values: Floats, lo: int, hi: int) -> Floats:
        """The same with zeros for the periods that have no row, up to the last one of the file."""
        time, _ = _times(block.part(lo, hi), self.layout)
        last = max(span[1] for span in self.spans.values())
        place = count_periods(np.append(time, last), self.period)
        out = np.zeros((int(place[-1]) + 1, values.shape[1]))
        out[place[:-1]] = values
        return out


def make_trace(
    tables: Floats, kind: Kind, levels: Sequence[float], how: Forecast, cutoff: Any, issued: Any, model: str = ""
) -> Trace:
    """One panel of (W, H, K) tables of the same layout and shape."""
    steps = tables[:, : how.steps] if how.steps is not None else tables
    common: dict[str, Any] = dict(model=how.model or model, cutoff=cutoff, issued=issued)
    if kind in ("members", "sample"):
        return Trace.from_members(steps.transpose(0, 2, 1), coupling=how.coupling, **common)
    # A generator of its own for every call: what a series gets depends on no other series.
    common.update(points=how.points, method=how.method, rng=np.random.default_rng(how.seed))
    if kind == "mean":
        return Trace.from_mean(steps[:, :, 0], steps[:, :, 1], **common)
    return Trace.from_quantiles(levels, steps, crossing=how.crossing, **common)


# -------------------------------------------------------------------- the first pass


class _Index:
    """Where each series begins, and what is wrong with its rows."""

    def __init__(self, table: Table, layout: Layout, columns: Columns, period: str, fills: bool) -> None:
        self.table, self.layout, self.columns, self.period, self.fills = table, layout, columns, period, fills
        self.problems: list[Problem] = []
        self.first: dict[str, int] = {}
        self.refused: dict[str, Problem] = {}
        self.spans: dict[str, tuple[Any, Any, int]] = {}
        self.scattered = False

    def add(self, block: Block, names: list[str]) -> None:
        for place, cells in block.ragged.items():
            at = np.flatnonzero(block.places == place)
            if at.size:
                text = f"saw {cells} cells, expected {len(self.table.columns)} as in the header"
                self._report(block, int(at[0]), "", names[int(at[0])], text)
        time, unreadable = _times(block, self.layout)
        for i, seen in unreadable.items():
            wanted = _date_words(seen) if self.layout.dated else "a whole number"
            self._report(block, i, self.layout.time, names[i], f"saw {seen!r}, expected {wanted}")
        sample, _ = block.numbers(self.columns.sample) if self.layout.kind == "sample" else (None, {})
        for lo, hi in _runs(names):
            series = names[lo]
            if not series:
                self._report(block, lo, self.columns.series, "(no name)", "saw nothing, expected a series")
                self.scattered |= "" in self.first
                self.first.setdefault("", block.first + lo)
                continue
            if series in self.first:
                self.scattered = True
                continue
            self.first[series] = block.first + lo
            steps = hi - lo if sample is None else int(np.unique(time[lo:hi]).size)
            self.spans[series] = (time[lo], time[hi - 1], steps)
            if series not in self.refused:
                self._order(block, lo, hi, series, time[lo:hi], None if sample is None else sample[lo:hi])

    def _order(self, block: Block, lo: int, hi: int, series: str, time: Any, sample: Floats | None) -> None:
        """Steps 1, 2, 3, ... or ascending dates; with samples, the same for each of them."""
        column = self.layout.time
        if sample is not None:
            order = np.lexsort((time, sample))
            same = (sample[order][1:] == sample[order][:-1]) & (time[order][1:] == time[order][:-1])
            if same.any():
                at = lo + int(order[1:][same][0])
                self._report(block, at, column, series, "the same sample and step twice, expected them once")
                return
            steps = np.unique(time)
            if np.isnan(sample).any() or sample.size != steps.size * np.unique(sample).size:
                self._report(block, lo, column, series, "samples of different steps, expected every step of each")
                return
            time = steps
        if self.layout.dated:
            self._dates(block, lo, series, time)
            return
        expected = np.arange(1, time.size + 1)
        wrong = np.flatnonzero(~(time == expected))
        if wrong.size:
            at = int(wrong[0])
            self._report(block, lo + at, column, series, _step_text(time, at))

    def _dates(self, block: Block, lo: int, series: str, time: Any) -> None:
        gaps = np.diff(time)
        zero = np.timedelta64(0, "s")
        wrong = np.flatnonzero(~(gaps > zero))
        if wrong.size:
            at = int(wrong[0]) + 1
            word = "twice" if gaps[at - 1] == zero else f"after {_day(time[at - 1])}"
            text = f"saw {_day(time[at])} {word}, expected ascending dates"
            self._report(block, lo + at, self.layout.time, series, text)
            return
        wrong = np.flatnonzero(~(_on_grid if self.fills else is_regular)(time, self.period))
        if wrong.size:
            at = int(wrong[0]) + 1
            text = f"saw {_day(time[at])} after {_day(time[at - 1])}, expected "
            text += f"whole periods of one {self.period}" if self.fills else f"one {self.period} between them"
            self._report(block, lo + at, self.layout.time, series, text)

    def _report(self, block: Block, row: int, column: str, series: str, text: str) -> None:
        place = f"{self.table.unit} {block.places[row]}"
        problem = Problem(str(self.table.path), place, column, series, text)
        self.problems.append(problem)
        self.refused.setdefault("" if series == "(no name)" else series, problem)


def _times(block: Block, layout: Layout) -> tuple[Any, dict[int, str]]:
    """(n,) steps as floats or dates as datetime64[s]; unreadable ones by index."""
    if not layout.dated:
        return block.numbers(layout.time)
    texts = block.texts(layout.time)
    out = parse_dates(texts, layout.order, wall_clock=layout.wall_clock)
    return out, {i: texts[i] for i in np.flatnonzero(np.isnat(out)).tolist()}


def _date_words(seen: str) -> str:
    if "/" in seen:
        return "a date such as 2024-05-20; columns.dates = 'dmy' or 'mdy' says what comes first here"
    return "a date such as 2024-05-20 or 20.05.2024"


def count_periods(time: Any, period: str) -> NDArray[np.int64]:
    """(n,) how many periods lie between the first of `time` and each of them."""
    if period == "month":
        months = time.astype("datetime64[M]")
        return np.asarray((months - months[0]).astype(np.int64))
    if period == "weekday":
        days = time.astype("datetime64[D]")
        return np.asarray(np.busday_count(days[0], days), dtype=np.int64)
    return np.asarray((time - time[0]) // _STEPS[period], dtype=np.int64)


def later(time: Any, count: int, period: str) -> Any:
    """The time `count` periods after `time`; "any" counts days."""
    if period == "month":
        month = time.astype("datetime64[M]")
        rest = time.astype("datetime64[D]") - month.astype("datetime64[D]")
        target = month + np.timedelta64(count, "M")
        longest = (target + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
        ends = time.astype("datetime64[D]") + np.timedelta64(1, "D") == (month + np.timedelta64(1, "M"))
        day = longest if ends else min(target.astype("datetime64[D]") + rest, longest)
        return day.astype("datetime64[s]")
    if period == "weekday":
        return np.busday_offset(time.astype("datetime64[D]"), count, roll="backward").astype("datetime64[s]")
    return time + count * _STEPS.get(period, _STEPS["day"])


def _on_grid(time: Any, period: str) -> NDArray[np.bool_]:
    """(n - 1,) whether a date follows the one before it by whole periods."""
    if period in _STEPS:
        return np.asarray(np.diff(time) % _STEPS[period] == np.timedelta64(0, "s"))
    if period == "weekday":
        return np.asarray(np.is_busday(time[1:].astype("datetime64[D]")))
    return np.asarray(np.diff(time.astype("datetime64[M]")) > np.timedelta64(0, "M"))


def is_regular(time: Any, period: str) -> NDArray[np.bool_]:
    """(n - 1,) whether a date follows the one before it by one period."""
    gaps = np.diff(time)
    if period in _STEPS:
        return np.asarray(gaps == _STEPS[period])
    if period == "month":
        return np.asarray(np.diff(time.astype("datetime64[M]")) == np.timedelta64(1, "M"))
    if period == "weekday":
        days = time.astype("datetime64[D]")
        return np.asarray((np.busday_count(days[:-1], days[1:]) == 1) & np.is_busday(days[1:]))
    return np.ones(gaps.size, bool)


def _step_text(time: Floats, at: int) -> str:
    seen = f"{time[at]:g}"
    if at and time[at] in time[:at]:
        return f"saw step {seen} twice, expected {at + 1}"
    if at and time[at] < time[at - 1]:
        return f"saw step {seen} after {time[at - 1]:g}, expected ascending steps"
    return f"saw {'nothing' if np.isnan(time[at]) else 'step ' + seen}, expected step {at + 1}"


def _day(moment: Any) -> str:
    return str(moment).removesuffix("T00:00:00")


def _runs(names: list[str]) -> list[tuple[int, int]]:
    """Stretches of equal neighbours."""
    if not names:
        return []
    array = np.array(names, dtype=object)
    cuts = np.flatnonzero(array[1:] != array[:-1]) + 1
    edges = [0, *cuts.tolist(), len(names)]
    return list(pairwise(edges))
