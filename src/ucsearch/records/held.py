"""Whether the files of a log are still where they were opened.

A file that is open goes on when its name is deleted, moved or given to another one: commits would succeed, and nobody
would find them again.
"""

from __future__ import annotations

import os
from pathlib import Path

from ucsearch.errors import RecordError

__all__ = ["Held"]


class Held:
    """The database, and its write-ahead log with its index, as they were just after they were opened."""

    def __init__(self, path: Path) -> None:
        self._size = 0  # bytes; a log never becomes smaller
        names = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))
        self._known = [(str(name), *_identity(name)) for name in names]

    def check(self) -> None:
        """Raise where another file, or none, is in the place of one of them."""
        for n, (path, *known) in enumerate(self._known):
            try:
                found = os.stat(path)
            except OSError:
                found = None
            if found is None or [found.st_dev, found.st_ino] != known or (n == 0 and found.st_size < self._size):
                raise RecordError(
                    f"{path}: deleted or replaced while it was open; nothing counts as recorded since. "
                    "Put it back, and open the log again"
                )
            if n == 0:
                self._size = found.st_size


def _identity(path: Path) -> tuple[int, int]:
    """Device and number."""
    try:
        found = path.stat()
    except OSError as error:
        # SQLite has made all three by now; another connection of this process may use one that has no name any more.
        raise RecordError(f"{path}: deleted while it was open; restart what uses it") from error
    return found.st_dev, found.st_ino
