"""The folder for compiled code, which only this user can write.

Place: $UCSEARCH_CACHE_DIR, else the user's cache folder, else a private folder under the system's temporary one, else
nowhere (code is then compiled in memory, once per process).
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cache_dir", "file_lock", "is_trusted", "write_whole"]

_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def cache_dir() -> Path | None:
    """A writable folder of our own, made if need be; None when there is none. Code is loaded from here, and by numba
    from beside it or from NUMBA_CACHE_DIR: all of it must be ours alone to write, and so must the way there."""
    custom = os.environ.get("NUMBA_CACHE_DIR")
    if custom and not _made_and_trusted(Path(custom).expanduser()):
        return None
    for folder in _places():
        if _made_and_trusted(folder) and _made_and_trusted(folder / "__pycache__", probe=False):
            return folder
    return None


def _made_and_trusted(folder: Path, probe: bool = True) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return is_trusted(folder) and (not probe or _writable(folder))
    return False


def is_trusted(folder: Path) -> bool:
    """Whether nobody but this user (and root) can put or replace anything in it, by whatever parent."""
    real = folder.resolve(strict=True)
    info = real.stat()
    if info.st_uid != _uid() or info.st_mode & _OTHERS:
        return False
    for parent in real.parents:
        info = parent.stat()
        # In a sticky folder, such as /tmp, others may add but not replace what is ours.
        if info.st_uid not in (0, _uid()) or (info.st_mode & _OTHERS and not info.st_mode & stat.S_ISVTX):
            return False
    return True


def _places() -> list[Path]:
    given = os.environ.get("UCSEARCH_CACHE_DIR")
    if given:
        return [Path(given).expanduser()]
    temporary = Path(tempfile.gettempdir()) / f"ucsearch-{_uid()}" / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # no home and an unknown user, as in some containers
        return [temporary]
    return [home / "ucsearch" / "kernels", temporary]


def _uid() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _writable(folder: Path) -> bool:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".probe-")
    os.close(handle)
    os.unlink(name)
    return True


def write_whole(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".kernel-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def file_lock(folder: Path | None, name: str) -> Iterator[None]:
    """One process at a time under this name. Ends with the process that holds it. Without a folder or locks: none."""
    try:
        import fcntl
    except ImportError:  # files are written whole, so processes at once only waste time
        folder = None
    if folder is None:
        yield
        return
    try:
        handle = os.open(folder / f".lock-{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
