"""Limit order books: FI-2010 text files and LOBSTER CSV files.

FI-2010 (Ntakaris et al. 2018): 149 rows x N columns of numbers separated by spaces; one column per
sample, 144 features and then 5 label rows. LOBSTER: `orderbook` with 4 columns per level and no header,
`message` with one row per event; also level-1 files with a header and no time stamps.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.lab.data.files import open_text, read_csv_numbers
from ucsearch.lab.data.records import FI2010, Finding, LoadReport, OrderBook, ResolvedFile, read_only
from ucsearch.lab.data.registry import fi2010_name
from ucsearch.lab.data.resolve import resolve

__all__ = ["FI2010_DAYS", "FI2010_HORIZONS", "load_fi2010", "load_lobster", "read_fi2010", "read_lobster"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEATURES, LABELS = 144, 5
FI2010_HORIZONS = (10, 20, 30, 50, 100)
# Samples per day without auction; fold k trains on days 1..k and tests on day k + 1.
FI2010_DAYS = (39512, 38397, 28535, 37023, 34785, 39152, 37346, 55478, 52172, 31937)

EMPTY_PRICE = 9999999999  # LOBSTER's dummy for a level without orders
MESSAGE_COLUMNS = 6
LEVEL1_COLUMNS = ("ask_price_1", "ask_size_1", "bid_price_1", "bid_size_1")
# Rows commonly quoted for the free samples.
LOBSTER_ROWS = {"AAPL": 118497, "AMZN": 57515}


def load_fi2010(
    normalisation: str = "zscore",
    fold: int = 1,
    part: str = "train",
    *,
    auction: bool = False,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> FI2010:
    """One of the published files, by `normalisation` ("zscore", "minmax", "decpre"), `fold` 1 to 9 and `part` ("train"
    or "test"); `auction`: the variant that keeps auction periods."""
    name = fi2010_name(normalisation, fold, part, auction=auction)
    file = resolve(name, data_dir=data_dir, download=download)
    data = read_fi2010(file.path, name=name)
    findings = list(data.report.findings)
    if not auction:
        published = sum(FI2010_DAYS[:fold]) if part == "train" else FI2010_DAYS[fold]
        if len(data.labels) != published:
            text = f"saw {len(data.labels):,} samples, published {published:,}"
            findings.append(Finding("count differs", abs(published - len(data.labels)), text))
    report = LoadReport((file,), tuple(findings), False)
    return FI2010(name, data.features, data.labels, data.horizons, report)


def read_fi2010(path: str | Path, *, name: str = "") -> FI2010:
    """A file in the published text format, at any path."""
    path = Path(path)
    table: Floats | None = None
    row = 0
    with open_text(path) as text:
        for row, line in enumerate(text, start=1):
            cells = line.split()
            if not cells and row > FEATURES + LABELS:
                row -= 1
                break
            if row > FEATURES + LABELS:
                raise DataError(f"{path}: saw more than {FEATURES + LABELS} rows, expected exactly that many")
            if table is None:
                table = np.empty((FEATURES + LABELS, len(cells)))
            if len(cells) != table.shape[1]:
                raise DataError(f"{path}: row {row}: saw {len(cells)} numbers, expected {table.shape[1]} as in row 1")
            table[row - 1] = _line(path, row, cells)
    if table is None or row != FEATURES + LABELS or table.shape[1] == 0:
        raise DataError(f"{path}: saw {row} rows, expected {FEATURES} features and {LABELS} label rows")
    raw = table[FEATURES:]
    wrong = ~np.isin(raw, (1.0, 2.0, 3.0))
    if wrong.any():
        r, c = (int(i) for i in np.argwhere(wrong)[0])
        raise DataError(f"{path}: row {FEATURES + r + 1}, column {c + 1}: saw label {raw[r, c]:g}, expected 1, 2 or 3")
    features = read_only(np.ascontiguousarray(table[:FEATURES].T))
    return FI2010(name or path.stem, features, read_only(raw.T.astype(np.int8)), FI2010_HORIZONS)


def load_lobster(ticker: str = "AAPL", *, data_dir: str | Path | None = None, download: bool = False) -> OrderBook:
    """A free LOBSTER sample (2012-06-21, level 1), with event times where the message file is present."""
    if ticker not in LOBSTER_ROWS:
        raise DataError(f"LOBSTER ticker: saw {ticker!r}, expected one of {', '.join(LOBSTER_ROWS)}")
    book = resolve(f"lobster/{ticker}/orderbook", data_dir=data_dir, download=download)
    files: tuple[ResolvedFile, ...] = (book,)
    message: Path | None = None
    if book.layout == "lobster-orderbook":
        events = resolve(f"lobster/{ticker}/message", data_dir=data_dir, download=download)
        files = (book, events)
        message = events.path
    data = read_lobster(book.path, message, name=ticker)
    findings = list(data.report.findings)
    expected = LOBSTER_ROWS[ticker]
    if len(data.ask_price) != expected:
        text = f"saw {len(data.ask_price):,} rows, commonly quoted {expected:,}"
        findings.append(Finding("count differs", abs(expected - len(data.ask_price)), text))
    return OrderBook(
        ticker,
        data.ask_price,
        data.ask_size,
        data.bid_price,
        data.bid_size,
        data.seconds,
        data.event_type,
        LoadReport(files, tuple(findings), False),
    )


def read_lobster(orderbook: str | Path, message: str | Path | None = None, *, name: str = "") -> OrderBook:
    """An `orderbook` file (original with any number of levels, or level 1 with a header) and, where there is one, its
    `message` file."""
    path = Path(orderbook)
    with open_text(path) as text:
        has_header = re.match(r"[A-Za-z]", text.readline()) is not None
    _, _, values = read_csv_numbers(path, header=has_header, columns=LEVEL1_COLUMNS if has_header else None)
    if values.shape[1] % 4:
        raise DataError(f"{path}: saw {values.shape[1]} columns, expected 4 per level")
    whole = _integers(path, values, first_row=2 if has_header else 1)
    ask_price, ask_size, bid_price, bid_size = (whole[:, i::4] for i in range(4))
    findings = []
    empty = int((np.abs(ask_price) == EMPTY_PRICE).sum() + (np.abs(bid_price) == EMPTY_PRICE).sum())
    if empty:
        findings.append(Finding("empty level", empty, f"dummy price {EMPTY_PRICE} or its negative; size 0"))
    crossed = (ask_price[:, 0] <= bid_price[:, 0]) & (ask_size[:, 0] > 0) & (bid_size[:, 0] > 0)
    if crossed.any():
        at = int(np.argmax(crossed))
        findings.append(Finding("crossed book", int(crossed.sum()), f"ask at or below bid, first in row {at + 1}"))
    seconds, kinds = None, None
    if message is not None:
        seconds, kinds, more = _read_messages(Path(message), len(whole))
        findings += more
    return OrderBook(
        name or path.stem,
        read_only(ask_price),
        read_only(ask_size),
        read_only(bid_price),
        read_only(bid_size),
        seconds,
        kinds,
        LoadReport((), tuple(findings), False),
    )


def _read_messages(path: Path, rows: int) -> tuple[Floats, Ints, list[Finding]]:
    _, _, values = read_csv_numbers(path, header=False)
    if values.shape[1] < MESSAGE_COLUMNS:
        raise DataError(f"{path}: saw {values.shape[1]} columns, expected {MESSAGE_COLUMNS}")
    if len(values) != rows:
        raise DataError(f"{path}: saw {len(values):,} rows, expected {rows:,} as in the order book")
    seconds = values[:, 0]
    back = np.flatnonzero(np.diff(seconds) < 0)
    if back.size:
        at = int(back[0]) + 1
        raise DataError(f"{path}: row {at + 1}: saw time {seconds[at]} after {seconds[at - 1]}, expected rising times")
    kinds = _integers(path, values[:, 1:2], first_row=1)[:, 0]
    wrong = (kinds < 1) | (kinds > 7)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"{path}: row {at + 1}: saw event type {kinds[at]}, expected 1..7")
    halts = int((kinds == 7).sum())
    findings = [Finding("trading halt", halts, "events of type 7")] if halts else []
    return read_only(seconds), read_only(kinds), findings


def _integers(path: Path, values: Floats, *, first_row: int) -> Ints:
    whole = values.astype(np.int64)
    off = whole != values
    if off.any():
        r, c = (int(i) for i in np.argwhere(off)[0])
        raise DataError(f"{path}: row {r + first_row}, column {c + 1}: saw {values[r, c]}, expected a whole number")
    return whole


def _line(path: Path, row: int, cells: list[str]) -> Floats:
    try:
        numbers = np.array(cells, dtype=np.float64)
    except ValueError:
        numbers = np.array([_number_or_nan(cell) for cell in cells])
    good = np.isfinite(numbers)
    if not good.all():
        at = int(np.argmin(good))
        raise DataError(f"{path}: row {row}, column {at + 1}: saw {cells[at]!r}, expected a finite number")
    return numbers


def _number_or_nan(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
