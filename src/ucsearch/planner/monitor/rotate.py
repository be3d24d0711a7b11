"""`ucsearch log rotate`: what the next file of a log begins with, so that it can be followed without the one before."""

from __future__ import annotations

import heapq
import os
from datetime import datetime
from typing import Any

from ucsearch.monitor.journal import Journal, settings_content
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.records.rotation import Rotated, rotate

__all__ = ["carried", "rotate_log"]


def rotate_log(path: str | os.PathLike[str], *, at: datetime, by: str, why: str) -> Rotated:
    return rotate(path, carry=lambda reader: carried(reader, at, by, why), at=at, by=by, why=why)


def carried(reader: AuditReader, at: datetime, by: str, why: str) -> list[dict[str, Any]]:
    """The monitors as they stand, and the pauses that have not ended: by them the next file can be followed alone."""
    journal = Journal()
    pauses: dict[str, Row] = {}
    for row in heapq.merge(*(reader.iterate(kind) for kind in ("outcome", "monitor")), key=lambda row: row.seq):
        journal.add(row.record)
    for row in reader.iterate("control"):
        pauses[row.record["plan"]] = row
    out: list[dict[str, Any]] = []
    for plan, watched in sorted(journal.plans.items()):
        pool = watched.monitor.status()
        out.append(
            {
                "schema": "ucsearch.monitor/1", "kind": "monitor", "plan": plan, "series": "", "event": "carried",
                "evidence": pool.evidence, "count": pool.outcomes, "about": "", "at": at.isoformat(), "by": by,
                "why": why, "settings": settings_content(watched.monitor.settings, watched.period),
                "state": watched.state(),
            }
        )  # fmt: skip
    for _, row in sorted(pauses.items()):
        # As it was written (who, why and until when), but for the request, which the entry itself has answered.
        said = {name: value for name, value in row.record.items() if name not in ("id", "request")}
        if said["action"] == "pause":
            out.append({"carried": row.seq, **said})
    return out
