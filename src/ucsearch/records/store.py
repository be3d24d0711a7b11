"""The SQLite file under the audit log: its tables, its settings, and what its errors mean.

Tables are strict and append-only: triggers refuse every update and delete, and every insert that is not the
next number or that would replace something (`INSERT OR REPLACE` deletes without firing delete triggers).
Columns for filtering are computed from the record itself, so there is nothing beside it to fall out of step.

Format 1 knew an entry by its record's id, so a second equal decision left no trace. In format 2 entries are numbers,
ids may come again, and what a repeat is, the member `request` says. Logs of format 1 can be read, not written to;
`upgrade.py` turns one into the other.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from ucsearch.errors import InputError, RecordError
from ucsearch.records.chain import GENESIS
from ucsearch.records.files import check_is_file, new_file, present, sync_folder

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "PRAGMAS",
    "RARE",
    "SCHEMA",
    "SCHEMAS",
    "among",
    "check_links",
    "closed_by",
    "connect",
    "create_tables",
    "dial",
    "explain",
    "find",
    "format_of",
    "is_damage",
    "schema_problem",
    "tail",
]

APPLICATION_ID = 0x55434131  # "UCA1"
FORMAT = 2
_FEW = 8  # each number of them is a statement of its own
OLDEST_SQLITE = (3, 37, 0)  # strict tables

RARE = "kind NOT IN ('decision', 'refusal', 'outcome')"  # a query must say it in these words to use the index
_REFUSED = "BEGIN SELECT raise(ABORT, 'the log is append-only'); END"
_BLOBS = {
    "blobs": """CREATE TABLE blobs (
  id TEXT NOT NULL PRIMARY KEY,
  data BLOB NOT NULL
) STRICT"""
}
# What both formats compute from a record.
_COLUMNS = """  kind TEXT GENERATED ALWAYS AS (json_extract(body, '$.kind')) VIRTUAL,
  outcome TEXT GENERATED ALWAYS AS (
    CASE json_type(body, '$.outcome') WHEN 'object' THEN json_extract(body, '$.outcome.outcome')
    ELSE json_extract(body, '$.outcome') END
  ) VIRTUAL,
  reason TEXT GENERATED ALWAYS AS (
    COALESCE(json_extract(body, '$.reason'), json_extract(body, '$.outcome.reason'))
  ) VIRTUAL,
  series TEXT GENERATED ALWAYS AS (json_extract(body, '$.series')) VIRTUAL,
  overrides TEXT GENERATED ALWAYS AS (json_extract(body, '$.overrides')) VIRTUAL"""
_INDEXES = {
    "entries_outcome": "CREATE INDEX entries_outcome ON entries (outcome)",
    "entries_reason": "CREATE INDEX entries_reason ON entries (reason)",
    "entries_series": "CREATE INDEX entries_series ON entries (series)",
    "entries_overrides": "CREATE INDEX entries_overrides ON entries (overrides) WHERE overrides IS NOT NULL",
}
_TRIGGERS = {
    "entries_update": f"""CREATE TRIGGER entries_update BEFORE UPDATE ON entries
{_REFUSED}""",
    "entries_delete": f"""CREATE TRIGGER entries_delete BEFORE DELETE ON entries
{_REFUSED}""",
    "blobs_append": f"""CREATE TRIGGER blobs_append BEFORE INSERT ON blobs
