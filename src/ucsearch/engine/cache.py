"""Machine code on disk: the folder, which only this user can write, and functions of ours that are kept there.

Place: $UCSEARCH_CACHE_DIR, else the user's cache folder, else a private folder under the system's temporary one, else
nowhere (code is then compiled in memory, once per process). Clear it with `ucsearch cache --clear` or by deleting it.

    @compiled
    def loop(values): ...

Import modules with such functions inside functions: they pull Numba in. `engine/compiled/compile.py` makes kernels.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from ucsearch.engine.compiled.numba_tricks import Files

__all__ = ["FOLDER", "cache_dir", "compiled", "file_lock", "hash_function", "is_trusted"]

Function = TypeVar("Function", bound=Callable[..., Any])

FOLDER = "functions"  # within the folder for compiled code
_DIGITS = 24  # of the digest in a file's name
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("ucsearch")


def cache_dir() -> Path | None:
    """A writable folder of our own, made if need be; None when there is none. Code is loaded from here: all of it must
    be ours alone to write, and so must the way there."""
    for folder in _places():
        if _made_and_trusted(folder) and _made_and_trusted(folder / FOLDER, probe=False):
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
    folder = os.environ.get("UCSEARCH_CACHE_DIR")
    if folder:
        return [Path(folder).expanduser()]
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


# ---- functions of ours


def compiled(function: Function) -> Function:
    """Numba without the interpreter's lock, threads or fast-math: the same result on every run. Division by zero gives
    inf or nan as in NumPy. Kept on disk."""
    from numba import njit

    from ucsearch.engine.compiled.numba_tricks import OnDisk

    dispatcher: Any = njit(nogil=True, error_model="numpy")(function)
    if hasattr(dispatcher, "py_func"):  # else NUMBA_DISABLE_JIT is set
        dispatcher._cache = OnDisk(lambda: _files_of(function), function.__qualname__)
        dispatcher._compiler.compile = _told(dispatcher._compiler.compile)  # asked only where nothing is on disk
    return cast(Function, dispatcher)


def _files_of(function: Callable[..., Any]) -> Files | None:
    from ucsearch.engine.compiled.numba_tricks import Files

    folder = cache_dir()
    if folder is None:
        return None
    stamp = _stamp(function)
    name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}.{stamp[:_DIGITS]}"
    return Files(function, folder, name, stamp)


def _stamp(function: Callable[..., Any]) -> str:
    """Of the code of all functions that are compiled into this one, and of the constants that they name."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    hash_function(cast(FunctionType, function), digest, set())
    return digest.hexdigest()


def hash_function(function: FunctionType, digest: Any, seen: set[int]) -> None:
    """Feed `digest` with a function's code and all that it captures, helpers included; `seen`: ids of those fed."""
    if id(function) in seen:
        digest.update(b"again")
        return
    seen.add(id(function))
    for code in _codes(function.__code__):
        constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
        digest.update(repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants)).encode())
    digest.update(repr((function.__defaults__, function.__kwdefaults__)).encode())
    for name, value in _captured(function):
        digest.update(f"\0{name}=".encode())
        _hash_value(value, digest, seen)


def _hash_value(value: Any, digest: Any, seen: set[int]) -> None:
    if hasattr(value, "py_func"):
        digest.update(repr(sorted(value.targetoptions.items(), key=repr)).encode())
        value = value.py_func
    if isinstance(value, FunctionType):
        hash_function(value, digest, seen)
    elif isinstance(value, np.ndarray):
        digest.update(repr((value.dtype.str, value.shape)).encode() + value.tobytes())
    elif isinstance(value, tuple):
        digest.update(f"{type(value).__qualname__}({len(value)}".encode())
        for item in value:
            _hash_value(item, digest, seen)
    elif isinstance(value, type):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        for key, item in vars(value).items():
            if isinstance(item, int | float | str | tuple) and not key.startswith("__"):
                digest.update(f"\0{key}=".encode())
                _hash_value(item, digest, seen)
    elif not isinstance(value, ModuleType):
        digest.update(repr(value).encode())


def _captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What the code could mean by its names: globals, of modules among them whatever is called so, and closures."""
    names = list(dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names))
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            yield name, value
            if isinstance(value, ModuleType):
                yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names if inner in vars(value))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of what is written inside it, such as comprehensions."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


_said = threading.Event()  # one line for all functions of a process


def _told(compile_it: Callable[..., Any]) -> Callable[..., Any]:
    """Compiling takes some seconds: in a terminal a line says so, once."""

    def telling(*args: Any, **options: Any) -> Any:
        if not _said.is_set():
            _said.set()
            _log.info("compiling ucsearch's own loops")
            if sys.stderr is not None and sys.stderr.isatty():
                line = "ucsearch: compiling its own loops, once for this machine (some seconds)"
                print(line, file=sys.stderr, flush=True)
        return compile_it(*args, **options)

    return telling
