"""The audit log: every decision one entry, on disk before its action is handed over.

    log = AuditLog("decisions.db")
    entry = log.append(record, {blob_id(b): b})     # returns only after the commit was synced

SQLite in WAL mode with full sync, append-only, hash-chained (`chain.py`), one transaction per call. Several
processes may write at once. What a call returned is in the log for good, whatever happens afterwards. If a
call raises, or its process dies, there is no receipt and no action may leave; the log then holds either all
of that call (it was cut off after the commit; a retry returns the same entries) or nothing of it.
"""

from __future__ import annotations

import builtins
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError
from ucsearch.records.blobs import blob_id, blob_shape
from ucsearch.records.canonical import encode_number, seal, seal_bytes
from ucsearch.records.chain import blob_refs, check_members, entry_digest, next_head
from ucsearch.records.reader import AuditReader, tail

__all__ = ["AuditLog", "Entry", "Sealed"]

OVERRIDE_SCHEMA = "ucsearch.override/1"


@dataclass(frozen=True, slots=True)
class Entry:
    """The receipt of a recorded entry; whoever holds it may hand the action over."""

    seq: int
    id: str
    digest: str  # of the record
    head: str  # of the chain after it
    repeated: bool = False  # the same record was in the log already; nothing was added


class Sealed(NamedTuple):
    """A record that is canonical bytes already, as `records.canonical.seal_bytes` makes them."""

    id: str
    body: bytes
    refs: tuple[str, ...]  # ids of the blobs it refers to, each once


@dataclass(frozen=True, slots=True)
class _Draft:
    id: str
    body: bytes
    refs: tuple[str, ...]
    overrides: str | None  # id of a decision, for an override


