"""Which decisions of a run are exported for the verifier: drawn by a hash of the rows, so that nobody picks them.

The hash covers all rows. Whoever changes a row has another sample to show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from ucsearch.lab.suites.evidence.rows import Row, row_bytes, sort_rows

__all__ = ["Drawn", "draw", "draw_series"]


class Drawn(NamedTuple):
    """One decision of one test window."""

    family: str
    series: str
    window: int
    step: int  # counted from 0

    @property
    def name(self) -> str:
        """Under which its record is kept."""
        return f"{self.family}/{self.series}/{self.window}/{self.step}"


def draw(rows: Sequence[Row], count: int) -> list[Drawn]:
    """The `count` decisions of certified test windows that come first by hash, in the order of rows and steps."""
    key = hashlib.sha256(row_bytes(rows)).digest()
    every = [
        Drawn(row["family"], row["series"], row["window"], step)
        for row in sort_rows(rows)
        if row["split"] == "test" and row.get("certificate") and row.get("decisions")
        for step in range(int(row["decisions"]))
    ]
    places = sorted(range(len(every)), key=lambda i: _place(key, every[i].name))[:count]
    return [every[i] for i in sorted(places)]


def draw_series(rows: Sequence[Row], share: float) -> list[tuple[str, str]]:
    """A share of all series, at least one, by a hash of the rows; in order of family and series."""
    key = hashlib.sha256(b"series" + row_bytes(rows)).digest()
    every = sorted({(row["family"], row["series"]) for row in rows})
    count = min(len(every), max(1, round(share * len(every))))
    return sorted(sorted(every, key=lambda one: _place(key, "/".join(one)))[:count])


def _place(key: bytes, name: str) -> bytes:
    return hashlib.sha256(key + name.encode()).digest()
