"""The forecasts file: one row per series and step (and sample), checked in a first pass, streamed in a second.

The first pass reads only the keys. It finds what makes a series unusable (rows apart, twice, out of order, missing)
before anything is decided, and fixes the order of the series. The second pass reads values, a few series at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.pipeline.columns import Kind, Layout, Named, forecast_layout, sales_layout, usual_names
from ucsearch.pipeline.forecast_index import Index, runs, times_of
from ucsearch.pipeline.numbers import MISSING, number_words
from ucsearch.pipeline.periods import count_periods
from ucsearch.pipeline.tables import Block, Problem, Table, regrouped, whole_series
from ucsearch.settings import Columns, Forecast, Settings
from ucsearch.trace import Trace

__all__ = ["LARGEST", "ForecastFile", "Values", "make_trace"]

Floats = NDArray[np.float64]
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
    offset: str = field(default="", kw_only=True)  # from UTC, as the newest time is written; "" where it has none

    @classmethod
    def open(cls, table: Table, settings: Settings) -> ForecastFile:
        """The first pass."""
        names = usual_names(table, settings.columns)
        layout, problems = forecast_layout(table, names, settings, settings.fields)
        return cls._indexed(table, layout, names, settings.period, problems)

    @classmethod
    def history(
        cls, table: Table, settings: Named, period: str | None = None, fields: Sequence[str] = ()
    ) -> ForecastFile:
        """A sales file, which is laid out likewise: one row per series and step or date, with the demand, or with a
        column for each of `fields`. `period` stands in for the settings' own."""
        names, step = usual_names(table, settings.columns), period or settings.period
        layout, problems = sales_layout(table, names, settings, step, fields)
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
            offset=offset,
        )  # fmt: skip

    def values(self, start: int = 0) -> Iterator[Values]:
        """The second pass, from the series numbered `start` on, each series once and in order."""
        if start >= len(self.order):
            return
        wanted = [self.columns.series, *self.layout.values, *self.layout.extra]
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
            block.put(name, out[:, i])
        out[~(np.abs(out) <= LARGEST)] = np.nan
        if self.fills:  # a row without a number is a period without demand, as one without a row is
            for i, name in enumerate(self.layout.values):
                empty = np.flatnonzero(np.isnan(out[:, i])).tolist()
                if empty:
                    texts = block.texts(name)
                    out[[j for j in empty if texts[j].lower() in MISSING], i] = 0.0
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
            text = f"saw {repr(seen) if seen else 'nothing'}, expected {number_words(seen, block.decimal)}{limit}"
            if self.layout.values == (self.columns.demand,) and seen.lower() in MISSING:
                text += " (columns.gaps = 'zero' counts it as no demand)"
            return Problem(file, f"{unit} {block.places[lo + row]}", column, series, text)
        if self.layout.kind == "mean" and (wrong := matrix[lo:hi, 1::2] < 0.0).any():
            row, k = (int(x) for x in np.argwhere(wrong)[0])
            text = f"saw {matrix[lo + row, 2 * k + 1]:g}, expected at least 0"
            return Problem(file, f"{unit} {block.places[lo + row]}", self.layout.values[2 * k + 1], series, text)
        return None

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
        """The same with zeros for the periods that have no row, up to the last one of the file."""
        time = np.unique(times_of(block.part(lo, hi), self.layout)[0])
        last = max(span[1] for span in self.spans.values())
        place = count_periods(np.append(time, last), self.period)
        out = np.zeros((int(place[-1]) + 1, values.shape[1]))
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
