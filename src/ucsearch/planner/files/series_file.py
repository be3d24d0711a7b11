"""A file of series (forecasts, sales, an archive): one row per series and step (and sample), read in two passes.

The first pass (`Index`) reads only the keys. It finds what makes a series unusable (rows apart, twice, out of order,
missing) before anything is decided, and fixes the order of the series. The second (`SeriesFile.values`) reads values, a
few series at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.planner.files.calendar import count_periods, day_text, infer_period, is_regular, later, on_grid
from ucsearch.planner.files.columns import (
    Kind,
    Layout,
    Named,
    forecast_layout,
    history_names,
    sales_layout,
    usual_names,
)
from ucsearch.planner.files.numbers import MISSING, date_words, number_words, offset_of, parse_dates
from ucsearch.planner.files.table import Block, Problem, Table, regrouped, whole_series
from ucsearch.planner.files.totals import is_total
from ucsearch.planner.settings import Columns, Forecast, Settings
from ucsearch.trace import Trace

__all__ = [
    "LARGEST",
    "Index",
    "SeriesFile",
    "Values",
    "make_trace",
    "runs",
    "times_of",
]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Index:
    """Filled block by block, each of whole series."""

    def __init__(self, table: Table, layout: Layout, columns: Columns, period: str, fills: bool) -> None:
        self.table, self.layout, self.columns, self.period, self.fills = table, layout, columns, period, fills
        self.problems: list[Problem] = []
        self.first: dict[str, int] = {}
        self.refused: dict[str, Problem] = {}
        self.spans: dict[str, tuple[Any, Any, int]] = {}
        self.scattered = False
        self.totals: set[str] = set()  # what rows of totals are called: they are no series
        self.newest: tuple[Any, str] | None = None  # the newest time, and the offset from UTC that it is written with

    def add(self, block: Block, names: list[str]) -> None:
        for place, cells in block.ragged.items():
            at = np.flatnonzero(block.places == place)
            if at.size:
                text = f"saw {cells} cells, expected {len(self.table.columns)} as in the header"
                self._report(block, int(at[0]), "", names[int(at[0])], text)
        time, unreadable = times_of(block, self.layout)
        told: set[str] = set()
        for i, seen in unreadable.items():
            if not seen and is_total(names[i]):
                self._leave_out(block, i, names[i])
            elif names[i] not in told:  # one of each series is enough
                told.add(names[i])
                wanted = date_words(seen, self.layout.order) if self.layout.dated else "a whole number"
                self._report(block, i, self.layout.time, names[i], f"saw {seen!r}, expected {wanted}")
        self._note_offset(block, time)
        sample, _ = block.numbers(self.columns.sample) if self.layout.kind == "sample" else (None, {})
        several = sample is not None or bool(self.layout.variable)
        for lo, hi in runs(names):
            series = names[lo]
            if series in self.totals:
                continue
            if not series:
                self._report(block, lo, self.columns.series, "(no name)", "saw nothing, expected a series")
                self.scattered |= "" in self.first
                self.first.setdefault("", block.first + lo)
                continue
            if series in self.first:
                self.scattered = True
                continue
            self.first[series] = block.first + lo
            steps = int(np.unique(time[lo:hi]).size) if several else hi - lo
            self.spans[series] = (time[lo], time[hi - 1], steps)
            if series not in self.refused:
                self._order(block, series, np.arange(lo, hi), time, sample)

    def _order(self, block: Block, series: str, rows: Ints, time: Any, sample: Floats | None) -> None:
        """Steps 1, 2, 3, ... or ascending dates; with samples, the same for each of them, and with variables, the
        same rows for each of those."""
        column = self.layout.time
        if self.layout.variable:
            first = self._variables(block, series, rows, time, sample)
            if first is None:
                return
            rows = first
        own = time[rows]
        if sample is not None:
            number = sample[rows]
            order = np.lexsort((own, number))
            same = (number[order][1:] == number[order][:-1]) & (own[order][1:] == own[order][:-1])
            if same.any():
                at = int(rows[order[1:][same][0]])
                self._report(block, at, column, series, "the same sample and step twice, expected them once")
                return
            steps = np.unique(own)
            if np.isnan(number).any() or number.size != steps.size * np.unique(number).size:
                self._report(
                    block, int(rows[0]), column, series, "samples of different steps, expected every step of each"
                )
                return
            own = steps
        if self.layout.dated:
            self._dates(block, rows, series, own)
            return
        wrong = np.flatnonzero(~(own == np.arange(1, own.size + 1)))
        if wrong.size:
            at = int(wrong[0])
            self._report(block, int(rows[at]), column, series, _step_text(own, at))

    def _variables(self, block: Block, series: str, rows: Ints, time: Any, sample: Floats | None) -> Ints | None:
        """The first variable's rows, when every step (and sample) has one row of each variable; else None."""
        fields, column = self.layout.fields, self.layout.variable
        expected = ", ".join(fields)
        names = block.part(int(rows[0]), int(rows[-1]) + 1).texts(column)
        for row, name in zip(rows.tolist(), names, strict=True):
            if name not in fields:
                seen = repr(name) if name else "nothing"
                self._report(block, row, column, series, f"saw {seen}, expected one of {expected}")
                return None
        which = np.array([fields.index(name) for name in names])
        number = np.zeros(rows.size) if sample is None else sample[rows]
        order = np.lexsort((which, number, time[rows]))
        together = (time[rows[order]][1:] == time[rows[order]][:-1]) & (number[order][1:] == number[order][:-1])
        twice = together & (which[order][1:] == which[order][:-1])
        step = "step" if sample is None else "step and sample"
        if twice.any():
            at = order[1:][twice][0]
            text = f"saw {names[at]!r} twice for the same {step}, expected it once"
            self._report(block, int(rows[at]), column, series, text)
            return None
        for group in np.split(order, np.flatnonzero(~together) + 1):
            if group.size < len(fields):
                absent = next(f for k, f in enumerate(fields) if k not in which[group])
                text = f"saw no {absent!r} for the {step} of this {self.table.unit}, expected each of {expected}"
                self._report(block, int(rows[group[0]]), column, series, text)
                return None
        first: Ints = rows[which == 0]
        return first

    def _note_offset(self, block: Block, time: Any) -> None:
        if not self.layout.dated or self.layout.wall_clock or not len(block) or np.isnat(time).all():
            return
        at = int(np.nanargmax(np.where(np.isnat(time), np.nan, time.astype(np.float64))))
        if self.newest is None or time[at] > self.newest[0]:
            self.newest = (time[at], offset_of(block.part(at, at + 1).texts(self.layout.time)[0]))

    def _dates(self, block: Block, rows: Ints, series: str, time: Any) -> None:
        gaps = np.diff(time)
        zero = np.timedelta64(0, "s")
        wrong = np.flatnonzero(~(gaps > zero))
        if wrong.size:
            at = int(wrong[0]) + 1
            text = f"saw {day_text(time[at])} after {day_text(time[at - 1])}, expected ascending dates (sort by date)"
            if (time[:at] == time[at]).any():
                text = f"saw {day_text(time[at])} twice, expected one row for each date"
                text += " (columns.add_up = true adds them up)"
            text += _clock_words(time[at - 1], time[at], self.period)
            self._report(block, int(rows[at]), self.layout.time, series, text)
            return
        wrong = np.flatnonzero(~(on_grid if self.fills else is_regular)(time, self.period))
        if wrong.size:
            at = int(wrong[0]) + 1
            text = f"saw {day_text(time[at])} after {day_text(time[at - 1])}, expected "
            text += f"whole periods of one {self.period}" if self.fills else f"one {self.period} between them"
            clock = _clock_words(time[at - 1], time[at], self.period)
            text += clock
            own = infer_period(time)
            if own not in ("any", self.period):
                text += f' (these dates are one {own} apart: period = "{own}" in the settings)'
            history = self.layout.values == (self.columns.demand,) and own in ("any", "weekday")  # filled, it is sparse
            if history and not clock and not self.fills and on_grid(time, self.period)[at - 1]:
                text += f" ({GAPS_WORDS})"
            self._report(block, int(rows[at]), self.layout.time, series, text)

    def _leave_out(self, block: Block, row: int, name: str) -> None:
        place = f"{self.table.unit} {block.places[row]}"
        self.totals.add(name)
        text = "a row of totals without a date, left out"
        self.problems.append(Problem(str(self.table.path), place, "", name, text, refuses=False))

    def _report(self, block: Block, row: int, column: str, series: str, text: str) -> None:
        place = f"{self.table.unit} {block.places[row]}"
        problem = Problem(str(self.table.path), place, column, series, text)
        self.problems.append(problem)
        self.refused.setdefault("" if series == "(no name)" else series, problem)


