"""Forecasts that were made elsewhere and stored: quantiles of trained networks, looked up by series and cutoff.

A file has `ids` and `starts` (the first period decided of each series), and for each network an array of shape
(series, decisions, steps, levels). Beside it stands how it was made, with its hash; another file is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.forecast.base import PathForecast, refuse_known
from ucsearch.replay.panel import Stretch

__all__ = ["FOLDER", "LEVELS", "StoredTraces", "read_traces"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDER = "traces"
LEVELS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
"""Middle quantiles of ten equal shares: as members they weigh the same."""


@lru_cache(maxsize=4)
def read_traces(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a stored file, if they are the ones its evidence speaks of."""
    folder = resources.files("ucsearch.lab.suites") / FOLDER
    if not (folder / f"{name}.npz").is_file():
        raise InputError("traces", repr(name), "the name of stored forecasts; `make backbones` makes them")
    content = (folder / f"{name}.npz").read_bytes()
    expected = json.loads((folder / f"{name}.json").read_text("utf-8"))["sha256"]
    seen = hashlib.sha256(content).hexdigest()
    if seen != expected:
        raise DataError(f"{name}.npz: SHA-256 is {seen}, but its evidence says {expected}")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {one: file[one] for one in file.files}


@dataclass(frozen=True)
class StoredTraces:
    """What the network of a family said about one window. A member takes the same quantile at every step."""

    name: str  # of the file
    floor: float
    stretch: Stretch | None = None

    def of(self, stretch: Stretch) -> StoredTraces:
        """The same forecasts, for one window."""
        return StoredTraces(self.name, self.floor, stretch)

    def min_history(self, season: int) -> int:
        return 1

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        refuse_known("a stored forecast", known)
        if self.stretch is None:
            raise InputError("traces", self.name, "a window to look up")
        held = read_traces(self.name)
        network = self.stretch.family.split("-", 2)[1]
        places = np.flatnonzero(held["ids"] == self.stretch.series)
        if network not in held or len(places) != 1:
            raise DataError(f"{self.name}: no forecasts of {network} for series {self.stretch.series}")
        place = int(places[0])
        at = np.asarray(cutoffs, np.int64) + 1 - int(held["starts"][place])
        stored = held[network][place]  # (decisions, steps, levels)
        if at[0] < 0 or at[-1] >= len(stored) or horizon > stored.shape[1]:
            raise DataError(
                f"{self.name}: decisions {at[0]} to {at[-1]}, {horizon} steps of series {self.stretch.series}: "
                f"saw {len(stored)} decisions, {stored.shape[1]} steps"
            )
        members = np.maximum(np.swapaxes(stored[at, :horizon].astype(np.float64), 1, 2), self.floor)  # (O, J, H)
        return PathForecast(
            members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs, np.int64), network, "marginal"
        )
