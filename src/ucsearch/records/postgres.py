"""The audit log in PostgreSQL 15 or newer: the same entries, chain and answers as in a file, through psycopg 3.

One set of statements serves both stores; they are put into PostgreSQL's words here (`translated`). Writers come one
after another by an advisory lock, taken before the head is read. A service holds a lock of its session besides, so that
a second one waits. A server that does not sync what it confirms is refused.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.canonical import loads
from ucsearch.records.chain import ChainReport
from ucsearch.records.reader import AuditReader

__all__ = ["AnotherService", "PostgresLog", "PostgresReader", "is_postgres", "translated"]

FORMAT = 2
_OLDEST = 150000
_WRITERS = 0x55434131  # advisory locks: one write at a time
_SERVICE = 0x55434132  # one service at a time
_TRIGGERS = {"entries_change", "entries_truncate", "blobs_change", "blobs_truncate"}
_COLUMNS = ("kind", "outcome", "reason", "series", "overrides", "decision", "plan", "request_key", "request_item")
# Statement by statement the same; these are the words that differ.
_WORDS = (
    ("CAST(body AS BLOB)", "convert_to(body, 'UTF8')"),
    ("CAST(data AS BLOB)", "data"),
    ("seq IN (SELECT value FROM json_each(?))", "seq IN (SELECT json_array_elements_text(?::json)::bigint)"),
    ("IN (SELECT value FROM json_each(?))", "IN (SELECT json_array_elements_text(?::json))"),
    ("FROM json_each(?) AS asked", "FROM (SELECT json_array_elements(?::json) AS value) AS asked"),
    ("json_extract(asked.value, '$[0]')", "(asked.value ->> 0)"),
    ("json_extract(asked.value, '$[1]')", "(asked.value ->> 1)::bigint"),
    ("entries INDEXED BY entries_decision", "entries"),
    (" AND +", " AND "),
    ("coalesce(?, seq)", "coalesce(?::bigint, seq)"),
    ("BEGIN IMMEDIATE", f"BEGIN; SELECT pg_advisory_xact_lock({_WRITERS})"),
)


class AnotherService(RecordError):
    """A service holds the log; this one may wait for it."""


def is_postgres(place: str | os.PathLike[str]) -> bool:
    return str(place).startswith(("postgresql://", "postgres://"))


@lru_cache(maxsize=256)
def translated(statement: str) -> str:
    """A statement of the log in PostgreSQL's words."""
    for ours, theirs in _WORDS:
        statement = statement.replace(ours, theirs)
    if found := re.search(r"json_each|json_extract|PRAGMA|AS BLOB", statement):
        raise RecordError(f"{found[0]!r} has no meaning in PostgreSQL")
    return statement.replace("%", "%%").replace("?", "%s")


