"""A log that is read with its segments: a row is found by series or digest and told as today's record."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import GENESIS, Row, entry_digest, next_head
from ucsearch.records.export import jsonl_line
from ucsearch.records.files import whole_file
from ucsearch.records.log import AuditReader
from ucsearch.records.merkle import climb, path_from
from ucsearch.scale.segments.audit import segments_of
from ucsearch.scale.segments.files import DIGEST, SHARED, RowPlace, Sealed, find_row, folder_of, part_names, read_part
from ucsearch.scale.segments.rebuild import rebuilt, record_of
from ucsearch.scale.segments.rows import digests_of, row_texts
from ucsearch.scale.segments.shared import Shared
from ucsearch.task import Task

__all__ = ["SegmentReader", "export_records", "row_proof"]


class SegmentReader(AuditReader):
    """Reads like an `AuditReader`; decisions of segments are entries too, whose number is their segment's and whose id
    is their row's digest."""

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 5.0, single: bool = False) -> None:
        super().__init__(path, timeout_s=timeout_s, single=single)
        self._row_blobs: dict[str, dict[str, bytes]] = {}  # of the rows that were read, by their digests
        self._tasks: dict[str, Task] = {}

    def knowing(self, tasks: Mapping[str, Task]) -> Self:
        """With tasks that do not ship with the package, by the name that records have for them."""
        self._tasks = dict(tasks)
        return self

    def _found(self, row: Row, sealed: Sealed, place: RowPlace) -> Row:
        """The row as an entry, its blobs kept for `blobs_of`."""
        shared = Shared.read(folder_of(self.file_of(row), sealed.run) / SHARED)
        rebuilt_row = next(iter(rebuilt(place.batch, shared, [place.row], tasks=self._tasks)))
        if rebuilt_row.differs:
            raise RecordError(
                f"{place.part}, series {place.batch.texts['series'][place.row]!r}: "
                f"column {rebuilt_row.differs} is not what its inputs give; verify the log"
            )
        record, blobs = record_of(rebuilt_row, place.batch.texts["series"][place.row])
        name = place.digest.hex()
        self._row_blobs[name] = blobs
        return Row(row.seq, name, name, row.head, row.written_at, canonical(record))

    def newest(self, series: str, plan: str | None = None) -> Row | None:
        entry = super().newest(series, plan)
        if plan is not None:  # rows of segments belong to none
            return entry
        for row, sealed in segments_of(self, newest_first=True):
            if entry is not None and row.seq < entry.seq:
                break
            place = find_row(folder_of(self.file_of(row), sealed.run), series)
            if place is not None:
                return self._found(row, sealed, place)
        return entry

    def get(self, id: str | int) -> Row:
        try:
            return super().get(id)
        except RecordError:
            text = str(id)
            if isinstance(id, int) or len(text) < 8 or set(text) - set("0123456789abcdef"):
                raise
            for row, sealed in segments_of(self, newest_first=True):
                place = find_row(folder_of(self.file_of(row), sealed.run), digest=text)
                if place is not None:
                    return self._found(row, sealed, place)
            raise

    def blobs_of(self, row: Row) -> dict[str, bytes]:
        blobs = self._row_blobs.get(row.id)
        return super().blobs_of(row) if blobs is None else blobs

    def overrides_of(self, row: Row) -> tuple[Row, ...]:
        """The overrides of a decision, of a segment's too, oldest first."""
        if row.id not in self._row_blobs:
            return self.overrides(row.seq)
        series = row.record["series"]
        return tuple(o for o in self.overrides(row.seq) if o.record.get("series") == series)

    def segment_of(self, row: Row) -> Sealed | None:
        """The segment that a decision is in; None for an entry of its own."""
        if row.id not in self._row_blobs:
            return None
        return Sealed.read(super().get(row.seq).record, f"entry {row.seq}")


def row_proof(folder: Path, sealed: Sealed, series: str) -> dict[str, Any]:
    """A row, and the path from its digest to the root of its part, which the entry of its segment names."""
    place = find_row(folder, series)
    if place is None:
        raise RecordError(f"series {series!r}: not in this segment")
    digests = read_part(folder / place.part, [DIGEST]).table.column(DIGEST).to_pylist()
    path = path_from(digests, digests.index(place.digest))
    row = next(islice(row_texts(place.batch), place.row, None))
    sealed_root = next((part.root for part in sealed.parts if part.name == place.part), "")
    digest = digests_of(place.batch, sealed.shared)[place.row]
    if climb(digest, path).hex() != sealed_root:
        raise RecordError(f"{place.part}, series {series!r}: not the row that was sealed; verify the log")
    return {"part": place.part, "row": row, "path": [list(step) for step in path]}


def export_records(
    reader: AuditReader, out: Path, series: Sequence[str] = (), *, engine: Any = "auto",
    tasks: dict[str, Task] | None = None,
) -> int:  # fmt: skip
    """Rows of all segments (or of some series) as JSON lines of today's records, in a chain of their own, so that the
    verifier derives each of them; returns their number."""
    count, head = 0, GENESIS
    with whole_file(out, private=True) as file:
        for record, blobs in _records(reader, series, engine, tasks):
            body = canonical(record)
            digest = entry_digest(body)
            after = next_head(head, count + 1, digest, None)
            row = Row(count + 1, record["id"], digest, after, None, body)
            file.write(jsonl_line(row, head, blobs) + b"\n")
            count, head = count + 1, after
    return count


def _records(
    reader: AuditReader, series: Sequence[str], engine: Any, tasks: dict[str, Task] | None
) -> Iterator[tuple[dict[str, Any], dict[str, bytes]]]:
    chosen = set(series)
    for row, sealed in segments_of(reader):
        folder = folder_of(reader.file_of(row), sealed.run)
        shared = Shared.read(folder / SHARED)
        for name in part_names(folder):
            for _, batch in read_part(folder / name).batches():
                names = batch.texts["series"]
                rows = [i for i, n in enumerate(names) if not chosen or n in chosen]
                for rebuilt_row in rebuilt(batch, shared, rows, engine=engine, tasks=tasks):
                    if rebuilt_row.differs:
                        raise RecordError(
                            f"{name}, series {names[rebuilt_row.place]!r}: column {rebuilt_row.differs} was altered"
                        )
                    yield record_of(rebuilt_row, names[rebuilt_row.place])
