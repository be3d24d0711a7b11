"""Functions of ours that numba compiles, once for a machine: one way for all of them.

Import inside functions: this module pulls in Numba. A task's kernels are made by `ucsearch.engine.compiled`.

Numba's own cache is not used as it is, since it can hand out code that is not the function's:

- It names what it compiles by a number that counts within a process, also functions of its own, such as the sort that
  `np.sort` and `np.argsort` are made of. Two functions compiled by two processes can carry different code under one
  name; a third process that loads both runs one of them twice. So numbers begin elsewhere in every process.
- It looks at a function's own file only, not at helpers and constants of other files, which are in its code too. So the
  name of a function's file tells what all of them are.
- It takes damaged files, and folders that others can write, at their word.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import Cache, CompileResultCacheImpl, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher

from ucsearch.cachedir import cache_dir, file_lock

__all__ = ["FOLDER", "Files", "OnDisk", "compiled", "own_names"]

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger("ucsearch")
_NAMES = 47  # bits of the number that a process' names begin with
FOLDER = "functions"  # within the folder for compiled code
_DIGITS = 24  # of the digest in a file's name


def own_names() -> None:
    """Let numba's names of functions begin at a number of this process' own. Names only: no result depends on it."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(_NAMES))


own_names()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=own_names)


def compiled(function: Function) -> Function:
    """Numba without the interpreter's lock, threads or fast-math: the same result on every run. Division by zero gives
    inf or nan as in NumPy. Kept on disk."""
    made: Any = njit(nogil=True, error_model="numpy")(function)
    if isinstance(made, Dispatcher):  # else NUMBA_DISABLE_JIT is set
        made._cache = OnDisk(lambda: _files_of(function), function.__qualname__)
        made._compiler.compile = _told(made._compiler.compile)  # asked only where nothing is on disk
    return cast(Function, made)


class OnDisk(NullCache):
    """Where machine code is kept; looked for at a function's first call, when all that it uses is there."""

    def __init__(self, files: Callable[[], Files | None], name: str) -> None:
        self._make, self._name = files, name
        self._found: Files | None = None
        self._asked = False

    @property
    def cache_path(self) -> str | None:
        files = self._files()
        return None if files is None else files.cache_path

    def _files(self) -> Files | None:
        if not self._asked:
            self._asked = True
            self._found = self._make()
        return self._found

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        files = self._files()
        if files is None:
            return None
        try:
            with file_lock(files.folder, FOLDER):
                return files.load_overload(sig, target_context)
        except Exception as error:  # damaged: it is compiled again, and written over
            _log.debug("machine code of %s is not read: %r", self._name, error)
            with contextlib.suppress(OSError), file_lock(files.folder, FOLDER):
                files.flush()  # a damaged index would take nothing new
            return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        files = self._files()
        if files is None:
            return
        try:
            with file_lock(files.folder, FOLDER):  # two files, which belong together
                files.save_overload(sig, cres)
        except Exception as error:  # a full disk: the code is in memory
            _log.debug("machine code of %s is not kept: %r", self._name, error)

    def flush(self) -> None:
        files = self._files()
        if files is not None:
            files.flush()


class _Kept(CompileResultCacheImpl):
    """How compiled code is written, without numba's choice of a place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno


class Files(Cache):
    """Numba's cache in our own folder, under a name and a stamp of ours."""

    def __init__(self, function: Callable[..., Any], folder: Path, name: str, stamp: str) -> None:
        self.folder = folder
        self._name, self._py_func = repr(function), function
        self._impl = _Kept(function)
        place = folder / FOLDER
        place.mkdir(mode=0o700, exist_ok=True)
        self._cache_path = str(place)
        self._cache_file = IndexDataCacheFile(self._cache_path, name, stamp)
        self.enable()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()  # the stamp knows the code, and what it captures

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._impl.check_cachable(data):
            self._cache_file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))


def _files_of(function: Callable[..., Any]) -> Files | None:
    folder = cache_dir()
    if folder is None:
        return None
    stamp = _stamp(function)
    name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}.{stamp[:_DIGITS]}"
    return Files(function, folder, name, stamp)


def _stamp(function: Callable[..., Any]) -> str:
    """Of the files of all functions that are compiled into this one, and of the constants that they name."""
    digest = hashlib.sha256()
    texts: dict[str, bytes] = {}
    for part in _reached(function):
        path = part.__code__.co_filename
        texts.setdefault(path, Path(path).read_bytes())
        digest.update(f"{part.__module__}.{part.__qualname__}\0".encode())
        for name, value in _constants(part):
            digest.update(f"{name}={value!r}\0".encode())
    for path in texts:  # in the order in which they were met
        digest.update(hashlib.sha256(texts[path]).digest())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


def _reached(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    found: dict[int, Any] = {}
    left: list[Any] = [function]
    while left:
        part = left.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        yield part
        left.extend(value.py_func for _, value in _named(part) if isinstance(value, Dispatcher))


def _constants(function: Callable[..., Any]) -> Iterator[tuple[str, object]]:
    for name, value in _named(function):
        if isinstance(value, np.ndarray):
            yield name, (value.dtype.str, value.shape, value.tobytes())
        elif value is not None and not isinstance(value, ModuleType) and not callable(value):
            yield name, value


def _named(function: Any) -> Iterator[tuple[str, Any]]:
    """What the code could mean by its names: globals, of modules among them whatever is called so, and closures."""
    names = list(dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names))
    for name in names:
        value = function.__globals__.get(name)
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
