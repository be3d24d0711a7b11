"""The log on disk: opened, locked, compared with its checkpoint, and its digests checked.

The newest entries are checked before the service is ready, the others meanwhile, and every entry again when it is read.
A mismatch stops everything that is decided or recorded."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records import log as records_log
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import NOTHING, AlteredEntry, Row, next_head
from ucsearch.records.files import new_file, present
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.records.postgres import AnotherService, has_log
from ucsearch.service.config import Store
from ucsearch.service.errors import ApiProblem
from ucsearch.service.observability import Metrics

__all__ = [
    "NEWEST",
    "Integrity",
    "chain_problem",
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
        return records_log.open_log(store.log, clock=clock, alone=True)
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
    return records_log.open_reader(store.log if store.is_postgres else folder / store.log)


def is_there(store: Store, folder: Path) -> bool:
    """Whether there is a log; of a database also whether it may be written to."""
    return has_log(store.log) if store.is_postgres else present(folder / store.log)


class _Unconfirmed(RecordError):
    """It was looked at, and is not what it was."""


def confirm(store: Store, folder: Path) -> None:
    """The log must hold what the last checkpoint saw: a tail that is shorter, or another one, is refused."""
    checkpoint_file = folder / store.checkpoint
    if present(checkpoint_file):
        confirm_seen(store, folder, Checkpoint.read(checkpoint_file), f"the checkpoint {checkpoint_file}, taken")


def confirm_seen(store: Store, folder: Path, checkpoint: Checkpoint, what: str) -> None:
    """The log must hold what was `seen` of it before, however it came back."""
    if checkpoint.count == 0:
        return
    try:
        if not is_there(store, folder):
            raise _Unconfirmed("there is none")
        with open_reader(store, folder) as reader:
            count, head = reader.count(), reader.head_after(checkpoint.count)
    except _Unconfirmed as error:
        raise RecordError(f"the log does not confirm {what} at entry {checkpoint.count}: {error}") from error
    except RecordError as error:  # which says nothing about what it holds: a server may be down
        raise RecordError(f"the log cannot be compared with {what} at entry {checkpoint.count}: {error}") from error
    if head != checkpoint.head:
        end = f"ends at {count}" if count < checkpoint.count else "is another one"
        raise RecordError(
            f"the log does not confirm {what} at entry {checkpoint.count}: it {end}; "
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


_log = logging.getLogger("ucsearch.service")
NEWEST = 10_000  # entries that are checked before the service is ready
_PART = 200  # entries between two pauses of the thread
_SHARE = 0.1  # of a processor that it takes


def chain_problem(rows: Iterable[Row], seq: int, head: str) -> str:
    """What is wrong with entries that follow so many others, under the chain's head after them; "" where nothing is."""
    try:
        for row in rows:  # the reader checks their digests
            seq += 1
            if row.seq != seq:
                return f"entry {seq}: is missing; the next one present is entry {row.seq}"
            head = next_head(head, seq, row.digest, row.written_at)
            if row.head != head:
                return f"entry {seq}: does not follow from the entry before it"
            if row.body != NOTHING and f'"id":"{row.id}"'.encode() not in row.body:
                return f"entry {seq}: its content does not match its id"
    except AlteredEntry as error:
        return str(error)
    return ""


class Integrity:
    """Of one service; `fault` says what is wrong."""

    def __init__(self, metrics: Metrics, tell: Callable[[str], None]) -> None:
        """`tell` is called once, with what is wrong."""
        self._metrics, self._tell = metrics, tell
        self.fault = ""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def check(self) -> None:
        """Raise where the log was found altered."""
        if self.fault:
            raise ApiProblem("log_altered", self.fault, retry_after=60)

    def report(self, fault: str) -> None:
        """It was found altered."""
        with self._lock:
            if self.fault:
                return
            self.fault = fault
        self._metrics.log_altered.set(1)
        _log.error("the log is not what was recorded: %s", fault)
        self._tell(fault)

    def start(self, open_log: Callable[[], AuditReader]) -> None:
        """Check the newest entries, and raise where they are wrong; then the others, in a thread."""
        self._metrics.log_altered.set(0)
        with open_log() as log:
            last = log.count()
            first = max(1, log.first(), last - NEWEST + 1)
            if problem := chain_problem(log.rows(first, last), first - 1, log.head_after(first - 1)):
                raise RecordError(f"the log is not what was recorded: {problem}; `ucsearch service check` says more")
        self._metrics.log_checked.set(last - first + 1)
        self._thread = threading.Thread(
            target=self._check_older, args=(open_log, first - 1), name="ucsearch-integrity", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _check_older(self, open_log: Callable[[], AuditReader], last: int) -> None:
        """What is older than the newest entries."""
        try:
            with open_log() as log:
                self._check_up_to(log, last)
        except RecordError as error:
            _log.warning("older entries are not all checked: %s", error)

    def _check_up_to(self, log: AuditReader, last: int) -> None:
        for first in range(max(1, log.first()), last + 1, _PART):
            started = time.monotonic()
            end = min(first + _PART - 1, last)
            if problem := chain_problem(log.rows(first, end), first - 1, log.head_after(first - 1)):
                self.report(problem)
                return
            self._metrics.log_checked.inc(end - first + 1)
            if self._stopping.wait((time.monotonic() - started) * (1.0 / _SHARE - 1.0)):
                return
