"""Kernels in memory: loaded or compiled by one thread of one process at a time, shared by text, let go with a task.

While a kernel is compiled (a few seconds) the logger "ucsearch" says so, and a terminal shows a line.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ucsearch.cachedir import cache_dir, file_lock
from ucsearch.engine.compiled.cache import forget_kernel, is_cached, kernel_name, load_kernel
from ucsearch.engine.compiled.quick import load_machine_code

__all__ = ["LOCK", "Loaded", "load_or_compile", "said", "uncollected"]

LOCK = threading.RLock()  # numba compiles one function at a time anyway; a half-made kernel is never seen
_log = logging.getLogger("ucsearch")
_LOCKS = 2  # hex digits: kernels whose names begin alike share a lock file


class Loaded:
    """A kernel that is ready to be called. Who holds this keeps its module loaded."""

    def __init__(self, call: Callable[..., Any], name: str = "") -> None:
        self.call = call
        if name:  # numba looks a module up by its name as long as its functions may be compiled
            weakref.finalize(self, sys.modules.pop, name, None)


_loaded: weakref.WeakValueDictionary[str, Loaded] = weakref.WeakValueDictionary()


def load_or_compile(
    text: str | None,
    in_memory: Callable[[dict[str, Any] | None], Callable[..., Any]],
    warm: Callable[[Callable[..., Any]], None],
    what: str,
) -> Loaded:
    """The kernel of this text, else of the function objects themselves; `warm` makes its machine code.

    Machine code on disk that fails to load is dropped and compiled once more: it may be damaged.
    """
    with LOCK:
        name = "" if text is None else kernel_name(text)
        found = _loaded.get(name) if name else None
        if found is not None:
            return found
        with file_lock(cache_dir() if name else None, name.rpartition("_")[2][:_LOCKS]), uncollected():
            cached = text is not None and is_cached(text)
            with said(what, cached):
                try:
                    made = _make(text, in_memory, warm, _ways(), cached)
                except Exception as error:
                    # Damaged machine code, or an inside of numba that has changed: once more, as numba does it.
                    _log.debug("compiling %s as a whole after %r", what, error)
                    if text is not None:
                        forget_kernel(text)
                    made = _make(text, in_memory, warm, _plain_ways(), False)
        if name:
            _loaded[name] = made
        return made


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
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


def _ways() -> dict[str, Any] | None:
    """How kernels are compiled faster than numba would; as numba would where it is built in another way."""
    try:
        from ucsearch.engine.compiled.split import WAYS
    except ImportError:
        return _plain_ways()
    return WAYS


def _plain_ways() -> dict[str, Any] | None:
    """As numba does it, with guards in users' rules; None where there can be none, and such rules stay with Python."""
    try:
        from ucsearch.engine.compiled.guarded import GUARDED_ONLY
    except ImportError:
        return None
    return GUARDED_ONLY


def _spare_scipy() -> None:
    """numba imports scipy.linalg (a fifth of a first decision) to see whether it could multiply matrices. That scipy is
    there is enough to know: a function that does multiply imports it then."""
    if "numba.np.arraymath" in sys.modules or "scipy.linalg" in sys.modules:
        return
    try:
        import numba.np.linalg as linalg

        asked = linalg.ensure_blas

        def is_there() -> None:
            if importlib.util.find_spec("scipy") is None:
                raise ImportError("no scipy")

        linalg.ensure_blas = is_there
        try:
            import numba.np.arraymath as arraymath
        finally:
            linalg.ensure_blas = asked
        vars(arraymath)["ensure_blas"] = asked
    except (ImportError, AttributeError) as error:  # another numba: then it asks as it likes
        _log.debug("numba is left to import scipy: %r", error)


def _make(
    text: str | None,
    in_memory: Callable[[dict[str, Any] | None], Callable[..., Any]],
    warm: Callable[[Callable[..., Any]], None],
    ways: dict[str, Any] | None,
    cached: bool,
) -> Loaded:
    module = None if text is None else load_kernel(text, ways)
    made = Loaded(in_memory(ways)) if module is None else Loaded(module.uc_panel, module.__name__)
    if not (cached and load_machine_code(made.call)):
        import ucsearch.jit  # noqa: F401 - names of what is compiled are this process' own

        _spare_scipy()
    warm(made.call)
    return made


@contextlib.contextmanager
def said(what: str, cached: bool) -> Iterator[None]:
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
