"""Whether the log is what was recorded: digests and chain of the newest entries before the service is ready, the others
meanwhile. Entries are checked again whenever they are read. A mismatch stops everything that is decided or recorded."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from ucsearch.errors import RecordError
from ucsearch.records.chain import next_head
from ucsearch.records.entries import NOTHING, AlteredEntry, Row
from ucsearch.records.reader import AuditReader
from ucsearch.service.errors import Problem
from ucsearch.service.observability import Metrics

__all__ = ["NEWEST", "Integrity", "chain_problem"]

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
            raise Problem("log_altered", self.fault, retry_after=60)

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
