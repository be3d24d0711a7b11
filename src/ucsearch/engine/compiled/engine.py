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

from ucsearch.engine.arrays import COMPLETION_CAP, DP_SWITCH, ENUMERATE_BELOW, Inputs, Outputs, Status, read_only
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled.compile import LOCK
from ucsearch.engine.compiled.first_use import difference
from ucsearch.engine.inputs import branches
from ucsearch.engine.registry import ALGORITHMS
from ucsearch.errors import UncompilableWarning, warn_user
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.rules.dialect import Refused, explain
from ucsearch.rules.source import Unreadable
from ucsearch.task import Task

__all__ = ["find_kernel", "held", "name_of", "no_windows", "on_disk", "ready_kernel", "run"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kernel = Callable[..., None]


_Key = tuple[Layout, int, str, bool]


class _Slot:
    """What is known of one kernel of a task. Kept on the task and let go with it."""

    def __init__(self, name: str | None) -> None:
        self.name = name  # on disk; None where it is made of functions that cannot be read
        self.loaded: kernels.Kernel | None = None
        self.call: Kernel | None = None  # what is loaded, in the form in which searches call it
        self.tried = False  # with nothing loaded: known not to compile, or to give other bytes
        self.held = False  # against the plain engine


def _key(layout: Layout, settings: Settings) -> _Key:
    return (layout, settings.mode, settings.algorithm, settings.use_bound)


def _slot(task: Task, layout: Layout, settings: Settings) -> _Slot:
    slots: dict[_Key, _Slot] = task.cache.setdefault("kernels", {})
    key = _key(layout, settings)
    if key not in slots:
        slots[key] = _Slot(_name(task, layout, settings))
    return slots[key]


def _kind(settings: Settings) -> kernels.KernelKind:
    module = ALGORITHMS[settings.algorithm].module
    # Closed mode asks each rule in one place, millions of times.
    return kernels.KernelKind(module, settings.mode, settings.use_bound, pasted=settings.algorithm == "closed")


def _name(task: Task, layout: Layout, settings: Settings) -> str | None:
    try:
        return kernels.name_of(task, layout, _kind(settings))
    except Unreadable:
        return None


def ready_kernel(task: Task, layout: Layout, settings: Settings) -> Kernel | None:
    """The kernel if it costs nothing to have: loaded already."""
    slots: dict[_Key, _Slot] = task.cache.get("kernels", {})
    slot = slots.get(_key(layout, settings))
    return None if slot is None else slot.call


def on_disk(task: Task, layout: Layout, settings: Settings) -> bool:
    """Whether loading the kernel means reading machine code rather than compiling."""
    name = _slot(task, layout, settings).name
    return name is not None and kernels.is_on_disk(name)


def name_of(task: Task, layout: Layout, settings: Settings) -> str:
    """The kernel's name on disk; one of this task's own where its rules cannot be read."""
    return _slot(task, layout, settings).name or f"{id(task)} {_key(layout, settings)}"


def find_kernel(task: Task, layout: Layout, settings: Settings, meanwhile: str = "") -> Kernel | None:
    """Load or compile the kernel; warn once and return None when the task does not compile. `meanwhile`: what goes on
    while it is compiled, in words."""
    with LOCK:
        slot = _slot(task, layout, settings)
        if not slot.tried:
            slot.tried = True
            try:
                slot.loaded = _loaded(task, layout, settings, meanwhile)
                slot.call = _form(task, slot.loaded.call)
            except Exception as error:  # numba raises many kinds; all mean the same here
                warn_user(_explained(task, error), UncompilableWarning)
        return slot.call


def _loaded(task: Task, layout: Layout, settings: Settings, meanwhile: str) -> kernels.Kernel:
    def warm(kernel: Kernel) -> None:
        _warm(_form(task, kernel), task, layout, settings)

    what = f"{settings.algorithm} for task {task.name!r}{meanwhile}"
    return kernels.load(task, layout, _kind(settings), warm, what)


def held(task: Task, layout: Layout, settings: Settings, inputs: Inputs, edges: int) -> Kernel | None:
    """The kernel, if there is one: at its first use on this machine after a sample of these windows was searched by the
    plain engine too. One that gives other bytes is refused, and named in a warning. `edges`: of all windows, roughly.
    """
    with LOCK:
        slot = _slot(task, layout, settings)
        kernel = slot.call
        if kernel is None or slot.held:
            return kernel
        if slot.name is None or not kernels.is_held(slot.name):

            def search(few: Inputs, outputs: Outputs, plainly: Callable[[int], None]) -> None:
                run(kernel, settings, few.repeated(), outputs, plainly)

            cause = difference(search, task, layout, settings, inputs, edges, branches(settings))
            if cause is not None:
                slot.call = slot.loaded = None
                words = f"the kernel of {settings.algorithm} for task {task.name!r} is not used"
                warn_user(f"{words}: it gives other bytes than plain Python ({cause})", UncompilableWarning)
                return None
            if slot.name is not None:
                kernels.keep_held(slot.name)
        slot.held = True
        return kernel


def _explained(task: Task, error: Exception) -> str:
    if isinstance(error, Refused):
        return explain(task, error.findings)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (
        f"task {task.name!r} does not compile, so it runs in plain Python (same results, slower). "
        f"Cause: {type(error).__name__}: {' '.join(lines[:3])[:400]}"
    )


def _form(task: Task, kernel: Kernel) -> Kernel:
    return _from_step_0(kernel) if task.timed else kernel


def _from_step_0(kernel: Kernel) -> Kernel:
    """A kernel whose states carry the step index behind their own numbers, called with states that do not."""

    def call(iset: Any, fset: Any, states: Floats, *rest: Any) -> Any:
        rows = np.concatenate([states, np.zeros((len(states), 1))], axis=1)
        rows.flags.writeable = False
        return kernel(iset, fset, rows, *rest)

    return call


def no_windows(task: Task, layout: Layout, settings: Settings) -> Inputs:
    """What a kernel reads of a panel that is not looked at."""
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
    return Inputs(*map(read_only, inputs))


def _warm(kernel: Kernel, task: Task, layout: Layout, settings: Settings) -> None:
    """Compile (or load) the machine code by running no windows."""
    outputs = Outputs.empty(1, task.action_array.size, settings.depth, False)
    _call(kernel, settings, no_windows(task, layout, settings), outputs, 0, 0)


_packed: dict[Settings, tuple[Ints, Floats, Floats]] = {}


def _pack(settings: Settings) -> tuple[Ints, Floats, Floats]:
    packed = _packed.get(settings)
    if packed is None:
        s = settings
        iset = np.array(
            [s.depth, s.reach, s.width, s.top_k, s.keep, s.spread, s.use_bound, COMPLETION_CAP, s.node_budget,
             s.every_action, s.simulations, ENUMERATE_BELOW, DP_SWITCH, *s.extra_i], np.int64,
        )  # fmt: skip
        fset = np.array([s.risk, s.prune_risk, s.info_bonus, s.c_uct, s.tail, *s.extra_f])
        packed = (iset, fset, np.array(s.discounts))
        if len(_packed) > 1024:
            _packed.clear()
        if len(s.extra_i) <= 1024:  # a warm start for a whole panel is long and not asked for twice
            _packed[settings] = packed
    return packed


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
    stop: Callable[[], bool] | None = None,
) -> None:
    """All windows, in ranges over a thread pool; the result does not depend on how they are split. A window in which
    a rule raises is given to `plainly`, the plain engine, and stops no other. `stop` is asked before every range: from
    then on windows are OUT_OF_TIME."""
    windows = inputs.states.shape[0]
    inputs = Inputs(*map(read_only, inputs))

    def part(first: int, last: int) -> None:
        # Not a function that calls itself: it would hold itself, and every array here, until a garbage collection.
        todo = [(first, last)]
        while todo:
            lo, hi = todo.pop()
            if stop is not None and stop():
                for w in range(lo, hi):
                    outputs.blank(w, Status.OUT_OF_TIME)
                continue
            try:
                _call(kernel, settings, inputs, outputs, lo, hi)
            except Exception:
                if hi - lo == 1:
                    plainly(lo)
                    continue
                middle = (lo + hi) // 2
                todo += [(middle, hi), (lo, middle)]

    if windows == 1 or (threads == 1 and progress is None and stop is None):
        part(0, windows)
        return
    most = 16 * threads if windows < 1 << 16 else 64 * threads
    if stop is None:  # every range makes room of its own, which may cost as much as a window's search
        most = max(4 * threads, min(most, windows // 4))
    parts = max(1, min(windows, most))
    edges = [windows * i // parts for i in range(parts + 1)]
    ranges = [(a, b) for a, b in pairwise(edges) if b > a]

    def counted_part(edges: tuple[int, int]) -> int:
        part(*edges)
        return edges[1] - edges[0]

    with ThreadPoolExecutor(max_workers=threads) as pool:
        for count in pool.map(counted_part, ranges):
            if progress is not None:
                progress(count)
