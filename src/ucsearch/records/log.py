"""The audit log: every decision one entry, on disk before its action is handed over.

    log = AuditLog("decisions.db")
    entry = log.append(record, {blob_id(b): b})     # returns only after the commit was synced

SQLite in WAL mode with full sync, append-only, hash-chained (`chain.py`), one transaction per call. Several
processes may write at once. What a call returned is in the log for good, whatever happens afterwards. If a
call raises, or its process dies, there is no receipt and no action may leave; the log then holds either all
of that call (it was cut off after the commit) or nothing of it. Every release is an entry, equal ones too; only
under the same `request` is a record a repeat, and its first entry the receipt. A log that is rotated goes on in another
file: whoever has it open is taken there.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ucsearch.errors import InputError, RecordError
from ucsearch.records.arrays import blob_id
from ucsearch.records.canonical import loads
from ucsearch.records.chain import entry_digest, next_head
from ucsearch.records.entries import (
    JUDGED,
    OVERRIDE_SCHEMA,
    ROW_OVERRIDE_SCHEMA,
    AlteredEntry,
    Draft,
    Entry,
    LogClosed,
    Request,
    RequestTaken,
    Row,
    RowOf,
    Sealed,
    Target,
    as_request,
    blob_refs,
    check_blobs,
    check_texts,
    draft_of,
    time_text,
)
from ucsearch.records.log_chain import LogChain, following, open_newest
from ucsearch.records.reader import AuditReader
from ucsearch.records.sqlite import SqliteStore
from ucsearch.records.store import Store

if TYPE_CHECKING:
    from ucsearch.decision.decision import Decision, DecisionPanel
    from ucsearch.task import Task

__all__ = ["AuditLog"]


_BATCH = 1_000  # decisions per transaction
# In canonical JSON quotes inside strings are escaped, so these bytes can only be a member.
_OVERRIDE = b'"kind":"override"'


class AuditLog(AuditReader):
    """An append-only log of decisions, and of what people did about them, in one SQLite file.

    `clock` returns the time written beside each entry (ISO text or an aware datetime); without one no time is
    kept. `timeout_s` is how long to wait for another writer, `max_pages` an upper limit of the file's size; with
    `single` the log is not followed to another file. Reads like an `AuditReader`.
    """

    last: Entry | None = None  # that was added by this object

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], str | datetime] | None = None,
        timeout_s: float = 5.0,
        max_pages: int | None = None,
        single: bool = False,
    ) -> None:
        self._clock = clock
        opened = partial(SqliteStore, timeout_s=timeout_s, read_only=False, max_pages=max_pages)
        newest = opened(Path(path)) if single else open_newest(Path(path), opened)
        self._chain = LogChain(newest, None if single else opened, timeout_s=timeout_s)

    @classmethod
    def of(cls, store: Store, *, clock: Callable[[], str | datetime] | None = None) -> Self:
        """Write to another `store` than a file."""
        made = super().of(store)
        made._clock = clock
        return made

    def check_place(self) -> None:
        """Raise where the log's files are no longer those that were opened: what is written now would be lost."""
        self.store.check_place()

    def write(
        self,
        decisions: Decision | DecisionPanel,
        *,
        series: Sequence[str] | str = "",
        where: str = "",
        request: Request | str | None = None,
    ) -> builtins.list[Entry]:
        """Append one decision, or a panel's in transactions of a thousand; what it returned is on disk. The decisions
        of a panel are items of one request."""
        from ucsearch.decision.decision import Decision
        from ucsearch.records.record import decision_body, panel_bodies

        asked = as_request(request)
        if isinstance(decisions, Decision):
            return [*self.append_sealed([decision_body(decisions, str(series), where, asked)])]
        names = [series] * len(decisions) if isinstance(series, str) else list(series)
        if len(names) != len(decisions):
            raise RecordError(f"series: saw {len(names)} names, expected {len(decisions)}, one per decision")
        entries: list[Entry] = []
        for lo in range(0, len(decisions), _BATCH):
            windows = range(lo, min(lo + _BATCH, len(decisions)))
            requests = None if asked is None else [asked.at(w) for w in windows]
            bodies = panel_bodies(decisions, names[lo : windows.stop], where, windows=windows, requests=requests)
            entries.extend(self.append_sealed(bodies))
        return entries

    def append(self, record: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> Entry:
        """Record one record together with the `blobs` it refers to, by digest.

        The record may lack its `id`; if it has one it must be right. Under a `request` that the log has seen it is
        not written twice: the first entry is returned, so that a caller cut off before the receipt may retry.
        """
        return self.append_batch([record], blobs)[0]

    def append_batch(
        self, records: Sequence[Mapping[str, Any]], blobs: Mapping[str, bytes] | None = None
    ) -> tuple[Entry, ...]:
        """Record all of them in one transaction, in order, or none. `blobs` serves the whole batch."""
        drafts = [draft_of(record, index) for index, record in enumerate(records)]
        given = dict(blobs or {})
        check_blobs(given, drafts)
        return self._append(drafts, given)

    def append_sealed(self, records: Sequence[Sealed]) -> tuple[Entry, ...]:
        """As `append_batch`, for a writer that seals many decisions itself: ids, bodies and blobs are taken as they
        are, and `verify` finds out if they were wrong."""
        if any(_OVERRIDE in r.body for r in records):
            raise RecordError(JUDGED)
        asked = [None if r.request is None else (r.request.key, r.request.item) for r in records]
        drafts = [Draft(r.id, r.body, r.refs, key, None) for r, key in zip(records, asked, strict=True)]
        return self._append(drafts, {name: blob for r in records for name, blob in r.blobs.items()})

    def _append(self, drafts: Sequence[Draft], blobs: dict[str, bytes]) -> tuple[Entry, ...]:
        if not drafts:
            return ()
        check_texts(drafts)
        while True:
            store = self.store  # another thread may follow the log to its next file meanwhile
            try:
                return self._append_to(store, drafts, blobs)
            except LogClosed:
                self._chain.follow()
                if self.store is store:
                    raise

    def _append_to(self, store: Store, drafts: Sequence[Draft], blobs: dict[str, bytes]) -> tuple[Entry, ...]:
        written_at = None if self._clock is None else time_text(self._clock(), "clock")
        with store.writing():
            _check_open(store)
            entries = self._insert(store, drafts, blobs, written_at)
        if all(entry.repeated for entry in entries):
            store.sync()
        self.check_place()
        self.last = next((entry for entry in reversed(entries) if not entry.repeated), self.last)
        return tuple(entries)

    def append_last(self, record: Mapping[str, Any], before: Callable[[int, str], None]) -> Entry:
        """Append the entry after which there is none. `before` is told its number and head while nobody else can
        write, before it is there; if it raises, nothing is added."""
        draft = draft_of(record, 0)
        written_at = None if self._clock is None else time_text(self._clock(), "clock")
        store = self.store
        with store.writing():
            _check_open(store)
            seq, head = store.tail()
            before(seq + 1, next_head(head, seq + 1, entry_digest(draft.body), written_at))
            (entry,) = self._insert(store, [draft], {}, written_at)
        self.check_place()
        return entry

    def _insert(
        self, store: Store, drafts: Sequence[Draft], blobs: dict[str, bytes], written_at: str | None
    ) -> builtins.list[Entry]:
        known = self._chain.answered([draft.request for draft in drafts if draft.request is not None])
        _insert_blobs(store, drafts, blobs)
        seq, head = _end(store, drafts[0].body)
        rows, entries = [], []
        for draft in drafts:
            digest = entry_digest(draft.body)
            entry = None if draft.request is None else known.get(draft.request)
            if entry is not None:
                if entry.digest != digest:
                    raise RequestTaken(entry)
            else:
                if draft.target is not None:
                    self._check_target(draft.target)
                seq += 1
                head = next_head(head, seq, digest, written_at)
                rows.append(Row(seq, draft.id, digest, head, written_at, draft.body))
                entry = Entry(seq, draft.id, digest, head)
                if draft.request is not None:
                    known[draft.request] = Entry(seq, draft.id, digest, head, repeated=True)
            entries.append(entry)
        store.add(rows)
        return entries

    def set_autocheckpoint(self, pages: int) -> None:
        """How many `pages` the write-ahead log may have before SQLite moves them; 0 where another program does that."""
        if isinstance(self.store, SqliteStore):
            self.store.set_autocheckpoint(pages)

    def move_pages(self) -> int:
        """Move what the write-ahead log holds into the file as far as nobody is in the way; commits go on meanwhile.
        Returns how many pages it holds, moved or not: it begins anew with the next commit where all were."""
        return self.store.move_pages() if isinstance(self.store, SqliteStore) else 0

    def settle(self) -> None:
        """Move what the write-ahead log holds into the file, so that the file alone is the log."""
        if isinstance(self.store, SqliteStore):
            self.store.settle()

    def take_over(self, rows: Sequence[Row], blobs: Mapping[str, bytes]) -> None:
        """Append entries of another log as they are, numbers, times and heads included; they must follow the last one
        here."""
        store = self.store
        with store.writing():
            seq, head = _end(store, rows[0].body)
            for row in rows:
                seq += 1
                head = next_head(head, seq, row.digest, row.written_at)
                if (row.seq, row.head) != (seq, head):
                    raise RecordError(f"entry {row.seq} does not follow entry {seq - 1} of {self.path}")
            drafts = [Draft(row.id, row.body, blob_refs(row.body), None, None) for row in rows]
            _insert_blobs(store, drafts, dict(blobs))
            store.add(rows)
        self.check_place()

    def _check_target(self, target: Target) -> None:
        found = self._chain.row(target.entry)
        found = found if found is not None and found.id == target.id else None
        if wrong := target.problem(found, 2**63):
            raise RecordError(f"{target.field}: {wrong}")
        reports = self._chain.reports(target.id) if target.field == "override.overrides" else []
        if any(row.record["entry"] == target.entry for row in reports):
            raise RecordError(f"an outcome of decision {target.id[:12]} is reported; it can no longer be overridden")

    def override(
        self,
        decision: str | int,
        *,
        task: Task | None,
        who: str,
        why: str,
        action: Any,
        at: str | datetime | None = None,
        request: Request | str | None = None,
        of: RowOf | None = None,
        force: bool = False,
    ) -> Entry:
        """Record that a person took another `action` than a decision or a refusal (by id or number); it stays as it is.
        `of` is a row of the segment that `decision` then names.

        The task's rules are asked here: any action that they allow in the recorded state may be taken, by value (a
        number or a tuple) or by label, one off the grid too, which is marked. Otherwise `NotAllowed` is raised and
        nothing is appended, unless `force` is given: then it is recorded and marked as forced. Once an outcome is
        reported, nothing is. The last override counts; the action None withdraws those before it. `at` is the time of
        the override; without it the log's clock is asked.
        """
        from ucsearch.records.overrides import judge
        from ucsearch.records.record import as_value

        if at is None:
            if self._clock is None:
                raise InputError("override.at", at, "a time, or a log with a clock")
            at = self._clock()
        target = self.get(decision)
        original = target.record if of is None else of.record
        if of is not None and target.record.get("kind") != "segment":
            raise RecordError(f"entry {target.seq} is no segment")
        if original.get("kind") not in ("decision", "refusal"):
            raise RecordError(
                f"entry {target.seq} is of kind {original.get('kind')!r}, expected a decision or a refusal"
            )
        judged = judge(original, task, action, force=force)
        asked = as_request(request)
        record: dict[str, Any] = {
            "schema": OVERRIDE_SCHEMA if of is None else ROW_OVERRIDE_SCHEMA,
            "kind": "override",
            "overrides": target.id,
            "entry": target.seq,
            "digest": target.digest,
            "series": str(original.get("series", "")),
            "who": who,
            "why": why,
            "action": as_value(judged.action),
            "label": judged.label,
            "off_grid": judged.off_grid,
            "at": time_text(at, "override.at"),
        }
        if judged.forced:
            record["forced"] = True
        if of is not None:
            record["proof"] = dict(of.proof)
        if asked is not None:
            record["request"] = asked.content()
        return self._append([draft_of(record, 0, judged=True)], {})[0]


def _check_open(store: Store) -> None:
    if name := following(store):
        raise LogClosed(store.path, name)


def _end(store: Store, first: bytes) -> tuple[int, str]:
    """Number and head of the last entry; in an empty store, of the last one of the file that `first` goes on from."""
    seq, head = store.tail()
    if seq == 0 and b'"event":"opened"' in first:
        record = loads(first)
        return int(record["count"]), str(record["head"])
    return seq, head


def _insert_blobs(store: Store, drafts: Sequence[Draft], blobs: dict[str, bytes]) -> None:
    needed = list(dict.fromkeys(ref for draft in drafts for ref in draft.refs))
    stored = store.blobs(needed) if needed else {}
    for name, data in stored.items():
        if blob_id(data) != name:
            raise AlteredEntry(f"the stored blob {name} was altered; verify the log")
    missing = [name for name in needed if name not in stored]
    if absent := [name for name in missing if name not in blobs]:
        raise RecordError(f"blob {absent[0]}: referred to by a record, neither given nor stored")
    store.add_blobs([(name, blobs[name]) for name in missing])
