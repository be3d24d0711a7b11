"""Whether the files of a log are still where they were opened.

A file that is open goes on when its name is deleted, moved or given to another one: commits would succeed, and nobody
would find them again.
"""

from __future__ import annotations

from pathlib import Path

from ucsearch.errors import RecordError

__all__ = ["Held"]


class Held:
    """The database, and its write-ahead log with its index, as they were just after they were opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0  # bytes; a log never becomes smaller
        names = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))
        self._known = {name: _identity(name) for name in names}

    def check(self) -> None:
        """Raise where another file, or none, is in the place of one of them."""
        for path, known in self._known.items():
            try:
                seen = _identity(path)
            except RecordError:
                seen = (-1, -1, -1)
            if seen[:2] != known[:2] or (path == self._path and seen[2] < self._size):
                raise RecordError(
                    f"{path}: deleted or replaced while it was open; nothing counts as recorded since. "
                    "Put it back, and open the log again"
                )
            if path == self._path:
                self._size = seen[2]


def _identity(path: Path) -> tuple[int, int, int]:
    """Device, number and size."""
    try:
        found = path.stat()
    except OSError as error:
        # SQLite has made all three by now; another connection of this process may use one that has no name any more.
        raise RecordError(f"{path}: deleted while it was open; restart what uses it") from error
    return found.st_dev, found.st_ino, found.st_size
