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
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from ucsearch.errors import InputError, RecordError
from ucsearch.records import export
from ucsearch.records.canonical import blob_id, loads
from ucsearch.records.chain import ChainReport, Checkpoint, begun_with, check_rows
from ucsearch.records.entries import (
    GENESIS,
    JUDGED,
    OVERRIDE_SCHEMA,
    ROW_OVERRIDE_SCHEMA,
    AlteredEntry,
    Damaged,
    Draft,
    Effective,
    Entry,
    LogClosed,
    NoEntry,
    Query,
    Request,
    RequestTaken,
    Row,
    RowOf,
    Sealed,
    Share,
    Target,
    as_request,
    blob_refs,
    check_blobs,
    check_texts,
    draft_of,
    effective_of,
    entry_digest,
    next_head,
    time_text,
)
from ucsearch.records.log_chain import LogChain, Store, following, open_newest, opening
from ucsearch.records.merkle import MerkleTree
from ucsearch.records.postgres import PostgresStore, is_postgres
from ucsearch.records.sqlite import FORMAT, SqliteStore

if TYPE_CHECKING:
    from ucsearch.decision.decision import Decision, DecisionPanel
    from ucsearch.task import Task

__all__ = ["AuditLog", "AuditReader", "open_log", "open_reader"]


# -------------------------------------------------------------------- reading