_CLOCKS = {"15min": 900, "30min": 1800, "hour": 3600}  # seconds of periods that a change of the clock cuts or doubles
_NIGHT = range(5)  # hours in which clocks are changed


def _clock_words(before: Any, then: Any, period: str) -> str:
    """Where an hour of the night is missing or comes twice: local times without an offset; nothing elsewhere."""
    step = _CLOCKS.get(period)
    if step is None or int(str(then)[11:13]) not in _NIGHT:
        return ""
    shift = (then - before).astype(int) - step
    if abs(shift) != 3600:
        return ""
    word = "summer" if shift > 0 else "winter"
    return f" (if clocks were put to {word} time there: write the offset, as in 2024-03-31T03:00+02:00, or UTC)"


def times_of(block: Block, layout: Layout) -> tuple[Any, dict[int, str]]:
    """(n,) steps as floats or dates as datetime64[s]; unreadable ones by index."""
    if not layout.dated:
        return block.numbers(layout.time)
    texts = block.texts(layout.time)
    out = parse_dates(texts, layout.order, wall_clock=layout.wall_clock)
    return out, {i: texts[i] for i in np.flatnonzero(np.isnat(out)).tolist()}


def _step_text(time: Floats, at: int) -> str:
    seen = f"{time[at]:g}"
    if at and time[at] in time[:at]:
        return f"saw step {seen} twice, expected {at + 1}"
    if at and time[at] < time[at - 1]:
        return f"saw step {seen} after {time[at - 1]:g}, expected ascending steps"
    return f"saw {'nothing' if np.isnan(time[at]) else 'step ' + seen}, expected step {at + 1}"


