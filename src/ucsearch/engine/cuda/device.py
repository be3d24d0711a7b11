"""The device, and kernels compiled for it without fused multiply-add (which rounds once where the CPU rounds twice)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ucsearch.engine.compiled.cache import load_kernel
from ucsearch.engine.cuda.allowed import NotOnDevice
from ucsearch.errors import InputError

__all__ = ["find_cuda", "is_simulated", "load_entry", "row_stack_named", "unfused", "verify_unfused"]

# What may round differently from the CPU: fused operations, and operations whose rounding is left to the assembler.
_FUSED = re.compile(r"\b(?:fma\.\w+|mad|(?:add|mul|sub)(?:\.ftz)?)\.f64\b|\.approx\.")


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


def load_entry(text: str) -> Any:
    """The kernel that `text` defines; its machine code is made at the first launch, within `unfused`."""
    module = load_kernel(text)
    if module is None:  # no folder for caches
        module = ModuleType("ucsearch_cuda_kernel")
        exec(compile(text.replace("cache=True", "cache=False"), "<ucsearch cuda kernel>", "exec"), module.__dict__)
    return module.uc_panel


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


# One product and sum that rounds otherwise when fused, compiled the way kernels are.
_PROBE = """
import inspect
from numba import cuda

def uc_probe(x, y, z, out):
    out[0] = x[0] * y[0] + z[0]

uc_probe = cuda.jit(uc_probe, **({"lto": False} if "lto" in inspect.signature(cuda.jit).parameters else {}))
"""


@lru_cache(maxsize=1)
def _fuses() -> bool:
    space: dict[str, Any] = {"__name__": "ucsearch_cuda_probe"}
    exec(_PROBE, space)
    cuda, x = space["cuda"], 1.0 + 2.0**-30
    given = [np.array([v]) for v in (x, x, -1.0 - 2.0**-29, 1.0)]
    arrays = [cuda.to_device(v) for v in given]
    space["uc_probe"][128, 1](*arrays)
    return bool(arrays[3].copy_to_host()[0] != x * x - (1.0 + 2.0**-29))


def verify_unfused(entry: Any) -> None:
    """Within `unfused`: see that the device rounds every operation, and read the kernel's assembly for a fused or
    approximate one."""
    if is_simulated():
        return
    if _fuses():
        raise NotOnDevice("this release of numba-cuda fuses multiplications and additions although told not to")
    for text in entry.inspect_asm().values():
        found = _FUSED.search(text)
        if found:
            raise NotOnDevice(f"the compiler made {found.group()}, which rounds differently from the CPU")
