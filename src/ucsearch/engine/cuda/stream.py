"""Windows through the GPU in chunks: pinned buffers, two streams, copies of one chunk under the work of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, Outputs, Status
from ucsearch.engine.compiled.engine import _pack
from ucsearch.engine.cuda.device import is_simulated
from ucsearch.policies import Settings

__all__ = ["Launch", "stream"]

BLOCK = 128  # threads
_SLOT_BYTES = 1 << 27  # pinned memory of a chunk, in and out together
_MOST_WINDOWS = 1 << 17  # of a chunk: some ten milliseconds of copying
_SLOTS = 2
_FEWEST_BLOCKS = 128  # numba warns of fewer; threads without a window end at once
_COPIED = 1 << 22  # bytes that a host thread copies at a time

Array = NDArray[Any]


class Launch:
    """A kernel with its settings on the device."""

    def __init__(self, cuda: Any, entry: Any, settings: Settings) -> None:
        self.cuda, self.entry = cuda, entry
        self.slots: list[_Slot] = []  # kept from one panel to the next: pinned memory is slow to get
        self.settings = [cuda.to_device(x) for x in _pack(settings)[1:]]

    def __call__(self, stream: Any, inputs: list[Any], outputs: list[Any], windows: int) -> None:
        fset, discounts = self.settings
        blocks, block = (windows + BLOCK - 1) // BLOCK, min(BLOCK, windows)
        if not is_simulated():
            blocks = max(blocks, _FEWEST_BLOCKS)
        try:
            self.entry[blocks, block, stream](fset, *inputs, discounts, *outputs, 0, windows)
        except (ArithmeticError, IndexError, MemoryError, ValueError):
            # On a device a thread that raises ends alone; numba's simulator ends them all.
            if not is_simulated():
                raise
            for w in range(windows):
                with suppress(ArithmeticError, IndexError, MemoryError, ValueError):
                    self.entry[1, 1, stream](fset, *inputs, discounts, *outputs, w, w + 1)


class _Slot:
    """Buffers for one chunk, on both sides, and the stream that serves them."""

    def __init__(self, launch: Launch, inputs: Inputs, outputs: Outputs, shared: list[Any], windows: int) -> None:
        cuda = launch.cuda
        self.key = _slot_key(inputs, outputs, shared, windows)
        self.launch, self.stream = launch, cuda.stream()
        self.sources: Iterable[Array] = ()
        self.targets: Iterable[Array] = ()
        self.host_in: list[Array | None] = []
        self.device_in: list[Any] = []
        for array, whole in zip(inputs, shared, strict=True):
            shape = (windows, *array.shape[1:])
            self.host_in.append(None if whole is not None else cuda.pinned_array(shape, array.dtype))
            self.device_in.append(cuda.device_array(shape, array.dtype) if whole is None else whole)
        self.host_out = [cuda.pinned_array((windows, *x.shape[1:]), x.dtype) if len(x) else None for x in outputs]
        self.device_out = [
            cuda.device_array((windows, *x.shape[1:]) if len(x) else (1, 1, 1), x.dtype) for x in outputs
        ]
        self.lo = self.hi = 0

    def serve(self, inputs: Inputs, outputs: Outputs, shared: list[Any]) -> None:
        """Take another panel of the same shapes."""
        self.sources, self.targets = inputs, outputs
        self.device_in = [own if whole is None else whole for own, whole in zip(self.device_in, shared, strict=True)]

    def start(self, lo: int, hi: int, pool: ThreadPoolExecutor) -> None:
        """Put a chunk's work on the stream; returns once its inputs are in pinned memory."""
        self.lo, self.hi, n = lo, hi, hi - lo
        pairs = [(h[:n], s[lo:hi]) for h, s in zip(self.host_in, self.sources, strict=True) if h is not None]
        _copy(pairs, pool)
        for host, device in zip(self.host_in, self.device_in, strict=True):
            if host is not None:
                device[:n].copy_to_device(host[:n], stream=self.stream)
        self.launch(self.stream, self.device_in, self.device_out, n)
        for host, device in zip(self.host_out, self.device_out, strict=True):
            if host is not None:
                device[:n].copy_to_host(host[:n], stream=self.stream)

    def finish(self, pool: ThreadPoolExecutor) -> tuple[int, Array]:
        """Wait for the chunk and hand its results over; returns how many windows, and those left undone."""
        self.stream.synchronize()
        n = self.hi - self.lo
        status: Any = self.host_out[0]
        undone = pool.submit(lambda: np.flatnonzero(status[:n, 0] < 0) + self.lo)
        targets: list[Array] = list(self.targets)
        _copy(
            [(t[self.lo : self.hi], h[:n]) for h, t in zip(self.host_out, targets, strict=True) if h is not None], pool
        )
        left = undone.result()
        self.hi = self.lo
        return n, left


