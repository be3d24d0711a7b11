"""GEFCom2014, price track: hourly zonal electricity prices with load forecasts, for storage scheduling."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ucsearch.errors import DataError
from ucsearch.lab.data.files import parse_times, read_csv_numbers
from ucsearch.lab.data.records import Finding, LoadReport, Table, read_only
from ucsearch.lab.data.resolve import resolve

__all__ = ["GEFCOM_COLUMNS", "load_gefcom_price"]

GEFCOM_COLUMNS = ("zonal_price", "forecast_total_load", "forecast_zonal_load")  # USD/MWh, MW, MW
_ROWS = 25968


def load_gefcom_price(*, data_dir: str | Path | None = None, download: bool = False) -> Table:
    """25,968 hours from 2011-01-01. The origin labels one hour of 2013-03-10 twice and skips the next (clock change):
    the second of the two gets the time that is missing."""
    file = resolve("gefcom/price", data_dir=data_dir, download=download)
    columns, stamps, values = read_csv_numbers(file.path, time_column="timestamp", columns=GEFCOM_COLUMNS)
    if len(values) != _ROWS:
        raise DataError(f"{file.path}: saw {len(values):,} rows, expected {_ROWS:,} as published")
    time = parse_times(file.path, stamps)
    hour = np.timedelta64(1, "h")
    regular = time[0] + np.arange(_ROWS) * hour
    moved = np.flatnonzero(time != regular)
    if not (np.abs(time[moved] - regular[moved]) <= hour).all() or moved.size > 1:
        at = int(moved[0])
        raise DataError(f"{file.path}: row {at + 2}: saw time {time[at]}, expected {regular[at]}")
    found = tuple(
        Finding("relabelled", 1, f"row {i + 2}, {time[i]} for the second time, is {regular[i]}") for i in moved.tolist()
    )
    return Table("gefcom", columns, read_only(regular), read_only(values), "hourly", 24, LoadReport((file,), found))
