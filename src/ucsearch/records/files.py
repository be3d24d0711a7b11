"""Files that are either whole or absent: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ucsearch.errors import RecordError

__all__ = [
    "DATABASE",
    "LONGEST",
    "check_is_file",
    "check_owner",
    "log_at",
    "new_file",
    "present",
    "read_whole",
    "regular_file",
    "sync_folder",
    "whole_file",
]

_ADDRESS = re.compile(r"postgres(ql)?:/", re.IGNORECASE)  # a Path has one slash of them
LONGEST = 1 << 30  # bytes of a file that is read at once
DATABASE = "a log or another SQLite database"
_SQLITE = b"SQLite format 3\0"  # how a log's file begins
_BESIDE = ("-wal", "-shm", "-journal")  # files of SQLite beside it
_SEGMENTS, _SHARED = ".d", "shared.json"  # LOG.d/RUN/shared.json: segments of a log


@contextmanager
def whole_file(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[BinaryIO]:
    """A binary file to write; on a clean exit it is durable under `path`, otherwise `path` is as before. A private one
    is its owner's alone to read, and does not take the place of a symbolic link. `path` keeps the owner it has."""
    target = Path(path)
    if _is_database(target):
        raise RecordError(f"{target}: saw {DATABASE}, which no output replaces")
    if private and target.is_symlink():
        raise RecordError(f"{target}: saw a symbolic link, expected a file or nothing")
    # The name only has to be free; it never reaches the content.
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        mode = 0o600 if private else 0o666
        file = os.fdopen(new_file(part, mode, like=target if target.is_file() else None), "wb")
    except OSError as error:
        raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_folder(target.parent)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
        raise


def log_at(path: Path) -> str:
    """What of a log lies at this place, in words: its file, a file of SQLite beside it, or a segment; "" if nothing."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):  # a loop of links, which nobody can write to either
        return ""
    if _is_database(real):
        return DATABASE
    for end in _BESIDE:
        if real.name.endswith(end) and _is_database(real.with_name(real.name.removesuffix(end))):
            return "a part of a log"
    for folder in list(real.parents)[:2]:  # LOG.d/RUN/part-000000.parquet
        run = folder if folder.parent.name.endswith(_SEGMENTS) else None
        if run is not None and (run / _SHARED).is_file():
            return "a segment of a log"
    return ""


def _is_database(path: Path) -> bool:
    try:
        with regular_file(path) as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def check_is_file(path: Path) -> None:
    """Refuse a database's address in a file's place without repeating it: it may hold a password."""
    if _ADDRESS.match(str(path)):
        raise RecordError(
            "postgresql://...: saw a database's address, expected a file; `ucsearch log copy ADDRESS FILE` makes one"
        )


def present(path: Path) -> bool:
    """Whether there is something under this name; a link to nothing is something. Who may not look is told so: to take
    it for nothing would begin a new log, or start without the checkpoint."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise RecordError(f"{path}: cannot be looked at ({error.strerror})") from error
    return True


def new_file(path: Path, mode: int, like: Path | None = None) -> int:
    """A descriptor of a file that was not there before. Made by root it belongs to the owner of `like`: a service that
    runs as somebody else must still read its tokens, and write its log, after root has looked after them."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
    if like is not None and os.name == "posix" and os.geteuid() == 0:
        try:
            owner = like.stat()
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
    return descriptor


def regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A file to read from. A pipe or a device, which may never answer or never end, is an `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_whole(path: str | os.PathLike[str], most: int = LONGEST) -> bytes:
    """All bytes of a regular file; one that is longer is an `OSError`: a hole of a terabyte takes no room on a disk."""
    with regular_file(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"more than {most:,} bytes", str(path))
        return file.read(most)


def check_owner(path: Path) -> None:
    """Refuse to put a file in the place of another user's, or after it: that user could not read ours. Root gives it
    to him (`new_file`)."""
    try:
        status = path.stat()
    except OSError:
        return
    if hasattr(os, "geteuid") and os.geteuid() not in (0, status.st_uid):
        raise RecordError(f"{path}: belongs to another user; run this as that user, or as root")


def sync_folder(folder: Path) -> None:
    """Make a new or renamed entry of the folder durable (only POSIX systems can and need to)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