class StreamOptions(NamedTuple):
    """How a panel is worked through."""

    threads: int  # of the host
    progress: Callable[[int], None] | None  # told of windows done
    stop: Callable[[], bool] | None  # says when time is up


def stream(launch: Launch, inputs: Inputs, outputs: Outputs, way: StreamOptions) -> NDArray[np.int64]:
    """Every window of `inputs`; returns those left undone, whose status is negative."""
    windows = len(inputs.states)
    inputs = Inputs(*(_filled(np.ascontiguousarray(x)) for x in inputs))
    shared = [launch.cuda.to_device(x) if x.shape[0] != windows or windows == 1 else None for x in inputs]
    row = sum(x[:1].nbytes for x in (*inputs, *outputs))
    chunk = max(1, min(windows, _MOST_WINDOWS, _SLOT_BYTES // max(row, 1)))
    edges = list(range(0, windows, chunk)) + [windows]
    key, kept_slots = _slot_key(inputs, outputs, shared, chunk), launch.slots
    launch.slots = []  # another thread at the same kernel makes its own
    slots = kept_slots if kept_slots and kept_slots[0].key == key else []
    while len(slots) < min(_SLOTS, len(edges) - 1):
        slots.append(_Slot(launch, inputs, outputs, shared, chunk))
    undone: list[Array] = []
    for slot in slots:
        slot.serve(inputs, outputs, shared)
    with ThreadPoolExecutor(max_workers=max(1, way.threads)) as pool:
        for i, (lo, hi) in enumerate(pairwise(edges)):
            slot = slots[i % len(slots)]
            _finish(slot, pool, way.progress, undone)
            if way.stop is not None and way.stop():
                for w in range(lo, windows):
                    outputs.blank(w, Status.OUT_OF_TIME)
                break
            slot.start(lo, hi, pool)
        for slot in sorted(slots, key=lambda s: s.lo):
            _finish(slot, pool, way.progress, undone)
    for slot in slots:
        slot.sources = slot.targets = ()
    launch.slots = slots
    return np.sort(np.concatenate(undone)) if undone else np.empty(0, np.int64)


def _slot_key(inputs: Inputs, outputs: Outputs, shared: list[Any], windows: int) -> tuple[Any, ...]:
    whole = tuple(x is not None for x in shared)
    return windows, whole, tuple(x.shape[1:] for x in inputs), tuple((x.shape[1:], len(x) > 0) for x in outputs)


def _finish(slot: _Slot, pool: ThreadPoolExecutor, progress: Callable[[int], None] | None, left: list[Array]) -> None:
    if slot.hi > slot.lo:
        count, undone = slot.finish(pool)
        left.append(undone)
        if progress is not None:
            progress(count)


def _filled(array: Array) -> Array:
    """At least one number: a device has no arrays without any."""
    return array if array.size else np.zeros([max(1, x) for x in array.shape], array.dtype)


def _copy(pairs: list[tuple[Array, Array]], pool: ThreadPoolExecutor) -> None:
    """Each (to, from), in pieces over the host's threads; NumPy lets go of the interpreter while it copies."""
    jobs = []
    for to, source in pairs:
        rows = max(1, _COPIED // max(1, source[:1].nbytes))
        jobs += [(to[i : i + rows], source[i : i + rows]) for i in range(0, len(source), rows)]
    list(pool.map(lambda job: np.copyto(*job), jobs))
