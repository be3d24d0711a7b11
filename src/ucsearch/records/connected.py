"""A log's file held open: by one process, for one piece of work at a time, its failures put into words."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from ucsearch.errors import RecordError
from ucsearch.records.store import connect, explain

__all__ = ["Connected"]


class Connected:
    """What readers and writers of a log have in common."""

    def _open(self, path: str | os.PathLike[str], timeout_s: float, *, read_only: bool, max_pages: int | None) -> None:
        self.path = Path(path)
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection = connect(self.path, timeout_s=timeout_s, read_only=read_only, max_pages=max_pages)

    def close(self) -> None:
        """Close the file; `with` does it."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """The connection for one piece of work: alone, undone on failure, failures put into words."""
        if os.getpid() != self._process:
            # SQLite's locks do not survive a fork; using it here could damage the file.
            raise RecordError(f"{self.path}: the log was opened in another process; open it again in this one")
        with self._lock:
            try:
                yield self._connection
            except BaseException as error:
                self._undo()
                if isinstance(error, sqlite3.Error):
                    raise explain(self.path, error, self._timeout_s) from error
                raise

    def _undo(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection whose state is unknown must not be used again; the file itself is safe.
            self._connection.close()
