"""The no-go audit: does a route have anything to offer on validation, before its test split is touched?

A validation row may carry `audit`: the best delayed credit and the best risk reduction (or other figures) that any
candidate showed in that window. A window counts if one of them is positive; below a share of 0.95 the route stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.rows import Row, sort_rows
from ucsearch.lab.suites.protocol.comparison import SHARE, gate_row

__all__ = ["audit_rows", "is_stopped"]

ANY = "positive_candidate"


def audit_rows(rows: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Share of windows with any positive figure, then the share of each figure alone; None if no row has an audit.

    Only the first row decides. A validation row without an audit counts as a window without a positive candidate.
    """
    audits = [row.get("audit") or {} for row in sort_rows(rows) if row["split"] == "validation"]
    if not any(audits):
        return None
    names = sorted({name for audit in audits for name in audit})
    return [_row(ANY, audits, names), *(_row(name, audits, [name]) for name in names)]


def _row(name: str, audits: Sequence[Mapping[str, Any]], figures: Sequence[str]) -> dict[str, Any]:
    positive = sum(any((audit.get(f) or 0.0) > 0.0 for f in figures) for audit in audits)
    return {"windows": len(audits), "positive": positive, **gate_row(name, positive / len(audits), ">=", SHARE)}


def is_stopped(audit: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether the audit ends the route; then nobody opens its test split."""
    return bool(audit) and not (audit or [{}])[0].get("pass", False)
