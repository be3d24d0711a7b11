"""The SQLite file under the audit log: its tables, its settings, its statements, and what its errors mean.

Tables are strict and append-only: triggers refuse every update and delete, and every insert that is not the
next number or that would replace something (`INSERT OR REPLACE` deletes without firing delete triggers).
Columns for filtering are computed from the record itself, so there is nothing beside it to fall out of step.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError, RecordError
from ucsearch.records.entries import GENESIS, OFTEN, Damaged, Entry, Query, Row
from ucsearch.records.files import check_is_file, new_file, present, sync_folder

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "PRAGMAS",
    "SCHEMA",
    "SqliteStore",
    "check_links",
    "connect",
    "create_tables",
    "dial",
    "explain",
    "format_of",
]

APPLICATION_ID = 0x55434131  # "UCA1"
FORMAT = 1
_FEW = 8  # each number of them is a statement of its own
OLDEST_SQLITE = (3, 37, 0)  # strict tables

_RARE = f"kind NOT IN {OFTEN!r}"  # a query must say it in these words to use the index
_REFUSED = "BEGIN SELECT raise(ABORT, 'the log is append-only'); END"
SCHEMA = {
    "blobs": """CREATE TABLE blobs (
  id TEXT NOT NULL PRIMARY KEY,
  data BLOB NOT NULL
) STRICT""",
    "entries": """CREATE TABLE entries (
  seq INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL,
  digest TEXT NOT NULL,
  head TEXT NOT NULL,
  written_at TEXT,
  body TEXT NOT NULL,
  kind TEXT GENERATED ALWAYS AS (json_extract(body, '$.kind')) VIRTUAL,
  outcome TEXT GENERATED ALWAYS AS (
    CASE json_type(body, '$.outcome') WHEN 'object' THEN json_extract(body, '$.outcome.outcome')
    ELSE json_extract(body, '$.outcome') END
  ) VIRTUAL,
  reason TEXT GENERATED ALWAYS AS (
    COALESCE(json_extract(body, '$.reason'), json_extract(body, '$.outcome.reason'))
  ) VIRTUAL,
  series TEXT GENERATED ALWAYS AS (json_extract(body, '$.series')) VIRTUAL,
  overrides TEXT GENERATED ALWAYS AS (json_extract(body, '$.overrides')) VIRTUAL,
  decision TEXT GENERATED ALWAYS AS (json_extract(body, '$.decision')) VIRTUAL,
  plan TEXT GENERATED ALWAYS AS (json_extract(body, '$.plan')) VIRTUAL,
  request_key TEXT GENERATED ALWAYS AS (json_extract(body, '$.request.key')) VIRTUAL,
  request_item INTEGER GENERATED ALWAYS AS (json_extract(body, '$.request.item')) VIRTUAL
) STRICT""",
    "entries_id": "CREATE INDEX entries_id ON entries (id)",
    "entries_outcome": "CREATE INDEX entries_outcome ON entries (outcome)",
    "entries_reason": "CREATE INDEX entries_reason ON entries (reason)",
    "entries_series": "CREATE INDEX entries_series ON entries (series)",
    "entries_overrides": "CREATE INDEX entries_overrides ON entries (overrides) WHERE overrides IS NOT NULL",
    "entries_decision": "CREATE INDEX entries_decision ON entries (decision) WHERE decision IS NOT NULL",
    "entries_plan": "CREATE INDEX entries_plan ON entries (plan) WHERE plan IS NOT NULL",
    # Pauses and what monitors did are few among many decisions.
    "entries_rare": f"CREATE INDEX entries_rare ON entries (kind, plan) WHERE {_RARE}",
    "entries_request": "CREATE UNIQUE INDEX entries_request ON entries (request_key, request_item)"
    " WHERE request_key IS NOT NULL",
    # A file that continues another one begins with the number after that one's last.
    "entries_append": f"""CREATE TRIGGER entries_append BEFORE INSERT ON entries
