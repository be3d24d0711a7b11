"""M5 (Walmart): daily unit sales of items in stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from ucsearch.errors import DataError
from ucsearch.lab.data.files import read_parquet
from ucsearch.lab.data.records import Finding, LoadReport, Series, SeriesSet
from ucsearch.lab.data.resolve import resolve

__all__ = ["M5_FIRST_DAY", "M5_HORIZON", "M5_MORE", "M5_STORES", "load_m5"]

M5_STORES = ("CA_1", "CA_3", "TX_1", "TX_2", "WI_1")
M5_MORE = ("CA_2", "CA_4", "TX_3", "WI_2", "WI_3")
"""440 items each, set aside for one suite: read for nothing else."""
M5_FIRST_DAY = np.datetime64("2015-03-03")
M5_HORIZON = 28  # days of the official evaluation, the last ones of the file
_DAYS = 447
_ROWS = {"m5/sales": 15245, "m5/more": 2200}


def load_m5(
    *,
    stores: Sequence[str] = M5_STORES,
    leading: Literal["zero", "trim"] = "zero",
    data_dir: str | Path | None = None,
    download: bool = False,
) -> SeriesSet:
    """Items of some `stores`, all of `M5_STORES` or all of `M5_MORE`, 447 days each. What lies before an item's first
    sale is 0, or with `leading="trim"` cut off."""
    name = "m5/more" if set(stores) & set(M5_MORE) else "m5/sales"
    known = M5_MORE if name == "m5/more" else M5_STORES
    for store in stores:
        if store not in known:
            raise DataError(f"M5 store: saw {store!r}, expected one of {', '.join(known)}")
    file = resolve(name, data_dir=data_dir, download=download)
    days = [str(M5_FIRST_DAY + i) for i in range(_DAYS)]
    table = read_parquet(file.path, ["id", *days])
    if table.num_rows != _ROWS[name]:
        raise DataError(f"{file.path}: saw {table.num_rows:,} rows, expected {_ROWS[name]:,}")
    ids = table.column("id").to_pylist()
    values = np.stack([table.column(d).to_numpy().astype(np.float64) for d in days], axis=1)  # nulls become NaN
    unknown = np.isnan(values)
    began = np.argmin(unknown, axis=1)
    if unknown.all(axis=1).any() or (unknown.sum(axis=1) != began).any():
        raise DataError(f"{file.path}: saw missing days inside a series, expected them before its first sale only")
    values[unknown] = 0.0
    found = []
    for row, item in enumerate(ids):
        store = next((s for s in known if f"_{s}" in item), "")
        if store in stores:
            y = values[row, began[row] :] if leading == "trim" else values[row]
            n_train = max(1, y.size - M5_HORIZON)
            found.append(Series(item, y, "daily", 7, M5_HORIZON, n_train, store))
    done = "set to 0" if leading == "zero" else "cut off"
    note = Finding("missing", int(unknown.sum()), f"days before the first sale of an item, {done}")
    return SeriesSet("m5", tuple(found), LoadReport((file,), (note,), subset=True))
