"""What is done beside the commits, because the next one would wait for it: checkpoints of the log, and SQLite's pages.

SQLite moves the pages of its write-ahead log into the file when a commit finds too many of them: every few hundred
decisions one commit took several times as long as the others, and everybody who came meanwhile waited. Here another
connection moves them while commits go on. What came since is moved by the committing thread itself, because the log
begins anew only where nothing is left; that is little.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import Entry

__all__ = ["NET", "Chores"]

_log = logging.getLogger("ucsearch.service")
_ENTRIES = 100  # between two looks at the pages
NET = 4  # times as many pages as wanted: then a commit moves them, should nobody else
_STOP_S = 10.0
_OLD_S = 3_600.0  # a checkpoint of this age is written anew where the log has gone on, however little


class Chores:
    """A thread of its own; `after` is called by the committing one."""

    def __init__(self, checkpoint: Path, every: int, pages: int) -> None:
        """`pages` that the write-ahead log should have; 0 where there is none, or another program moves them."""
        self._path, self._every, self._pages = checkpoint, every, pages
        self.count = 0  # entries of the log at the last checkpoint that was written
        self.written_at = 0.0  # time.monotonic() of it; 0 before the first
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        self._due: Checkpoint | None = None
        self._newest: Entry | None = None  # of the last commit
        self._begun_at = 0.0  # time.monotonic() of the first
        self._crowded: Path | None = None  # the file whose pages are to be moved
        self._looked = 0  # the last entry when they were looked at
        self._few_left = False
        self._stopping = False
        self._thread: threading.Thread | None = None

    def after(self, log: AuditLog, entry: Entry) -> None:
        """A commit ended with this entry."""
        now = time.monotonic()
        if self._newest is None:
            self._begun_at = now
        self._newest = entry
        if entry.seq < self.count or not self.count:  # the first of this process, or of the log's next file
            self._looked = entry.seq
            self._try_writing(Checkpoint(entry.seq, entry.head))
            return
        if self._few_left:
            self._few_left = False
            try:
                log.move_pages()
            except RecordError as error:
                _log.warning("pages not moved: %s", error)
        due = entry.seq - self.count >= self._every or now - self.written_at >= _OLD_S
        crowded = self._pages > 0 and entry.seq - self._looked >= _ENTRIES
        if due or crowded or self._thread is None:
            self._looked = entry.seq if crowded else self._looked
            with self._changed:
                self._due = Checkpoint(entry.seq, entry.head) if due else self._due
                self._crowded = Path(log.path) if crowded else self._crowded
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="ucsearch-chores", daemon=True)
                    self._thread.start()
                self._changed.notify()

    def age_s(self) -> float:
        """How long entries have waited for a checkpoint, at most: since the last one, or the first entry without one; 0
        while there is nothing that it does not hold."""
        newest = self._newest
        if newest is None or newest.seq == self.count:
            return 0.0
        return time.monotonic() - (self.written_at or self._begun_at)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def write(self, found: Checkpoint) -> None:
        """Keep a checkpoint."""
        with self._writing:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            found.write(self._path)
            self.count, self.written_at = found.count, time.monotonic()

    def _try_writing(self, found: Checkpoint) -> None:
        try:
            self.write(found)
        except (RecordError, OSError) as error:
            _log.error("the checkpoint cannot be written: %s", error)

    def _work(self) -> None:
        side: AuditLog | None = None
        while True:
            with self._changed:
                while not (self._due or self._crowded or self._stopping):
                    self._changed.wait(_OLD_S)
                    newest = self._newest
                    # Nobody may come for days: what was recorded last must not wait for the next.
                    if self._due is None and newest is not None and newest.seq != self.count and self.age_s() >= _OLD_S:
                        self._due = Checkpoint(newest.seq, newest.head)
                if self._stopping:
                    break
                due, crowded = self._due, self._crowded
                self._due = self._crowded = None
            if due is not None:
                self._try_writing(due)
            if crowded is not None:
                side = self._moved(crowded, side)
        if side is not None:
            side.close()

    def _moved(self, path: Path, side: AuditLog | None) -> AuditLog | None:
        """The connection that moved the pages, for the next time; None where it failed."""
        try:
            if side is None or Path(side.path) != path:
                if side is not None:
                    side.close()
                side = AuditLog(path)
            self._few_left = side.move_pages() >= self._pages // 2
            return side
        except RecordError as error:  # as full as the disk is for commits, which say so
            _log.warning("pages not moved: %s", error)
            if side is not None:
                side.close()
            return None
