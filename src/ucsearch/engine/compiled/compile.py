"""Kernels in memory: loaded or compiled by one thread of one process at a time, shared by what they are made of.

While a kernel is compiled (some seconds) the logger "ucsearch" says so, and a terminal shows a line.

A kernel's name is a digest of the kernels' own files, of the rules' code and all that it captures, and of the shapes.
So machine code of other rules, or of another version of this package, is never taken for this one's.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.metadata
import logging
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.engine.cache import FOLDER, cache_dir, file_lock, hash_function
from ucsearch.engine.kernels.common import rules
from ucsearch.engine.kernels.common.jit import Numba, Plain
from ucsearch.layout import Layout, base_of
from ucsearch.rules.dialect import Refused
from ucsearch.rules.source import Unreadable, function_of
from ucsearch.task import Task

__all__ = ["LOCK", "Kernel", "KernelKind", "is_held", "is_on_disk", "keep_held", "load", "name_of", "plain"]

LOCK = threading.RLock()  # numba compiles one function at a time anyway; a half-made kernel is never seen
_log = logging.getLogger("ucsearch")
_LOCKS = 2  # hex digits: kernels whose names begin alike share a lock file
# What machine code of a kernel is made of, beside the task's rules.
_OURS = ("engine/kernels", "engine/kernels/common", "engine/compiled/numba_tricks.py", "engine/arrays.py",
         "policies.py", "rules/compile.py", "rules/checked_math.py", "spreads.py")  # fmt: skip

Entry = Callable[..., Any]


class KernelKind(NamedTuple):
    """Which kernel: the module that has its `build(rules, shape, jit)`, and what it is for."""

    module: str
    mode: int
    use_bound: bool
    pasted: bool = False  # rules become part of each caller


class Kernel:
    """A kernel that is ready to be called. It is in memory as long as somebody holds this."""

    def __init__(self, call: Entry) -> None:
        self.call = call


_loaded: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()


def load(task: Task, layout: Layout, kind: KernelKind, warm: Callable[[Entry], None], what: str) -> Kernel:
    """The kernel, from memory, from disk or compiled; `warm` calls it with no windows, which makes its machine code.
    Raises `rules.dialect.Refused` where the task's rules do not compile, and whatever numba raises."""
    with LOCK:
        name = name_of(task, layout, kind)
        kernel = _loaded.get(name)
        if kernel is not None:
            return kernel
        folder = cache_dir()
        with file_lock(folder, name[:_LOCKS]), _uncollected(), _said(what, is_on_disk(name)):
            try:
                kernel = _made(task, layout, kind, warm, name, folder, whole=False)
            except (Refused, Unreadable):
                raise
            except Exception as error:
                # An inside of numba that has changed, or damaged machine code: once more, as numba does it.
                _log.debug("compiling %s as a whole after %r", what, error)
                kernel = _made(task, layout, kind, warm, name, None, whole=True)
        _loaded[name] = kernel
        return kernel


def plain(task: Task, layout: Layout, kind: KernelKind) -> Entry:
    """The same functions as Python: for debuggers and tests."""
    return _built(task, layout, kind, Plain())


def _built(task: Task, layout: Layout, kind: KernelKind, jit: Any) -> Entry:
    functions, shape = rules.build(task, layout, kind.mode, kind.use_bound, jit)
    entry: Entry = import_module(kind.module).build(functions, shape, jit)
    return entry


def _made(
    task: Task,
    layout: Layout,
    kind: KernelKind,
    warm: Callable[[Entry], None],
    name: str,
    folder: Path | None,
    whole: bool,
) -> Kernel:
    from ucsearch.engine.compiled import (
        numba_tricks as disk,  # names of what is compiled are this process' own from here on
    )

    entry: Any = _built(task, layout, kind, Numba(whole, kind.pasted))
    if folder is not None and hasattr(entry, "py_func"):  # else NUMBA_DISABLE_JIT is set
        entry._cache = disk.OnDisk(lambda: disk.Files(entry.py_func, folder, _file(name), name), name)
    warm(entry)
    return Kernel(entry)


