"""What kernel functions become: Python as it stands, machine code, or a GPU's.

- `inner`: a function of ours. `inline`: a few lines that belong to their caller.
- `lean`, `lean_call`: the same two, which allocate nothing: no references are counted in them. Counting is atomic and
  would cost more than the work itself.
- `user`: a rule, or a helper of one. A division by zero and an index past the end raise there.
- `entry`: what is called from Python.
- `heap`: where arrays come from, asked once in an entry; `floats`, `zeros`, `ints` and `places` (small whole numbers)
  make one of a shape. `rows`: of states that a search begins with.

`engine/cuda/jit.py` has the GPU's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

__all__ = ["Numba", "Plain"]

F = TypeVar("F", bound=Callable[..., Any])


def _heap():
    return 0


def _floats(heap, shape):
    return np.empty(shape)


def _zeros(heap, shape):
    return np.zeros(shape)


def _ints(heap, shape):
    return np.empty(shape, np.int64)


def _places(heap, size):
    return np.empty(size, np.int32)


class Plain:
    """Functions stay as they are: breakpoints, coverage and tests work in them."""

    compiles: ClassVar[bool] = False
    on_device: ClassVar[bool] = False
    rows: ClassVar[int] = 1024
    heap: Any = staticmethod(_heap)
    floats: Any = staticmethod(_floats)
    zeros: Any = staticmethod(_zeros)
    ints: Any = staticmethod(_ints)
    places: Any = staticmethod(_places)

    @property
    def unchecked(self) -> Plain:
        return self

    def inner(self, function: F) -> F:
        return function

    inline = lean = lean_call = user = entry = inner


class Numba:
    """Machine code. `whole`: as numba does it, where its insides are others than `engine.numba_tricks` takes them for.
    `pasted`: rules become part of each caller, for kernels that ask them in one place, millions of times."""

    compiles: ClassVar[bool] = True
    on_device: ClassVar[bool] = False
    rows: ClassVar[int] = 1024

    def __init__(self, whole: bool = False, pasted: bool = False, unchecked: bool = False) -> None:
        from numba import njit

        inner: dict[str, Any] = {}
        entry: dict[str, Any] = {}
        self._settled: Callable[[Any], Any] = lambda made: made
        if not whole:
            from ucsearch.engine.compiled import numba_tricks

            numba_tricks.spare_scipy()
            inner, entry, self._settled = numba_tricks.INNER, numba_tricks.ENTRY, numba_tricks.for_any_number
        self._njit = njit
        self._whole, self._pasted = whole, pasted
        both: dict[str, Any] = dict(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
        self._inner = {**both, "no_cpython_wrapper": True, **inner}
        self._user = {**self._inner, **({} if unchecked else {"error_model": "python", "boundscheck": True})}
        if pasted:
            self._user["forceinline"] = True
        self._entry = {**both, **entry}
        made: list[Any] = [self.inline(f) for f in (_heap, _floats, _zeros, _ints, _places)]
        self.heap, self.floats, self.zeros, self.ints, self.places = made

    @property
    def unchecked(self) -> Numba:
        """With rules as numba compiles functions by default."""
        return Numba(self._whole, self._pasted, unchecked=True)

    def _made(self, function: F, options: dict[str, Any]) -> F:
        made: F = self._settled(self._njit(**options)(function))
        return made

    def inner(self, function: F) -> F:
        return self._made(function, self._inner)

    def inline(self, function: F) -> F:
        return self._made(function, {**self._inner, "forceinline": True})

    def lean(self, function: F) -> F:
        return self._made(function, {**self._inner, "forceinline": True, "_nrt": False})

    def lean_call(self, function: F) -> F:
        return self._made(function, {**self._inner, "_nrt": False})

    def user(self, function: F) -> F:
        return self._made(function, self._user)

    def entry(self, function: F) -> F:
        return self._made(function, self._entry)
