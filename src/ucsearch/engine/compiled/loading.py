"""What loading and compiling a kernel goes along with: one thread at a time, no garbage collections, a line of words.

While a kernel is compiled (a few seconds) the logger "ucsearch" says so, and a terminal shows a line.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
import time
from collections.abc import Iterator

__all__ = ["LOCK", "said", "uncollected"]

LOCK = threading.RLock()  # numba compiles one function at a time anyway; a half-made kernel is never seen
_log = logging.getLogger("ucsearch")


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
