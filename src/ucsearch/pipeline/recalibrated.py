"""Forecasts of a panel recalibrated before planning, and how that is recorded so that a verifier can do it again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucsearch.forecast.recalibrate import (
    LEAST_PATHS,
    Correction,
    Recalibration,
    Sums,
    recalibrate_trace,
)
from ucsearch.records.blobs import blob_id, encode_array
from ucsearch.records.writer import Recalibrated
from ucsearch.trace import Trace

__all__ = ["correction_for", "paths_of", "recalibrated_trace", "recorded_changes"]

Floats = NDArray[np.float64]


def correction_for(found: dict[str, Correction], series: str, steps: int) -> Correction:
    """The series' own, or none at all for a series without a past."""
    if series in found:
        return found[series]
    nothing = np.zeros(steps)
    return Correction(nothing, np.ones(steps), Sums(*(nothing,) * 9), np.zeros((0, steps)))


def paths_of(fix: Correction, how: Recalibration) -> int:
    """How many members a window has after method "paths"; 0 where it keeps its own."""
    count = 0 if fix.paths is None or how.method != "paths" else len(fix.paths)
    return count if count >= LEAST_PATHS else 0


def recalibrated_trace(raw: Trace, fixes: Sequence[Correction], how: Recalibration) -> Trace:
    """The trace that is planned on: `raw` itself where too little is known of its past."""
    if how.method == "paths" and not paths_of(fixes[0], how):
        return raw
    return recalibrate_trace(raw, fixes, how)


def recorded_changes(raw: Trace, fixes: Sequence[Correction], how: Recalibration, steps: int) -> list[Recalibrated]:
    """What the records of the first `steps` steps say about how their members came about; every step has its own."""
    return [_recorded(raw.window(w), fix, how, steps) for w, fix in enumerate(fixes)]


def _recorded(raw: Trace, fix: Correction, how: Recalibration, steps: int) -> Recalibrated:
    blobs: dict[str, bytes] = {}

    def kept(array: object) -> dict[str, str]:
        blob = encode_array(np.asarray(array))
        name = blob_id(blob)
        blobs[name] = blob
        return {"$blob": name}

    floor: float | str = how.floor if np.isfinite(how.floor) else "-inf"
    part: dict[str, object] = {
        "method": how.method, "season": how.season, "cycles": how.cycles, "scale": how.scale, "floor": floor,
        "members": kept(raw.members[:, :, :steps]), "weights": kept(raw.weights),
    }  # fmt: skip
    if how.method == "paths":
        part["errors"] = kept(None if fix.paths is None else fix.paths[:, :steps])
    else:
        part["b"], part["c"] = fix.b[:steps].tolist(), fix.c[:steps].tolist()
        part["sums"] = {name: row[:steps].tolist() for name, row in fix.sums._asdict().items()}
    return Recalibrated(part, blobs)