class Numbered(Protocol):
    """An entry, or a line that tells of one."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...


class AuditReader:
    """An existing log, opened read-only.

    `path` is any file of the log: those before and after it that lie beside it are read too, as one log, and `path` is
    the newest of them. `single` reads the one file alone. `timeout_s` is how long to wait for a lock. One object may be
    shared by threads, but not carried into a forked process.
    """

    _known: tuple[str, dict[int, tuple[int, dict[str, Any]]]] | None = None  # digest and members of an allocation

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 5.0, single: bool = False) -> None:
        place = Path(path)
        opened = partial(SqliteStore, timeout_s=timeout_s)
        newest = opened(place) if single else open_newest(place, opened, there=True)
        self._chain = LogChain(newest, None if single else opened, timeout_s=timeout_s)

    @classmethod
    def of(cls, store: Store) -> Self:
        """Read another `store` than a file."""
        reader = cls.__new__(cls)
        reader._chain = LogChain(store)
        return reader

    @property
    def store(self) -> Store:
        """Where the newest entries are."""
        return self._chain.newest_store

    @property
    def stores(self) -> builtins.list[Store]:
        """What holds the entries, from the oldest to the newest."""
        return self._chain.forwards()

    @property
    def path(self) -> Path:
        """The file that is written to now; of a database its name."""
        return next(self._chain.backwards()).path

    def close(self) -> None:
        """Close the files; `with` does it."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def files(self) -> builtins.list[Path]:
        """All files that are read, from the oldest to the newest."""
        return [store.path for store in self._chain.forwards()]

    def file_of(self, row: Row) -> Path:
        """The file that an entry lies in."""
        return self._chain.store_of(row.seq).path

    def head_after(self, count: int) -> str:
        """The chain's head after `count` entries; "" where these are no more, or not yet, in the files that are
        there."""
        if count == 0:
            return GENESIS
        if (row := self._chain.row(count)) is not None:
            return row.head
        first = self._chain.row(count + 1)
        start = None if first is None else begun_with(first)
        return "" if start is None else start[1]

    def count(self) -> int:
        """Number of the last entry (0 for an empty log)."""
        return self._chain.tail()[0]

    def first(self) -> int:
        """Number of the first entry: above 1 where older files were moved away, 0 for an empty log."""
        return self._chain.first()

    def __iter__(self) -> Iterator[Row]:
        """All entries in order, up to the last one there when the iteration began."""
        return self._chain.rows(-(2**63), self.count())

    def rows(self, first: int = 1, last: int | None = None) -> Iterator[Row]:
        """Entries from one number to another, or to the last one there is now."""
        count = self.count()
        return self._chain.rows(first - 1, count if last is None else min(last, count))

    @property
    def format(self) -> int:
        """Number of the log's format."""
        return FORMAT

    def get(self, id: str | int) -> Row:
        """The entry with this number; or the newest one with this id, or with the only id that begins so (8 characters
        or more). Equal decisions have equal ids."""
        if isinstance(id, int):
            row = self._chain.row(id)
        else:
            text = str(id)
            ids = self._chain.ids(text) if 8 <= len(text) < 64 and text.isalnum() else [text]
            if len(ids) > 1:
                raise NoEntry(f"{self.path}: more than one id begins with {text!r}; give more of it")
            row = self._chain.newest((ids or [text])[0])
        if row is None:
            raise NoEntry(f"{self.path}: no entry {id!r}")
        return row

    def find_request(self, key: str, item: int | None = None) -> tuple[Row, ...]:
        """Entries that were recorded under a request's key, in order; or the one of this item."""
        return tuple(row for _, n, row in self._chain.requested([key]) if item is None or n == item)

    def find_requests(self, keys: Sequence[str]) -> dict[str, tuple[Row, ...]]:
        """The same for several keys at once; those that the log does not have are left out."""
        out: dict[str, tuple[Row, ...]] = {}
        for key, _, row in self._chain.requested(sorted(set(keys))):
            out[key] = (*out.get(key, ()), row)
        return out

    def list(
        self,
        *,
        limit: int = 50,
        offset: int = 0,
        outcome: str | None = None,
        reason: str | None = None,
        series: str | None = None,
        kind: str | tuple[str, ...] | None = None,
        plan: str | None = None,
        before: int | None = None,
        newest_first: bool = False,
    ) -> tuple[Row, ...]:
        """Entries whose members `outcome`, `reason`, `series`, `kind` (one of several), `plan` equal those given, with
        numbers below `before`."""
        for field, value in (("limit", limit), ("offset", offset)):
            if not 0 <= value < 2**53:
                raise InputError(field, value, "0 or more")
        filters = {"series": series, "reason": reason, "outcome": outcome, "plan": plan}
        named = {name: value for name, value in filters.items() if value is not None}
        kinds = (kind,) if isinstance(kind, str) else kind or ()
        return tuple(self._chain.search(Query(named, kinds, before, newest_first), offset + limit)[offset:])

    def iterate(self, kind: str) -> Iterator[Row]:
        """All entries of a rare kind, or all outcomes, in order; by their index, so that a long log is no matter."""
        return self._chain.iterate(kind)

    def newest(self, series: str, plan: str | None = None) -> Row | None:
        """The newest decision or refusal of a series."""
        rows = self.list(series=series, plan=plan, kind=("decision", "refusal"), limit=1, newest_first=True)
        return rows[0] if rows else None

    def has_all(self, ids: Sequence[str]) -> bool:
        """Whether every one of these records is in the log."""
        return self._chain.has(ids) == set(ids)

    def overrides(self, decision: str | int) -> tuple[Row, ...]:
        """The overrides of a decision (by number or id), oldest first."""
        row = self.get(decision)
        return self._overrides([row]).get(row.seq, ())

    def reports(self, decision: str) -> tuple[Row, ...]:
        """What was reported to have come of the decisions with this id, in order."""
        return tuple(self._chain.reports(decision))

    def effective(self, rows: Sequence[Row]) -> dict[int, Effective]:
        """For each decision or refusal among these, by its number: the action that counts. The last override does;
        one without an action withdraws those before it."""
        chosen = [row for row in rows if row.record.get("kind") in ("decision", "refusal")]
        standing, shares = self._overrides(chosen), self.shares(chosen)
        return {row.seq: effective_of(row, standing.get(row.seq, ()), shares.get(row.seq)) for row in chosen}

    def shares(self, rows: Sequence[Numbered]) -> dict[int, Share]:
        """For each decision among these that an allocation names, by its number: what the newest one left of it."""
        out: dict[int, Share] = {}
        waiting, before = {row.seq: row.id for row in rows}, None
        while waiting:
            newest = self.list(kind="allocation", limit=1, before=before, newest_first=True)
            if not newest or newest[0].seq < min(waiting):
                break
            allocation = newest[0]
            before = allocation.seq
            for seq, (place, member) in self._members(allocation).items():
                if waiting.get(seq) == member["decision"]:
                    del waiting[seq]
                    out[seq] = Share(allocation, place, member["outcome"], member["action"])
        return out

    def _members(self, allocation: Row) -> dict[int, tuple[int, dict[str, Any]]]:
        """The members of an allocation with their places, by the entry of their decision; the last one asked is kept:
        it may hold every series there is."""
        if self._known is None or self._known[0] != allocation.digest:
            members = allocation.record.get("members", ())  # nothing is left of one that was deleted
            self._known = allocation.digest, {m["entry"]: (place, m) for place, m in enumerate(members)}
        return self._known[1]

    def _overrides(self, rows: Sequence[Row]) -> dict[int, tuple[Row, ...]]:
        out: dict[int, tuple[Row, ...]] = {}
        for other in self._chain.overrides(sorted({row.id for row in rows})):
            record = other.record
            for row in rows:
                if row.id == record["overrides"] and record["entry"] == row.seq:
                    out[row.seq] = (*out.get(row.seq, ()), other)
        return out

    def blob(self, id: str) -> bytes:
        """A stored blob, checked against its name."""
        if (data := self._chain.blob(id)) is None:
            raise RecordError(f"{self.path}: no blob {id}")
        if blob_id(data) != id:
            raise AlteredEntry(f"{self.path}: the blob {id} was altered")
        return data

    def blobs_of(self, row: Row) -> dict[str, bytes]:
        """Every blob an entry refers to, by id."""
        return {ref: self.blob(ref) for ref in blob_refs(row.body)}

    # Trust

    def checkpoint(self, *, max_marks: int | None = 4096) -> Checkpoint:
        """Count and head, to be kept outside the database, with heads on the way to it.

        Up to `max_marks` entries every head is a mark, so that a later verification names the first changed
        entry exactly; above, every second, fourth, ... head is. None keeps all of them.
        """
        count, head = self._chain.tail()
        stride = 1
        while max_marks is not None and count // stride > max_marks:
            stride *= 2
            if stride > count:
                return Checkpoint(count, head)
        return Checkpoint(count, head, tuple(self._chain.heads(count - 1, stride)) if count else ())

    def root(self, count: int | None = None) -> bytes:
        """Root of the RFC 6962 tree over the heads of the first `count` entries, or of all."""
        last = self.count() if count is None else count
        before = opening(self._chain.forwards()[0])
        tree = MerkleTree() if before is None else MerkleTree.resumed(before["count"], before["tree"])
        for _, head in self._chain.heads(last):
            tree.add(bytes.fromhex(head))
        if tree.size != last:
            raise RecordError(f"{self.path}: {tree.size} entries up to number {last}")
        return tree.root()

    def verify(self, checkpoint: Checkpoint | None = None) -> ChainReport:
        """Re-derive every id, digest and head, and every blob's name; the report names the first bad entry.

        Alone it finds edits, deletions in the middle and swaps. With a checkpoint it also finds a missing
        tail, a chain recomputed after an edit, and a log replaced as a whole.
        """
        good, head = 0, GENESIS

        def watched() -> Iterator[Row]:
            nonlocal good, head
            for row in self._chain.rows(-(2**63), 2**63 - 1, raw=True):
                yield row
                good, head = row.seq, row.head

        def entry(id: str, seq: int) -> Row | None:
            named = self._chain.row(seq, raw=True)
            return named if named is not None and named.id == id else None

        try:
            report = check_rows(watched(), checkpoint, self._chain.blob, entry, self._chain.erased())
            return self._check_stores(report) if report.ok else report
        except Damaged as error:
            bad = (good + 1, good + 1)
            return ChainReport(good, head, "corrupt", bad, None, f"entry {good + 1}: {error}", checkpoint)

    def _check_stores(self, report: ChainReport) -> ChainReport:
        # The entries are right; an index that is not would still hide some of them from a query.
        for store in self._chain.backwards():
            fault, problem = store.fault()
            if fault:
                message = f"all entries are right, but {problem}"
                return ChainReport(report.count, report.head, fault, None, None, message, report.against)
        return report

    # Export

    def export_jsonl(
        self, path: str | os.PathLike[str], *, inline_blobs: bool = True, first: int = 1, last: int | None = None
    ) -> int:
        """Write entries `first` to `last`, or all, as JSON lines (see `export.py`); returns their number."""
        return export.write_jsonl(path, *self._part(first, last), self.blobs_of if inline_blobs else None)

    def export_parquet(
        self, path: str | os.PathLike[str], *, inline_blobs: bool = True, first: int = 1, last: int | None = None
    ) -> int:
        """Write entries `first` to `last`, or all, as a Parquet table (needs pyarrow); returns their number."""
        inline = self.blobs_of if inline_blobs else None
        return export.write_parquet(path, *self._part(first, last), inline, self.effective)

    def _part(self, first: int, last: int | None) -> tuple[Iterator[Row], str]:
        """Those entries, and the head before them."""
        if first < 1 or (last is not None and last < first):
            raise InputError("entries", f"{first} to {last}", "numbers from 1, in order")
        count = self.count()
        first_row = self._chain.row(first)
        previous = GENESIS if first_row is None else self.head_after(first - 1)
        return self._chain.rows(first - 1, count if last is None else min(last, count)), previous


