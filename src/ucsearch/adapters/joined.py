"""Forecasts of several quantities, each from a library of its own, as one: a price and a load, say."""

from __future__ import annotations

import numpy as np

from ucsearch.adapters.base import TraceSet
from ucsearch.errors import InputError
from ucsearch.joint import join_traces
from ucsearch.trace import Trace

__all__ = ["join_trace_sets"]


def join_trace_sets(*sets: TraceSet) -> TraceSet:
    """One set whose outcomes have the fields of all, in order; windows belong together by id, cutoff and first step.

    Member j of a window stays with member j of the others, as `uc.join_traces` has it: paths that were drawn together
    stay together, comonotone members move together, independent ones stay independent.
    """
    if not sets:
        raise InputError("sets", "none", "at least one")
    first = sets[0]
    wanted = _keys(first)
    traces: list[Trace | tuple[Trace, ...]] = []
    for i, one in enumerate(sets):
        place = {key: w for w, key in enumerate(_keys(one))}
        missing = [key for key in wanted if key not in place]
        if missing or len(place) != len(wanted):
            seen = f"no {missing[0]}" if missing else f"{len(place)} windows"
            raise InputError("sets", seen, f"the {len(wanted)} windows of the first", index=i)
        order = np.array([place[key] for key in wanted])
        own = one.traces
        traces.append(own.some(order) if isinstance(own, Trace) else tuple(own[w] for w in order.tolist()))
    report = tuple(repair for one in sets for repair in one.report)
    panels = [t for t in traces if isinstance(t, Trace)]
    if len(panels) == len(sets):
        return TraceSet(first.ids, join_traces(*panels), first.ds, first.cutoff, report)
    windows = [[t.window(w) if isinstance(t, Trace) else t[w] for t in traces] for w in range(len(first))]
    return TraceSet(first.ids, tuple(join_traces(*parts) for parts in windows), first.ds, first.cutoff, report)


def _keys(one: TraceSet) -> list[tuple[str, str, str]]:
    """Of every window; what a set does not say is "" for all of its windows."""
    blank = ("",) * len(one)
    return list(zip(one.ids, one.cutoff or blank, one.ds or blank, strict=True))
