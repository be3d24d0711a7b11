"""M4 competition series: the original wide CSV files, or the long Parquet copies.

Published counts are checked; a subset is accepted only where the file is known to be one, and is
reported. Category comes from M4-info when that file is present.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.lab.data.files import BLANK, open_text, read_csv_records, read_parquet
from ucsearch.lab.data.records import Finding, LoadReport, ResolvedFile, Series, SeriesSet
from ucsearch.lab.data.resolve import resolve, resolve_optional

__all__ = ["M4_FREQUENCIES", "M4Frequency", "load_m4", "load_m4_daily_tails"]

Floats = NDArray[np.float64]
Parts = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class M4Frequency:
    """Published facts of one M4 frequency; `seasonal_period` is the competition's (for MASE)."""

    letter: str
    count: int
    horizon: int
    seasonal_period: int


M4_FREQUENCIES = {
    "yearly": M4Frequency("Y", 23000, 6, 1),
    "quarterly": M4Frequency("Q", 24000, 8, 4),
    "monthly": M4Frequency("M", 48000, 18, 12),
    "weekly": M4Frequency("W", 359, 13, 1),
    "daily": M4Frequency("D", 4227, 14, 1),
    "hourly": M4Frequency("H", 414, 48, 24),
}


def load_m4(
    frequency: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = False,
    ids: Collection[str] | None = None,
) -> SeriesSet:
    """All series of one frequency (or the given `ids`), each with its official hold-out at the end."""
    facts = _facts(frequency)
    files = [resolve(f"m4/{frequency}/{part}", data_dir=data_dir, download=download) for part in ("train", "test")]
    train, test = (_read_part(file, facts) for file in files)
    _check_counts(files[0], len(train), facts)
    categories, info = _categories(data_dir, download)
    if info is not None:
        files.append(info)
    findings = []
    subset = len(train) < facts.count
    if subset:
        findings.append(Finding("subset", len(train), files[0].note or f"{len(train):,} of {facts.count:,} series"))
    if info is None:
        findings.append(Finding("no category", len(train), "M4-info was not found; categories are empty"))
    series = _join(files[1], train, test, frequency, facts, categories, ids)
    return SeriesSet(f"m4/{frequency}", series, LoadReport(tuple(files), tuple(findings), subset))


def load_m4_daily_tails(*, data_dir: str | Path | None = None) -> SeriesSet:
    """Ends of 1,578 further daily series, NOT whole: in-sample scaling differs from the official one."""
    facts = M4_FREQUENCIES["daily"]
    files = [resolve(f"m4/daily-tail/{part}", data_dir=data_dir) for part in ("train", "test", "info")]
    train, test = _read_parquet_part(files[0].path, consecutive_from_one=False), _read_part(files[1], facts)
    rows = read_csv_records(files[2].path, ("unique_id", "category", "n_tail"))
    for at, (name, _, count) in enumerate(rows, start=2):
        if name not in train or str(train[name].size) != count:
            raise DataError(f"{files[2].path}: row {at}: {name} should have {count} values in the train part")
    series = _join(files[1], train, test, "daily", facts, {name: category for name, category, _ in rows}, None)
    finding = Finding("subset", len(series), "only the end of each train part is present")
    return SeriesSet("m4/daily-tail", series, LoadReport(tuple(files), (finding,), True))


def _facts(frequency: str) -> M4Frequency:
    if frequency not in M4_FREQUENCIES:
        raise DataError(f"M4 frequency: saw {frequency!r}, expected one of {', '.join(M4_FREQUENCIES)}")
    return M4_FREQUENCIES[frequency]


def _read_part(file: ResolvedFile, facts: M4Frequency) -> Parts:
    if file.layout == "m4-parquet":
        return _read_parquet_part(file.path)
    return _read_wide_csv(file.path, facts.letter)


def _read_parquet_part(path: Path, *, consecutive_from_one: bool = True) -> Parts:
    import pyarrow as pa
    import pyarrow.types as kinds

    table = read_parquet(path, ("unique_id", "t", "y")).combine_chunks()
    columns = {}
    for name, right, expected in (
        ("t", kinds.is_integer, "integers"),
        ("y", kinds.is_floating, "floating point numbers"),
    ):
        column = table.column(name)
        if not right(column.type):
            raise DataError(f"{path}: column {name!r}: saw type {column.type}, expected {expected}")
        if column.null_count:
            raise DataError(f"{path}: column {name!r}: saw {column.null_count} missing values, expected none")
        columns[name] = column.to_numpy()
    ids = table.column("unique_id")
    if not (kinds.is_dictionary(ids.type) or kinds.is_string(ids.type) or kinds.is_large_string(ids.type)):
        raise DataError(f"{path}: column 'unique_id': saw type {ids.type}, expected text")
    if table.num_rows == 0:
        raise DataError(f"{path}: no rows of data")
    if ids.null_count:
        raise DataError(f"{path}: column 'unique_id': saw {ids.null_count} missing values, expected none")
    if not kinds.is_dictionary(ids.type):
        ids = ids.dictionary_encode()
    packed = ids.unify_dictionaries().combine_chunks()
    chunk = packed.chunk(0) if isinstance(packed, pa.ChunkedArray) else packed
    codes = chunk.indices.to_numpy()
    names = chunk.dictionary.to_pylist()
    t = columns["t"].astype(np.int64)
    y = columns["y"].astype(np.float64)
    good = np.isfinite(y)
    if not good.all():
        at = int(np.argmin(good))
        place = f"row {at}, series {names[codes[at]]}, column 'y'"
        raise DataError(f"{path}: {place}: saw {y[at]}, expected a finite number")
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    ends = np.r_[starts[1:], codes.size]
    parts: Parts = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        name = names[codes[start]]
        if name in parts:
            raise DataError(f"{path}: row {start}: series {name} appears again; its rows must be together")
        first = 1 if consecutive_from_one else int(t[start])
        step = np.flatnonzero(t[start:end] != np.arange(first, first + end - start))
        if step.size:
            at = start + int(step[0])
            raise DataError(f"{path}: row {at}, series {name}, column 't': saw {t[at]}, expected {first + at - start}")
        parts[name] = y[start:end]
    return parts


