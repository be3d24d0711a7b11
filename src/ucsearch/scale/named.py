"""Parts that are named by what is in them, for engines that cut the work themselves; and their sealing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.requests import Request
from ucsearch.scale.job import Job
from ucsearch.segments.audit import sealed_before
from ucsearch.segments.files import (
    DIGEST,
    Sealed,
    folder_of,
    part_names,
    run_name,
    seal_folder,
    segment_record,
    write_part,
    write_shared,
)

__all__ = ["begin_parts", "seal_parts", "write_named"]


def begin_parts(job: Job, log: str | Path, inputs: Sequence[str] = ()) -> Path:
    """The folder of a new run, with its settings. `inputs` says what it works on, such as a table's version."""
    shared = job.checked("that begins")
    folder = folder_of(Path(log), run_name(shared, list(inputs)))
    write_shared(folder, shared)
    return folder


def write_named(table: Any, job: Job, folder: str | Path) -> tuple[str, int]:
    """Write rows under a name made of their digests; returns it and their number."""
    digests = table.column(DIGEST).to_pylist()
    name = f"part-{hashlib.sha256(b''.join(digests)).hexdigest()}.parquet"
    place = Path(folder) / name
    if not place.exists():
        write_part(place, table, job.checked("that writes a part"))
    return name, len(digests)


def seal_parts(job: Job, folder: str | Path, log: str | Path, parts: Sequence[str], *, clock: Any = None) -> Sealed:
    """Close the run: these parts, no series twice. A part that nobody named is what a task left that was given up after
    it had written, and is removed."""
    place, names = Path(folder), sorted(set(parts))
    before = sealed_before(Path(log), place.name)
    if before is not None and (lost := {part.name for part in before.parts} - set(names)):
        raise RecordError(f"{min(lost)}: was sealed as a part of this run, and is not named now")
    for name in set(part_names(place)) - set(names):
        (place / name).unlink()
    sealed = seal_folder(place, place.name, names, before)
    with AuditLog(log, clock=clock) as book:
        book.append(segment_record(sealed, "ucsearch.scale", Request(sealed.run, body=job.digest, by="ucsearch.scale")))
    return sealed