WHEN EXISTS (SELECT 1 FROM blobs WHERE id = NEW.id)
{_REFUSED}""",
    "blobs_update": f"""CREATE TRIGGER blobs_update BEFORE UPDATE ON blobs
{_REFUSED}""",
    "blobs_delete": f"""CREATE TRIGGER blobs_delete BEFORE DELETE ON blobs
{_REFUSED}""",
}
SCHEMA = {
    **_BLOBS,
    "entries": f"""CREATE TABLE entries (
  seq INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL,
  digest TEXT NOT NULL,
  head TEXT NOT NULL,
  written_at TEXT,
  body TEXT NOT NULL,
{_COLUMNS},
  decision TEXT GENERATED ALWAYS AS (json_extract(body, '$.decision')) VIRTUAL,
  plan TEXT GENERATED ALWAYS AS (json_extract(body, '$.plan')) VIRTUAL,
  request_key TEXT GENERATED ALWAYS AS (json_extract(body, '$.request.key')) VIRTUAL,
  request_item INTEGER GENERATED ALWAYS AS (json_extract(body, '$.request.item')) VIRTUAL
) STRICT""",
    "entries_id": "CREATE INDEX entries_id ON entries (id)",
    **_INDEXES,
    "entries_decision": "CREATE INDEX entries_decision ON entries (decision) WHERE decision IS NOT NULL",
    "entries_plan": "CREATE INDEX entries_plan ON entries (plan) WHERE plan IS NOT NULL",
    # Pauses and what monitors did are few among many decisions.
    "entries_rare": f"CREATE INDEX entries_rare ON entries (kind, plan) WHERE {RARE}",
    "entries_request": "CREATE UNIQUE INDEX entries_request ON entries (request_key, request_item)"
    " WHERE request_key IS NOT NULL",
    "entries_append": f"""CREATE TRIGGER entries_append BEFORE INSERT ON entries
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
  OR EXISTS (SELECT 1 FROM entries WHERE request_key = json_extract(NEW.body, '$.request.key')
    AND request_item = json_extract(NEW.body, '$.request.item'))
{_REFUSED}""",
    **_TRIGGERS,
}
LATER = ("entries_rare",)  # indexes that came after the first logs of format 2: without them a log is slower, not wrong
SCHEMA_1 = {
    **_BLOBS,
    "entries": f"""CREATE TABLE entries (
  seq INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  head TEXT NOT NULL,
  written_at TEXT,
  body TEXT NOT NULL,
{_COLUMNS}
) STRICT""",
    **_INDEXES,
    "entries_append": f"""CREATE TRIGGER entries_append BEFORE INSERT ON entries
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
  OR EXISTS (SELECT 1 FROM entries WHERE id = NEW.id)
{_REFUSED}""",
    **_TRIGGERS,
}
SCHEMAS = {1: SCHEMA_1, FORMAT: SCHEMA}

# Durability rests on these: in WAL mode FULL syncs the WAL before a commit returns; fullfsync is what makes
# that reach the disk on macOS (elsewhere it does nothing).
PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA cache_size = -16384",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 2000",
    "PRAGMA journal_size_limit = 67108864",
)
# Two records with their arrays fill a page of 8 KiB well; it must be chosen before the file has content.
PAGE_SIZE = "PRAGMA page_size = 8192"


def connect(path: Path, *, timeout_s: float, read_only: bool, max_pages: int | None) -> sqlite3.Connection:
    """Open, and unless `read_only` create, the file of a log; anything else found there is refused."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise RecordError(f"SQLite {sqlite3.sqlite_version} is too old for an audit log, expected 3.37 or newer")
    if not (timeout_s >= 0 and math.isfinite(timeout_s)):
        raise InputError("timeout_s", timeout_s, "a finite number of seconds, 0 or more")
    if max_pages is not None and not max_pages > 0:
        raise InputError("max_pages", max_pages, "a positive number of pages, or None")
    _check_place(path, read_only)
    try:
        if read_only:
            return _open_read_only(path, timeout_s)
        return _open_to_write(path, timeout_s, max_pages)
    except sqlite3.Error as error:
        raise explain(path, error, timeout_s) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged schema in its message
        raise RecordError(f"{path}: the file is damaged ({error})") from error


def check_links(path: Path) -> None:
    """A link in the log's place, or in that of the files SQLite keeps beside it, would have it read or written
    somewhere else."""
    check_is_file(path)
    for name in (path.name, *(path.name + end for end in ("-wal", "-shm", "-journal"))):
        if not present(path.with_name(name)):
            continue
        mode = path.with_name(name).lstat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
            raise RecordError(f"{path.with_name(name)}: saw {what}, expected a file of the log")


def _check_place(path: Path, read_only: bool) -> None:
    if path.name == ":memory:":
        raise RecordError("an audit log needs a file; memory does not outlive the process")
    check_links(path)
    if path.is_dir():
        raise RecordError(f"{path}: saw a folder, expected an audit log")
    if path.exists():
        # SQLite would open it read-only in silence and fail at the first decision.
        effective = os.access in os.supports_effective_ids
        if not read_only and not os.access(path, os.W_OK, effective_ids=effective):
            raise RecordError(f"{path}: the log is read-only; nothing can be recorded")
    elif read_only:
        raise RecordError(f"{path}: no such log")
    elif not path.parent.is_dir():
        raise RecordError(f"{path}: the folder {path.parent} does not exist")


def dial(path: Path, query: str, timeout_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,  # transactions are begun and committed by hand
        check_same_thread=False,  # AuditLog has a lock of its own
    )
    # Text that somebody tampered with may not be UTF-8; it must reach the verifier all the same.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def _open_read_only(path: Path, timeout_s: float) -> sqlite3.Connection:
    try:
        return _open_ours(path, "mode=ro", timeout_s)
    except sqlite3.OperationalError:
        # On a read-only medium SQLite cannot create its index of the WAL; an empty WAL needs none.
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            raise
    return _open_ours(path, "mode=ro&immutable=1", timeout_s)


