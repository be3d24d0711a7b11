"""Verification of segments: every part is the file that was sealed, every row gives its digest, and a sample of rows
is decided again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.canonical import loads
from ucsearch.records.entries import Row
from ucsearch.records.files import read_whole
from ucsearch.records.log import AuditReader
from ucsearch.scale.segments.files import SHARED, ReadPart, Sealed, each_part, folder_of, part_names
from ucsearch.scale.segments.rebuild import NotAtHand, rebuilt
from ucsearch.scale.segments.shared import SCHEMA, Shared
from ucsearch.task import Task

__all__ = ["SegmentReport", "sealed_before", "segments_of", "verify_segment", "verify_segments"]


class SegmentReport(NamedTuple):
    """What was found about one segment."""

    seq: int
    run: str
    rows: int  # that were found good
    fault: str = ""  # "", or what is wrong and where
    derived: int = 0  # rows decided again

    @property
    def ok(self) -> bool:
        return not self.fault


def segments_of(reader: AuditReader, *, newest_first: bool = False) -> Iterator[tuple[Row, Sealed]]:
    """The segment entries of a log that name files of ours."""
    step = 100
    at = 0
    while True:
        rows = reader.list(kind="segment", limit=step, offset=at, newest_first=newest_first)
        for row in rows:
            record = row.record
            if record.get("schema") == SCHEMA and "parts" in record:
                yield row, Sealed.read(record, f"entry {row.seq}")
        if len(rows) < step:
            return
        at += step


def sealed_before(log: Path, run: str) -> Sealed | None:
    """What a log says of a run already, if anything."""
    if not log.exists():
        return None
    with AuditReader(log) as reader:
        return next((sealed for _, sealed in segments_of(reader, newest_first=True) if sealed.run == run), None)


def verify_segments(
    reader: AuditReader, *, sample: int = 0, engine: Any = "auto", tasks: dict[str, Task] | None = None
) -> Iterator[SegmentReport]:
    """Every segment of the log. `tasks` that do not ship with the package, by name, for rows that are decided again; a
    task that is not at hand raises `NotAtHand`."""
    for row, sealed in segments_of(reader):
        folder = folder_of(reader.file_of(row), sealed.run)
        yield verify_segment(folder, sealed, row.seq, sample=sample, engine=engine, tasks=tasks)


def verify_segment(
    folder: Path, sealed: Sealed, seq: int = 0, *, sample: int = 0, engine: Any = "auto",
    tasks: dict[str, Task] | None = None,
) -> SegmentReport:  # fmt: skip
    """Check every part and every row; `sample` rows of each part (-1: all) are decided again."""
    rows = derived = 0
    try:
        shared = sealed_settings(folder, sealed)
        parts = {part.name: part for part in sealed.parts}
        names = part_names(folder)
        for name in (*parts, *names):
            if name not in names:
                raise RecordError(f"{name}: missing")
            if name not in parts:
                raise RecordError(f"{name}: a part that was not sealed")
        for part_read in each_part(folder, names, shared):
            derived += _derive(part_read, shared, sample, engine, tasks)
            if part_read.part != parts[part_read.name]:
                raise RecordError(f"{part_read.name}: not the file that was sealed")
            rows += part_read.table.num_rows
        if rows != sealed.count:
            raise RecordError(f"saw {rows} rows, {sealed.count} were sealed")
    except NotAtHand:  # nobody altered anything
        raise
    except (OSError, RecordError) as error:
        return SegmentReport(seq, sealed.run, rows, f"segment {sealed.run[:12]}: {error}", derived)
    return SegmentReport(seq, sealed.run, rows, "", derived)


def _derive(part: ReadPart, shared: Shared, sample: int, engine: Any, tasks: dict[str, Task] | None) -> int:
    """Decide a sample of rows again; returns how many."""
    if shared.keep == "reference" or not sample:
        return 0
    derived = 0
    for places, batch in part.batches():
        for rebuilt_row in rebuilt(batch, shared, _chosen(batch.texts["series"], sample), engine=engine, tasks=tasks):
            derived += 1
            if rebuilt_row.differs:
                raise part.row(
                    int(places[rebuilt_row.place]), f"column {rebuilt_row.differs} is not what its inputs give"
                )
    return derived


def _chosen(series: list[str], sample: int) -> list[int]:
    """Places of the rows that are decided again: those with the smallest hash of their name, which nobody chose."""
    order = sorted(range(len(series)), key=lambda i: hashlib.sha256(b"sample\0" + series[i].encode()).digest())
    return sorted(order if sample < 0 else order[:sample])


def sealed_settings(folder: Path, sealed: Sealed) -> Shared:
    """The settings of a segment, as they were sealed."""
    try:
        data = read_whole(folder / SHARED)
    except OSError as error:
        raise RecordError(f"{SHARED}: cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != sealed.shared:
        raise RecordError(f"{SHARED}: was edited; its SHA-256 is not the one that was sealed")
    return Shared.parse(loads(data), SHARED)
