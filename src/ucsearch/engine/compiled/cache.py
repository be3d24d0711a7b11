"""Texts of kernels for the GPU as modules in the folder for compiled code, named by their SHA-256."""

from __future__ import annotations

import hashlib
import sys
from types import ModuleType

from ucsearch.engine.cache import cache_dir, write_whole

__all__ = ["kernel_name", "load_kernel"]

_PREFIX = "ucsearch_kernel_"


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