# -------------------------------------------------------------------- writing


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
        log = super().of(store)
        log._clock = clock
        return log

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

        first_request = as_request(request)
        if isinstance(decisions, Decision):
            return [*self.append_sealed([decision_body(decisions, str(series), where, first_request)])]
        names = [series] * len(decisions) if isinstance(series, str) else list(series)
        if len(names) != len(decisions):
            raise RecordError(f"series: saw {len(names)} names, expected {len(decisions)}, one per decision")
        entries: list[Entry] = []
        for lo in range(0, len(decisions), _BATCH):
            windows = range(lo, min(lo + _BATCH, len(decisions)))
            requests = None if first_request is None else [first_request.at(w) for w in windows]
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
        all_blobs = dict(blobs or {})
        check_blobs(all_blobs, drafts)
        return self._append(drafts, all_blobs)

    def append_sealed(self, records: Sequence[Sealed]) -> tuple[Entry, ...]:
        """As `append_batch`, for a writer that seals many decisions itself: ids, bodies and blobs are taken as they
        are, and `verify` finds out if they were wrong."""
        if any(_OVERRIDE in r.body for r in records):
            raise RecordError(JUDGED)
        requests = [None if r.request is None else (r.request.key, r.request.item) for r in records]
        drafts = [Draft(r.id, r.body, r.refs, key, None) for r, key in zip(records, requests, strict=True)]
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
        answers = self._chain.answered([draft.request for draft in drafts if draft.request is not None])
        _insert_blobs(store, drafts, blobs)
        seq, head = _end(store, drafts[0].body)
        rows, entries = [], []
        for draft in drafts:
            digest = entry_digest(draft.body)
            entry = None if draft.request is None else answers.get(draft.request)
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
                    answers[draft.request] = Entry(seq, draft.id, digest, head, repeated=True)
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
        target_row = self._chain.row(target.entry)
        target_row = target_row if target_row is not None and target_row.id == target.id else None
        if wrong := target.problem(target_row, 2**63):
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
        named_request = as_request(request)
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
        if named_request is not None:
            record["request"] = named_request.content()
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


# -------------------------------------------------------------------- by the place it is in


def open_log(
    place: str | os.PathLike[str], *, clock: Callable[[], str | datetime] | None = None, timeout_s: float = 5.0,
    max_pages: int | None = None, alone: bool = False, single: bool = False,
) -> AuditLog:  # fmt: skip
    """A log to write to, made where there is none. `alone`: no second service may write to a database. `single`: of a
    log of several files this one alone."""
    if is_postgres(place):
        store = PostgresStore(str(place), timeout_s=timeout_s, read_only=False, alone=alone)
        return AuditLog.of(store, clock=clock)
    return AuditLog(place, clock=clock, timeout_s=timeout_s, max_pages=max_pages, single=single)


def open_reader(place: str | os.PathLike[str], *, timeout_s: float = 5.0, single: bool = False) -> AuditReader:
    if is_postgres(place):
        return AuditReader.of(PostgresStore(str(place), timeout_s=timeout_s))
    return AuditReader(place, timeout_s=timeout_s, single=single)
