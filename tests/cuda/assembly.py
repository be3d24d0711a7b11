"""Kernels for the GPU as assembly, which needs numba-cuda and NVIDIA's compiler (by pip) but no device.

Run as a program with names of cases; prints one JSON object of name -> what stands in the way, or "compiles".
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import ucsearch as uc
from tests.kit.templates import TEMPLATES
from tests.tasks.test_compiled import drawn
from ucsearch.engine.api import _prepared, panel_trace
from ucsearch.engine.arrays import Outputs
from ucsearch.engine.cuda import device
from ucsearch.engine.cuda import engine as cuda_engine
from ucsearch.tasks.registry import TASKS

DEPTH = 3
POLICIES: dict[str, uc.Policy] = {
    "beam by score": uc.UCBeam(depth=DEPTH, width=4, top_k=3, risk=0.3, order="score"),
    "beam by bound": uc.UCBeam(depth=DEPTH, width=2, top_k=2, risk=0.3, order="bound"),
    "beam by member": uc.CertifiedBeam(depth=DEPTH, width=3, top_k=2, risk=0.3, mode="members", spread="downside"),
    "exact": uc.Exact(depth=DEPTH, risk=0.3),
    "exact by member": uc.Exact(depth=2, risk=0.3, mode="members"),
}


@contextmanager
def no_device() -> Iterator[None]:
    """Within, functions are compiled for a device that is not there."""
    from numba.cuda import codegen, dispatcher

    instead = SimpleNamespace(compute_capability=(9, 0))
    asks: list[tuple[Any, str, Any]] = [
        (dispatcher, "get_current_device", lambda: instead),
        (codegen.devices, "get_context", lambda: SimpleNamespace(device=instead)),
    ]
    kept = [getattr(module, name) for module, name, _ in asks]
    for module, name, answer in asks:
        setattr(module, name, answer)
    try:
        yield
    finally:
        for (module, name, _), own in zip(asks, kept, strict=True):
            setattr(module, name, own)


def compiled(function: Any, arrays: list[Any]) -> str:
    """Of a kernel over these arrays and two whole numbers."""
    from numba import types
    from numba.cuda import compiler
    from numba.np import numpy_support

    kinds = [types.Array(numpy_support.from_dtype(x.dtype), x.ndim, "C") for x in arrays]
    signature = types.void(*kinds, types.int64, types.int64)
    made: str = compiler.compile(function, signature, device=False, cc=(9, 0), abi="numba")[0]
    return made


def product_and_sum(x: Any, lo: int, hi: int) -> None:
    x[0] = x[0] * x[1] + x[2]


def on_disk() -> str:
    """A kernel that is written and read again is the same."""
    from numba import types
    from numba.cuda import dispatcher
    from numba.cuda.codegen import JITCUDACodegen

    whole: Any = JITCUDACodegen
    whole.magic_tuple = lambda self: ("no device",)
    arguments = (types.Array(types.float64, 1, "C"), types.int64, types.int64)
    with tempfile.TemporaryDirectory() as place, no_device(), device.unfused():
        made = dispatcher._Kernel(product_and_sum, arguments, lto=False)
        files, again = (device.kept(product_and_sum, Path(place), "0" * 64) for _ in range(2))
        files.save_overload(arguments, made)
        read = again.load_overload(arguments, made.target_context)
        return str(made.inspect_asm((9, 0)) if made.inspect_asm((9, 0)) == read.inspect_asm((9, 0)) else "fma.rn.f64")


def assembly(task: uc.Task, states: Any, trace: Any, policy: Any, params: Any = None) -> str:
    """The kernel of one policy, as the GPU gets it."""
    problem = _prepared(task, states, panel_trace(trace), policy, params, None)
    inputs, settings = problem.inputs.repeated(), problem.settings
    with no_device(), device.row_stack_named(), device.unfused():
        kernel = cuda_engine._kernel(task, problem.layout, settings, inputs, True)
        rows = cuda_engine._rows(task, inputs)
        if kernel.tabled:
            rows = rows._replace(q=cuda_engine._tables(task, problem.layout, settings, inputs, 1)[0])
        outputs = Outputs.empty(1, inputs.actions.shape[1], settings.depth, True)
        return compiled(kernel.entry.py_func, [np.zeros(5), *rows, np.zeros(3), *outputs])


def cases() -> dict[str, Callable[[], str]]:
    """Every task of the library and of the tests' kit under every policy."""
    rng = np.random.default_rng(5)
    found: dict[str, Callable[[], str]] = {
        "on disk": on_disk,
        "a kernel that fuses": lambda: compiled(product_and_sum, [np.zeros(3)]),
    }
    for policy_name, policy in POLICIES.items():
        for name, template in TEMPLATES.items():
            states, params = template.windows(rng, 2)
            shape = (2, 2, DEPTH, template.fields) if template.fields > 1 else (2, 2, DEPTH)
            fields = template.fields if template.fields > 1 else None
            trace = uc.Trace.from_members(template.outcomes(rng, shape), fields=fields)
            found[f"{name}, {policy_name}"] = partial(assembly, template.task, states, trace, policy, params)
        for name in TASKS:
            made, states, outcomes = drawn(name, 2)
            trace = uc.Trace.from_members(outcomes[:, :, :DEPTH])
            found[f"{name}, {policy_name}"] = partial(assembly, made.task(), states, trace, policy)
    return found


def judged(make: Callable[[], str]) -> str:
    try:
        text = make()
    except (device.NotOnDevice, uc.InputError) as why:
        return f"refused: {why}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    fused = device.fused(text)
    return f"has {fused}" if fused else "compiles"


def main() -> None:
    results = {}
    for name, make in cases().items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        start = time.perf_counter()
        results[name] = judged(make)
        print(f"{name}: {results[name][:3000]} ({time.perf_counter() - start:.1f} s)", file=sys.stderr, flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
