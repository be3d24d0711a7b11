"""The compiled engine: build a task's kernel once, then run windows through it.

Settings reach the kernel as two short arrays; `../arrays.py` describes what goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, Outputs
from ucsearch.engine.compiled.cache import forget_kernel, is_cached, load_kernel
from ucsearch.engine.compiled.codegen import kernel_namespace, kernel_text
from ucsearch.engine.compiled.explain import explain_failure
from ucsearch.engine.status import COMPLETION_CAP, DP_SWITCH, ENUMERATE_BELOW
from ucsearch.errors import UncompilableWarning, warn_user
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.sources import Unsourced
from ucsearch.task import Task

__all__ = ["call_single", "find_kernel", "on_disk", "ready_kernel", "run"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kernel = Callable[..., None]


_Key = tuple[int, Layout, int, str, bool]
_kernels: dict[_Key, Kernel | None] = {}  # None: known not to compile
_texts: dict[_Key, str | None] = {}
_tasks: dict[int, Task] = {}  # keeps ids valid


def _key(task: Task, layout: Layout, settings: Settings) -> _Key:
    _tasks[id(task)] = task
    return (id(task), layout, settings.mode, settings.algorithm, settings.use_bound)


def ready_kernel(task: Task, layout: Layout, settings: Settings) -> Kernel | None:
    """The kernel if it costs nothing to have: loaded already."""
    return _kernels.get((id(task), layout, settings.mode, settings.algorithm, settings.use_bound))


def on_disk(task: Task, layout: Layout, settings: Settings) -> bool:
    """Whether loading the kernel means reading machine code rather than compiling."""
    key = _key(task, layout, settings)
    if key not in _texts:
        try:
            _texts[key] = kernel_text(task, layout, settings.mode, settings.algorithm, settings.use_bound)
        except Unsourced:
            _texts[key] = None
    text = _texts[key]
    return text is not None and is_cached(text)


def find_kernel(task: Task, layout: Layout, settings: Settings) -> Kernel | None:
    """Load or compile the kernel; warn once and return None when the task does not compile."""
    key = _key(task, layout, settings)
    if key in _kernels:
        return _kernels[key]
    cached = on_disk(task, layout, settings)
    text = _texts[key]
    try:
        try:
            kernel = _load(task, layout, settings, text)
        except Exception:  # machine code on disk may be damaged: compile once more before giving up
            if not cached or text is None:
                raise
            forget_kernel(text)
            kernel = _load(task, layout, settings, text)
    except Exception as error:  # numba raises many kinds; all mean the same here
        warn_user(explain_failure(task, layout, error), UncompilableWarning)
        _kernels[key] = None
        return None
    _kernels[key] = kernel
    return kernel


def _load(task: Task, layout: Layout, settings: Settings, text: str | None) -> Kernel:
    module = load_kernel(text) if text is not None else None
    if module is not None:
        kernel: Kernel = module.uc_panel
    else:
        space = kernel_namespace(task, layout, settings.mode, settings.algorithm, settings.use_bound)
        kernel = space["uc_panel"]
    if task.timed:
        kernel = _from_step_0(kernel)
    _warm(kernel, task, layout, settings)
    return kernel


def _from_step_0(kernel: Kernel) -> Kernel:
    """A kernel whose states carry the step index behind their own numbers, called with states that do not."""

    def call(iset: Any, fset: Any, states: Floats, *rest: Any) -> Any:
        rows = np.concatenate([states, np.zeros((len(states), 1))], axis=1)
        rows.flags.writeable = False
        return kernel(iset, fset, rows, *rest)

    return call


def _warm(kernel: Kernel, task: Task, layout: Layout, settings: Settings) -> None:
    """Compile (or load) the machine code by running no windows."""
    m, d = task.action_array.size, settings.depth
    scores = settings.mode == MODES["scores"]
    inputs = Inputs(
        np.zeros((1, layout.size)),
        task.params_row,
        task.action_array[None],
        np.zeros((1, d, task.fields)),
        np.zeros((1, 0 if scores else 1, d, task.fields)),
        np.ones((1, 0 if scores else 1)),
        np.zeros((1, d, m if scores else 0)),
        np.zeros((1, d, m if scores else 0)),
    )
    _call(kernel, settings, _frozen(inputs), Outputs.empty(1, m, d, False), 0, 0)


def _frozen(inputs: Inputs) -> Inputs:
    """Read-only views: numba types writable and read-only arrays apart, and one kernel should serve all."""
    out = []
    for array in inputs:
        if array.flags.writeable or not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).view()
            array.flags.writeable = False
        out.append(array)
    return Inputs(*out)


_packed: dict[Settings, tuple[Ints, Floats, Floats]] = {}


def _pack(settings: Settings) -> tuple[Ints, Floats, Floats]:
    found = _packed.get(settings)
    if found is None:
        s = settings
        iset = np.array(
            [s.depth, s.reach, s.width, s.top_k, s.keep, s.spread, s.use_bound, COMPLETION_CAP, s.node_budget,
             s.every_action, s.simulations, ENUMERATE_BELOW, DP_SWITCH, *s.extra_i], np.int64,
        )  # fmt: skip
        fset = np.array([s.risk, s.prune_risk, s.info_bonus, s.c_uct, s.tail, *s.extra_f])
        discounts = [1.0]
        for _ in range(max(s.reach, s.depth)):
            discounts.append(discounts[-1] * s.discount)
        found = (iset, fset, np.array(discounts))
        if len(_packed) > 1024:
            _packed.clear()
        if len(s.extra_i) <= 1024:  # a warm start for a whole panel is long and not asked for twice
            _packed[settings] = found
    return found


def _call(kernel: Kernel, settings: Settings, inputs: Inputs, outputs: Outputs, lo: int, hi: int) -> None:
    iset, fset, discounts = _pack(settings)
    kernel(iset, fset, *inputs, discounts, *outputs, lo, hi)


def run(
    kernel: Kernel,
    settings: Settings,
    inputs: Inputs,
    outputs: Outputs,
    plainly: Callable[[int], None],
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> None:
    """All windows, in ranges over a thread pool; the result does not depend on how they are split. A window in which
    a rule raises is given to `plainly`, the plain engine, and stops no other."""
    windows = inputs.states.shape[0]
    inputs = _frozen(inputs)

    def part(lo: int, hi: int) -> None:
        try:
            _call(kernel, settings, inputs, outputs, lo, hi)
        except Exception:
            if hi - lo == 1:
                plainly(lo)
                return
            middle = (lo + hi) // 2
            part(lo, middle)
            part(middle, hi)

    if windows == 1 or (threads == 1 and progress is None):
        part(0, windows)
        return
    parts = max(1, min(windows, 16 * threads if windows < 1 << 16 else 64 * threads))
    edges = [windows * i // parts for i in range(parts + 1)]
    ranges = [(a, b) for a, b in pairwise(edges) if b > a]

    def one(edges: tuple[int, int]) -> int:
        part(*edges)
        return edges[1] - edges[0]

    with ThreadPoolExecutor(max_workers=threads) as pool:
        for count in pool.map(one, ranges):
            if progress is not None:
                progress(count)


def call_single(kernel: Any, settings: Settings, inputs: Inputs, outputs: Outputs) -> None:
    """One window whose arrays are known to be read-only and contiguous."""
    _call(kernel, settings, inputs, outputs, 0, 1)
