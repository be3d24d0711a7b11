"""Entries for tests of the log, and a hand that alters its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch.records import AuditLog, blob_id, blob_ref, encode_array
from ucsearch.records.sqlite import SCHEMA

__all__ = ["altered", "decision", "fill", "with_blob"]


def decision(n: int, **more: Any) -> dict[str, Any]:
    outcome = ("RELEASED", "FALLBACK", "HOLD")[n % 3]
    reason = ("certified", "not_risk_active", "fallback_infeasible")[n % 3]
    return {
        "schema": "ucsearch.decision/1",
        "kind": "decision",
        "series": f"SKU-{n // 2:03d}",
        "outcome": outcome,
        "reason": reason,
        "action": float(n),
        "claim": {"gap": n / 7, "margin": "inf"},
        **more,
    }


def with_blob(n: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    blob = encode_array(np.full((2, 3), n / 3))
    return decision(n, trace=blob_ref(blob)), {blob_id(blob): blob}


def fill(path: Path, count: int, start: int = 0) -> None:
    with AuditLog(path) as log:
        for n in range(start, start + count):
            log.append(*with_blob(n))


def altered(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Do to the file what the triggers forbid, and leave no trace of having removed them."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA synchronous = OFF")
        triggers = {name: sql for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")}
        for name in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(*((statement,) if isinstance(statement, str) else statement))
        for sql in triggers.values():
            raw.execute(sql)
