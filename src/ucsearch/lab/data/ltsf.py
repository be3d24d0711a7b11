"""The long-term forecasting sets: weather, exchange rate, electricity, traffic.

Two public packagings are read: the CSV with a `date` column, and the bare matrix text file. What is
missing or repeated in a file is repaired in a causal way (nothing is filled from the future) and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.lab.data.files import parse_times, read_csv_numbers
from ucsearch.lab.data.records import Finding, LoadReport, ResolvedFile, Table, read_only
from ucsearch.lab.data.resolve import resolve

__all__ = ["LTSF_SETS", "LtsfSet", "load_ltsf"]

Floats = NDArray[np.float64]
Times = NDArray[np.datetime64]
Missing = Literal["previous", "nan"]

SENTINEL = -9999.0  # the weather station's mark for "no reading"


@dataclass(frozen=True, slots=True)
class LtsfSet:
    """Published shape and step of one set."""

    rows: int
    columns: int
    step_s: int
    frequency: str
    seasonal_period: int
    start: str  # first nominal time stamp, for files without any
    sentinel: float | None = None
    last_is_ot: bool = False  # the CSV packaging swaps the last two columns of the matrix file


LTSF_SETS = {
    "weather": LtsfSet(52696, 21, 600, "10min", 144, "2020-01-01T00:10:00", sentinel=SENTINEL),
    "exchange_rate": LtsfSet(7588, 8, 86400, "daily", 1, "1990-01-01T00:00:00", last_is_ot=True),
    "electricity": LtsfSet(26304, 321, 3600, "hourly", 24, "2016-07-01T02:00:00"),
    "electricity_202x1000": LtsfSet(26304, 321, 3600, "hourly", 24, "2016-07-01T02:00:00"),
    "traffic": LtsfSet(17544, 862, 3600, "hourly", 24, "2016-07-01T02:00:00"),
    "traffic_bay100_log": LtsfSet(2000, 100, 3600, "hourly", 24, "2019-10-09T06:00:00"),
}


def load_ltsf(
    name: str, *, data_dir: str | Path | None = None, download: bool = False, missing: Missing = "previous"
) -> Table:
    """One set. `missing="previous"` repeats the last reading before a missing one; "nan" leaves NaN."""
    if name not in LTSF_SETS:
        raise DataError(f"LTSF set: saw {name!r}, expected one of {', '.join(LTSF_SETS)}")
    if missing not in ("previous", "nan"):
        raise DataError(f"missing: saw {missing!r}, expected previous or nan")
    facts = LTSF_SETS[name]
    file = resolve(f"ltsf/{name}", data_dir=data_dir, download=download)
    columns, time, values = _read_matrix(file, facts) if file.layout == "matrix-txt" else _read_csv(file)
    findings = list(_check_shape(file, values, facts))
    subset = bool(findings)
    time, values, repeated = _drop_repeated(file, time, values)
    findings += repeated
    findings += _gaps(time, facts.step_s)
    if facts.sentinel is not None:
        values, marked = _replace_sentinel(file, columns, values, facts.sentinel, missing)
        findings += marked
    report = LoadReport((file,), tuple(findings), subset)
    return Table(name, columns, read_only(time), read_only(values), facts.frequency, facts.seasonal_period, report)


def _read_csv(file: ResolvedFile) -> tuple[tuple[str, ...], Times, Floats]:
    columns, stamps, values = read_csv_numbers(file.path, time_column="date")
    return columns, parse_times(file.path, stamps), values


def _read_matrix(file: ResolvedFile, facts: LtsfSet) -> tuple[tuple[str, ...], Times, Floats]:
    names, _, values = read_csv_numbers(file.path, header=False)
    if facts.last_is_ot:
        order = [*range(len(names) - 2), len(names) - 1, len(names) - 2]
        values = values[:, order]
        names = (*names[:-1], "OT")
    steps = np.arange(len(values)) * np.timedelta64(facts.step_s, "s")
    return names, np.datetime64(facts.start, "s") + steps, values


def _check_shape(file: ResolvedFile, values: Floats, facts: LtsfSet) -> list[Finding]:
    rows, columns = values.shape
    if (rows, columns) == (facts.rows, facts.columns):
        return []
    text = f"{rows:,} of {facts.rows:,} rows, {columns:,} of {facts.columns:,} columns"
    if file.whole or rows > facts.rows or columns > facts.columns:
        raise DataError(f"{file.path}: saw {text}, expected all as published")
    return [Finding("subset", columns, text)]


def _drop_repeated(file: ResolvedFile, time: Times, values: Floats) -> tuple[Times, Floats, list[Finding]]:
    """Keep the first of rows with one time stamp; a stamp that goes backwards is refused."""
    step = np.diff(time).astype(np.int64)
    if (step < 0).any():
        at = int(np.argmax(step < 0)) + 1
        raise DataError(f"{file.path}: row {at + 2}: saw time {time[at]} after {time[at - 1]}, expected rising times")
    again = np.flatnonzero(step == 0) + 1
    if not again.size:
        return time, values, []
    at = int(again[0])
    kind = "equal values" if np.array_equal(values[again], values[again - 1]) else "the first values are kept"
    finding = Finding("repeated time stamp", int(again.size), f"first at {time[at]}; later rows dropped ({kind})")
    keep = np.ones(len(time), dtype=bool)
    keep[again] = False
    return time[keep], values[keep], [finding]


def _gaps(time: Times, step_s: int) -> list[Finding]:
    step = np.diff(time).astype(np.int64)
    wide = np.flatnonzero(step != step_s)
    if not wide.size:
        return []
    at = int(wide[np.argmax(step[wide])])
    detail = f"longest {int(step[at])} s after {time[at]}; left as it is, rows are not evenly spaced there"
    return [Finding("gap", int(wide.size), detail)]


def _replace_sentinel(
    file: ResolvedFile, columns: tuple[str, ...], values: Floats, sentinel: float, missing: Missing
) -> tuple[Floats, list[Finding]]:
    bad = values == sentinel
    if not bad.any():
        return values, []
    out = values.copy()
    findings = []
    for column in np.flatnonzero(bad.any(axis=0)).tolist():
        cells = bad[:, column]
        count = int(cells.sum())
        done = "set to NaN"
        out[cells, column] = np.nan
        if missing == "previous":
            if cells[0]:
                raise DataError(f"{file.path}: column {columns[column]!r} starts with {sentinel}: no reading before it")
            source = np.maximum.accumulate(np.where(cells, 0, np.arange(cells.size)))
            out[:, column] = out[source, column]
            done = "replaced by the last reading before"
        findings.append(Finding("missing", count, f"column {columns[column]!r}: {count} cells of {sentinel:g} {done}"))
    return out, findings
