"""Run a panel on the GPU: build the kernel for its shapes, hold a sample against the CPU, then stream the windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, Outputs
from ucsearch.engine.compiled import engine as compiled
from ucsearch.engine.compiled.codegen import kernel_body
from ucsearch.engine.compiled.compile import LOCK
from ucsearch.engine.cuda.allowed import NotOnDevice
from ucsearch.engine.cuda.device import find_cuda, is_simulated, load_entry, unfused, verify_unfused
from ucsearch.engine.cuda.stream import Launch, Way, stream
from ucsearch.engine.cuda.text import LOCAL_LIMIT, device_text, measuring_text, pool_numbers
from ucsearch.engine.plain.run import run_window
from ucsearch.engine.status import ENUMERATE_BELOW
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.sources import Unsourced
from ucsearch.task import Task

__all__ = ["Way", "run_on_device"]

_NODES = 4_096  # of an exact search in one thread; windows with more are finished by the CPU
_SAMPLED = 256  # windows held against the CPU at a kernel's first use
_SAMPLED_PLAINLY = 24  # where the CPU's own kernel is not compiled
_MEASURED = 8  # windows whose heap is measured


class _Body(NamedTuple):
    """The text of a kernel before it is fitted to shapes, for the rules in force."""

    body: str
    ready: Callable[..., Any]  # the task's tables, in plain Python
    space: dict[str, Any]


class _Top(list[int]):
    """Where a heap's free room begins, and the furthest it has been."""

    most = 0

    def __setitem__(self, at: Any, value: Any) -> None:
        super().__setitem__(at, value)
        self.most = max(self.most, value)


class _Kernel:
    def __init__(self, entry: Any, heap: int) -> None:
        self.entry, self.heap = entry, heap
        self.last: tuple[Settings, Launch] | None = None
        self.checked = False
        self.refused = ""  # why, if its first use showed other bytes

    def launch(self, cuda: Any, settings: Settings) -> Launch:
        """The kernel with these settings; the last one keeps its buffers."""
        with LOCK:
            if self.last is None or self.last[0] != settings:
                self.last = (settings, Launch(cuda, self.entry, settings))
            return self.last[1]


def run_on_device(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, outputs: Outputs, way: Way
) -> NDArray[np.int64]:
    """Search all windows on the GPU and return those it left to the CPU. What cannot run there is refused by name."""
    cuda = find_cuda()
    rows = _with_step(task, inputs)
    try:
        kernel = _kernel(task, layout, settings, rows, outputs.paths.shape[0] > 0)
        if kernel.refused:
            raise NotOnDevice(kernel.refused)
        launch = kernel.launch(cuda, settings)
        if not kernel.checked:
            _check(kernel, launch, task, layout, settings, inputs, outputs)
    except NotOnDevice as why:
        raise InputError(
            "engine", "'cuda'", f"a task and policy that the GPU answers with the CPU's bytes; {task.name!r} does not",
            hint=f"{str(why)[0].upper()}{str(why)[1:]}. Use engine='compiled'.",
        ) from None  # fmt: skip
    return stream(launch, rows, outputs, way)


def _with_step(task: Task, inputs: Inputs) -> Inputs:
    """States that carry the step index behind their own numbers, where the rules take it."""
    if not task.timed:
        return inputs
    return inputs._replace(states=np.concatenate([inputs.states, np.zeros((len(inputs.states), 1))], axis=1))


# -------------------------------------------------------------------- building


def _kernel(task: Task, layout: Layout, settings: Settings, inputs: Inputs, paths: bool) -> _Kernel:
    if settings.algorithm not in ("beam", "exact") or settings.mode not in (MODES["mean"], MODES["members"]):
        name = next(n for n, number in MODES.items() if number == settings.mode)
        raise NotOnDevice(f"algorithm {settings.algorithm!r} in mode {name!r} has no kernel for the GPU")
    m, members = inputs.actions.shape[1], inputs.members.shape[1]
    with LOCK:
        body = _body(task, layout, settings)
        iset = compiled._pack(settings)[0].tolist()
        heap = _heap(body, settings, inputs, layout.size + bool(task.timed))
        kept: dict[Any, _Kernel] = task.__dict__.setdefault("_kept_cuda", {})
        key = (body.body, tuple(iset), m, members, paths)
        found = kept.get(key)
        if found is not None and found.heap >= heap:
            return found
        shapes = {"actions": (1, m), "members": (1, members, inputs.members.shape[2], 1)}
        text = device_text(
            body.body, iset, shapes, heap, _NODES if settings.algorithm == "exact" else None, keep_paths=paths
        )
        kept[key] = made = _Kernel(load_entry(text), heap)
        return made


