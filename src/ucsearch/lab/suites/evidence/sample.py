"""The decisions of a run that are exported for the verifier, and the lines of a log that they become.

They are drawn by a hash of all rows, so that nobody picks them: whoever changes a row has another sample to show.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from ucsearch.decision.decision import Decision
from ucsearch.lab.suites.evidence.rows import Row, row_bytes, sort_rows
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import GENESIS, entry_digest, next_head
from ucsearch.records.record import decision_record

__all__ = ["Drawn", "chained", "draw", "draw_series", "entry"]


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


def entry(series: str, decision: Decision, where: str) -> dict[str, Any]:
    """A decision as JSON values: its sealed record and the blobs it refers to; `where` is its task's name."""
    record, blobs = decision_record(decision, series=series, where=where)
    return {"record": record, "blobs": {name: b64encode(data).decode("ascii") for name, data in blobs.items()}}


def chained(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries as lines of an exported log, chained from its beginning; no clock."""
    lines, head = [], GENESIS
    for seq, one in enumerate(entries, start=1):
        digest = entry_digest(canonical(one["record"]))
        previous, head = head, next_head(head, seq, digest, None)
        lines.append({**one, "digest": digest, "head": head, "previous": previous, "seq": seq, "written_at": None})
    return lines