WHEN NEW.seq <> 1 + coalesce((SELECT max(seq) FROM entries),
    CASE json_extract(NEW.body, '$.event') WHEN 'opened' THEN json_extract(NEW.body, '$.count') END, 0)
  OR EXISTS (SELECT 1 FROM entries WHERE request_key = json_extract(NEW.body, '$.request.key')
    AND request_item = json_extract(NEW.body, '$.request.item'))
{_REFUSED}""",
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
_LIFTED = ("entries_update", "blobs_delete")  # by `replace`, inside its transaction

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
    if identity == APPLICATION_ID and version == FORMAT:
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
    if not isinstance(format_of(connection), int):
        return "it is not an audit log of this package"
    statements = dict(
        connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    )
    for name, sql in SCHEMA.items():
        if statements.get(name) != sql:
            return f"{name} of its schema is {'altered' if name in statements else 'missing'}"
    foreign = set(statements) - set(SCHEMA)
    return f"its schema has the foreign object {min(foreign)}" if foreign else ""


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
    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return (Damaged if damaged else RecordError)(f"{path}: {text}")


_COLUMNS = "seq, id, digest, head, written_at, CAST(body AS BLOB)"
# SQLite is left one index: with two it may take the one that leads through all of a plan, or all that was released.
_COMMON = (("reason", "none"), ("outcome", "RELEASED"))


class SqliteStore:
    """The file of a log, opened to read or to write. One object may be shared by threads, but not carried into a forked
    process. `timeout_s` is how long to wait for another writer, `max_pages` an upper limit of the file's size."""

    def __init__(
        self, path: str | os.PathLike[str], *, timeout_s: float = 5.0, read_only: bool = True,
        max_pages: int | None = None,
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection = connect(self.path, timeout_s=timeout_s, read_only=read_only, max_pages=max_pages)
        try:
            self._held = None if read_only else _Held(self.path)
        except RecordError:
            self.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """The connection for one piece of work: alone, undone on failure, failures put into words."""
        if os.getpid() != self._process:
            # SQLite's locks do not survive a fork; using it here could damage the file.
            raise RecordError(f"{self.path}: the log was opened in another process; open it again in this one")
        with self._lock:
            try:
                yield self._connection
            except BaseException as error:
                self._undo()
                if isinstance(error, sqlite3.Error):
                    raise explain(self.path, error, self._timeout_s) from error
                raise

    def _undo(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection whose state is unknown must not be used again; the file itself is safe.
            self._connection.close()

    # Reading: see `Store`

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._guarded() as connection:
            return connection.execute(statement, values).fetchall()

    def _rows(self, rest: str, *values: Any) -> list[Row]:
        return [Row(*row) for row in self._all(f"SELECT {_COLUMNS} FROM entries {rest}", *values)]

    def first(self) -> int:
        ((number,),) = self._all("SELECT coalesce(min(seq), 0) FROM entries")
        return int(number)

    def tail(self) -> tuple[int, str]:
        rows = self._all("SELECT seq, head FROM entries ORDER BY seq DESC LIMIT 1")
        return (rows[0][0], rows[0][1]) if rows else (0, GENESIS)

    def rows(self, after: int, last: int, limit: int) -> list[Row]:
        return self._rows("WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?", after, last, limit)

    def row(self, seq: int) -> Row | None:
        return next(iter(self._rows("WHERE seq = ?", seq)), None)

    def newest(self, id: str) -> Row | None:
        return next(iter(self._rows("WHERE id = ? ORDER BY seq DESC LIMIT 1", id)), None)

    def ids(self, start: str) -> list[str]:
        # Ids are hex digits, so all that begin with a text sort between it and it with a "g".
        rows = self._all("SELECT DISTINCT id FROM entries WHERE id >= ? AND id < ? LIMIT 2", start, start + "g")
        return [name for (name,) in rows]

    def requested(self, keys: Sequence[str]) -> list[tuple[str, int, Row]]:
        listed, values = _among(keys)
        rows = self._all(
            f"SELECT request_key, request_item, {_COLUMNS} FROM entries WHERE request_key IN {listed}"
            " ORDER BY request_key, request_item",
            *values,
        )
        return [(key, item, Row(*row)) for key, item, *row in rows]

    def answered(self, requests: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
        rows = self._all(
            "SELECT e.request_key, e.request_item, e.seq, e.id, e.digest, e.head FROM json_each(?) AS asked"
            " JOIN entries AS e ON e.request_key = json_extract(asked.value, '$[0]')"
            " AND e.request_item = json_extract(asked.value, '$[1]')",
            json.dumps(requests),
        )
        return {(key, item): Entry(seq, id, digest, head, True) for key, item, seq, id, digest, head in rows}

    def search(self, query: Query, limit: int) -> list[Row]:
        conditions = [_RARE] if query.kinds and not set(query.kinds) & set(OFTEN) else []
        named = sorted(query.named.items(), key=lambda item: item[0] == "plan" or item in _COMMON)
        conditions += [f"{'+' if n else ''}{name} = ?" for n, (name, _) in enumerate(named)]
        if len(query.kinds) == 1:
            conditions += ["kind = ?"]
        elif query.kinds:
            conditions += [f"kind IN ({', '.join('?' * len(query.kinds))})"]
        conditions += [] if query.before is None else ["seq < ?"]
        bound = (*(value for _, value in named), *query.kinds, *(() if query.before is None else (query.before,)))
        order = "DESC" if query.newest_first else "ASC"
        return self._rows(f"WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY seq {order} LIMIT ?", *bound, limit)

    def numbers(self, kind: str) -> list[int]:
        if kind == "outcome":
            rows = self._all("SELECT seq FROM entries INDEXED BY entries_decision WHERE decision IS NOT NULL")
        else:
            rows = self._all(f"SELECT seq FROM entries WHERE kind = ? AND {_RARE}", kind)
        return sorted(number for (number,) in rows)

    def picked(self, numbers: Sequence[int]) -> list[Row]:
        return self._rows("WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq", json.dumps([*numbers]))

    def overrides(self, ids: Sequence[str]) -> list[Row]:
        where = "WHERE overrides IN (SELECT value FROM json_each(?)) AND kind = 'override' ORDER BY seq"
        return self._rows(where, json.dumps(sorted(set(ids))))

    def reports(self, decision: str) -> list[Row]:
        return self._rows("WHERE decision = ? AND kind = 'outcome' ORDER BY seq", decision)

    def has(self, ids: Sequence[str]) -> set[str]:
        ids_text = json.dumps([*ids])
        rows = self._all("SELECT DISTINCT id FROM entries WHERE id IN (SELECT value FROM json_each(?))", ids_text)
        return {name for (name,) in rows}

    def heads(self, last: int, stride: int = 1) -> list[tuple[int, str]]:
        rows = self._all("SELECT seq, head FROM entries WHERE seq <= ? AND seq % ? = 0 ORDER BY seq", last, stride)
        return [(seq, head) for seq, head in rows]

    def blob(self, id: str) -> bytes | None:
        rows = self._all("SELECT CAST(data AS BLOB) FROM blobs WHERE id = ?", id)
        return rows[0][0] or b"" if rows else None

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        listed, values = _among(ids)
        return dict(self._all(f"SELECT id, CAST(data AS BLOB) FROM blobs WHERE id IN {listed}", *values))

    def fault(self) -> tuple[str, str]:
        with self._guarded() as connection:
            if problem := schema_problem(connection):
                return "schema", problem
            (state,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        # The entries may be right: an index that is not would still hide some of them from a query.
        return ("", "") if state == "ok" else ("corrupt", state)

    # Writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")

    def add(self, rows: Iterable[Row]) -> None:
        stored = [(r.seq, r.id, r.digest, r.head, r.written_at, r.body.decode("utf-8")) for r in rows]
        with self._guarded() as connection:
            connection.executemany(
                "INSERT INTO entries (seq, id, digest, head, written_at, body) VALUES (?, ?, ?, ?, ?, ?)", stored
            )

    def add_blobs(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        with self._guarded() as connection:
            connection.executemany("INSERT INTO blobs (id, data) VALUES (?, ?)", blobs)

    def replace(self, rows: Iterable[tuple[int, bytes]], blobs: Iterable[str]) -> None:
        with self._guarded() as connection:
            connection.execute("PRAGMA secure_delete = ON")  # what goes is overwritten, not only let go
            for name in _LIFTED:
                connection.execute(f"DROP TRIGGER {name}")
            bodies = [(body.decode("utf-8"), seq) for seq, body in rows]
            connection.executemany("UPDATE entries SET body = ? WHERE seq = ?", bodies)
            connection.executemany("DELETE FROM blobs WHERE id = ?", [(name,) for name in blobs])
            for name in _LIFTED:
                connection.execute(SCHEMA[name])

    def sync(self) -> None:
        # A repeated record may have come from a process that died between writing and syncing it. A commit
        # that adds nothing syncs nothing, so the receipt must be earned here.
        try:
            with open(f"{self.path}-wal", "r+b", buffering=0) as wal:
                os.fsync(wal.fileno())
        except FileNotFoundError:
            return  # moved into the database, which is synced before its WAL goes
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be synced ({error.strerror})") from error

    def check_place(self) -> None:
        if self._held is not None:
            self._held.check()

    # What only files have

    def set_autocheckpoint(self, pages: int) -> None:
        """How many `pages` the write-ahead log may have before SQLite moves them; 0 where another program does that."""
        self._all(f"PRAGMA wal_autocheckpoint = {int(pages)}")

    def move_pages(self) -> int:
        """Move what the write-ahead log holds into the file as far as nobody is in the way; commits go on meanwhile.
        Returns how many pages it holds, moved or not: it begins anew with the next commit where all were."""
        ((_, pages, _),) = self._all("PRAGMA wal_checkpoint(PASSIVE)")
        return max(0, int(pages))

    def empty_wal(self) -> None:
        """Move what the write-ahead log holds into the file and cut it to nothing; where somebody is in the way, a
        later commit writes over it."""
        self._all("PRAGMA wal_checkpoint(TRUNCATE)")

    def settle(self) -> None:
        """Move what the write-ahead log holds into the file, so that the file alone is the log."""
        self._all("PRAGMA journal_mode = DELETE")
        self._held = None  # there is one file now, and whoever settles a log is done with it


class _Held:
    """The database, and its write-ahead log with its index, as they were just after they were opened."""

    def __init__(self, path: Path) -> None:
        self._size = 0  # bytes; a log never becomes smaller
        names = (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm"))
        self._known = [(str(name), *_identity(name)) for name in names]

    def check(self) -> None:
        """Raise where another file, or none, is in the place of one of them."""
        for n, (path, *identity) in enumerate(self._known):
            try:
                status = os.stat(path)
            except OSError:
                status = None
            if status is None or [status.st_dev, status.st_ino] != identity or (n == 0 and status.st_size < self._size):
                raise RecordError(
                    f"{path}: deleted or replaced while it was open; nothing counts as recorded since. "
                    "Put it back, and open the log again"
                )
            if n == 0:
                self._size = status.st_size


def _identity(path: Path) -> tuple[int, int]:
    """Device and number."""
    try:
        status = path.stat()
    except OSError as error:
        # SQLite has made all three by now; another connection of this process may use one that has no name any more.
        raise RecordError(f"{path}: deleted while it was open; restart what uses it") from error
    return status.st_dev, status.st_ino


def _among(values: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What stands after IN, and its parameters. A few are named one by one: reading them from a list takes several
    times as long as finding them."""
    if 0 < len(values) <= _FEW:
        return f"({', '.join('?' * len(values))})", tuple(values)
    return "(SELECT value FROM json_each(?))", (json.dumps([*values]),)
