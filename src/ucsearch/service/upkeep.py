"""What is done beside the commits, in a thread of its own: checkpoints of the log as entries come, copies of it on
their schedule, its next file when it is full, and the end of what is kept too long."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

from ucsearch.errors import RecordError, UCSearchError
from ucsearch.planner.monitor.rotate import rotate_log
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import Entry
from ucsearch.records.erasure import erase, older_than
from ucsearch.records.log import AuditReader
from ucsearch.records.log_chain import newest_file
from ucsearch.service.backups import copies_in, delete_older, name_at, taken_at
from ucsearch.service.config import Config
from ucsearch.service.notify import Notifier

__all__ = ["Upkeep"]

_log = logging.getLogger("ucsearch.service")
_STOP_S = 10.0
_OLD_S = 3_600.0  # a checkpoint of this age is written anew where the log has gone on, however little
_LOOK_S = 10.0  # between two looks at the schedule
_AGAIN_H = 1.0  # after a copy or a rotation that failed
_ERASE_H = 24.0


class Upkeep:
    """`after` is called by the committing thread."""

    def __init__(self, config: Config, folder: Path, clock: Callable[[], datetime], notifier: Notifier) -> None:
        self._checkpoint, self._every = folder / config.store.checkpoint, config.store.checkpoint_every
        self._folder, self._backup, self._store = folder, config.backup, config.store.log
        self._place = config.store.log if config.store.is_postgres else folder / config.store.log
        self._file_entries, self._days = config.rotation.entries, config.retention.days
        self._first = 0  # number of the file's first entry; 0 until it is looked up
        self._next_erasure: datetime | None = None
        self._next_rotation = 0.0  # time.monotonic(), after one that failed
        self._clock, self._notifier = clock, notifier
        self.count = 0  # entries of the log at the last checkpoint that was written
        self.written_at = 0.0  # time.monotonic() of it; 0 before the first
        self._begun_at = 0.0  # time.monotonic() of the first commit
        self._try_again_at = 0.0  # time.monotonic() after a checkpoint that could not be written
        self._newest: Entry | None = None  # of the last commit
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._not_before: datetime | None = None  # of the next copy, after one that failed
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._child: subprocess.Popen[bytes] | None = None  # that takes a copy
        self._output: IO[bytes]

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="ucsearch-upkeep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if (child := self._child) is not None:
            child.terminate()  # its copy has no name yet
        if self._thread is not None:
            self._thread.join(_STOP_S)

    # Checkpoints

    def after(self, entry: Entry) -> None:
        """A commit ended with this entry."""
        if self._newest is None:
            self._begun_at = time.monotonic()
        self._newest = entry
        if entry.seq < self.count or not self.count:  # the first of this process, or of the log's next file
            self._try_checkpoint(Checkpoint(entry.seq, entry.head))
        elif self._is_due():
            with self._changed:
                self._changed.notify()

    def checkpoint_age_s(self) -> float:
        """How long entries have waited for a checkpoint, at most: since the last one, or the first entry without one; 0
        while there is nothing that it does not hold."""
        newest = self._newest
        if newest is None or newest.seq == self.count:
            return 0.0
        return time.monotonic() - (self.written_at or self._begun_at)

    def checkpoint_state(self) -> tuple[int | None, float | None]:
        """Count of the last checkpoint that was written, and its age in seconds."""
        return (self.count, time.monotonic() - self.written_at) if self.written_at else (None, None)

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        with self._writing:
            self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
            checkpoint.write(self._checkpoint)
            self.count, self.written_at = checkpoint.count, time.monotonic()

    def _is_due(self) -> bool:
        newest = self._newest
        if newest is None or newest.seq == self.count or time.monotonic() < self._try_again_at:
            return False
        return newest.seq - self.count >= self._every or time.monotonic() - self.written_at >= _OLD_S

    def _try_checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            self.write_checkpoint(checkpoint)
        except (RecordError, OSError) as error:
            self._try_again_at = time.monotonic() + _LOOK_S
            _log.error("the checkpoint cannot be written: %s", error)

    # Copies

    def backup_age_s(self) -> float:
        """Since the newest copy; NaN where none is to be taken, infinite where there is none yet."""
        if not self._backup.folder:
            return math.nan
        times = [taken_at(path) for path in copies_in(self._folder / self._backup.folder)]
        return (self._clock() - max(times)).total_seconds() if times else math.inf

    def _begin_backup(self) -> None:
        """A copy in a process of its own: it is verified entry by entry, which takes a processor for a while."""
        place, now = self._folder / self._backup.folder, self._clock()
        self._not_before = now + timedelta(hours=min(_AGAIN_H, self._backup.every_h))
        command = [sys.executable, "-P", "-m", "ucsearch", "service", "backup", str(self._folder)]
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the child has ended
            self._child = subprocess.Popen(
                [*command, str(place / name_at(now)), "--store", self._store], stdin=subprocess.DEVNULL,
                stdout=self._output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            self._no_backup(str(error))

    def _end_backup(self, code: int) -> None:
        self._child, output = None, self._output
        output.seek(0)
        text = output.read(1 << 16).decode("utf-8", "replace").strip()
        output.close()
        if code:
            self._no_backup(text[-500:] or f"exit code {code}")
            return
        self._not_before = None
        _log.info("backup taken")
        try:
            delete_older(self._folder / self._backup.folder, self._backup.keep)
        except OSError as error:
            _log.error("older backups are not deleted: %s", error)

    def _no_backup(self, why: str) -> None:
        _log.error("no backup: %s", why)
        self._notifier.tell("backup_failed", message=why)

    def _backup_is_due(self) -> bool:
        if not self._backup.folder or (self._not_before is not None and self._clock() < self._not_before):
            return False
        return self.backup_age_s() >= 3_600.0 * self._backup.every_h

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._stopping and not self._is_due():
                    self._changed.wait(_LOOK_S)
                if self._stopping:
                    return
            newest = self._newest
            if self._is_due() and newest is not None:
                self._try_checkpoint(Checkpoint(newest.seq, newest.head))
            self.look()

    def look(self) -> None:
        """End the copy that is finished, begin the one that is due."""
        if self._child is not None:
            if (code := self._child.poll()) is not None:
                self._end_backup(code)
        elif self._backup_is_due():
            self._begin_backup()
        try:
            self._rotate()
            self._erase()
        except (UCSearchError, OSError) as error:
            _log.error("the log is not tidied up: %s", error)

    # Files and contents

    def _rotate(self) -> None:
        """Begin the log's next file where this one is full; the writer goes on there with its next commit."""
        newest = self._newest
        if not self._file_entries or newest is None or time.monotonic() < self._next_rotation:
            return
        if not self._first:
            with AuditReader(newest_file(Path(self._place)), single=True) as reader:
                self._first = reader.first()
        if newest.seq - self._first + 1 < self._file_entries:
            return
        self._next_rotation, self._first = time.monotonic() + 3_600.0 * _AGAIN_H, 0
        why = f"rotation.entries = {self._file_entries}"
        rotation = rotate_log(self._place, at=self._clock(), by="service", why=why)
        self._next_rotation = 0.0
        _log.info(
            "the log continues in another file",
            extra={"fields": {"file": rotation.new.name, "after": rotation.entries}},
        )

    def _erase(self) -> None:
        """Take away what was kept for longer than `retention.days`, once a day."""
        now = self._clock()
        if not self._days or (self._next_erasure is not None and now < self._next_erasure):
            return
        self._next_erasure = now + timedelta(hours=_ERASE_H)
        why = f"retention.days = {self._days:g}"
        erased = erase(self._place, older_than(now - timedelta(days=self._days)), at=now, by="service", why=why)
        if erased.entries:
            _log.info("contents erased", extra={"fields": erased._asdict()})
