"""Verification of segments: every row's digest and trace, every part, the root, and a sample decided again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.entries import Row
from ucsearch.records.files import LONGEST, read_whole
from ucsearch.records.reader import AuditReader
from ucsearch.scale.segments.files import (
    DIGEST,
    LEAVES,
    MANIFEST,
    SHARED,
    Sealed,
    check_part,
    folder_of,
    manifest_of,
    part_names,
    rows_of_part,
)
from ucsearch.scale.segments.merkle import SeriesTree
from ucsearch.scale.segments.rebuild import NotAtHand, check_digests, rebuilt
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
    reader: AuditReader, *, sample: int = 0, repacked: bool = False, engine: Any = "auto",
    tasks: dict[str, Task] | None = None,
) -> Iterator[SegmentReport]:  # fmt: skip
    """Every segment of the log. `tasks` that do not ship with the package, by name, for rows that are decided again; a
    task that is not at hand raises `NotAtHand`."""
    for row, sealed in segments_of(reader):
        folder = folder_of(reader.file_of(row), sealed.run)
        yield verify_segment(folder, sealed, row.seq, sample=sample, repacked=repacked, engine=engine, tasks=tasks)


def verify_segment(
    folder: Path, sealed: Sealed, seq: int = 0, *, sample: int = 0, repacked: bool = False, engine: Any = "auto",
    tasks: dict[str, Task] | None = None,
) -> SegmentReport:  # fmt: skip
    """Recompute digests, traces and the root from the columns; `sample` rows of each part (-1: all) are decided again.
    `repacked` lets parts be other files than those that were sealed, as long as their rows are the same."""
    rows = derived = 0
    try:
        shared = _shared(folder, sealed)
        manifest = _manifest(folder, sealed)
        sealed_parts = {p.name: p for p in sealed.parts}
        names = part_names(folder)
        if not repacked:
            for name in sealed_parts:
                if name not in names:
                    raise RecordError(f"{name}: missing")
            for name in names:
                if name not in sealed_parts:
                    raise RecordError(f"{name}: a part that was not sealed")
        series: list[str] = []
        digests: list[bytes] = []
        owner: dict[str, str] = {}
        for name in names:
            found, batches = rows_of_part(folder / name)
            stored = found.table.column(DIGEST).to_pylist()
            for places, batch in batches:
                wrong = check_digests(batch, [stored[i] for i in places.tolist()], shared.sha)
                if wrong is not None:
                    raise RecordError(_place(name, int(places[wrong[0]]), batch.texts["series"][wrong[0]], wrong[1]))
            own = found.table.column("series").to_pylist()
            for i, one in enumerate(own):
                if one in owner:
                    raise RecordError(_place(name, i, one, f"the series is in {owner[one]} too"))
                owner[one] = name
            check_part(name, found, shared)
            if not repacked:
                part = sealed_parts[name]
                if len(own) != part.rows:
                    raise RecordError(f"{name}: saw {len(own)} rows, {part.rows} were sealed")
                if found.sha256 != part.sha256:
                    raise RecordError(_another_file(folder, name, own, stored))
            for places, batch in batches:
                chosen = _chosen(batch.texts["series"], sample)
                if chosen and shared.keep != "reference":
                    for one in rebuilt(batch, shared, chosen, engine=engine, tasks=tasks):
                        derived += 1
                        if one.differs:
                            told = f"column {one.differs} is not what its inputs give"
                            name_of = batch.texts["series"][one.place]
                            raise RecordError(_place(name, int(places[one.place]), name_of, told))
            series += own
            digests += stored
            rows += len(own)
        if rows != sealed.count:
            raise RecordError(f"saw {rows} rows, {sealed.count} were sealed")
        tree = SeriesTree(series, digests)
        if (root := tree.root.hex()) != sealed.root:
            raise RecordError(f"root {root[:16]} over all rows, {sealed.root[:16]} was sealed")
        if manifest != loads(manifest_of(sealed, tree)):
            raise RecordError(f"{MANIFEST}: was edited; its buckets are not those of the rows")
        held = read_whole(folder / LEAVES, max(LONGEST, 32 * rows))
        if held != b"".join(x for leaves in tree.leaves for x in leaves):
            raise RecordError(f"{LEAVES}: was edited; it is not what the rows give")
    except OSError as error:
        return SegmentReport(seq, sealed.run, rows, f"segment {sealed.run[:12]}: {error}", derived)
    except NotAtHand:  # nobody altered anything
        raise
    except RecordError as error:
        return SegmentReport(seq, sealed.run, rows, f"segment {sealed.run[:12]}: {error}", derived)
    return SegmentReport(seq, sealed.run, rows, "", derived)


def _another_file(folder: Path, name: str, series: list[str], digests: list[bytes]) -> str:
    """Digests hold, yet the bytes are others; the leaves that were sealed say which rows are new."""
    try:
        data = read_whole(folder / LEAVES)
        known = {data[i : i + 32] for i in range(0, len(data), 32)}
    except OSError:
        known = set()
    for i, (one, digest) in enumerate(zip(series, digests, strict=True)):
        if known and hashlib.sha256(b"\x00" + digest).digest() not in known:
            return _place(name, i, one, "not the row that was sealed; its digest was made again")
    return f"{name}: not the file that was sealed: its rows were put in another order, or written again"


def _place(part: str, row: int, series: str, text: str) -> str:
    return f"{part}, row {row + 1}, series {series!r}: {text}"


def _chosen(series: list[str], sample: int) -> list[int]:
    """Places of the rows that are decided again: those with the smallest hash of their name, which nobody chose."""
    if sample < 0 or sample >= len(series):
        return list(range(len(series))) if sample else []
    order = sorted(range(len(series)), key=lambda i: hashlib.sha256(b"sample\0" + series[i].encode()).digest())
    return sorted(order[:sample])


def _shared(folder: Path, sealed: Sealed) -> Shared:
    try:
        data = read_whole(folder / SHARED)
    except OSError as error:
        raise RecordError(f"{SHARED}: cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != sealed.shared:
        raise RecordError(f"{SHARED}: was edited; its SHA-256 is not the one that was sealed")
    return Shared.parse(loads(data), SHARED)


def _manifest(folder: Path, sealed: Sealed) -> Any:
    """Its content; the buckets in it are compared when all rows are known."""
    try:
        content = loads(read_whole(folder / MANIFEST))
    except OSError as error:
        raise RecordError(f"{MANIFEST}: cannot be read ({error.strerror})") from error
    except RecordError as error:
        raise RecordError(f"{MANIFEST}: was edited; {error}") from error
    own = {k: v for k, v in content.items() if k not in ("tops", "sizes")} if isinstance(content, dict) else None
    if own != loads(canonical({"schema": SCHEMA, **sealed.content()})):
        raise RecordError(f"{MANIFEST}: was edited; it is not what was sealed")
    return content
