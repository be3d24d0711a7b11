"""What the functions of kernels become on a GPU: device functions, a thread for each window.

A device gives out no memory: arrays come from a heap that each thread has of its own, of a size known when the kernel
is built. A thread that runs out of it raises, which ends it, and the CPU does its window. `min` and `max` are Python's,
because a device's own treat NaN and signed zeros differently, and so are `floor` and `ceil`, which give whole numbers.
"""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from ucsearch.engine.cuda.device import device_functions, is_simulated, raising
from ucsearch.engine.kernels.common.jit import Plain

__all__ = ["Counting", "Cuda"]

F = TypeVar("F", bound=Callable[..., Any])
ROWS = 256  # of states in a thread's own memory; the CPU does windows with more


class Counting(Plain):
    """Python as it stands, and how many numbers its arrays take."""

    rows: ClassVar[int] = ROWS

    def __init__(self) -> None:
        self.numbers = 0
        self.floats, self.zeros, self.ints, self.places = (
            self._counted(make) for make in (Plain.floats, Plain.zeros, Plain.ints, Plain.places)
        )

    def _counted(self, make: Callable[..., Any]) -> Any:
        def counted(heap: Any, shape: Any) -> Any:
            array = make(heap, shape)
            self.numbers += (array.nbytes + 7) // 8
            return array

        return counted


class Cuda:
    """`heap`: numbers of 8 bytes that a thread has. In numba's simulator functions stay Python."""

    compiles: ClassVar[bool] = True
    on_device: ClassVar[bool] = True
    rows: ClassVar[int] = ROWS

    def __init__(self, heap: int) -> None:
        from numba import cuda

        self.simulated = is_simulated()
        self._cuda: Any = cuda
        made: Any = _Simulated(heap) if self.simulated else device_functions(max(heap, 1))
        self.heap, self.floats, self.zeros, self.ints, self.places = (
            made.heap, made.floats, made.zeros, made.ints, made.places,
        )  # fmt: skip
        self._instead: dict[Any, Any] = {} if self.simulated else made.instead

    @cached_property
    def unchecked(self) -> Any:
        return _Unchecked(self)

    def _made(self, function: F, **options: Any) -> F:
        if self.simulated:
            return function
        made: F = self._cuda.jit(device=True, **options)(self._copy(function))
        return made

    def _copy(self, function: Any) -> Any:
        """With Python's `min`, `max`, `floor` and `ceil` in place of a device's."""
        code, space = function.__code__, dict(function.__globals__)
        for name in code.co_names:
            space[name] = self._own(space.get(name, getattr(builtins, name, None)))
        cells = [types.CellType(self._own(cell.cell_contents)) for cell in function.__closure__ or ()]
        return types.FunctionType(code, space, function.__name__, function.__defaults__, tuple(cells) or None)

    def _own(self, value: Any) -> Any:
        if value is math:
            module = types.ModuleType("math_of_a_device")
            vars(module).update({name: self._own(one) for name, one in vars(math).items()})
            return module
        return self._instead.get(value, value) if isinstance(value, types.BuiltinFunctionType) else value

    def inner(self, function: F) -> F:
        return self._made(function)

    def inline(self, function: F) -> F:
        return self._made(function, forceinline=True)

    lean, lean_call, entry = inline, inner, inline

    def user(self, function: F) -> F:
        if self.simulated:
            return cast(F, _of_floats(function))
        made: F = raising(self._made(function))
        return made


class _Unchecked:
    def __init__(self, real: Cuda) -> None:
        self.compiles, self.on_device = real.compiles, real.on_device
        self.user, self.inline = real.inner, real.inline


class _Simulated:
    """A heap as an array, and pieces of it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def heap(self) -> Any:
        return np.full(self.size, np.nan), np.zeros(1, np.int64)

    def _taken(self, heap: Any, shape: Any, dtype: Any) -> Any:
        room, top = heap
        count = int(np.prod(shape, dtype=np.int64))
        at, numbers = int(top[0]), (count * np.dtype(dtype).itemsize + 7) // 8
        if at + numbers > room.size:
            raise MemoryError("no room left")
        top[0] = at + numbers
        return room[at : at + numbers].view(dtype)[:count].reshape(shape)

    def floats(self, heap: Any, shape: Any) -> Any:
        return self._taken(heap, shape, np.float64)

    def zeros(self, heap: Any, shape: Any) -> Any:
        array = self._taken(heap, shape, np.float64)
        array[...] = 0.0
        return array

    def ints(self, heap: Any, shape: Any) -> Any:
        return self._taken(heap, shape, np.int64)

    def places(self, heap: Any, size: Any) -> Any:
        return self._taken(heap, size, np.int32)


def _of_floats(function: Any) -> Any:
    """Asked with Python's floats: NumPy's, which come of arrays, divide by zero."""

    def call(*arguments: Any) -> Any:
        return function(*(float(x) if isinstance(x, np.float64) else x for x in arguments))

    return call
