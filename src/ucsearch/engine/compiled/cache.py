"""The folder for compiled code, and texts of kernels for the GPU that are kept there.

Clear it with `ucsearch cache clear` or by deleting the folder. Files are named by the SHA-256 of their text and written
whole, so processes that compile the same kernel at once cannot harm each other.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from types import ModuleType

from ucsearch.cachedir import cache_dir, write_whole

__all__ = ["clear_cache", "kernel_name", "load_kernel"]

_PREFIX = "ucsearch_kernel_"
_FUNCTIONS = "functions"  # where machine code is, see ucsearch.jit


def kernel_name(text: str) -> str:
    return _PREFIX + hashlib.sha256(text.encode()).hexdigest()


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
            write_whole(path, text.encode())
    except OSError:
        return None
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        # The text itself: the import system would rather run a .pyc that it finds beside the file.
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def clear_cache() -> int:
    """Delete all compiled code; returns how many kernels there were."""
    folder = cache_dir()
    if folder is None:
        return 0
    texts = list(folder.glob(f"{_PREFIX}*.py"))
    count = len(texts) + len(list((folder / _FUNCTIONS).glob("kernel.*.nbi")))
    for path in [*texts, *folder.glob(".lock-*")]:
        path.unlink(missing_ok=True)
    for kept in ("__pycache__", _FUNCTIONS):
        shutil.rmtree(folder / kept, ignore_errors=True)
    return count
