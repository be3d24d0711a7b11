"""The device, and all that leans on the insides of numba-cuda.

Kernels are compiled without fused multiply-add (which rounds once where the CPU rounds twice), rules with Python's
divisions and checked indices, which numba-cuda has but does not offer. `verify` looks at the device whether both hold.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.engine.cache import cache_dir
from ucsearch.engine.compiled.numba_tricks import Files, OnDisk
from ucsearch.errors import InputError

__all__ = [
    "NotOnDevice",
    "device_functions",
    "find_cuda",
    "fused",
    "is_simulated",
    "kept",
    "launchable",
    "raising",
    "row_stack_named",
    "unfused",
    "verify",
]

# What may round differently from the CPU: fused operations, and operations whose rounding is left to the assembler.
_FUSED = re.compile(r"\b(?:fma\.\w+|mad|(?:add|mul|sub)(?:\.ftz)?)\.f64\b|\.approx\.")


class NotOnDevice(Exception):
    """This kernel cannot run on the GPU; the message says what stands in the way."""


def find_cuda() -> Any:
    """numba's `cuda` with a device (or its simulator); refused with the reason where there is none."""
    expected = "a machine with an NVIDIA GPU and the extra ucsearch[cuda], or another engine"
    try:
        from numba import cuda as found
    except ImportError as error:
        raise InputError("engine", "'cuda'", expected, hint=f"numba.cuda cannot be imported: {error}.") from None
    cuda: Any = found
    if not is_simulated() and not cuda.is_available():
        raise InputError("engine", "'cuda'", expected, hint="No CUDA device or driver was found here.")
    if not is_simulated():
        try:  # kernels need it, and releases of numba-cuda and NumPy that do not go together fail in it
            with row_stack_named():
                import_module("numba.cuda.np.arrayobj")
        except Exception as error:
            hint = f"numba-cuda does not work with NumPy {np.__version__} here: {error}. Try other versions of the two."
            raise InputError("engine", "'cuda'", expected, hint=hint) from None
    return cuda


@contextlib.contextmanager
def row_stack_named() -> Iterator[None]:
    """numba-cuda 0.30 wants to overload `np.row_stack`, which NumPy 2.5 has no more: within, it has a stand-in that
    nobody calls. Without it the newest releases of the two would not go together."""
    if hasattr(np, "row_stack"):
        yield
        return
    vars(np)["row_stack"] = lambda arrays: np.vstack(arrays)
    try:
        yield
    finally:
        del vars(np)["row_stack"]


def is_simulated() -> bool:
    """Whether NUMBA_ENABLE_CUDASIM asks for numba's simulator: slow, and for tests."""
    from numba.core import config

    return bool(getattr(config, "ENABLE_CUDASIM", False))


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Within, NVVM fuses nothing. numba has no switch for it, so its call of the compiler is wrapped; who holds the
    lock of `engine.compiled.compile` is alone in here."""
    if is_simulated():
        yield
        return
    from numba.cuda.cudadrv import nvvm as driver

    nvvm: Any = driver
    compile_ir = nvvm.compile_ir

    def without(llvmir: Any, **options: Any) -> Any:
        return compile_ir(llvmir, **{**options, "fma": False})

    nvvm.compile_ir = without
    try:
        yield
    finally:
        nvvm.compile_ir = compile_ir


@contextlib.contextmanager
def _as_python_divides() -> Iterator[None]:
    """Within, functions are compiled so that a division by zero and an index past the end raise."""
    from numba.cuda import compiler as driver
    from numba.cuda.core.base import BaseContext
    from numba.cuda.target import CUDATargetContext

    compiler: Any = driver
    target: Any = CUDATargetContext
    compile_extra, checked = compiler.compile_extra, target.enable_boundscheck

    def with_checks(*given: Any, flags: Any, **options: Any) -> Any:
        flags.error_model, flags.boundscheck = "python", True
        return compile_extra(*given, flags=flags, **options)

    compiler.compile_extra, target.enable_boundscheck = with_checks, vars(BaseContext)["enable_boundscheck"]
    try:
        yield
    finally:
        compiler.compile_extra, target.enable_boundscheck = compile_extra, checked


def launchable(function: Any, name: str | None) -> Any:
    """A kernel; its machine code is made at the first launch, within `unfused`, and kept under `name`. A linker that
    optimises would fuse what NVVM did not."""
    from numba import cuda as found

    cuda: Any = found
    options = {"lto": False} if "lto" in inspect.signature(cuda.jit).parameters else {}
    kernel = cuda.jit(function, **options)
    folder = None if name is None or is_simulated() else cache_dir()
    if name is not None and folder is not None:
        kernel._cache = OnDisk(lambda: kept(function, folder, name), name)
    return kernel


def kept(function: Any, folder: Path, name: str) -> Files:
    """Where machine code for the GPU lies: as numba-cuda writes it, beside the CPU's."""
    from numba.cuda.dispatcher import CUDACacheImpl

    files = Files(function, folder, f"kernel.{name[:32]}", name)
    files._impl = object.__new__(CUDACacheImpl)  # which needs no choice of a place
    return files