def runs(names: list[str]) -> list[tuple[int, int]]:
    """Stretches of equal neighbours."""
    if not names:
        return []
    array = np.array(names, dtype=object)
    cuts = np.flatnonzero(array[1:] != array[:-1]) + 1
    edges = [0, *cuts.tolist(), len(names)]
    return list(pairwise(edges))


GAPS_WORDS = "columns.gaps = 'zero' counts missing periods as no demand, 'unknown' as demand that is not known"
LARGEST = 1e15  # larger values could overflow in sums, and are no demand


class Values(NamedTuple):
    """One series of the second pass."""

    series: str
    # (H, K) members, mean and std or quantiles by step; of F fields (H, F K), one field after the other. None: refused.
    table: Floats | None
    cutoff: str
    issued: str
    problem: Problem | None
    model: str = ""


@dataclass(frozen=True)
class SeriesFile:
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
    fills: bool = False  # sales: periods without a row are filled
    filling: float = field(default=0.0, kw_only=True)  # with no demand, or NaN: it is not known
    offset: str = field(default="", kw_only=True)  # from UTC, as the newest time is written; "" where it has none
    totals: frozenset[str] = field(default=frozenset(), kw_only=True)  # rows of these names are no series

    @property
    def first_days(self) -> dict[str, Any]:
        """The first date of every series; nothing where the file has steps."""
        return {series: span[0] for series, span in self.spans.items()} if self.layout.dated else {}

    @classmethod
    def open(cls, table: Table, settings: Settings) -> SeriesFile:
        """The first pass."""
        names = usual_names(table, settings.columns)
        layout, problems = forecast_layout(table, names, settings, settings.fields)
        return cls._indexed(table, layout, names, settings.period, problems)

    @classmethod
    def history(
        cls, table: Table, settings: Named, period: str | None = None, fields: Sequence[str] = ()
    ) -> SeriesFile:
        """A sales file, which is laid out likewise: one row per series and step or date, with the demand, or with a
        column for each of `fields`. `period` stands in for the settings' own."""
        names, step = history_names(table, settings.columns), period or settings.period
        layout, problems = sales_layout(table, names, settings, step, fields)
        fills = names.gaps != "refuse" and layout.dated
        found = cls._indexed(table, layout, names, step, problems, fills=fills)
        return replace(found, filling=np.nan) if names.gaps == "unknown" else found

    @classmethod
    def _indexed(
        cls, table: Table, layout: Layout, names: Columns, period: str, problems: list[Problem],
        fills: bool = False,
    ) -> SeriesFile:  # fmt: skip
        keys = [names.series, layout.time]
        if layout.kind == "sample":
            keys.append(names.sample)
        if layout.variable:
            keys.append(layout.variable)
        index = Index(table, layout, names, period, fills)
        for block, series in whole_series(table, keys, names.series):
            index.add(block, series)
        if index.scattered:  # rows sorted by date, say
            table = regrouped(table, names.series)
            index = Index(table, layout, names, period, fills)
            for block, series in whole_series(table, keys, names.series):
                index.add(block, series)
        if not index.first:
            raise DataError(f"{table.path}: saw no rows, expected some for every series")
        order, first = tuple(index.first), tuple(index.first.values())
        problems = [*problems, *index.problems]
        offset = "" if index.newest is None else index.newest[1]
        return cls(
            table, layout, names, order, first, index.refused, tuple(problems), index.spans, period, fills,
            offset=offset, totals=frozenset(index.totals),
        )  # fmt: skip

    def values(self, start: int = 0) -> Iterator[Values]:
        """The second pass, from the series numbered `start` on, each series once and in order."""
        if start >= len(self.order):
            return
        wanted = [self.columns.series, *self._numbers, *self.layout.extra]
        if self.layout.kind == "sample":
            wanted += [self.layout.time, self.columns.sample]
        elif self.fills or self.layout.variable:
            wanted.append(self.layout.time)
        if self.layout.variable:
            wanted.append(self.layout.variable)
        expected = iter(self.order[start:])
        done = set(self.order[:start])
        for block, names in whole_series(self.table, wanted, self.columns.series, self.first[start]):
            matrix = self._matrix(block)
            suspect = np.logical_or(np.isnan(matrix).any(axis=1), self.layout.kind == "mean")
            notes = [block.texts(name) for name in self.layout.extra]
            for lo, hi in runs(names):
                series = names[lo]
                if series in self.totals:
                    continue
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
                yield Values(series, values, cutoff or self._before(series), issued, problem, model)

    def _before(self, series: str) -> str:
        """The period before the first date of a forecast that names no last observation; "" where there is no date."""
        if not self.layout.dated or self.period == "any" or series not in self.spans:
            return ""
        return day_text(later(self.spans[series][0], -1, self.period), self.period, self.offset)

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

    @cached_property
    def _numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return (*self.layout.values, *self.layout.beside)

    def _matrix(self, block: Block) -> Floats:
        """(n, K) values of a block, NaN where there is no usable number; columns are contiguous, as they come."""
        out = np.empty((len(self._numbers), len(block))).T
        for i, name in enumerate(self._numbers):
            block.put(name, out[:, i])
        out[~(np.abs(out) <= LARGEST)] = np.nan
        if self.fills:  # a row without a number is filled as a period without a row is
            for i, name in enumerate(self.layout.values):
                empty = np.flatnonzero(np.isnan(out[:, i])).tolist()
                if empty:
                    texts = block.texts(name)
                    out[[j for j in empty if texts[j].lower() in MISSING], i] = self.filling
        return out

    def _check(self, block: Block, matrix: Floats, lo: int, hi: int, series: str) -> Problem | None:
        """The first cell of a series that cannot be used."""
        file, unit = str(self.table.path), self.table.unit
        history = self.layout.values == (self.columns.demand,)
        known = np.flatnonzero(~np.isnan(matrix[lo:hi, 0]))
        end = int(known[-1]) if history and known.size else hi - lo  # what is empty behind it is the future
        for row, k in np.argwhere(np.isnan(matrix[lo:hi])).tolist():
            column = self._numbers[k]
            seen = block.part(lo + row, lo + row + 1).texts(column)[0]
            if seen.lower() in MISSING and (row > end or self._may_be_empty(column)):
                continue
            limit = "" if np.isnan(block.numbers(column)[0][lo + row]) else f" within {LARGEST:g} of 0"
            text = f"saw {repr(seen) if seen else 'nothing'}, expected {number_words(seen, block.decimal)}{limit}"
            if history and seen.lower() in MISSING:
                text += f" ({GAPS_WORDS})"
            return Problem(file, f"{unit} {block.places[lo + row]}", column, series, text)
        if self.layout.kind == "mean" and (wrong := matrix[lo:hi, 1::2] < 0.0).any():
            row, k = (int(x) for x in np.argwhere(wrong)[0])
            text = f"saw {matrix[lo + row, 2 * k + 1]:g}, expected at least 0"
            return Problem(file, f"{unit} {block.places[lo + row]}", self.layout.values[2 * k + 1], series, text)
        return None

    def _may_be_empty(self, column: str) -> bool:
        """Demand where gaps are not known, and whether it was met."""
        if column in self.layout.values:
            return self.fills and np.isnan(self.filling)
        return column in (self.columns.closing_stock, self.columns.out_of_stock)

    def _steps(self, block: Block, matrix: Floats, lo: int, hi: int) -> Floats:
        """(H, K): rows as they are, or turned into one column per sample and per variable."""
        if self.layout.kind != "sample" and not self.layout.variable:
            return matrix[lo:hi]
        parts = []
        for part, values in self._by_variable(block.part(lo, hi), matrix[lo:hi]):
            time, _ = times_of(part, self.layout)
            if self.layout.kind != "sample":
                parts.append(values[np.argsort(time, kind="stable")])
                continue
            order = np.lexsort((time, part.numbers(self.columns.sample)[0]))
            count = np.unique(time).size
            parts += [values[:, k][order].reshape(-1, count).T for k in range(values.shape[1])]
        return np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))

    def _by_variable(self, block: Block, matrix: Floats) -> list[tuple[Block, Floats]]:
        """The rows of each variable, in the order of the task's fields."""
        if not self.layout.variable:
            return [(block, matrix)]
        names = np.array(block.texts(self.layout.variable), dtype=object)
        places = [np.flatnonzero(names == field) for field in self.layout.fields]
        return [(block.take(rows), matrix[rows]) for rows in places]

    def _filled(self, block: Block, values: Floats, lo: int, hi: int) -> Floats:
        """The same with rows for the periods that have none, up to the last one of the file: demand is what gaps are
        filled with, what is known ahead as in the row before, and whether demand was met is not known."""
        time = np.unique(times_of(block.part(lo, hi), self.layout)[0])
        last = max(span[1] for span in self.spans.values())
        place = count_periods(np.append(time, last), self.period)
        out = np.full((int(place[-1]) + 1, values.shape[1]), self.filling)
        beside = len(self.layout.beside)
        if beside:
            before = np.searchsorted(place[:-1], np.arange(len(out)), side="right") - 1
            out[:, -beside:] = values[before, -beside:]
            stock = [i for i, c in enumerate(self.layout.beside, -beside) if self._may_be_empty(c)]
            out[:, stock] = np.nan
        out[place[:-1]] = values
        return out


def make_trace(
    tables: Floats, kind: Kind, levels: Sequence[float], how: Forecast, cutoff: Any, issued: Any, model: str = "",
    fields: int = 1,
) -> Trace:  # fmt: skip
    """One panel of (W, H, K) tables of the same layout and shape, or (W, H, F K) of F fields."""
    steps = tables[:, : how.steps] if how.steps is not None else tables
    common: dict[str, Any] = dict(model=model or how.model, cutoff=cutoff, issued=issued)
    if fields > 1:  # (W, H, K, F)
        steps = steps.reshape(*steps.shape[:2], fields, -1).transpose(0, 1, 3, 2)
        common["fields"] = fields
    if kind in ("members", "sample"):
        return Trace.from_members(steps.swapaxes(1, 2), coupling=how.coupling, **common)
    # A generator of its own for every call: what a series gets depends on no other series.
    common.update(points=how.points, method=how.method, rng=np.random.default_rng(how.seed))
    if kind == "mean":
        return Trace.from_mean(steps[:, :, 0], steps[:, :, 1], **common)
    return Trace.from_quantiles(levels, steps, crossing=how.crossing, **common)
