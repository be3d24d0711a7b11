"""Where compiled kernels live and how they are loaded.

Place: $UCSEARCH_CACHE_DIR, else the user's cache folder, else a private folder under the system's temporary one, else
nowhere (kernels are then compiled in memory, once per process). Clear it with `ucsearch cache clear` or by deleting
the folder. Files are named by the SHA-256 of their text and written whole, so processes that compile the same kernel
at once cannot harm each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = [
    "DRIVERS",
    "cache_dir",
    "clear_cache",
    "forget_kernel",
    "is_cached",
    "kernel_name",
    "load_kernel",
    "write_whole",
]

_PREFIX = "ucsearch_kernel_"
DRIVERS = "ucsearch_driver_"  # what kernels share, see split.py
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


def kernel_name(text: str) -> str:
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()


def is_cached(text: str) -> bool:
    """Whether machine code for this kernel is on disk (numba keeps an index file beside the module)."""
    folder = cache_dir()
    if folder is None:
        return False
    custom = os.environ.get("NUMBA_CACHE_DIR")
    places = [folder / "__pycache__"] if not custom else list(Path(custom).glob("*"))
    return any(any(p.glob(f"{kernel_name(text)}.uc_*panel-*.nbi")) for p in places)


def load_kernel(text: str, given: dict[str, Any] | None = None) -> ModuleType | None:
    """Import the module that `text` is, from the cache folder; None when there is no folder. `given`: how to compile it
    faster, if at all."""
    name = kernel_name(text)
    if name in sys.modules:
        return sys.modules[name]
    folder = cache_dir()
    if folder is None:
        return None
    path = folder / f"{name}.py"
    try:
        if not path.exists() or path.read_text() != text:
            write_whole(path, text.encode())
    except OSError:
        return None
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["uc_given"] = given
    sys.modules[name] = module
    try:
        # The text itself: the import system would rather run a .pyc that it finds beside the file.
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


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


def forget_kernel(text: str) -> None:
    """Drop the machine code of one kernel, which may be damaged; the text can always be compiled again."""
    name = kernel_name(text)
    sys.modules.pop(name, None)
    folder = cache_dir()
    custom = os.environ.get("NUMBA_CACHE_DIR")
    places = [folder / "__pycache__"] if folder is not None else []
    for place in [*places, *(Path(custom).glob("*") if custom else ())]:
        for path in place.glob(f"{name}.*.nb*"):
            path.unlink(missing_ok=True)


def clear_cache() -> int:
    """Delete every cached kernel; returns how many modules there were."""
    folder = cache_dir()
    if folder is None:
        return 0
    count = 0
    for path in folder.glob(f"{_PREFIX}*.py"):
        path.unlink(missing_ok=True)
        count += 1
    for pattern in (".lock-*", f"{DRIVERS}*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    return count