def raising(function: Any) -> Any:
    """A device function in which what raises in Python raises: its thread ends."""
    compile_device = function.compile_device

    def checked(*given: Any, **options: Any) -> Any:
        with _as_python_divides():
            return compile_device(*given, **options)

    function.compile_device = checked
    return function


class DeviceFunctions(NamedTuple):
    """Functions that a device has not, or has otherwise."""

    heap: Any  # () -> where a thread's arrays come from
    floats: Any  # (heap, shape) -> array
    zeros: Any
    ints: Any
    places: Any
    instead: dict[Any, Any]  # of functions of Python


def device_functions(size: int) -> DeviceFunctions:
    """With a heap of so many numbers."""
    from llvmlite import ir
    from numba import types
    from numba.cuda import cgutils
    from numba.cuda.extending import intrinsic
    from numba.cuda.np import arrayobj

    floats, tops = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")

    def array(context: Any, builder: Any, kind: Any, data: Any, sizes: list[Any]) -> Any:
        made = arrayobj.make_array(kind)(context, builder)
        item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        itemsize = context.get_constant(types.intp, item)
        strides = [itemsize]
        for one in sizes[:0:-1]:
            strides.insert(0, builder.mul(strides[0], one))
        arrayobj.populate_array(
            made, data=data, shape=sizes, strides=strides, itemsize=itemsize, meminfo=None, parent=None
        )
        return made._getvalue()

    @intrinsic
    def heap(typingctx: Any) -> Any:
        both = types.Tuple((floats, tops))

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            items = []
            for kind, count in ((floats, size), (tops, 1)):
                number = context.get_data_type(kind.dtype)
                data = cgutils.alloca_once(builder, ir.ArrayType(number, count), name="uc_heap")
                data = builder.bitcast(data, number.as_pointer())
                items.append(array(context, builder, kind, data, [context.get_constant(types.intp, count)]))
                if kind is tops:
                    builder.store(number(0), data)
            return context.make_tuple(builder, both, items)

        return both(), codegen

    def take(heap: Any, n: int) -> Any:
        at = heap[1][0]
        if n < 0 or at + n > heap[0].shape[0]:
            raise MemoryError("no room left")
        heap[1][0] = at + n
        return at

    def taking(dtype: Any, cleared: bool = False) -> Any:
        @intrinsic
        def taken(typingctx: Any, heap: Any, shape: Any) -> Any:
            many = isinstance(shape, types.BaseTuple)
            kind = types.Array(dtype, len(shape) if many else 1, "C")

            def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
                given = zip(cgutils.unpack_tuple(builder, args[1]), shape, strict=True) if many else [(args[1], shape)]
                sizes = [context.cast(builder, one, of, types.intp) for one, of in given]
                word = sizes[0].type
                count = sizes[0]
                for one in sizes[1:]:
                    count = builder.mul(count, one)
                number = context.get_data_type(dtype)
                per = 8 // context.get_abi_sizeof(number)
                numbers = builder.sdiv(builder.add(count, word(per - 1)), word(per)) if per > 1 else count
                signature = types.int64(heap, types.int64)
                at = context.compile_internal(builder, take, signature, [args[0], numbers])
                room = arrayobj.make_array(floats)(context, builder, cgutils.unpack_tuple(builder, args[0])[0])
                data = builder.bitcast(builder.gep(room.data, [at]), number.as_pointer())
                if cleared:
                    with cgutils.for_range(builder, count) as loop:
                        builder.store(number(0), builder.gep(data, [loop.index]))
                return array(context, builder, kind, data, sizes)

            return kind(heap, shape), codegen

        return taken

    return DeviceFunctions(
        heap, taking(types.float64), taking(types.float64, cleared=True), taking(types.int64), taking(types.int32),
        {max: _of_several("b if b > a else a"), min: _of_several("b if b < a else a"),
         math.floor: _on_device("np.int64(math.floor(a))", "a"), math.ceil: _on_device("np.int64(math.ceil(a))", "a")},
    )  # fmt: skip


