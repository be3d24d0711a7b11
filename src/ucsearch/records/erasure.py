"""Take the content of entries away so that the log stays verifiable: numbers, ids, digests and heads stay, and an entry
says whose content went. Outcomes keep what monitors are derived from; people's names in other entries become a word.

Copies that were taken before keep what they hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.records.canonical import canonical
from ucsearch.records.entries import ERASURE_SCHEMA, NOTHING, Row, blob_refs, entry_digest
from ucsearch.records.log import AuditLog, open_log, open_reader
from ucsearch.records.log_chain import Store
from ucsearch.records.sqlite import SqliteStore

__all__ = ["ERASED", "Erasing", "Left", "erase", "older_than", "person", "series"]

ERASED = "erased"  # in the place of a name and of a person's words
_WHOLE = ("decision", "refusal", "override", "segment", "allocation")  # kinds of which nothing is left
_NAMES = ("who", "by", "reported_by")
_AT_ONCE = 500  # entries of one transaction
_PART = 5_000  # numbers of entries that are looked through at a time

Left = Callable[[Row], bytes | None]
"""What is left of an entry's body: the same bytes, others, or None for nothing."""


class Erasing(NamedTuple):
    """What was done."""

    entries: int
    blobs: int


def older_than(time: datetime) -> Left:
    """Entries that were written before: contents, and people's names. A decision that may still be followed stays."""

    def left(row: Row) -> bytes | None:
        if row.written_at is None or not datetime.fromisoformat(row.written_at) < time:
            return row.body
        record = row.record
        if record.get("valid_until") and not datetime.fromisoformat(record["valid_until"]) < time:
            return row.body
        return _without(row, record, lambda name: bool(name))

    return left


def series(name: str, plan: str | None = None) -> Left:
    """What was decided, reported and overridden of one series. Ranks of its outcomes stay, under its name."""

    def left(row: Row) -> bytes | None:
        record = row.record
        is_about = record.get("kind") in (*_WHOLE, "outcome") and record.get("series") == name
        if not is_about or (plan is not None and record.get("plan", plan) != plan):
            return row.body
        return _without(row, record, lambda _: False)

    return left


def person(name: str) -> Left:
    """Somebody's name and words, wherever they are; what was decided stays."""

    def left(row: Row) -> bytes | None:
        if name.encode() not in row.body:
            return row.body
        return _blanked(row, row.record, lambda other: other == name)

    return left


def erase(place: str | os.PathLike[str], left: Left, *, at: datetime, by: str, why: str) -> Erasing:
    """Take away what `left` leaves out, in every file of a log, a few entries at a time; others may write meanwhile.

    The entry that says so is on disk before anything goes, and an entry that is still whole is right all the same: what
    was cut off is done by the next call.
    """
    header = {"schema": ERASURE_SCHEMA, "kind": "erasure", "at": at.isoformat(), "by": by, "why": why}
    open_reader(place).close()  # one that is not there is not made
    with open_log(place, clock=lambda: at) as log:
        entries = blobs = 0
        for store in [*log.stores]:
            done = _erase_in(log, store, left, header)
            entries, blobs = entries + done.entries, blobs + done.blobs
    return Erasing(entries, blobs)


class _ErasedEntry(NamedTuple):
    seq: int
    digest: str
    body: bytes  # what is left
    refs: tuple[str, ...]  # blobs that the entry no longer needs

    @property
    def content(self) -> dict[str, Any]:
        """As the erasure's entry says it."""
        return {
            "entry": self.seq, "digest": self.digest,
            "left": None if self.body == NOTHING else entry_digest(self.body),
        }  # fmt: skip


def _erase_in(log: AuditLog, store: Store, left: Left, header: dict[str, Any]) -> Erasing:
    chosen: list[_ErasedEntry] = []
    needed: set[str] = set()  # blobs of entries that stay
    last = 0
    for row in _rows(store):
        last = row.seq
        body = left(row) if row.body != NOTHING else row.body
        body = NOTHING if body is None else body
        refs_left = blob_refs(body)
        needed.update(refs_left)
        if body != row.body:
            chosen.append(
                _ErasedEntry(
                    row.seq, row.digest, body, tuple(ref for ref in blob_refs(row.body) if ref not in refs_left)
                )
            )
    users = {ref: entry.seq for entry in chosen for ref in entry.refs}  # the last that goes
    blobs = 0
    for first in range(0, len(chosen), _AT_ONCE):
        part = chosen[first : first + _AT_ONCE]
        log.append({**header, "entries": [entry.content for entry in part]})
        free = {ref for entry in part for ref in entry.refs if users[ref] <= part[-1].seq} - needed
        blobs += _replace(store, part, free, last)
    return Erasing(len(chosen), blobs)


def _replace(store: Store, part: list[_ErasedEntry], free: set[str], last: int) -> int:
    if isinstance(store, SqliteStore):
        with closing(SqliteStore(store.path, read_only=False)) as writable:
            count = _replace_in(writable, part, free, last)
            writable.empty_wal()  # nothing of it stays in what SQLite keeps beside the file
            return count
    return _replace_in(store, part, free, last)


def _replace_in(store: Store, part: list[_ErasedEntry], free: set[str], last: int) -> int:
    with store.writing():
        for row in _rows(store, last):  # what came meanwhile may need an array again
            free = free.difference(blob_refs(row.body))
        store.replace([(entry.seq, entry.body) for entry in part], sorted(free))
    return len(free)


def _rows(store: Store, after: int = -(2**63)) -> Iterator[Row]:
    while rows := store.rows(after, 2**63 - 1, _PART):
        yield from rows
        after = rows[-1].seq


def _without(row: Row, record: dict[str, Any], is_named: Callable[[str], bool]) -> bytes | None:
    """Nothing of what was decided, no value of an outcome, no name that is to go."""
    kind = record.get("kind")
    if kind in _WHOLE:
        return None
    if kind == "outcome":
        record = {**record, "value": None}
        record.pop("taken", None)
        return _blanked(row, record, lambda name: bool(name), always=True)
    return _blanked(row, record, is_named)


def _blanked(row: Row, record: dict[str, Any], is_named: Callable[[str], bool], *, always: bool = False) -> bytes:
    """The record without names, and without the words of whom they name."""
    if record.get("kind") in ("erasure", "rotation"):
        return row.body
    out, request = dict(record), record.get("request")
    named = [name for name in _NAMES if isinstance(out.get(name), str) and out[name] and is_named(out[name])]
    out |= dict.fromkeys(named, ERASED)
    if named and "why" in out:
        out["why"] = ERASED
    if isinstance(request, dict) and is_named(str(request.get("by", ""))):
        out["request"] = {name: value for name, value in request.items() if name != "by"}
    return canonical(out) if always or out != record else row.body