def _body(task: Task, layout: Layout, settings: Settings) -> _Body:
    kept: dict[Any, _Body] = task.__dict__.setdefault("_kept_cuda_bodies", {})
    key = (layout, settings.mode, settings.algorithm, settings.use_bound)
    if key in kept:
        return kept[key]
    try:
        body = kernel_body(task, layout, settings.mode, settings.algorithm, settings.use_bound, fills=False)
    except Unsourced as error:
        raise NotOnDevice(f"its functions cannot be written out: {error}") from None
    space: dict[str, Any] = {}
    exec(compile(measuring_text(body), "<ucsearch kernel, measured>", "exec"), space)
    kept[key] = made = _Body(body, space["uc_ready"], space)
    return made


def _heap(body: _Body, settings: Settings, inputs: Inputs, columns: int) -> int:
    """Numbers a thread's heap must hold: the tables of the windows looked at, and room for a small programme."""
    s, need = settings, 1
    m, told = inputs.actions.shape[1], max(settings.reach - body.space["LATER"], 1)
    for w in _spread(len(inputs.states), _MEASURED):
        room, top = np.empty(LOCAL_LIMIT // 8), _Top((0,))
        row = {name: w if getattr(inputs, name).shape[0] > 1 else 0 for name in ("params", "actions", "weights")}
        with np.errstate(all="ignore"):
            try:
                body.ready(
                    (room, top), w, s.depth, s.reach, s.risk, (s.spread, s.tail), s.use_bound,
                    body.space["uc_params"](inputs.params, row["params"]), inputs.mean, inputs.members, inputs.weights,
                    row["weights"], inputs.q, inputs.u, inputs.actions, row["actions"], np.empty(s.depth + 1),
                    np.empty(told), np.empty((inputs.members.shape[1], told)),
                    np.empty(inputs.members.shape[1] * ((told + 3) // 4 * 4)),
                )  # fmt: skip
            except MemoryError:
                raise NotOnDevice(f"the tables of its bound take more than {LOCAL_LIMIT:,} bytes a window") from None
            except Exception:  # the task's own fault in this window, which the CPU will name
                continue
        need = max(need, top.most)
    if s.algorithm == "exact" and not s.use_bound and m**s.depth > ENUMERATE_BELOW:
        need += pool_numbers(columns)
    return need


def _spread(windows: int, count: int) -> list[int]:
    """At most `count` windows, evenly over the panel."""
    return sorted({windows * i // count for i in range(count)}) if windows > count else list(range(windows))


# -------------------------------------------------------------------- first use


def _check(
    kernel: _Kernel, launch: Launch, task: Task, layout: Layout, settings: Settings, inputs: Inputs, outputs: Outputs
) -> None:
    """Compile, read the assembly, and hold a sample against the CPU byte by byte."""
    ready = compiled.ready_kernel(task, layout, settings)
    if ready is None and not is_simulated() and compiled.on_disk(task, layout, settings):
        ready = compiled.find_kernel(task, layout, settings)
    chosen = np.array(_spread(len(inputs.states), _SAMPLED_PLAINLY if ready is None else _SAMPLED))
    few = take(inputs, chosen)
    m, d, paths = outputs.flags.shape[1], settings.depth, outputs.paths.shape[0] > 0
    here, there = (Outputs.empty(len(chosen), m, d, paths) for _ in range(2))
    with LOCK, unfused():
        try:
            stream(launch, _with_step(task, few), there, Way(1, None, None))
        except Exception as error:  # numba raises many kinds; all say that this does not compile or run there
            kernel.refused = f"its kernel does not run: {type(error).__name__}: {_first_line(error)}"
            raise NotOnDevice(kernel.refused) from None
        verify_unfused(kernel.entry)

    def plainly(w: int) -> None:
        run_window(task, settings, layout, few, here, w, {})

    if ready is None:
        for w in range(len(chosen)):
            plainly(w)
    else:
        compiled.run(ready, settings, few, here, plainly)
    done = there.out_i[:, 0] >= 0
    pairs: list[tuple[str, Any, Any]] = list(zip(Outputs._fields, here, there, strict=True))
    for name, a, b in pairs:
        if a.shape[0] and a[done].tobytes() != b[done].tobytes():
            kernel.refused = f"a sample of {len(chosen)} windows gave other bytes than the CPU (in {name})"
            raise NotOnDevice(kernel.refused)
    kernel.checked = True


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:300]


def take(inputs: Inputs, windows: NDArray[np.int64]) -> Inputs:
    """Some windows of a panel; what all windows share stays shared."""
    total = len(inputs.states)
    return Inputs(*(x[windows] if x.shape[0] == total and total > 1 else x for x in inputs))