class AuditLog(AuditReader):
    """An append-only log of decision and override records in one SQLite file.

    `clock` returns the time written beside each entry (ISO text or an aware datetime); without one no time is
    kept. `timeout_s` is how long to wait for another writer, `max_pages` an upper limit of the file's size.
    Reads like an `AuditReader`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], str | datetime] | None = None,
        timeout_s: float = 5.0,
        max_pages: int | None = None,
    ) -> None:
        self._clock = clock
        self._open(path, timeout_s, read_only=False, max_pages=max_pages)

    def append(self, record: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> Entry:
        """Record one decision or override together with the blobs it refers to.

        The record may lack its `id`; if it has one it must be right. A record that is in the log already is
        not written twice: its first entry is returned, so that a caller cut off before the receipt may retry.
        """
        return self.append_batch([record], blobs)[0]

    def append_batch(
        self, records: Sequence[Mapping[str, Any]], blobs: Mapping[str, bytes] | None = None
    ) -> tuple[Entry, ...]:
        """Record all of them in one transaction, in order, or none. `blobs` serves the whole batch."""
        drafts = [_draft(record, index) for index, record in enumerate(records)]
        given = dict(blobs or {})
        _check_blobs(given, drafts)
        return self._append(drafts, given)

    def append_sealed(self, records: Sequence[Sealed], blobs: Mapping[str, bytes]) -> tuple[Entry, ...]:
        """As `append_batch`, for a writer that seals many decisions itself: ids, bodies and blobs are taken as they
        are, and `verify` finds out if they were wrong."""
        return self._append([_Draft(r.id, r.body, r.refs, None) for r in records], dict(blobs))

    def _append(self, drafts: Sequence[_Draft], blobs: dict[str, bytes]) -> tuple[Entry, ...]:
        if not drafts:
            return ()
        written_at = None if self._clock is None else _time_text(self._clock(), "clock")
        with self._guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            entries = self._insert(connection, drafts, blobs, written_at)
            connection.execute("COMMIT")
            if all(entry.repeated for entry in entries):
                self._sync_wal()
        return tuple(entries)

    def _insert(
        self,
        connection: sqlite3.Connection,
        drafts: Sequence[_Draft],
        blobs: dict[str, bytes],
        written_at: str | None,
    ) -> builtins.list[Entry]:
        known = {
            name: Entry(seq, name, digest, head, repeated=True)
            for seq, name, digest, head in connection.execute(
                "SELECT seq, id, digest, head FROM entries WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps([draft.id for draft in drafts]),),
            )
        }
        self._insert_blobs(connection, drafts, blobs)
        seq, head = tail(connection)
        rows, entries = [], []
        for draft in drafts:
            digest = entry_digest(draft.body)
            if (entry := known.get(draft.id)) is not None:
                if entry.digest != digest:
                    raise RecordError(f"entry {entry.seq} has the id {draft.id} with another content; verify the log")
            else:
                if draft.overrides is not None:
                    self._check_target(connection, draft.overrides)
                seq += 1
                head = next_head(head, seq, digest, written_at)
                rows.append((seq, draft.id, digest, head, written_at, draft.body.decode("utf-8")))
                entry = Entry(seq, draft.id, digest, head)
                known[draft.id] = Entry(seq, draft.id, digest, head, repeated=True)
            entries.append(entry)
        connection.executemany(
            "INSERT INTO entries (seq, id, digest, head, written_at, body) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        return entries

    def _insert_blobs(self, connection: sqlite3.Connection, drafts: Sequence[_Draft], blobs: dict[str, bytes]) -> None:
        needed = list(dict.fromkeys(ref for draft in drafts for ref in draft.refs))
        stored = dict(
            connection.execute(
                "SELECT id, CAST(data AS BLOB) FROM blobs WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(needed),),
            )
        )
        for name, data in stored.items():
            if blob_id(data) != name:
                raise RecordError(f"the stored blob {name} was altered; verify the log")
        missing = [name for name in needed if name not in stored]
        if absent := [name for name in missing if name not in blobs]:
            raise RecordError(f"blob {absent[0]}: referred to by a record, neither given nor stored")
        connection.executemany("INSERT INTO blobs (id, data) VALUES (?, ?)", [(n, blobs[n]) for n in missing])

    def _check_target(self, connection: sqlite3.Connection, decision: str) -> None:
        found = connection.execute("SELECT kind FROM entries WHERE id = ?", (decision,)).fetchone()
        if found is None:
            raise RecordError(f"override.overrides: no decision {decision} in the log")
        if found[0] != "decision":
            raise RecordError(f"override.overrides: {decision} is an {found[0]}, expected a decision")

    def override(
        self,
        decision_id: str,
        *,
        who: str,
        why: str,
        action: float | str,
        feasible: bool,
        at: str | datetime | None = None,
    ) -> Entry:
        """Record that a person replaced a decision's action; the decision itself stays as it is.

        The caller checks the replacement against the task and says so in `feasible`; anything but True is
        refused. `at` is the time of the override; without it the log's clock is asked.
        """
        if not isinstance(action, str):
            action = _finite(action)
        if at is None:
            if self._clock is None:
                raise InputError("override.at", at, "a time, or a log with a clock")
            at = self._clock()
        decision = self.get(decision_id)
        original = decision.record
        record: dict[str, Any] = {
            "schema": OVERRIDE_SCHEMA,
            "kind": "override",
            "overrides": decision.id,
            "digest": decision.digest,
            "who": who,
            "why": why,
            "action": action,
            "feasible": feasible,
            "at": _time_text(at, "override.at"),
        }
        if "series" in original:
            record["series"] = original["series"]
        return self.append(seal(record))

    def _sync_wal(self) -> None:
        # A repeated record may have come from a process that died between writing and syncing it. A commit
        # that adds nothing syncs nothing, so the receipt must be earned here.
        try:
            with open(f"{self.path}-wal", "r+b", buffering=0) as wal:
                os.fsync(wal.fileno())
        except FileNotFoundError:
            return  # moved into the database, which is synced before its WAL goes
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be synced ({error.strerror})") from error


def _draft(record: Mapping[str, Any], index: int) -> _Draft:
    try:
        if not isinstance(record, Mapping):
            raise RecordError(f"record: saw a {type(record).__name__}, expected a mapping")
        check_members(record)
        name, body = seal_bytes(record)
        if record.get("id", name) != name:
            raise RecordError(f"record.id: saw {record['id']!r}, expected {name}, which its content gives")
        return _Draft(name, body, blob_refs(body), record["overrides"] if record["kind"] == "override" else None)
    except RecordError as error:
        if index == 0:
            raise
        raise RecordError(f"{error} (record {index} of the batch)") from error


def _check_blobs(blobs: dict[str, bytes], drafts: Sequence[_Draft]) -> None:
    referred = {ref for draft in drafts for ref in draft.refs}
    for name, data in blobs.items():
        if name not in referred:
            raise RecordError(f"blob {name}: no record of the batch refers to it")
        blob_shape(data)
        if (seen := blob_id(data)) != name:
            raise RecordError(f"blob {name}: its content has the id {seen}")


def _finite(action: Any) -> int | float:
    number = encode_number(action)
    if isinstance(number, str):
        raise InputError("override.action", action, "a finite number or a label")
    return number


def _time_text(time: str | datetime, field: str) -> str:
    """ISO text of a time; one without an offset from UTC names no instant and is refused."""
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    except (TypeError, ValueError) as error:
        raise InputError(field, repr(time), "an ISO 8601 time such as 2024-05-01T06:00:00+00:00") from error
    if moment.utcoffset() is None:
        raise InputError(field, repr(time), "a time with an offset, such as 2024-05-01T06:00:00+00:00")
    return time if isinstance(time, str) else moment.isoformat()
