"""Several quantities forecast together, such as price and load: one trace of outcomes with several fields."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.trace import Trace

__all__ = ["join_traces"]

Floats = NDArray[np.float64]
_JOINED = ("joint", "comonotone", "independent")


def join_traces(*traces: Trace) -> Trace:
    """One trace whose outcomes have the fields of all, in order. Member j of each belongs to member j of the others, as
    they were handed over: a trace sorts its members, so joining by its own order would pair them at random.

    Needs traces just made, of the same windows, members, steps, weights and coupling.
    """
    if not traces:
        raise InputError("traces", "none", "at least one")
    first = traces[0]
    for i, trace in enumerate(traces):
        if not isinstance(trace, Trace):
            raise InputError("traces", type(trace).__name__, "a uc.Trace", index=i)
        if trace.is_scores:
            raise InputError("traces", "a trace of scores", "members", index=i)
        if trace.members.shape[:3] != first.members.shape[:3] or trace.panel != first.panel:
            expected = f"the first one's {first.members.shape[:3]} windows, members and steps"
            raise InputError("traces", f"{trace.members.shape[:3]}", expected, index=i)
        if trace.coupling not in _JOINED or trace.coupling != first.coupling:
            raise InputError("traces", f"coupling {trace.coupling!r}", f"{first.coupling!r}, one of {_JOINED}", index=i)
        if "stood" not in trace.__dict__:
            raise InputError(
                "traces", "a trace that was loaded or unpickled", "one just made", index=i,
                hint="Else nobody knows which member belongs to which. Stack arrays: from_members(..., fields=...).",
            )  # fmt: skip
        if not np.array_equal(_weights(trace), _weights(first)):
            raise InputError("traces", "other weights", "the first one's, member by member", index=i)
    members = np.concatenate([_as_given(t.members, t.__dict__["stood"]) for t in traces], axis=3)
    equal = first.weights.shape[0] == 1 and bool((first.weights == first.weights[0, 0]).all())
    weights = None if equal else _weights(first) if first.panel else _weights(first)[0]
    names = " + ".join(t.model for t in traces if t.model)
    return Trace.from_members(
        members if first.panel else members[0], weights,
        fields=members.shape[3], coupling=first.coupling, model=names, cutoff=_common(traces, "cutoff"),
        issued=_common(traces, "issued"), notes=tuple(dict.fromkeys(note for t in traces for note in t.notes)),
    )  # fmt: skip


def _as_given(values: Any, stood: NDArray[np.int32]) -> Floats:
    """(W, J, ...) in the order in which members were handed over."""
    out: Floats = np.empty_like(values)
    at = stood.reshape(stood.shape + (1,) * (values.ndim - 2)).astype(np.int64)
    np.put_along_axis(out, np.broadcast_to(at, values.shape), values, axis=1)
    return out


def _weights(trace: Trace) -> Floats:
    """(W, J) in the order in which members were handed over."""
    whole = np.ascontiguousarray(np.broadcast_to(trace.weights, trace.members.shape[:2]))
    return _as_given(whole, trace.__dict__["stood"])


def _common(traces: tuple[Trace, ...], name: str) -> Any:
    """What all say that say anything."""
    found = {getattr(t, name) for t in traces if getattr(t, name)}
    if len(found) > 1:
        raise InputError(f"traces.{name}", " and ".join(str(x) for x in sorted(found)), "the same for all")
    if not found:
        return None
    (times,) = found
    return times[0] if len(times) == 1 else list(times)
