"""Electricity Transformer Temperature: ETTh1, ETTh2 (hourly), ETTm1, ETTm2 (every 15 minutes)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ucsearch.errors import DataError
from ucsearch.lab.data.files import parse_times, read_csv_numbers
from ucsearch.lab.data.records import LoadReport, Table, read_only
from ucsearch.lab.data.resolve import resolve

__all__ = ["ETT_COLUMNS", "ETT_NAMES", "load_ett"]

ETT_COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
# name: (rows, seconds per step, frequency, steps per day)
ETT_NAMES = {
    "ETTh1": (17420, 3600, "hourly", 24),
    "ETTh2": (17420, 3600, "hourly", 24),
    "ETTm1": (69680, 900, "15min", 96),
    "ETTm2": (69680, 900, "15min", 96),
}


def load_ett(name: str, *, data_dir: str | Path | None = None, download: bool = False) -> Table:
    """One of the four files, complete: six loads and the oil temperature `OT`."""
    if name not in ETT_NAMES:
        raise DataError(f"ETT file: saw {name!r}, expected one of {', '.join(ETT_NAMES)}")
    rows, step_s, frequency, season = ETT_NAMES[name]
    file = resolve(f"ett/{name}", data_dir=data_dir, download=download)
    columns, stamps, values = read_csv_numbers(file.path, time_column="date", columns=ETT_COLUMNS)
    if len(values) != rows:
        raise DataError(f"{file.path}: saw {len(values):,} rows, expected {rows:,} as published")
    time = parse_times(file.path, stamps)
    gaps = np.flatnonzero(np.diff(time) != np.timedelta64(step_s, "s"))
    if gaps.size:
        at = int(gaps[0]) + 1
        raise DataError(f"{file.path}: row {at + 2}: saw time {time[at]}, expected {step_s} s after {time[at - 1]}")
    return Table(name, columns, read_only(time), read_only(values), frequency, season, LoadReport((file,)))
