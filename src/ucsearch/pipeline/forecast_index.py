"""The first pass over a forecasts or sales file: where each series begins, and what is wrong with its rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.pipeline.columns import Layout
from ucsearch.pipeline.numbers import date_words, offset_of, parse_dates
from ucsearch.pipeline.periods import day_text, infer_period, is_regular, on_grid
from ucsearch.pipeline.tables import Block, Problem, Table
from ucsearch.settings import Columns

__all__ = ["Index", "runs", "times_of"]

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
        self.newest: tuple[Any, str] | None = None  # the newest time, and the offset from UTC that it is written with

    def add(self, block: Block, names: list[str]) -> None:
        for place, cells in block.ragged.items():
            at = np.flatnonzero(block.places == place)
            if at.size:
                text = f"saw {cells} cells, expected {len(self.table.columns)} as in the header"
                self._report(block, int(at[0]), "", names[int(at[0])], text)
        time, unreadable = times_of(block, self.layout)
        for i, seen in unreadable.items():
            wanted = date_words(seen, self.layout.order) if self.layout.dated else "a whole number"
            self._report(block, i, self.layout.time, names[i], f"saw {seen!r}, expected {wanted}")
        self._note_offset(block, time)
        sample, _ = block.numbers(self.columns.sample) if self.layout.kind == "sample" else (None, {})
        several = sample is not None or bool(self.layout.variable)
        for lo, hi in runs(names):
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
                text = f"saw {day_text(time[at])} twice, expected one row for each date: add up or drop the others"
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
                text += " (columns.gaps = 'zero' counts missing periods as no demand)"
            self._report(block, int(rows[at]), self.layout.time, series, text)

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
