"""A limit on the memory of this process, where the system can set one (Linux); beyond it Python raises MemoryError."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = 1 << 30  # bytes that verification may take beyond what the program itself takes
LEAST_MEMORY = 32 << 20
_STATM = Path("/proc/self/statm")  # its first figure is the address space in pages

if sys.platform == "linux":
    import resource

    def _mapped() -> int:
        return int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()

    def _limit() -> tuple[int, int]:
        return resource.getrlimit(resource.RLIMIT_AS)

    def _set(soft: int, hard: int) -> None:
        """Only the soft limit changes: it can be taken back."""
        none = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_AS, (soft if hard == none or soft == none else min(soft, hard), hard))

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        """At most `size` bytes more than are mapped now."""
        before, hard = _limit()
        more = _mapped() + size
        _set(more if before == resource.RLIM_INFINITY else min(more, before), hard)
        try:
            yield
        finally:
            _set(before, hard)

    @contextmanager
    def unlimited() -> Iterator[None]:
        """While our own modules and NumPy are loaded: what they map is no part of what a file may cost."""
        (soft, hard), before = _limit(), _mapped()
        _set(hard, hard)
        try:
            yield
        finally:
            if soft != resource.RLIM_INFINITY:
                _set(soft + max(0, _mapped() - before), hard)

else:

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        """This system has no such limit; the lengths that are read are limited all the same."""
        yield

    @contextmanager
    def unlimited() -> Iterator[None]:
        yield
