"""Files from strangers: lines of bounded length, and SQLite as its authors advise for untrusted files.

https://sqlite.org/security.html: nothing of the schema is trusted, no memory map, cells are checked, lengths are
limited, statements may only read our tables, and an operation that takes too many steps is interrupted. A log's tables
must be word for word those that the writer makes; of its indexes and triggers some may be missing, none be added. Every
page is checked before an entry is read, and every index against its table: one that lacks an entry would hide it from
whoever looks into the log, an override for instance, while the chain is right.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from ucsearch.verify.verdict import Malformed

APPLICATION_ID = 0x55434131  # "UCA1"
LONGEST_LINE = 128 << 20  # bytes of an exported entry, its arrays included
LONGEST_VALUE = 64 << 20  # bytes of a record or an array
STEPS_A_CALL = 10_000  # virtual machine steps between two looks at the limit
STEPS_A_BYTE = 20  # what a log may take by its size; reading one takes less than 1
FREE_STEPS = 10_000_000
SCHEMA_STEPS = 100_000  # ours takes some hundred; where pages are shared, a small file can have any number of rows

FORMAT = 1
# First digits of the SHA-256 of what the writer puts into sqlite_master.
SCHEMA = {
    "blobs": "13c9cc69f487e392",
    "entries": "cc03ea96a601cdca",
    "entries_id": "d0dadff1f02fcd57",
    "entries_outcome": "75180b273a9d645d",
    "entries_reason": "5ed7e3cd9af3f063",
    "entries_series": "9275601d9bb4f89d",
    "entries_overrides": "1624d8b2424633cf",
    "entries_decision": "263c930d1dfbbe96",
    "entries_plan": "2a91a5c7e0a96f3f",
    "entries_rare": "8a596da31b08036d",
    "entries_request": "bc195fe865f96bfd",
    "entries_append": "ac11970f5ba68267",
    "entries_update": "240ac7b4182b38dc",
    "entries_delete": "3fd95f73d72f179c",
    "blobs_append": "b2d19987c2458b9a",
    "blobs_update": "abe4f2ea998298b7",
    "blobs_delete": "d56db04b2fdbec46",
}
TABLES = ("blobs", "entries")
_OWN_INDEX = re.compile("sqlite_autoindex_(blobs|entries)_1")
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000, sqlite3.SQLITE_LIMIT_COLUMN: 64, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4, sqlite3.SQLITE_LIMIT_VDBE_OP: 10_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8, sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 8,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100, sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}  # fmt: skip


MOST_SKIPPED = 4 * LONGEST_LINE  # bytes


def open_regular(path: Path) -> BinaryIO:
    """A file to read from. A pipe or a device, which may never answer or never end, is an `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def lines(path: Path, place: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Place and bytes of every line from a place on, without its end; None for one that is too long to look at. Beyond
    one whose end is not found nearby nothing is looked at: a hole of a terabyte takes no room on a disk, but hours to
    read."""
    with path.open("rb") as file:
        file.seek(place)
        while line := file.readline(LONGEST_LINE + 1):
            long = len(line) > LONGEST_LINE
            yield place, None if long else line.rstrip(b"\r\n")
            skipped = 0
            while long and line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE + 1)
                skipped += len(line)
                if skipped > MOST_SKIPPED:
                    return
            place = file.tell()


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A log to read from."""
    wal = path.with_name(path.name + "-wal")
    more = wal.stat().st_size if wal.exists() else 0
    size = path.stat().st_size + more
    _settled(path)
    # Without a write-ahead log no index of it is needed, and a read-only medium will do.
    still = "" if more else "&immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{still}", uri=True)) as log:
        log.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        log.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(1_000, min(size, LONGEST_VALUE)))
        for limit, value in _LIMITS.items():
            log.setlimit(limit, value)
        log.set_progress_handler(_steps(SCHEMA_STEPS), STEPS_A_CALL)
        pragmas = ("cell_size_check = ON", "mmap_size = 0", "query_only = ON")
        for pragma in (*pragmas, *(["trusted_schema = OFF"] if _can_distrust() else [])):
            log.execute(f"PRAGMA {pragma}").close()
        # Until the schema is known to be the writer's, its text is all that is read.
        log.set_authorizer(_reading("sqlite_master", "sqlite_schema"))
        _check_schema(log, path)
        log.set_authorizer(_reading(*TABLES))
        log.set_progress_handler(_steps(FREE_STEPS + STEPS_A_BYTE * size), STEPS_A_CALL)
        if (told := log.execute("PRAGMA integrity_check(1)").fetchone()) != ("ok",):
            raise Malformed(f"{path}: damaged ({told[0] if told else 'no answer'})")
        yield log


def _settled(path: Path) -> None:
    """A journal of changes that were not finished: whoever opens the log to write finds another content than we do."""
    journal = path.with_name(path.name + "-journal")
    try:
        with open_regular(journal) as file:
            begun = file.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return
    if begun:
        raise Malformed(f"{path}: {journal.name} lies beside it: changes that were not finished, and not undone yet")


def _steps(most: int) -> Any:
    left = most // STEPS_A_CALL

    def count() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return count


def _reading(*tables: str) -> Any:
    """Nothing but to read these tables, and to ask the file about itself."""

    def allow(action: int, first: str | None, second: str | None, schema: str | None, inside: str | None) -> int:
        reading = action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and first in tables)
        asking = action == sqlite3.SQLITE_PRAGMA and first in ("application_id", "user_version", "integrity_check")
        # What our generated columns are computed by.
        computing = action == sqlite3.SQLITE_FUNCTION and second in ("json_extract", "json_type", "coalesce")
        return sqlite3.SQLITE_OK if reading or asking or computing else sqlite3.SQLITE_DENY

    return allow


@cache
def _can_distrust() -> bool:
    """Whether a table with our generated columns can be read where no schema is trusted: SQLite's JSON functions were
    long not marked as harmless. Where not, the comparison of the schema with the writer's has to do."""
    with closing(sqlite3.connect(":memory:")) as probe:
        probe.execute("CREATE TABLE t (a TEXT, b TEXT GENERATED ALWAYS AS (json_extract(a, '$.b')) VIRTUAL)")
        probe.execute("PRAGMA trusted_schema = OFF")
        try:
            probe.execute("SELECT b FROM t").fetchall()
        except sqlite3.Error:
            return False
    return True


def _check_schema(log: sqlite3.Connection, path: Path) -> None:
    """Whether it is a log of this format, with the writer's tables, indexes and triggers."""
    (application,), (version,) = (
        log.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if (application, version) != (APPLICATION_ID, FORMAT):
        raise Malformed(f"{path}: not an audit log")
    seen = set()
    for kind, name, sql in log.execute("SELECT type, name, sql FROM sqlite_master"):
        if sql is None and kind == "index" and _OWN_INDEX.fullmatch(str(name)):
            continue
        text = str(sql).encode("utf-8", "surrogateescape")
        if SCHEMA.get(name) != hashlib.sha256(text).hexdigest()[:16]:
            raise Malformed(f"{path}: the {kind} {name!r} of its schema is not one that a log has")
        seen.add(name)
    if lacking := [name for name in TABLES if name not in seen]:
        raise Malformed(f"{path}: not an audit log: it has no table {lacking[0]}")
