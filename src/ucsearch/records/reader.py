"""Reading the audit log: look up, list, verify, checkpoint, export. Nothing here can write to it."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

from ucsearch.errors import InputError, RecordError
from ucsearch.records import export
from ucsearch.records.arrays import blob_id
from ucsearch.records.chain import GENESIS, ChainReport, Checkpoint, begun_with, check_rows
from ucsearch.records.entries import AlteredEntry, Effective, NoEntry, Row, Share, blob_refs, effective_of
from ucsearch.records.log_chain import LogChain, open_newest, opening
from ucsearch.records.merkle import Tree
from ucsearch.records.sqlite import FORMAT, SqliteStore
from ucsearch.records.store import Damaged, Query, Store

__all__ = ["AuditReader"]


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
        made = cls.__new__(cls)
        made._chain = LogChain(store)
        return made

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
        begun = None if first is None else begun_with(first)
        return "" if begun is None else begun[1]

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
            found = self._chain.row(id)
        else:
            text = str(id)
            ids = self._chain.ids(text) if 8 <= len(text) < 64 and text.isalnum() else [text]
            if len(ids) > 1:
                raise NoEntry(f"{self.path}: more than one id begins with {text!r}; give more of it")
            found = self._chain.newest((ids or [text])[0])
        if found is None:
            raise NoEntry(f"{self.path}: no entry {id!r}")
        return found

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
        wanted = {"series": series, "reason": reason, "outcome": outcome, "plan": plan}
        named = {name: value for name, value in wanted.items() if value is not None}
        kinds = (kind,) if isinstance(kind, str) else kind or ()
        return tuple(self._chain.search(Query(named, kinds, before, newest_first), offset + limit)[offset:])

    def iterate(self, kind: str) -> Iterator[Row]:
        """All entries of a rare kind, or all outcomes, in order; by their index, so that a long log is no matter."""
        return self._chain.iterate(kind)

    def newest(self, series: str, plan: str | None = None) -> Row | None:
        """The newest decision or refusal of a series."""
        found = self.list(series=series, plan=plan, kind=("decision", "refusal"), limit=1, newest_first=True)
        return found[0] if found else None

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
            found = self.list(kind="allocation", limit=1, before=before, newest_first=True)
            if not found or found[0].seq < min(waiting):
                break
            allocation = found[0]
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
        tree = Tree() if before is None else Tree.resumed(before["count"], before["tree"])
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
            found = self._chain.row(seq, raw=True)
            return found if found is not None and found.id == id else None

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
        own = self._chain.row(first)
        previous = GENESIS if own is None else self.head_after(first - 1)
        return self._chain.rows(first - 1, count if last is None else min(last, count)), previous
