"""How kernels are kept in the folder for compiled code and loaded from it.

Clear it with `ucsearch cache clear` or by deleting the folder. Files are named by the SHA-256 of their text and written
whole, so processes that compile the same kernel at once cannot harm each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ucsearch.cachedir import cache_dir, write_whole

__all__ = [
    "DRIVERS",
    "clear_cache",
    "forget_kernel",
    "is_cached",
    "kernel_name",
    "load_kernel",
]

_PREFIX = "ucsearch_kernel_"
DRIVERS = "ucsearch_driver_"  # what kernels share, see split.py


def kernel_name(text: str) -> str:
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()


def is_cached(text: str) -> bool:
    """Whether machine code for this kernel is on disk (numba keeps an index file beside the module)."""
    custom = os.environ.get("NUMBA_CACHE_DIR")
    folder = _usual_dir(*(os.environ.get(name) for name in ("UCSEARCH_CACHE_DIR", "XDG_CACHE_HOME", "HOME")), custom)
    if folder is None:
        return False
    places = [folder / "__pycache__"] if not custom else list(Path(custom).glob("*"))
    return any(any(p.glob(f"{kernel_name(text)}.uc_*panel-*.nbi")) for p in places)


@lru_cache(maxsize=8)
def _usual_dir(*_: str | None) -> Path | None:
    """The folder of these variables, looked at once: for what is asked at every decision and loads nothing."""
    return cache_dir()


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
    for kept in ("__pycache__", "functions"):
        shutil.rmtree(folder / kept, ignore_errors=True)
    return count
