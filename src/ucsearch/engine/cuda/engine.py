"""Run a panel on the GPU: build the kernel for its shapes, hold a sample against the CPU, then stream the windows.

The kernels are those of `engine/kernels`, as device functions. A device gives out no memory and does not run every
`prepare`: where a task does not say how its table is made in room that is there, the CPU makes the tables, and they
are copied with the rest of the panel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import ENUMERATE_BELOW, Inputs, ISet, Outputs, read_only
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import engine as compiled
from ucsearch.engine.compiled.compile import LOCK
from ucsearch.engine.compiled.first_use import SAMPLED, spread_over, take
from ucsearch.engine.cuda.device import NotOnDevice, find_cuda, is_simulated, launchable, unfused, verify
from ucsearch.engine.cuda.jit import Counting, Cuda
from ucsearch.engine.cuda.stream import Launch, StreamOptions, stream
from ucsearch.engine.kernels.common import rules
from ucsearch.engine.kernels.common.shapes import Shape
from ucsearch.engine.plain.run import run_window
from ucsearch.engine.registry import ALGORITHMS
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.rules.dialect import findings, roles_asked
from ucsearch.rules.source import Unreadable
from ucsearch.task import Task

__all__ = ["StreamOptions", "run_on_device"]

_NODES = 4_096  # of an exact search in one thread; windows with more are finished by the CPU
_LOOKS = 2_048  # nodes that a thread spends on telling a dead end from an exhausted search
_LOCAL_LIMIT = 128 * 1024  # bytes of scratch a thread may have
_SAMPLED_PLAINLY = 24  # windows held against the CPU at a kernel's first use where its own kernel is not compiled
_PART = 1 << 19  # windows whose tables the CPU makes at a time
_UNUSED = np.zeros((1, 1, 1))  # scores, which the modes of the GPU do not read


class _Kernel:
    def __init__(self, entry: Any, shape: Shape) -> None:
        self.entry = entry
        self.tabled = shape.bounded and shape.room == (0, 0, 0, 0)  # the CPU makes its tables
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
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, outputs: Outputs, way: StreamOptions
) -> NDArray[np.int64]:
    """Search all windows on the GPU and return those it left to the CPU. What cannot run there is refused by name."""
    cuda = find_cuda()
    try:
        kernel = _kernel(task, layout, settings, inputs, outputs.paths.shape[0] > 0)
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
    return _streamed(kernel, launch, task, layout, settings, inputs, outputs, way)


def _streamed(
    kernel: _Kernel, launch: Launch, task: Task, layout: Layout, settings: Settings, inputs: Inputs, outputs: Outputs,
    way: StreamOptions,
) -> NDArray[np.int64]:  # fmt: skip
    windows = inputs.windows
    if not kernel.tabled:
        return stream(launch, _rows(task, inputs), outputs, way)
    undone = []
    for lo in range(0, windows, _PART):
        hi = min(lo + _PART, windows)
        part = take(inputs, slice(lo, hi))
        tables, without = _tables(task, layout, settings, part, way.threads)
        arrays: list[Any] = [x[lo:hi] for x in outputs]
        stream(launch, _rows(task, part, tables), Outputs(*arrays), way)
        arrays[0][without, 0] = -1
        undone.append(lo + np.flatnonzero(arrays[0][:, 0] < 0))
    return np.concatenate(undone)


def _rows(task: Task, inputs: Inputs, tables: NDArray[np.float64] = _UNUSED) -> Inputs:
    """As the kernel reads them: states that carry the step index behind their own numbers, where the rules take it, and
    tables in the place of scores."""
    states = inputs.states
    if task.timed:
        states = np.concatenate([states, np.zeros((len(states), 1))], axis=1)
    return inputs._replace(states=states, q=tables, u=_UNUSED)


# -------------------------------------------------------------------- building


def _kernel(task: Task, layout: Layout, settings: Settings, inputs: Inputs, paths: bool) -> _Kernel:
    if settings.algorithm not in ("beam", "exact") or settings.mode not in (MODES["mean"], MODES["members"]):
        name = next(n for n, number in MODES.items() if number == settings.mode)
        raise NotOnDevice(f"algorithm {settings.algorithm!r} in mode {name!r} has no kernel for the GPU")
    iset = [int(x) for x in compiled._pack(settings)[0]]
    given = tuple(iset)
    iset[ISet.CAP] = min(iset[ISet.CAP], _LOOKS)
    if settings.algorithm == "exact":
        iset[ISet.NODE_BUDGET] = min(iset[ISet.NODE_BUDGET], _NODES)
    with LOCK:
        built: dict[Any, _Kernel] = task.cache.setdefault("cuda kernels", {})
        key = (layout, settings.algorithm, settings.mode, settings.use_bound, tuple(iset),
               inputs.actions.shape[1], inputs.members.shape[1], paths)  # fmt: skip
        if key not in built:
            members = settings.mode == MODES["members"]
            outside = findings(task, layout, roles_asked(task, members, settings.use_bound), device=True)
            if outside:
                raise NotOnDevice("; ".join(map(str, outside)))
            from ucsearch.engine.cuda import entry as entries

            heap = _heap(task, layout, settings, inputs)
            if 8 * heap > _LOCAL_LIMIT:
                raise NotOnDevice(f"a thread would need {8 * heap:,} bytes of scratch, more than {_LOCAL_LIMIT:,}")
            panel_of, shape = _built(task, layout, settings, Cuda(heap))
            entry = entries.build(panel_of, tuple(iset), tuple(iset) != given, paths)
            built[key] = _Kernel(launchable(entry, _name(task, layout, settings, (*key[4:], given, heap))), shape)
        return built[key]


def _name(task: Task, layout: Layout, settings: Settings, more: tuple[Any, ...]) -> str | None:
    """On disk; None where the rules cannot be read. `more`: what the kernel is fitted to."""
    kind = kernels.KernelKind(ALGORITHMS[settings.algorithm].module, settings.mode, settings.use_bound)
    try:
        digest = hashlib.sha256(kernels.name_of(task, layout, kind).encode())
    except Unreadable:
        return None
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    digest.update(repr((_version(), more)).encode())
    return digest.hexdigest()


def _version() -> str:
    try:
        return version("numba-cuda")
    except PackageNotFoundError:  # numba's own
        return ""


def _built(task: Task, layout: Layout, settings: Settings, jit: Any) -> tuple[Any, Shape]:
    functions, shape = rules.build(task, layout, settings.mode, settings.use_bound, jit)
    return import_module(ALGORITHMS[settings.algorithm].module).build(functions, shape, jit), shape


def _heap(task: Task, layout: Layout, settings: Settings, inputs: Inputs) -> int:
    """Numbers that a thread's arrays take: those of the entry, told by running it in Python with no windows, and of a
    programme over states."""
    jit = Counting()
    panel_of, shape = _built(task, layout, settings, jit)
    few = Inputs(*(x[:1] for x in _rows(task, inputs)))
    outputs = Outputs.empty(1, inputs.actions.shape[1], settings.depth, False)
    iset, fset, discounts = compiled._pack(settings)
    panel_of(iset, fset, *few, discounts, *outputs, 0, 0)
    m = inputs.actions.shape[1]
    by_states = settings.algorithm == "exact" and not shape.members and not settings.use_bound
    if by_states and m**settings.depth > ENUMERATE_BELOW:
        jit.numbers += jit.rows * (shape.n + 6) + 8  # states, tags and slots, and what each is worth
    return jit.numbers


def _tables(
    task: Task, layout: Layout, settings: Settings, inputs: Inputs, threads: int
) -> tuple[NDArray[np.float64], list[int]]:
    """The table of every window's bound, and the windows in which `prepare` gives none or one of another size."""
    call = _maker(task, layout, settings)
    iset, fset, discounts = compiled._pack(settings)
    inputs = Inputs(*map(read_only, inputs))
    sizes = np.zeros(4, np.int64)
    windows, without, out = inputs.windows, list[int](), np.empty((1, 0))
    for w in range(windows):  # the first window with a table says how large one is
        try:
            call(iset, fset, *inputs, discounts, out, sizes, w, w + 1)
            break
        except Exception:  # the task's own fault in this window, which the CPU will name
            continue
    shape = tuple(int(x) for x in sizes[1 : 1 + sizes[0]])
    out = np.zeros((windows, int(np.prod(shape, dtype=np.int64))))

    def part(first: int, last: int) -> None:
        todo = [(first, last)]
        while todo:
            lo, hi = todo.pop()
            try:
                call(iset, fset, *inputs, discounts, out, np.zeros(4, np.int64), lo, hi)
            except Exception:
                if hi - lo == 1:
                    without.append(lo)
                    continue
                middle = (lo + hi) // 2
                todo += [(lo, middle), (middle, hi)]

    if out.shape[1] == 0:
        return np.zeros((windows, 1)), list(range(windows))
    edges = [windows * i // (4 * threads) for i in range(4 * threads + 1)]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        list(pool.map(lambda edge: part(*edge), [(a, b) for a, b in pairwise(edges) if b > a]))
    return out.reshape(windows, *shape), sorted(without)


def _maker(task: Task, layout: Layout, settings: Settings) -> Callable[..., Any]:
    """The kernel of tables, compiled; in Python where a device is but simulated."""
    kind = kernels.KernelKind("ucsearch.engine.kernels.tables", settings.mode, settings.use_bound)
    built: dict[Any, Any] = task.cache.setdefault("cuda tables", {})
    key = (layout, kind)
    with LOCK:
        if key not in built:
            if is_simulated():
                built[key] = kernels.plain(task, layout, kind)
            else:

                def warm(call: Any) -> None:
                    iset, fset, discounts = compiled._pack(settings)
                    inputs = compiled.no_windows(task, layout, settings)
                    call(iset, fset, *inputs, discounts, np.empty((1, 0)), np.zeros(4, np.int64), 0, 0)

                built[key] = kernels.load(task, layout, kind, warm, f"tables for task {task.name!r}")
    found = built[key]
    made: Callable[..., Any] = getattr(found, "call", found)
    return made


# -------------------------------------------------------------------- first use


def _check(
    kernel: _Kernel, launch: Launch, task: Task, layout: Layout, settings: Settings, inputs: Inputs, outputs: Outputs
) -> None:
    """Compile, read the assembly, and hold a sample against the CPU byte by byte."""
    ready = compiled.ready_kernel(task, layout, settings)
    if ready is None and not is_simulated() and compiled.on_disk(task, layout, settings):
        ready = compiled.find_kernel(task, layout, settings)
    chosen = spread_over(inputs.windows, _SAMPLED_PLAINLY if ready is None else SAMPLED)
    few = take(inputs, chosen)
    m, d, paths = outputs.flags.shape[1], settings.depth, outputs.paths.shape[0] > 0
    on_cpu, on_device = (Outputs.empty(len(chosen), m, d, paths) for _ in range(2))
    with LOCK, unfused():
        try:
            _streamed(kernel, launch, task, layout, settings, few, on_device, StreamOptions(1, None, None))
        except Exception as error:  # numba raises many kinds; all say that this does not compile or run there
            kernel.refused = f"its kernel does not run: {type(error).__name__}: {_first_line(error)}"
            raise NotOnDevice(kernel.refused) from None
        verify(kernel.entry)

    def plainly(w: int) -> None:
        run_window(task, settings, layout, few, on_cpu, w, {})

    if ready is None:
        for w in range(len(chosen)):
            plainly(w)
    else:
        compiled.run(ready, settings, few, on_cpu, plainly)
    done = on_device.out_i[:, 0] >= 0
    pairs: list[tuple[str, Any, Any]] = list(zip(Outputs._fields, on_cpu, on_device, strict=True))
    for name, a, b in pairs:
        if a.shape[0] and a[done].tobytes() != b[done].tobytes():
            kernel.refused = f"a sample of {len(chosen)} windows gave other bytes than the CPU (in {name})"
            raise NotOnDevice(kernel.refused)
    kernel.checked = True


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:300]
