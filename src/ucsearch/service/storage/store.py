"""Where the service's log is: opened, locked and confirmed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records import address as place
from ucsearch.records.chain import Checkpoint
from ucsearch.records.files import new_file, present
from ucsearch.records.log import AuditLog
from ucsearch.records.postgres import AnotherService, has_log
from ucsearch.records.reader import AuditReader
from ucsearch.service.config import Store

__all__ = [
    "confirm",
    "confirm_seen",
    "is_there",
    "open_log",
    "open_reader",
    "size_of",
]


def open_log(store: Store, folder: Path, clock: Callable[[], datetime]) -> AuditLog:
    """The log to write to. One that is gone although there is a checkpoint of it is not made anew."""
    if store.is_postgres:
        return place.open_log(store.log, clock=clock, alone=True)
    path = folder / store.log
    if not present(path) and present(folder / store.checkpoint):
        raise RecordError(f"{path}: there is a checkpoint but no log; restore it, or move {store.checkpoint} away")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{path.parent}: cannot be made ({error.strerror})") from error
    lock = _lock(path)
    try:
        log = Locked(path, clock=clock, max_pages=store.max_pages)
        log.lock, log.lock_path = lock, _lock_path(path)
        log.set_autocheckpoint(store.wal_autocheckpoint)
        if store.wal_autocheckpoint:
            log.move_pages()  # a service that is killed again and again would never come to it, and start ever slower
    except BaseException:
        os.close(lock)
        raise
    return log


class Locked(AuditLog):
    """A log that no second service opens: what a service knows of pauses and monitors, it knows from its own writes."""

    lock, lock_path = -1, Path()

    def check_place(self) -> None:
        super().check_place()
        if self.lock >= 0:
            try:
                is_ours = os.path.samestat(os.fstat(self.lock), os.stat(self.lock_path))
            except OSError:
                is_ours = False
            if not is_ours:  # a second service would take the new one
                raise RecordError(f"{self.lock_path}: deleted or replaced while the service ran")

    def close(self) -> None:
        super().close()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def _lock_path(log: Path) -> Path:
    return log.with_name(log.name + ".service")


def _lock(path: Path) -> int:
    """A lock beside the log, let go with the process that holds it."""
    try:
        with suppress(FileExistsError):
            os.close(new_file(_lock_path(path), 0o600, like=path.parent))
        handle = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RecordError(f"{path}: its folder cannot be written ({error.strerror})") from error
    try:
        import fcntl
    except ImportError:  # not on this system; two services on one file are then the user's to avoid
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise AnotherService(f"{path}: another service holds this log") from None
    return handle


def open_reader(store: Store, folder: Path) -> AuditReader:
    """Of all files of the log."""
    return place.open_reader(store.log if store.is_postgres else folder / store.log)


def is_there(store: Store, folder: Path) -> bool:
    """Whether there is a log; of a database also whether it may be written to."""
    return has_log(store.log) if store.is_postgres else present(folder / store.log)


class _Unconfirmed(RecordError):
    """It was looked at, and is not what it was."""


def confirm(store: Store, folder: Path) -> None:
    """The log must hold what the last checkpoint saw: a tail that is shorter, or another one, is refused."""
    kept = folder / store.checkpoint
    if present(kept):
        confirm_seen(store, folder, Checkpoint.read(kept), f"the checkpoint {kept}, taken")


def confirm_seen(store: Store, folder: Path, seen: Checkpoint, what: str) -> None:
    """The log must hold what was `seen` of it before, however it came back."""
    if seen.count == 0:
        return
    try:
        if not is_there(store, folder):
            raise _Unconfirmed("there is none")
        with open_reader(store, folder) as reader:
            count, found = reader.count(), reader.head_after(seen.count)
    except _Unconfirmed as error:
        raise RecordError(f"the log does not confirm {what} at entry {seen.count}: {error}") from error
    except RecordError as error:  # which says nothing about what it holds: a server may be down
        raise RecordError(f"the log cannot be compared with {what} at entry {seen.count}: {error}") from error
    if found != seen.head:
        end = f"ends at {count}" if count < seen.count else "is another one"
        raise RecordError(
            f"the log does not confirm {what} at entry {seen.count}: it {end}; "
            "restore the newest copy, and look for what was released since"
        )


def size_of(store: Store, folder: Path) -> int:
    """Bytes of all files of a log that are there, with what SQLite keeps beside them."""
    path = folder / store.log
    stem = re.escape(re.sub(r"\.[0-9]{4}$", "", path.stem))
    ours = re.compile(rf"{stem}(\.[0-9]{{4}})?{re.escape(path.suffix)}(-wal|-shm|-journal)?")
    total = 0
    with suppress(OSError):  # no folder any more; the writer says so
        for name in os.listdir(path.parent):
            if ours.fullmatch(name):
                with suppress(OSError):  # SQLite takes its files away when it is done with them
                    total += (path.parent / name).stat().st_size
    return total
