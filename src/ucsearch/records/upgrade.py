"""Turn a log of an older format into today's: the same entries, bytes, times and heads, in new tables.

All in one exclusive transaction. The whole chain is checked before it; afterwards count and head must be what they
were, otherwise nothing is kept.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records.reader import AuditReader
from ucsearch.records.store import (
    FORMAT,
    PRAGMAS,
    SCHEMAS,
    check_links,
    create_tables,
    dial,
    explain,
    format_of,
    schema_problem,
    tail,
)

__all__ = ["Upgrade", "upgrade"]

_OLD = "old_entries"
_STORED = "seq, id, digest, head, written_at, body"


@dataclass(frozen=True)
class Upgrade:
    """What was done."""

    before: int  # format
    after: int
    count: int
    head: str


def upgrade(path: str | os.PathLike[str], *, timeout_s: float = 5.0) -> Upgrade:
    """Bring the log to today's format; one that has it already is left alone."""
    place = Path(path)
    with AuditReader(place, timeout_s=timeout_s) as reader:
        before = reader.format
        report = reader.verify()
        if not report.ok:
            raise RecordError(f"{place}: {report}; it stays as it is")
    if before == FORMAT:
        return Upgrade(before, before, report.count, report.head)
    check_links(place)
    try:
        with closing(dial(place, "mode=rw", timeout_s)) as connection:
            count, head = _rebuild(connection, place, report.head if report.count else "")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise explain(place, error, timeout_s) from error
    return Upgrade(before, FORMAT, count, head)


def _rebuild(connection: sqlite3.Connection, place: Path, checked: str) -> tuple[int, str]:
    for pragma in PRAGMAS:
        connection.execute(pragma)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        before = format_of(connection)
        if not isinstance(before, int) or before == FORMAT or (problem := schema_problem(connection)):
            raise RecordError(f"{place}: changed by somebody else meanwhile ({before}); it stays as it is")
        count, head = tail(connection)
        # Others may have appended since the chain was checked, but not changed what was.
        if checked and connection.execute("SELECT 1 FROM entries WHERE head = ?", (checked,)).fetchone() is None:
            raise RecordError(f"{place}: changed while it was checked; it stays as it is")
        for name, sql in SCHEMAS[before].items():
            kind = sql.split(maxsplit=2)[1]
            if kind in ("INDEX", "TRIGGER"):
                connection.execute(f"DROP {kind} {name}")
        connection.execute(f"ALTER TABLE entries RENAME TO {_OLD}")
        create_tables(connection)
        connection.execute(f"INSERT INTO entries ({_STORED}) SELECT {_STORED} FROM {_OLD} ORDER BY seq")
        connection.execute(f"DROP TABLE {_OLD}")
        problem = schema_problem(connection)
        if problem or tail(connection) != (count, head):
            raise RecordError(f"{place}: the new tables are not what they should be ({problem}); it stays as it is")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return count, head
