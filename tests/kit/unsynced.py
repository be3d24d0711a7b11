"""Logs that do not wait for the disk: no test cuts the power, and a commit that waits takes milliseconds.

What a process that dies leaves is the same. That the product does wait is shown by `tests/records/test_audit.py` and
`tests/records/test_audit_durability.py`, with `SYNCED`.
"""

from __future__ import annotations

from ucsearch.records import sqlite as store

__all__ = ["SYNCED", "do_not_sync"]

SYNCED = store.PRAGMAS
"""As the product has them."""


def do_not_sync() -> None:
    """For this process, to its end; processes that it starts sync."""
    store.PRAGMAS = (*SYNCED, "PRAGMA synchronous = OFF")
