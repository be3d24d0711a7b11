"""Kernels as plain Python: the very functions that numba would compile, run by the interpreter.

A kernel takes some seconds to compile and a moment to check, so tests of what kernels say run them as they are. What
numba itself may do to them (types, wrapping integers, its own libm) is left to the tests that compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import engine
from ucsearch.layout import Layout
from ucsearch.task import Task

__all__ = ["plain_kernels"]


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Within, the compiled engine runs its kernels without compiling them; apart from compiled ones."""
    key_of = engine._key
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_key", lambda layout, settings: (*key_of(layout, settings), "plain"))
        patch.setattr(kernels, "load", _plain)
        patch.setattr(kernels, "is_held", lambda name: True)  # they are the plain engine's equals, or a test says so
        yield


def _plain(
    task: Task, layout: Layout, kind: kernels.KernelKind, warm: Callable[[Callable[..., Any]], None], what: str
) -> kernels.Kernel:
    entry = kernels.plain(task, layout, kind)

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # hashes wrap
            return entry(*arguments)

    warm(call)
    return kernels.Kernel(call)