def _on_device(answer: str, arguments: str) -> Any:
    from numba import cuda as found

    cuda: Any = found
    space: dict[str, Any] = {"math": math, "np": np}
    return cuda.jit(device=True, forceinline=True)(
        _defined(f"def answer({arguments}):\n    return {answer}\n", space)["answer"]
    )


def _of_several(better: str) -> Any:
    """`max` or `min` of numbers, or of a tuple of them, as Python takes them."""
    from numba import types
    from numba.cuda.extending import overload

    two = _on_device(better, "a, b")

    def chosen(*values: Any) -> Any:
        raise NotImplementedError

    def of(*values: Any) -> Any:
        kinds: Any = values
        whole = "values"
        if len(kinds) == 1 and isinstance(kinds[0], tuple | types.BaseTuple):
            kinds = kinds[0]
        if len(kinds) == 1 and isinstance(kinds[0], types.BaseTuple):
            kinds, whole = kinds[0], "values[0]"
        text = f"{whole}[0]"
        for x in range(1, len(kinds)):
            text = f"two({text}, {whole}[{x}])"
        return _defined(f"def made(*values: Any) -> Any:\n    return {text}\n", {"two": two})["made"]

    overload(chosen)(of)
    return chosen


def _defined(text: str, space: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "<spelled out for a GPU>", "exec"), space)
    return space


def _probed(function: Any, wrap: Any, given: list[float]) -> float:
    """What a device makes of `out[0] = function(given)`, NaN where its thread ended before."""
    from numba import cuda as found

    cuda: Any = found
    call = wrap(cuda.jit(device=True)(function))

    def uc_probe(x: Any, out: Any) -> None:
        out[0] = call(x)

    out = cuda.to_device(np.array([np.nan]))
    launchable(uc_probe, None)[128, 1](cuda.to_device(np.array(given)), out)
    return float(out.copy_to_host()[0])


def _fused(x: Any) -> Any:
    return x[0] * x[1] + x[2]  # rounds otherwise when fused


def _quotient(x: Any) -> Any:
    return 1.0 if x[0] / x[1] > 5.0 else 0.0


def _past_the_end(x: Any) -> Any:
    return 1.0 if x[int(x[0])] > 5.0 else 0.0


@lru_cache(maxsize=1)
def _otherwise() -> str:
    """What this device does otherwise than it is told."""
    x = 1.0 + 2.0**-30
    if _probed(_fused, lambda made: made, [x, x, -1.0 - 2.0**-29]) != x * x - (1.0 + 2.0**-29):
        return "fuses multiplications and additions although told not to"
    if _probed(_quotient, raising, [6.0, 2.0]) != 0.0 or not math.isnan(_probed(_quotient, raising, [6.0, 0.0])):
        return "goes on where a rule divides by zero"
    if _probed(_past_the_end, raising, [1.0, 9.0]) != 1.0 or not math.isnan(
        _probed(_past_the_end, raising, [2.0, 9.0])
    ):
        return "goes on past the end of an array"
    return ""


def verify(entry: Any) -> None:
    """Within `unfused`: see that the device rounds every operation and raises where Python does, and read the kernel's
    assembly for a fused or approximate operation."""
    if is_simulated():
        return
    if _otherwise():
        raise NotOnDevice(f"this release of numba-cuda {_otherwise()}")
    for text in entry.inspect_asm().values():
        if fused(text):
            raise NotOnDevice(f"the compiler made {fused(text)}, which rounds differently from the CPU")


def fused(assembly: str) -> str:
    """An operation in it that may round otherwise than the CPU's; "" without one."""
    found = _FUSED.search(assembly)
    return found.group() if found else ""
