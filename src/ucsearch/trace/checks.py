"""What every trace keeps to: frozen arrays, times as texts, and nothing that no constructor makes."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.ensembles import (
    check_arrays,
    tree_order,
)
from ucsearch.errors import InputError
from ucsearch.law import check_declared

if TYPE_CHECKING:
    from ucsearch.trace.frozen import Trace

__all__ = ["ARRAYS", "COUPLINGS", "as_times", "check_trace", "freeze", "freeze_nodes", "pick"]

Floats = NDArray[np.float64]
COUPLINGS = ("joint", "comonotone", "independent", "tree", "markov")
ARRAYS = ("members", "weights", "mean", "q", "u")


def freeze_nodes(node: Any) -> NDArray[np.int64]:
    nodes = np.array(node, dtype=np.int64)
    nodes.flags.writeable = False
    return nodes


def as_times(value: Any, name: str, windows: int) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str | date | int | float | np.generic):
        value = (value,)
    try:
        items = list(value)
    except TypeError:
        raise InputError(name, type(value).__name__, "a time, or one per window") from None
    if len(items) not in (1, windows):
        raise InputError(name, f"{len(items)} times", f"1 or {windows}, one per window")
    out = []
    for i, item in enumerate(items):
        text = item.isoformat() if isinstance(item, date) else str(item)
        if not text:
            raise InputError(name, "an empty text", "a time", index=i)
        out.append(text)
    return tuple(out)


def pick(times: tuple[str, ...], w: int) -> tuple[str, ...]:
    return times if len(times) <= 1 else (times[w],)


def freeze(array: Floats) -> Floats:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def check_trace(trace: Trace) -> None:
    """Refuse what no `from_*` constructor makes."""
    count = check_arrays(*(getattr(trace, name) for name in ARRAYS))
    if not isinstance(trace.panel, bool) or (not trace.panel and count != 1):
        raise InputError("trace.panel", repr(trace.panel), f"True or False, and True for {count} windows")
    if trace.coupling not in COUPLINGS:
        raise InputError("trace.coupling", repr(trace.coupling), f"one of {COUPLINGS}")
    check_declared(trace.coupling, trace.declared, trace.members.shape, trace.node is not None)
    if trace.node is not None:
        _, _, nodes = tree_order(trace.members, trace.weights, trace.node)
        if trace.node.shape != nodes.shape or not bool((trace.node == nodes).all()):
            raise InputError("trace.node", "other numbers", "nodes numbered by first appearance")
    for name in ("cutoff", "issued", "notes"):
        texts = getattr(trace, name)
        if not isinstance(texts, tuple) or not all(isinstance(x, str) for x in texts):
            raise InputError(f"trace.{name}", repr(texts), "a tuple of texts")
        if name != "notes" and len(texts) not in (0, 1, count):
            raise InputError(f"trace.{name}", f"{len(texts)} times", f"none, 1 or {count}, one per window")
    if not isinstance(trace.model, str):
        raise InputError("trace.model", repr(trace.model), "a text")
