"""Tables written whole or not at all, and files that must not be written over.

CSV is written with the standard library, Parquet needs pyarrow.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError
from ucsearch.pipeline.tables import is_parquet, pyarrow_parquet
from ucsearch.records.files import DATABASE, log_at, whole_file

__all__ = ["check_writable", "refuse_overwriting", "write_table"]

_ROW_GROUP = 50_000
_DIGITS = 12  # of a number that a person looks at
_PACKED = 5_000  # rows turned into Arrow at a time; a divisor of the row group
Rows = Iterator[Sequence[Any]]


def check_writable(path: str | Path) -> None:
    """Refuse a table that could not be written, before any work is done for it."""
    place = Path(path)
    if place.is_dir():
        raise InputError(str(path), "a folder", "the name of a file")
    if not place.parent.is_dir():
        raise InputError(str(path), f"no folder {place.parent}", "a folder that is there")
    if not os.access(place.parent, os.W_OK):
        raise InputError(str(path), f"a folder that cannot be written to, {place.parent}", "another one")
    if is_parquet(path):
        pyarrow_parquet(path)


def refuse_overwriting(
    outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None], *,
    logs: Mapping[str, str | Path | None] | None = None,
) -> None:  # fmt: skip
    """Before anything is read: no file that is written may be one that is read, a log or a part of one, or be written
    twice. `logs` are added to, and may be no other file either. Names are for the message. One file under two names (a
    link of either kind, another spelling) is still one file."""
    seen: list[tuple[str, Path]] = [(name, Path(path)) for name, path in inputs.items() if path is not None]
    added = {name: path for name, path in (logs or {}).items() if path is not None}
    for name, given in (*added.items(), *outputs.items()):
        if given is None:
            continue
        path = Path(given)
        for other_name, other in seen:
            if _same_file(path, other):
                raise InputError(name, str(path), f"another file than {other_name} ({other}), which it would replace")
        found = log_at(path)
        if found and not (name in added and found == DATABASE):
            raise InputError(name, f"{path}, {found}", "another file, because no output replaces a log")
        seen.append((name, path))


def _same_file(a: Path, b: Path) -> bool:
    try:
        if os.path.samefile(a, b):
            return True
    except OSError:  # one of them is not there yet
        pass
    try:
        return os.path.normcase(a.resolve()) == os.path.normcase(b.resolve())
    except (OSError, RuntimeError):
        return os.path.normcase(a.absolute()) == os.path.normcase(b.absolute())


def write_table(
    path: str | Path, columns: Mapping[str, type], rows: Callable[[], Rows], *, for_people: bool = False
) -> int:
    """Write rows of str, float and int, whole or not at all; None and NaN are empty. Equal rows, equal bytes. CSV
    `for_people` has twelve digits: -1.235, not -1.2349999999999999, which is the same number to a store or a purse.
    What is read back to plan on, and Parquet, has them all."""
    check_writable(path)
    with whole_file(path) as file:
        return (
            _write_parquet(file, columns, rows()) if is_parquet(path) else _write_csv(file, columns, rows(), for_people)
        )


def _write_csv(file: Any, columns: Mapping[str, type], rows: Rows, for_people: bool) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow([_csv_cell(x, for_people) for x in row])
        count += 1
    text.flush()
    text.detach()
    return count


def _csv_cell(value: Any, for_people: bool) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        text = repr(value)
        if for_people and len(text) > _DIGITS:
            text = repr(float(f"{value:.{_DIGITS}g}"))
        return text.removesuffix(".0")
    return str(value)


def _write_parquet(file: Any, columns: Mapping[str, type], rows: Rows) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
    count = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        batch: list[Sequence[Any]] = []
        held: list[Any] = []  # of the row group that is being filled: Arrow takes a fraction of Python's memory

        def pack() -> None:
            parts = zip(*batch, strict=True) if batch else [()] * len(columns)
            arrays = [pa.array(x, kind, from_pandas=True) for x, kind in zip(parts, schema.types, strict=True)]
            held.append(pa.Table.from_arrays(arrays, schema=schema))
            batch.clear()

        def flush() -> None:
            writer.write_table(pa.concat_tables(held).combine_chunks(), row_group_size=_ROW_GROUP)
            held.clear()

        for row in rows:
            batch.append(row)
            count += 1
            if len(batch) == _PACKED:
                pack()
            if count % _ROW_GROUP == 0:
                flush()
        if batch or not count:
            pack()
        if held:
            flush()
    return count
