"""A few of a run's decisions as lines of an exported log, for the independent verifier."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from ucsearch.decision.decision import Decision
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import GENESIS, entry_digest, next_head
from ucsearch.records.record import decision_record

__all__ = ["chained", "entry"]


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
