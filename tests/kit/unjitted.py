"""Kernels as plain Python: the very text that numba would compile, run by the interpreter.

A kernel takes about 15 seconds to compile and a moment to check, so tests of what kernel text says run it as it is.
What numba itself may do to it (types, wrapping integers, its own libm) is left to the tests that compile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core import config

from ucsearch.engine import compile as kernels
from ucsearch.engine import reachable, simulate
from ucsearch.engine.compiled import engine
from ucsearch.engine.compiled.loading import Loaded
from ucsearch.layout import Layout
from ucsearch.task import Task

__all__ = ["plain_kernels"]

_texts: dict[str, Loaded] = {}


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Within, the compiled engine runs the text of its kernels without compiling it; apart from compiled ones."""
    key_of = engine._key
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_key", lambda layout, settings: (*key_of(layout, settings), "text"))
        patch.setattr(engine, "load_or_compile", _load)
        patch.setattr(simulate, "load_or_compile", _load)
        patch.setattr(reachable, "load_or_compile", _load)
        patch.setattr(kernels, "load", _plain)
        patch.setattr(kernels, "is_held", lambda name: True)  # they are the plain engine's equals, or a test says so
        yield


def _plain(
    task: Task, layout: Layout, kind: kernels.Kind, warm: Callable[[Callable[..., Any]], None], what: str
) -> kernels.Kernel:
    entry = kernels.plain(task, layout, kind)

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # hashes wrap
            return entry(*arguments)

    warm(call)
    return kernels.Kernel(call)


def _load(
    text: str | None,
    in_memory: Callable[[None], Callable[..., Any]],
    warm: Callable[[Callable[..., Any]], None],
    what: str,
) -> Loaded:
    if text is None or text not in _texts:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "DISABLE_JIT", True)
            entry = in_memory(None) if text is None else _module(text).uc_panel
        if hasattr(entry, "py_func"):
            raise RuntimeError(f"numba compiles {what} although it was told not to")

        def call(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):  # as error_model="numpy": divided by zero is infinite, hashes wrap
                return entry(*arguments)

        warm(call)
        if text is None:
            return Loaded(call)
        _texts[text] = Loaded(call)
    return _texts[text]


def _module(text: str) -> ModuleType:
    name = f"plain_kernel_{len(_texts)}"
    module = sys.modules[name] = ModuleType(name)
    exec(compile(text, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    return module
