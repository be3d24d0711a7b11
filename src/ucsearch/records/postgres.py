"""The audit log in PostgreSQL 15 or newer: the same entries, chain and answers as in a file, through psycopg 3.

Writers come one after another by an advisory lock, taken before the head is read. A service holds a lock of its session
besides, so that a second one waits. A server that does not sync what it confirms is refused.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.canonical import loads
from ucsearch.records.entries import GENESIS, OFTEN, Entry, Query, Row

__all__ = ["AnotherService", "PostgresStore", "has_log", "is_postgres"]

_OLDEST = 150000
_WRITERS = 0x55434131  # advisory locks: one write at a time
_SERVICE = 0x55434132  # one service at a time
_TRIGGERS = {"entries_change", "entries_truncate", "blobs_change", "blobs_truncate"}
_LIFTED = ("entries_change", "blobs_change")  # by `replace`, inside its transaction
_FOUND_BY = ("kind", "outcome", "reason", "series", "overrides", "decision", "plan", "request_key", "request_item")
_STORED = ("seq", "id", "digest", "head", "written_at", "body", *_FOUND_BY)
_COLUMNS = "seq, id, digest, head, written_at, convert_to(body, 'UTF8')"
_RARE = f"kind NOT IN {OFTEN!r}"  # a query must say it in these words to use the index
_CHUNK = 500


class AnotherService(RecordError):
    """A service holds the log; this one may wait for it."""


def is_postgres(place: str | os.PathLike[str]) -> bool:
    return str(place).startswith(("postgresql://", "postgres://"))


def has_log(url: str, *, timeout_s: float = 5.0) -> bool:
    """Whether there is a log; a server that would be refused for writing is refused here."""
    store = PostgresStore.__new__(PostgresStore)
    store.connect(url, timeout_s)
    try:
        store.check_server()
        return store.has_tables()
    finally:
        store.close()


class PostgresStore:
    """A log in a database, opened to read or to write; to write, its tables are made where there are none. `alone` is
    for services: a second one is refused while the first one lives."""

    def __init__(self, url: str, *, timeout_s: float = 5.0, read_only: bool = True, alone: bool = False) -> None:
        self.connect(url, timeout_s)
        try:
            if not read_only:
                self.check_server()
                if alone:
                    self._stand_alone()
                self._make_tables()
            elif not self.has_tables():
                raise RecordError(f"{self.path}: no such log")
        except BaseException:
            self.close()
            raise

    def connect(self, url: str, timeout_s: float) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise RecordError("PostgreSQL needs psycopg; install it with: pip install 'psycopg[binary]'") from error
        self.path = Path(_label(url))  # for messages, without a password
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._failures: tuple[type[Exception], ...] = (psycopg.Error,)
        with self._words():
            self._connection = psycopg.connect(
                url, autocommit=True, connect_timeout=max(2, int(timeout_s)), application_name="ucsearch",
                client_encoding="UTF8",
                options=f"-c search_path=ucsearch -c lock_timeout={int(1000 * timeout_s)}",
            )  # fmt: skip
            if self._connection.info.server_version < _OLDEST:
                self._connection.close()
                version = self._connection.info.server_version // 10000
                raise RecordError(f"{self.path}: PostgreSQL {version}, expected 15 or newer")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _words(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            text = " ".join(str(error).split())
            raise RecordError(f"{self.path}: {text or type(error).__name__}; nothing counts as recorded") from error

    @contextmanager
    def _guarded(self) -> Iterator[Any]:
        """The connection for one piece of work: alone, undone on failure, failures put into words."""
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
            if self._connection.info.transaction_status != 0:
                self._connection.execute("ROLLBACK")
        except self._failures:
            self._connection.close()

    def has_tables(self) -> bool:
        return bool(self._all("SELECT to_regclass('ucsearch.format') IS NOT NULL")[0][0])

    def check_server(self) -> None:
        for name, allowed in (
            ("fsync", {"on"}), ("full_page_writes", {"on"}), ("synchronous_commit", {"on", "remote_apply"}),
        ):  # fmt: skip
            ((setting,),) = self._all(f"SHOW {name}")
            if setting not in allowed:
                raise RecordError(f"{self.path}: {name} is {setting}; what it confirms could be lost")
        ((setting,),) = self._all("SHOW server_encoding")
        if setting != "UTF8":  # a name that it has no letters for would be refused at the first decision about it
            raise RecordError(f"{self.path}: the database's encoding is {setting}, expected UTF8")

    def _stand_alone(self) -> None:
        ((is_locked,),) = self._all(f"SELECT pg_try_advisory_lock({_SERVICE})")
        if not is_locked:
            raise AnotherService(f"{self.path}: another service holds this log")

    def _make_tables(self) -> None:
        """Run the numbered files that the database has not seen, in one transaction."""
        scripts = sorted(
            (f for f in files("ucsearch.records").joinpath("sql").iterdir() if f.name.endswith(".sql")),
            key=lambda f: f.name,
        )
        if self.has_tables() and self._version() >= len(scripts):
            return
        with self.writing(), self._guarded() as connection:
            connection.execute("CREATE SCHEMA IF NOT EXISTS ucsearch")
            connection.execute("CREATE TABLE IF NOT EXISTS format (version int NOT NULL PRIMARY KEY)")
            version = self._version()
            for number, script in enumerate(scripts, 1):
                if number > version:
                    connection.execute(script.read_text(encoding="utf-8"))
                    connection.execute("INSERT INTO format (version) VALUES (%s)", (number,))

    def _version(self) -> int:
        return int(self._all("SELECT coalesce(max(version), 0) FROM format")[0][0])

    # Reading: see `Store`

    def _all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._guarded() as connection:
            rows: list[tuple[Any, ...]] = connection.execute(statement, values or None).fetchall()
            return rows

    def _rows(self, rest: str, *values: Any) -> list[Row]:
        return [Row(*row) for row in self._all(f"SELECT {_COLUMNS} FROM entries {rest}", *values)]

    def first(self) -> int:
        return int(self._all("SELECT coalesce(min(seq), 0) FROM entries")[0][0])

    def tail(self) -> tuple[int, str]:
        rows = self._all("SELECT seq, head FROM entries ORDER BY seq DESC LIMIT 1")
        return (rows[0][0], rows[0][1]) if rows else (0, GENESIS)

    def rows(self, after: int, last: int, limit: int) -> list[Row]:
        return self._rows("WHERE seq > %s AND seq <= %s ORDER BY seq LIMIT %s", after, last, limit)

    def row(self, seq: int) -> Row | None:
        return next(iter(self._rows("WHERE seq = %s", seq)), None)

    def newest(self, id: str) -> Row | None:
        return next(iter(self._rows("WHERE id = %s ORDER BY seq DESC LIMIT 1", id)), None)

    def ids(self, start: str) -> list[str]:
        rows = self._all("SELECT DISTINCT id FROM entries WHERE id >= %s AND id < %s LIMIT 2", start, start + "g")
        return [name for (name,) in rows]

    def requested(self, keys: Sequence[str]) -> list[tuple[str, int, Row]]:
        rows = self._all(
            f"SELECT request_key, request_item, {_COLUMNS} FROM entries WHERE request_key = ANY(%s)"
            " ORDER BY request_key, request_item",
            [*keys],
        )
        return [(key, item, Row(*row)) for key, item, *row in rows]

    def answered(self, requests: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
        rows = self._all(
            "SELECT e.request_key, e.request_item, e.seq, e.id, e.digest, e.head"
            " FROM unnest(%s::text[], %s::bigint[]) AS asked (key, item)"
            " JOIN entries AS e ON e.request_key = asked.key AND e.request_item = asked.item",
            [key for key, _ in requests], [item for _, item in requests],
        )  # fmt: skip
        return {(key, item): Entry(seq, id, digest, head, True) for key, item, seq, id, digest, head in rows}

    def search(self, query: Query, limit: int) -> list[Row]:
        conditions = [_RARE] if query.kinds and not set(query.kinds) & set(OFTEN) else []
        conditions += [f"{name} = %s" for name in query.named]
        values: list[Any] = [*query.named.values()]
        if query.kinds:
            conditions, values = [*conditions, "kind = ANY(%s)"], [*values, [*query.kinds]]
        if query.before is not None:
            conditions, values = [*conditions, "seq < %s"], [*values, query.before]
        order = "DESC" if query.newest_first else "ASC"
        return self._rows(f"WHERE {' AND '.join(conditions) or 'TRUE'} ORDER BY seq {order} LIMIT %s", *values, limit)

    def numbers(self, kind: str) -> list[int]:
        where = "decision IS NOT NULL" if kind == "outcome" else f"kind = %s AND {_RARE}"
        rows = self._all(f"SELECT seq FROM entries WHERE {where}", *(() if kind == "outcome" else (kind,)))
        return sorted(number for (number,) in rows)

    def picked(self, numbers: Sequence[int]) -> list[Row]:
        return self._rows("WHERE seq = ANY(%s) ORDER BY seq", [*numbers])

    def overrides(self, ids: Sequence[str]) -> list[Row]:
        return self._rows("WHERE overrides = ANY(%s) AND kind = 'override' ORDER BY seq", [*ids])

    def reports(self, decision: str) -> list[Row]:
        return self._rows("WHERE decision = %s AND kind = 'outcome' ORDER BY seq", decision)

    def has(self, ids: Sequence[str]) -> set[str]:
        return {name for (name,) in self._all("SELECT DISTINCT id FROM entries WHERE id = ANY(%s)", [*ids])}

    def heads(self, last: int, stride: int = 1) -> list[tuple[int, str]]:
        rows = self._all("SELECT seq, head FROM entries WHERE seq <= %s AND seq %% %s = 0 ORDER BY seq", last, stride)
        return [(seq, head) for seq, head in rows]

    def blob(self, id: str) -> bytes | None:
        return self.blobs([id]).get(id)

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        return dict(self._all("SELECT id, data FROM blobs WHERE id = ANY(%s)", [*ids]))

    def fault(self) -> tuple[str, str]:
        """Entries may be right, and columns that are not would hide some of them from a query."""
        triggers = self._all(
            "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'ucsearch' AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
        )
        if missing := _TRIGGERS - {name for (name,) in triggers}:
            return "schema", f"{min(missing)} of its schema is missing"
        after = -(2**63)
        while rows := self._all(
            f"SELECT seq, convert_to(body, 'UTF8'), {', '.join(_FOUND_BY)} FROM entries WHERE seq > %s"
            " ORDER BY seq LIMIT %s",
            after, _CHUNK,
        ):  # fmt: skip
            for seq, body, *columns in rows:
                if tuple(columns) != columns_of(body):
                    return "schema", f"the columns of entry {seq} are not its record's"
            after = rows[-1][0]
        return "", ""

    # Writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._guarded() as connection:
            connection.execute("BEGIN")
            connection.execute(f"SELECT pg_advisory_xact_lock({_WRITERS})")
            yield
            connection.execute("COMMIT")

    def add(self, rows: Iterable[Row]) -> None:
        marks = ", ".join("%s" for _ in _STORED)
        stored = [
            (r.seq, r.id, r.digest, r.head, r.written_at, r.body.decode("utf-8"), *columns_of(r.body)) for r in rows
        ]
        self._many(f"INSERT INTO entries ({', '.join(_STORED)}) VALUES ({marks})", stored)

    def add_blobs(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        self._many("INSERT INTO blobs (id, data) VALUES (%s, %s)", list(blobs))

    def replace(self, rows: Iterable[tuple[int, bytes]], blobs: Iterable[str]) -> None:
        """Only the tables' owner may."""
        with self._guarded() as connection:
            for name in _LIFTED:
                connection.execute(f"ALTER TABLE {name.partition('_')[0]} DISABLE TRIGGER {name}")
            assigned = ", ".join(f"{name} = %s" for name in ("body", *_FOUND_BY))
            bodies = [(body.decode("utf-8"), *columns_of(body), seq) for seq, body in rows]
            self._many(f"UPDATE entries SET {assigned} WHERE seq = %s", bodies)
            self._many("DELETE FROM blobs WHERE id = %s", [(name,) for name in blobs])
            for name in _LIFTED:
                connection.execute(f"ALTER TABLE {name.partition('_')[0]} ENABLE TRIGGER {name}")

    def _many(self, statement: str, values: Sequence[tuple[Any, ...]]) -> None:
        with self._guarded() as connection, connection.cursor() as cursor:
            cursor.executemany(statement, values)

    def sync(self) -> None:
        """What a query can see was synced before it could."""

    def check_place(self) -> None:
        """A server that is another one answers on another connection only."""


def columns_of(body: bytes) -> tuple[Any, ...]:
    """What is looked for, as the file's store computes it from a record."""
    r = loads(body)
    recorded, request = r.get("outcome"), r.get("request") or {}
    inner = recorded if isinstance(recorded, dict) else {}
    outcome = inner.get("outcome") if isinstance(recorded, dict) else recorded
    texts = [r.get("kind"), outcome, r.get("reason", inner.get("reason"))]
    texts += [r.get(name) for name in ("series", "overrides", "decision", "plan")]
    texts_kept = [x.replace("\0", "\\0") if isinstance(x, str) else None for x in texts]
    return (*texts_kept, request.get("key"), request.get("item"))


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
