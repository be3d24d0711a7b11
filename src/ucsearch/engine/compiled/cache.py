"""Where compiled kernels live and how they are loaded.

Place: $UCSEARCH_CACHE_DIR, else the user's cache folder, else a private folder under the system's temporary one, else
nowhere (kernels are then compiled in memory, once per process). Clear it with `ucsearch cache clear` or by deleting
the folder. Files are named by the SHA-256 of their text and written whole, so processes that compile the same kernel
at once cannot harm each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from types import ModuleType

__all__ = ["cache_dir", "clear_cache", "forget_kernel", "is_cached", "load_kernel"]

_PREFIX = "ucsearch_kernel_"


def cache_dir() -> Path | None:
    """A writable folder of our own, made if need be; None when there is none."""
    for folder in _places():
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            info = folder.stat()
            # Code is loaded from here: it must be ours and nobody else may write to it.
            if info.st_uid == _uid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and _writable(folder):
                return folder
    return None


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
    return any(any(p.glob(f"{kernel_name(text)}.uc_panel-*.nbi")) for p in places)


def load_kernel(text: str) -> ModuleType | None:
    """Import the module that `text` is, from the cache folder; None when there is no folder."""
    name = kernel_name(text)
    if name in sys.modules:
        return sys.modules[name]
    folder = cache_dir()
    if folder is None:
        return None
    path = folder / f"{name}.py"
    try:
        if not path.exists() or path.read_text() != text:
            _write_whole(path, text)
    except OSError:
        return None
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _write_whole(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".kernel-")
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
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
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    return count
