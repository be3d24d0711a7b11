"""The forecasts file: one row per series and step (and sample), checked in a first pass, streamed in a second.

The first pass reads only the keys. It finds what makes a series unusable (rows apart, twice, out of order, missing)
before anything is decided, and fixes the order of the series. The second pass reads values, a few series at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planning.tables import Block, Problem, Table, whole_series
from ucsearch.settings import Columns, Forecast, Settings
from ucsearch.trace import Trace

__all__ = ["ForecastFile", "Values", "make_trace"]

Floats = NDArray[np.float64]
_LARGEST = 1e15  # larger values could overflow in sums, and are no demand
Kind = Literal["members", "sample", "mean", "quantiles"]
_STEPS = {"hour": np.timedelta64(1, "h"), "day": np.timedelta64(1, "D"), "week": np.timedelta64(7, "D")}


@dataclass(frozen=True)
class Layout:
    """Which columns hold what."""

    kind: Kind
    time: str  # the step or date column
    dated: bool
    values: tuple[str, ...]  # in the order of members or of levels
    levels: tuple[float, ...]  # of quantiles
    extra: tuple[str, ...]  # cutoff and issued, where they are


class Values(NamedTuple):
    """One series of the second pass."""

    series: str
    table: Floats | None  # (H, K) members, mean and std or quantiles by step; None when refused
    cutoff: str
    issued: str
    problem: Problem | None


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

    @classmethod
    def open(cls, table: Table, settings: Settings) -> ForecastFile:
        """The first pass."""
        layout, problems = _layout(table, settings.columns)
        return cls._indexed(table, layout, settings, problems)

    @classmethod
    def _indexed(cls, table: Table, layout: Layout, settings: Settings, problems: list[Problem]) -> ForecastFile:
        keys = [settings.columns.series, layout.time]
        if layout.kind == "sample":
            keys.append(settings.columns.sample)
        index = _Index(table, layout, settings, problems)
        for block, names in whole_series(table, keys, settings.columns.series):
            index.add(block, names)
        if not index.first:
            raise DataError(f"{table.path}: saw no rows, expected some for every series")
        order, first = tuple(index.first), tuple(index.first.values())
        return cls(table, layout, settings.columns, order, first, index.refused, tuple(problems))

    @classmethod
    def history(cls, table: Table, settings: Settings) -> ForecastFile:
        """A sales file, which is laid out likewise: one row per series and step or date, with the demand."""
        names, have = settings.columns, table.columns
        for name in (names.series, names.demand):
            if name not in have:
                raise InputError(str(table.path), f"columns {', '.join(have)}", f"a column {name!r}")
        layout, problems = _time_layout(table, names, "members", (names.demand,), ())
        return cls._indexed(table, layout, settings, problems)

    def values(self, start: int = 0) -> Iterator[Values]:
        """The second pass, from the series numbered `start` on, each series once and in order."""
        if start >= len(self.order):
            return
        wanted = [self.columns.series, *self.layout.values, *self.layout.extra]
        if self.layout.kind == "sample":
            wanted += [self.layout.time, self.columns.sample]
        expected = iter(self.order[start:])
        done = set(self.order[:start])
        for block, names in whole_series(self.table, wanted, self.columns.series, self.first[start]):
            matrix = self._matrix(block)
            notes = [block.texts(name) for name in self.layout.extra]
            for lo, hi in _runs(names):
                series = names[lo]
                if series in done and series in self.refused:  # its rows lie apart
                    continue
                if series != next(expected, None):
                    raise DataError(f"{self.table.path}: changed while it was read (series {series!r})")
                done.add(series)
                said = {name: notes[i][lo] for i, name in enumerate(self.layout.extra)}
                problem = self.refused.get(series) or self._check(block, matrix, lo, hi, series)
                values = None if problem is not None else self._steps(block, matrix, lo, hi)
                yield Values(
                    series, values, said.get(self.columns.cutoff, ""), said.get(self.columns.issued, ""), problem
                )

    def _matrix(self, block: Block) -> Floats:
        """(n, K) values of a block, NaN where there is no usable number."""
        out = np.empty((len(block), len(self.layout.values)))
        for i, name in enumerate(self.layout.values):
            out[:, i] = block.numbers(name)[0]
        out[~(np.abs(out) <= _LARGEST)] = np.nan
        return out

    def _check(self, block: Block, matrix: Floats, lo: int, hi: int, series: str) -> Problem | None:
        """The first cell of a series that cannot be used."""
        file, unit = str(self.table.path), self.table.unit
        bad = np.isnan(matrix[lo:hi])
        if bad.any():
            row, k = (int(x) for x in np.argwhere(bad)[0])
            column = self.layout.values[k]
            seen = block.part(lo + row, lo + row + 1).texts(column)[0]
            limit = "" if np.isnan(block.numbers(column)[0][lo + row]) else f" within {_LARGEST:g} of 0"
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


def make_trace(tables: Floats, kind: Kind, levels: Sequence[float], how: Forecast, cutoff: Any, issued: Any) -> Trace:
    """One panel of (W, H, K) tables of the same layout and shape."""
    steps = tables[:, : how.steps] if how.steps is not None else tables
    common: dict[str, Any] = dict(model=how.model, cutoff=cutoff, issued=issued)
    if kind in ("members", "sample"):
        return Trace.from_members(steps.transpose(0, 2, 1), coupling=how.coupling, **common)
    # A generator of its own for every call: what a series gets depends on no other series.
    common.update(points=how.points, method=how.method, rng=np.random.default_rng(how.seed))
    if kind == "mean":
        return Trace.from_mean(steps[:, :, 0], steps[:, :, 1], **common)
    return Trace.from_quantiles(levels, steps, crossing=how.crossing, **common)


# -------------------------------------------------------------------- columns


def _layout(table: Table, names: Columns) -> tuple[Layout, list[Problem]]:
    """Recognise the columns; unknown ones are reported, not guessed at."""
    have, file = list(table.columns), str(table.path)
    if names.series not in have:
        raise InputError(file, f"columns {', '.join(have)}", f"a column {names.series!r} (columns.series)")
    members = sorted((n for n in have if _numbered(n, names.members)), key=lambda n: int(n[len(names.members) :]))
    quantiles = sorted((level, n) for n in have if (level := _level(n, names.quantiles)) is not None)
    choices: dict[Kind, tuple[str, ...]] = {
        "members": tuple(members),
        "sample": (names.value,) if names.sample in have and names.value in have else (),
        "mean": (names.mean, names.std) if names.mean in have and names.std in have else (),
        "quantiles": tuple(n for _, n in quantiles),
    }
    found = [kind for kind, values in choices.items() if values]
    if len(found) != 1:
        raise InputError(
            file, " and ".join(found) or f"columns {', '.join(have)}",
            f"one kind of forecast: {names.members}1, {names.members}2, ...; {names.sample} and {names.value}; "
            f"{names.mean} and {names.std}; or {names.quantiles}0.1, {names.quantiles}0.5, ...",
        )  # fmt: skip
    kind = found[0]
    levels = tuple(level for level, _ in quantiles) if kind == "quantiles" else ()
    return _time_layout(table, names, kind, choices[kind], levels)


def _time_layout(
    table: Table, names: Columns, kind: Kind, values: tuple[str, ...], levels: tuple[float, ...]
) -> tuple[Layout, list[Problem]]:
    """The layout, given what holds the values; and what is not used."""
    have, file = table.columns, str(table.path)
    times = [n for n in (names.step, names.date) if n in have]
    if not times:
        raise InputError(file, f"columns {', '.join(have)}", f"a column {names.step!r} or {names.date!r}")
    extra = tuple(n for n in (names.cutoff, names.issued) if n in have)
    used = {names.series, *times, *values, *extra, *names.ignore, *([names.sample] if kind == "sample" else [])}
    text = "an unknown column, left out (columns.ignore would silence this)"
    problems = [Problem(file, "", n, "", text, refuses=False) for n in have if n not in used]
    return Layout(kind, times[0], times[0] == names.date, values, levels, extra), problems


def _numbered(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) :].isdecimal()


def _level(name: str, prefix: str) -> float | None:
    """The level of a quantile column such as q0.9."""
    if not name.startswith(prefix) or not re.fullmatch(r"0?\.\d+", name[len(prefix) :]):
        return None
    level = float(name[len(prefix) :])
    return level if 0.0 < level < 1.0 else None


# -------------------------------------------------------------------- the first pass


class _Index:
    """Where each series begins, and what is wrong with its rows."""

    def __init__(self, table: Table, layout: Layout, settings: Settings, problems: list[Problem]) -> None:
        self.table, self.layout, self.settings, self.problems = table, layout, settings, problems
        self.first: dict[str, int] = {}
        self.refused: dict[str, Problem] = {}

    def add(self, block: Block, names: list[str]) -> None:
        for place, cells in block.ragged.items():
            at = np.flatnonzero(block.places == place)
            if at.size:
                text = f"saw {cells} cells, expected {len(self.table.columns)} as in the header"
                self._report(block, int(at[0]), "", names[int(at[0])], text)
        time, unreadable = _times(block, self.layout)
        for i, seen in unreadable.items():
            wanted = "an ISO date" if self.layout.dated else "a whole number"
            self._report(block, i, self.layout.time, names[i], f"saw {seen!r}, expected {wanted}")
        sample, _ = block.numbers(self.settings.columns.sample) if self.layout.kind == "sample" else (None, {})
        for lo, hi in _runs(names):
            series = names[lo]
            if not series:
                self._report(block, lo, self.settings.columns.series, "(no name)", "saw nothing, expected a series")
                self.first.setdefault("", block.first + lo)
                continue
            if series in self.first:
                text = "the series again after others, expected its rows together"
                self._report(block, lo, self.settings.columns.series, series, text)
                continue
            self.first[series] = block.first + lo
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
        wrong = np.flatnonzero(~_regular(time, self.settings.period))
        if wrong.size:
            at = int(wrong[0]) + 1
            text = f"saw {_day(time[at])} after {_day(time[at - 1])}, expected one {self.settings.period} between them"
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
    try:
        out = np.array(texts, dtype="datetime64[s]")
    except ValueError:
        out = np.array([_date(text) for text in texts], dtype="datetime64[s]")
    return out, {i: texts[i] for i in np.flatnonzero(np.isnat(out)).tolist()}


def _date(text: str) -> Any:
    try:
        return np.datetime64(text, "s")
    except ValueError:
        return np.datetime64("NaT", "s")


def _regular(time: Any, period: str) -> NDArray[np.bool_]:
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
