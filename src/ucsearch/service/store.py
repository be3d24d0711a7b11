"""Where the service's log is: opened to write by the writer, to read by everybody else; confirmed before the start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Checkpoint
from ucsearch.records.reader import AuditReader
from ucsearch.service.config import Store

__all__ = ["confirm", "open_log", "open_reader"]


def open_log(store: Store, folder: Path, clock: Callable[[], datetime]) -> AuditLog:
    path = folder / store.log
    if not path.exists() and (folder / store.checkpoint).exists():
        raise RecordError(f"{path}: there is a checkpoint but no log; restore it, or move {store.checkpoint} away")
    path.parent.mkdir(parents=True, exist_ok=True)
    return AuditLog(path, clock=clock, max_pages=store.max_pages)


def open_reader(store: Store, folder: Path) -> AuditReader:
    return AuditReader(folder / store.log)


def confirm(store: Store, folder: Path) -> None:
    """The log must hold what the last checkpoint saw: a tail that is shorter, or another one, is refused."""
    place = folder / store.checkpoint
    if not place.exists():
        return
    seen = Checkpoint.read(place)
    if seen.count == 0:
        return
    try:
        with open_reader(store, folder) as reader:
            found = reader.get(seen.count).head if reader.count() >= seen.count else ""
            count = reader.count()
    except RecordError as error:
        raise RecordError(f"the log does not confirm its checkpoint: {error}") from error
    if found != seen.head:
        what = f"ends at {count}" if count < seen.count else "is another one"
        raise RecordError(
            f"the log does not confirm the checkpoint {place}, taken at entry {seen.count}: it {what}; "
            "restore the newest copy, and look for what was released since"
        )