def _file(name: str) -> str:
    return f"kernel.{name[:32]}"


def is_on_disk(name: str) -> bool:
    """Whether loading a kernel means reading machine code rather than compiling."""
    folder = cache_dir()
    return folder is not None and (folder / FOLDER / f"{_file(name)}.nbi").exists()


def is_held(name: str) -> bool:
    """Whether a sample was held against the plain engine, on this machine."""
    folder = cache_dir()
    return folder is not None and (folder / FOLDER / f"{_file(name)}.held").exists()


def keep_held(name: str) -> None:
    folder = cache_dir()
    if folder is not None and is_on_disk(name):
        with contextlib.suppress(OSError):  # a full disk: held once more by the next process
            (folder / FOLDER / f"{_file(name)}.held").touch()


# ---- while one is made


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collections: importing numba and compiling make so many objects that stay, that looking through
    them again and again takes a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if gc.get_freeze_count() == 0:  # else somebody keeps objects there, which are not ours to move
                gc.freeze()
                gc.unfreeze()  # all are old now: the next collection of new ones does not look through them
            gc.enable()


@contextlib.contextmanager
def _said(what: str, cached: bool) -> Iterator[None]:
    """Words around what takes long; loading from disk takes some tens of milliseconds and is not worth a line."""
    if cached:
        yield
        return
    line = f"ucsearch: compiling {what}, once for this machine (some seconds)"
    terminal = sys.stderr is not None and sys.stderr.isatty()
    _log.info("compiling %s", what)
    if terminal:
        print(line, end="", file=sys.stderr, flush=True)
    started = time.perf_counter()
    try:
        yield
    finally:
        _log.info("compiled %s in %.1f s", what, time.perf_counter() - started)
        if terminal:
            print("\r" + " " * len(line) + "\r", end="", file=sys.stderr, flush=True)


# ---- what a kernel is made of


def name_of(task: Task, layout: Layout, kind: KernelKind) -> str:
    """A digest in hex. Raises `Unreadable` where a rule is no Python function."""
    digest = hashlib.sha256(_ours(kind.module))
    if task.width:  # tuples that do not pack into numbers are constants of the kernel
        digest.update(repr((task.width, base_of(task.width) if task.packs else task.actions)).encode())
    params, fill = task.params_layout, task.prepare_into
    roles = {role: function for role, function in task.functions().items() if role not in ("fallback", "invariant")}
    roles |= {f"use:{name}": function for name, function in task.uses.items()}
    if fill is not None:
        roles |= {"fill": fill.fill, "room": fill.room}
        digest.update(f"unchecked {fill.unchecked}".encode())
    layouts = [item for item in (layout, params) if item is not None]
    rows = [(item.lengths, sorted(item.whole), item.kind._fields) for item in layouts]
    outcome = None if task.outcome is None else task.outcome._fields
    grids = [item.grid for item in task.followed]
    digest.update(repr((kind, rows, outcome, grids, task.by_rest, task.by_step, sorted(task.timed))).encode())
    seen: set[int] = set()
    for role in sorted(roles):
        digest.update(f"|{role}|".encode())
        hash_function(function_of(roles[role]), digest, seen)
    return digest.hexdigest()


@lru_cache(maxsize=32)
def _ours(module: str) -> bytes:
    versions = [importlib.metadata.version(package) for package in ("numba", "llvmlite", "numpy")]
    digest = hashlib.sha256(repr((sys.version, platform.machine(), versions)).encode())
    root = Path(__file__).parents[2]
    paths = [path for part in _OURS for path in (sorted((root / part).glob("*.py")) or [root / part])]
    source = import_module(module).__file__
    for path in [*paths, Path(source or "")]:
        digest.update(path.read_bytes())
    return digest.digest()