def _read_wide_csv(path: Path, letter: str) -> Parts:
    """`V1` holds the id, `V2`, `V3`, ... the values; shorter series end in empty cells."""
    parts: Parts = {}
    with open_text(path) as text:
        reader = csv.reader(text)
        header = next(reader, [])
        if header[:2] != ["V1", "V2"]:
            raise DataError(f"{path}: row 1: saw {', '.join(header[:3]) or 'nothing'}, expected V1, V2, V3, ...")
        for row, cells in enumerate(reader, start=2):
            if len(cells) > len(header):
                raise DataError(f"{path}: row {row}: saw {len(cells)} cells, expected at most {len(header)}")
            end = len(cells)
            while end > 1 and cells[end - 1] in BLANK:
                end -= 1
            name = cells[0]
            if not name.startswith(letter) or not name[1:].isdigit():
                raise DataError(f"{path}: row {row}, column 'V1': saw {name!r}, expected an id such as {letter}1")
            if name in parts:
                raise DataError(f"{path}: row {row}: series {name} appears a second time")
            if end == 1:
                raise DataError(f"{path}: row {row}, series {name}: no values")
            parts[name] = _numbers(path, row, name, cells[1:end])
    if not parts:
        raise DataError(f"{path}: no rows of data")
    return parts


def _numbers(path: Path, row: int, name: str, cells: list[str]) -> Floats:
    values = np.empty(len(cells))
    for at, cell in enumerate(cells):
        try:
            values[at] = float(cell)
        except ValueError:
            values[at] = np.nan
        if not np.isfinite(values[at]):
            seen = "an empty cell" if cell == "" else repr(cell)
            raise DataError(f"{path}: row {row}, series {name}, column 'V{at + 2}': saw {seen}, expected a number")
    return values


def _check_counts(file: ResolvedFile, seen: int, facts: M4Frequency) -> None:
    if seen > facts.count or (file.whole and file.status == "verified" and seen != facts.count):
        raise DataError(f"{file.path}: saw {seen:,} series, expected {facts.count:,} as published")
    if file.layout == "m4-csv" and seen != facts.count:
        raise DataError(
            f"{file.path}: saw {seen:,} series, expected {facts.count:,} as published; is the file cut off?"
        )


def _categories(data_dir: str | Path | None, download: bool) -> tuple[dict[str, str], ResolvedFile | None]:
    """Category by id. Its absence is not an error: nothing but a label depends on it."""
    info = resolve_optional("m4/info", data_dir=data_dir, download=download)
    if info is None:
        return {}, None
    key = "unique_id" if info.layout == "m4-info-shared" else "M4id"
    return {row[0]: row[1] for row in read_csv_records(info.path, (key, "category"))}, info


def _join(
    test_file: ResolvedFile,
    train: Parts,
    test: Parts,
    frequency: str,
    facts: M4Frequency,
    categories: dict[str, str],
    ids: Collection[str] | None,
) -> tuple[Series, ...]:
    if train.keys() != test.keys():
        odd = sorted(train.keys() ^ test.keys())[0]
        raise DataError(f"{test_file.path}: series {odd} is in only one of the train and test parts")
    if ids is not None:
        unknown = [name for name in ids if name not in train]
        if unknown:
            raise DataError(f"m4/{frequency}: id {unknown[0]!r} is not among the {len(train):,} stored series")
    wanted = None if ids is None else frozenset(ids)
    series = []
    for name, y in train.items():
        held_out = test[name]
        if held_out.size != facts.horizon:
            raise DataError(f"{test_file.path}: series {name}: saw {held_out.size} values, expected {facts.horizon}")
        if wanted is not None and name not in wanted:
            continue
        series.append(
            Series(
                id=name,
                y=np.concatenate([y, held_out]),
                frequency=frequency,
                seasonal_period=facts.seasonal_period,
                horizon=facts.horizon,
                n_train=y.size,
                category=categories.get(name, ""),
            )
        )
    return tuple(series)