def _open_ours(path: Path, query: str, timeout_s: float) -> sqlite3.Connection:
    connection = dial(path, query, timeout_s)
    try:
        if not isinstance(format_of(connection), int):
            raise RecordError(f"{path}: not an audit log of this package")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_write(path: Path, timeout_s: float, max_pages: int | None) -> sqlite3.Connection:
    _create_private(path)
    connection = dial(path, "mode=rw", timeout_s)
    try:
        if (state := format_of(connection)) == "foreign":
            raise RecordError(f"{path}: not an audit log of this package")
        if state not in ("empty", FORMAT):
            raise RecordError(
                f"{path}: a log of format {state}, which can be read but not written to; turn it into format {FORMAT} "
                f"with: ucsearch log upgrade {path}"
            )
        if state == "empty":
            connection.execute(PAGE_SIZE)
        _enter_wal(connection, timeout_s)
        for pragma in PRAGMAS:
            connection.execute(pragma)
        if max_pages is not None:
            connection.execute(f"PRAGMA max_page_count = {int(max_pages)}")
        if state == "empty":
            _create(connection, path)
        if problem := schema_problem(connection):
            raise RecordError(f"{path}: {problem}; nothing will be recorded in it")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_private(path: Path) -> None:
    # Made here, because SQLite would leave it to the umask; the files it adds take mode and owner from this one.
    try:
        os.close(new_file(path, 0o600, like=path.parent))
    except FileExistsError:
        return
    except OSError as error:
        raise RecordError(f"{path}: cannot be created ({error.strerror})") from error


def format_of(connection: sqlite3.Connection) -> int | str:
    """Number of the log's format; "empty" for a file without content, "foreign" for anything else."""
    # One statement, hence one snapshot: another process may be creating the log right now.
    (identity, version, objects) = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id),"
        " (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchone()
    if identity == APPLICATION_ID and version in SCHEMAS:
        return int(version)
    return "empty" if (identity, version, objects) == (0, 0, 0) else "foreign"


def _enter_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    # Changing the journal mode does not wait for locks by itself, so two creators would trip over each other.
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.002)
    if mode != "wal":
        raise RecordError(f"the file system does not allow write-ahead logging (journal mode {mode})")


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if format_of(connection) == "empty":  # another process may have been first
        create_tables(connection)
    connection.execute("COMMIT")
    sync_folder(path.absolute().parent)


def create_tables(connection: sqlite3.Connection) -> None:
    """Tables, indexes and triggers of this format, inside the caller's transaction."""
    for name, statement in SCHEMA.items():
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is None:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def schema_problem(connection: sqlite3.Connection) -> str:
    """What differs from the tables, indexes and triggers of a log; empty if nothing does."""
    known = format_of(connection)
    if not isinstance(known, int):
        return "it is not an audit log of this package"
    expected = SCHEMAS[known]
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"))
    if found == expected:
        return ""
    for name in expected:
        if found.get(name) != expected[name] and not (name in LATER and name not in found):
            return f"{name} of its schema is {'altered' if name in found else 'missing'}"
    foreign = set(found) - set(expected)
    return f"its schema has the foreign object {min(foreign)}" if foreign else ""


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite found the file itself wrong (and not merely busy or out of reach)."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain(path: Path, error: sqlite3.Error, timeout_s: float) -> RecordError:
    """The sentence for an SQLite error; in each case nothing of the transaction was kept."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        text = f"another writer held the log for more than {timeout_s:g} s; nothing was recorded, try again"
    elif code == sqlite3.SQLITE_FULL:
        text = "the disk (or the log's page limit) is full; nothing was recorded"
    elif code == sqlite3.SQLITE_READONLY:
        text = "the log is read-only; nothing was recorded"
    elif code == sqlite3.SQLITE_NOTADB:
        text = "not an audit log: SQLite does not recognise the file"
    elif code == sqlite3.SQLITE_CORRUPT:
        text = f"the file is damaged ({error})"
    elif code == sqlite3.SQLITE_CANTOPEN:
        text = f"{error}; its folder must be readable, and writable for recording"
    else:
        text = f"{error}; nothing counts as recorded"
    return RecordError(f"{path}: {text}")


def among(values: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What stands after IN, and its parameters. A few are named one by one: reading them from a list takes several
    times as long as finding them."""
    if 0 < len(values) <= _FEW:
        return f"({', '.join('?' * len(values))})", tuple(values)
    return "(SELECT value FROM json_each(?))", (json.dumps(values),)


def tail(connection: sqlite3.Connection) -> tuple[int, str]:
    """Number and head of the last entry."""
    found = connection.execute("SELECT seq, head FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, GENESIS) if found is None else (found[0], found[1])


def closed_by(connection: sqlite3.Connection) -> str:
    """Name of the file in which the log goes on; "" while this one is written to."""
    found = connection.execute(
        f"SELECT CAST(body AS BLOB) FROM entries WHERE kind = 'rotation' AND {RARE} ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    return "" if found is None else str(json.loads(found[0]).get("next", ""))


def find(connection: sqlite3.Connection, id: str, entry: int | None) -> tuple[int, bytes] | None:
    """Number and body of the entry with this id, and this number if one is given; else of the first one."""
    found = connection.execute(
        "SELECT seq, CAST(body AS BLOB) FROM entries WHERE id = ? AND seq = coalesce(?, seq) ORDER BY seq LIMIT 1",
        (id, entry),
    ).fetchone()
    return None if found is None else (found[0], found[1])