class _Connection:
    """What the log uses of a sqlite3 connection, on psycopg."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        text = translated(statement)
        return self.real.execute(text, tuple(values) if values else None if "%s" not in text else ())

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self.real.cursor() as cursor:
            cursor.executemany(translated(statement), list(rows))

    @property
    def in_transaction(self) -> bool:
        return bool(self.real.info.transaction_status != 0)

    def close(self) -> None:
        self.real.close()


class PostgresReader(AuditReader):
    """A log in a database, opened to read."""

    def __init__(self, url: str, *, timeout_s: float = 5.0) -> None:
        self._connect(url, timeout_s)
        if not self._has_tables():
            self.close()
            raise RecordError(f"{self.path}: no such log")

    def _connect(self, url: str, timeout_s: float) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise RecordError("PostgreSQL needs psycopg; install it with: pip install 'ucsearch[postgres]'") from error
        self.url = url
        self.path = Path(_label(url))  # for messages, without a password
        self._timeout_s = timeout_s
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._failures: tuple[type[Exception], ...] = (psycopg.Error,)
        with self._words():
            real = psycopg.connect(
                url, autocommit=True, connect_timeout=max(2, int(timeout_s)), application_name="ucsearch",
                client_encoding="UTF8",
                options=f"-c search_path=ucsearch -c lock_timeout={int(1000 * timeout_s)}",
            )  # fmt: skip
            self._connection: Any = _Connection(real)
            if real.info.server_version < _OLDEST:
                real.close()
                raise RecordError(f"{self.path}: PostgreSQL {real.info.server_version // 10000}, expected 15 or newer")

    @contextmanager
    def _words(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            text = " ".join(str(error).split())
            raise RecordError(f"{self.path}: {text or type(error).__name__}; nothing counts as recorded") from error

    @contextmanager
    def _guarded(self) -> Iterator[Any]:
        if os.getpid() != self._process:
            raise RecordError(f"{self.path}: the log was opened in another process; open it again in this one")
        with self._lock, self._words():
            try:
                yield self._connection
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except self._failures:
            self._connection.close()

    def _has_tables(self) -> bool:
        with self._guarded() as connection:
            found = connection.execute("SELECT to_regclass('ucsearch.format') IS NOT NULL").fetchone()
        return bool(found[0])

    def _check_server(self) -> None:
        with self._guarded() as connection:
            for name, allowed in (
                ("fsync", {"on"}), ("full_page_writes", {"on"}), ("synchronous_commit", {"on", "remote_apply"}),
            ):  # fmt: skip
                (found,) = connection.execute(f"SHOW {name}").fetchone()
                if found not in allowed:
                    raise RecordError(f"{self.path}: {name} is {found}; what it confirms could be lost")
            (found,) = connection.execute("SHOW server_encoding").fetchone()
            if found != "UTF8":  # a name that it has no letters for would be refused at the first decision about it
                raise RecordError(f"{self.path}: the database's encoding is {found}, expected UTF8")

    @classmethod
    def is_at(cls, url: str, *, timeout_s: float = 5.0) -> bool:
        """Whether there is a log; a server that would be refused for writing is refused here."""
        made = cls.__new__(cls)
        made._connect(url, timeout_s)
        with made:
            made._check_server()
            return made._has_tables()

    @property
    def format(self) -> int:
        return FORMAT

    def _check_file(self, report: ChainReport) -> ChainReport:
        """The entries are right; columns that are not would hide some of them from a query."""
        problem = ""
        with self._guarded() as connection:
            found = connection.execute(
                "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = 'ucsearch' AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
            )
            if missing := _TRIGGERS - {name for (name,) in found}:
                problem = f"{min(missing)} of its schema is missing"
        for row in self._rows(2**63 - 1) if not problem else ():
            with self._guarded() as connection:
                kept = connection.execute(
                    f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE seq = ?", (row.seq,)
                ).fetchone()
            if tuple(kept) != columns_of(row.body):
                problem = f"the columns of entry {row.seq} are not its record's"
                break
        if not problem:
            return report
        text = f"all entries are right, but {problem}"
        return ChainReport(report.count, report.head, "schema", None, None, text, report.against)


class PostgresLog(PostgresReader, AuditLog):
    """A log in a database, opened to write; its tables are made where there are none. `alone` is for services: a
    second one is refused while the first one lives."""

    def __init__(
        self, url: str, *, clock: Callable[[], str | datetime] | None = None, timeout_s: float = 5.0,
        alone: bool = False,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._connect(url, timeout_s)
        try:
            self._check_server()
            if alone:
                self._stand_alone()
            self._migrate()
        except BaseException:
            self.close()
            raise

    def _stand_alone(self) -> None:
        with self._guarded() as connection:
            (mine,) = connection.execute(f"SELECT pg_try_advisory_lock({_SERVICE})").fetchone()
        if not mine:
            raise AnotherService(f"{self.path}: another service holds this log")

    def _migrate(self) -> None:
        """Run the numbered files that the database has not seen, in one transaction."""
        scripts = sorted(
            (f for f in files("ucsearch.records").joinpath("sql").iterdir() if f.name.endswith(".sql")),
            key=lambda f: f.name,
        )
        if self._has_tables() and self._version() >= len(scripts):
            return
        with self._guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.real.execute("CREATE SCHEMA IF NOT EXISTS ucsearch")
            connection.real.execute("CREATE TABLE IF NOT EXISTS format (version int NOT NULL PRIMARY KEY)")
            (known,) = connection.execute("SELECT coalesce(max(version), 0) FROM format").fetchone()
            for number, script in enumerate(scripts, 1):
                if number > known:
                    connection.real.execute(script.read_text(encoding="utf-8"))
                    connection.execute("INSERT INTO format (version) VALUES (?)", (number,))
            connection.execute("COMMIT")

    def _version(self) -> int:
        with self._guarded() as connection:
            (found,) = connection.execute("SELECT coalesce(max(version), 0) FROM format").fetchone()
        return int(found)

    def _insert_rows(self, connection: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        names = ("seq", "id", "digest", "head", "written_at", "body", *_COLUMNS)
        marks = ", ".join("?" for _ in names)
        connection.executemany(
            f"INSERT INTO entries ({', '.join(names)}) VALUES ({marks})",
            [(*row, *columns_of(row[5].encode("utf-8"))) for row in rows],
        )

    def check_place(self) -> None:
        """A server that is another one answers on another connection only."""

    def _sync_wal(self) -> None:
        """What a query can see was synced before it could."""


def columns_of(body: bytes) -> tuple[Any, ...]:
    """What is looked for, as the file's store computes it from a record."""
    r = loads(body)
    told, asked = r.get("outcome"), r.get("request") or {}
    inner = told if isinstance(told, dict) else {}
    outcome = inner.get("outcome") if isinstance(told, dict) else told
    texts = [r.get("kind"), outcome, r.get("reason", inner.get("reason"))]
    texts += [r.get(name) for name in ("series", "overrides", "decision", "plan")]
    kept = [x.replace("\0", "\\0") if isinstance(x, str) else None for x in texts]
    return (*kept, asked.get("key"), asked.get("item"))


def _label(url: str) -> str:
    """Which database an address names, without its password. PostgreSQL's own words about an address that it cannot
    read quote it, and where a mark in a password is not encoded they take a part of it for a host or a port."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except Error:
        parts = {"port": "?"}
    host, port = str(parts.get("host") or "local"), str(parts.get("port") or 5432)
    if "@" in host or not re.fullmatch("[0-9,]+", port):
        raise RecordError(
            "postgresql://...: the address cannot be read; write marks such as / @ : # % and spaces of a password as "
            "%2F %40 %3A %23 %25 %20, or keep it in a file (PGPASSFILE)"
        )
    return f"postgresql:{host}:{port}/{parts.get('dbname') or ''}"
