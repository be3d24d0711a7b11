"""Reading the audit log: look up, list, verify, checkpoint, export. Nothing here can write to it."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Iterator, Mapping, Sequence

from ucsearch.errors import InputError, RecordError
from ucsearch.records import export
from ucsearch.records.blobs import blob_id
from ucsearch.records.chain import GENESIS, ChainReport, Checkpoint, Row, blob_refs, check_rows
from ucsearch.records.connected import Connected
from ucsearch.records.entries import Effective, effective_of, is_of
from ucsearch.records.notes import Tree
from ucsearch.records.store import RARE, among, closed_by, find, format_of, is_damage, schema_problem, tail

__all__ = ["AuditReader", "find_head"]

_COLUMNS = "seq, id, digest, head, written_at, CAST(body AS BLOB)"
_RARE_KINDS = {kind: kind for kind in ("override", "control", "monitor", "segment", "allocation", "rotation")}
_OFTEN = frozenset({"decision", "refusal", "outcome"})
_CHUNK = 500  # rows read at a time, so that a long walk neither holds a lock nor the whole log


class AuditReader(Connected):
    """An existing log, opened read-only.

    `timeout_s` is how long to wait for a lock. One object may be shared by threads, but not carried into a
    forked process.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 5.0) -> None:
        self._open(path, timeout_s, read_only=True, max_pages=None)

    def count(self) -> int:
        """Number of the last entry (0 for an empty log)."""
        with self._guarded() as connection:
            return tail(connection)[0]

    def __iter__(self) -> Iterator[Row]:
        """All entries in order, up to the last one there when the iteration began."""
        with self._guarded() as connection:
            last, _ = tail(connection)
        return self._rows(last)

    def _rows(self, last: int, after: int = -(2**63)) -> Iterator[Row]:
        while True:
            with self._guarded() as connection:
                rows = connection.execute(
                    f"SELECT {_COLUMNS} FROM entries WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
                    (after, last, _CHUNK),
                ).fetchall()
            for row in rows:
                yield Row(*row)
            if len(rows) < _CHUNK:
                return
            after = rows[-1][0]

    def rows(self, first: int = 1, last: int | None = None) -> Iterator[Row]:
        """Entries from one number to another, or to the last one there is now."""
        count = self.count()
        return self._rows(count if last is None else min(last, count), first - 1)

    @property
    def format(self) -> int:
        """Number of the file's format."""
        with self._guarded() as connection:
            found = format_of(connection)
        if not isinstance(found, int):
            raise RecordError(f"{self.path}: not an audit log of this package")
        return found

    def get(self, id: str | int) -> Row:
        """The entry with this number; or the newest one with this id, or with the only id that begins so (8 characters
        or more). Equal decisions have equal ids."""
        if isinstance(id, int):
            return self._one("seq = ?", id)
        text = str(id)
        with self._guarded() as connection:
            ids = [text]
            if 8 <= len(text) < 64 and text.isalnum():
                # Ids are hex digits, so all that begin with the text sort between it and it with a "g".
                found = connection.execute(
                    "SELECT DISTINCT id FROM entries WHERE id >= ? AND id < ? LIMIT 2", (text, text + "g")
                ).fetchall()
                ids = [name for (name,) in found] or ids
        if len(ids) > 1:
            raise RecordError(f"{self.path}: more than one id begins with {text!r}; give more of it")
        return self._one("id = ?", ids[0])

    def _one(self, where: str, value: int | str) -> Row:
        with self._guarded() as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE {where} ORDER BY seq DESC LIMIT 1", (value,)
            ).fetchone()
        if found is None:
            raise RecordError(f"{self.path}: no entry {value!r}")
        return Row(*found)

    def find_request(self, key: str, item: int | None = None) -> tuple[Row, ...]:
        """Entries that were recorded under a request's key, in order; or the one of this item."""
        if self.format < 2:
            return ()
        only = "" if item is None else " AND request_item = ?"
        with self._guarded() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE request_key = ?{only} ORDER BY request_item",
                (key,) if item is None else (key, item),
            ).fetchall()
        return tuple(Row(*row) for row in rows)

    def find_requests(self, keys: Sequence[str]) -> dict[str, tuple[Row, ...]]:
        """The same for several keys at once; those that the log does not have are left out."""
        listed, values = among(sorted(set(keys)))
        with self._guarded() as connection:
            rows = connection.execute(
                f"SELECT request_key, {_COLUMNS} FROM entries WHERE request_key IN {listed}"
                " ORDER BY request_key, request_item",
                values,
            ).fetchall()
        out: dict[str, tuple[Row, ...]] = {}
        for key, *row in rows:
            out[key] = (*out.get(key, ()), Row(*row))
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
        if plan is not None and self.format < 2:
            return ()
        wanted = {"series": series, "reason": reason, "outcome": outcome, "plan": plan}
        named = {name: value for name, value in wanted.items() if value is not None}
        kinds = (kind,) if isinstance(kind, str) else kind or ()
        rare = bool(kinds) and _OFTEN.isdisjoint(kinds) and self.format > 1
        asked = [RARE] if rare else []
        named = _rarest_first(named)
        asked += [f"{'+' if n else ''}{name} = ?" for n, name in enumerate(named)]
        asked += [f"kind IN ({', '.join('?' * len(kinds))})" if len(kinds) > 1 else "kind = ?"] if kinds else []
        asked += [] if before is None else ["seq < ?"]
        where = " AND ".join(asked) or "TRUE"
        bound = (*kinds, *(() if before is None else (before,)))
        order = "DESC" if newest_first else "ASC"

        def found(limit: int, offset: int) -> builtins.list[Row]:
            with self._guarded() as connection:
                rows = connection.execute(
                    f"SELECT {_COLUMNS} FROM entries WHERE {where} ORDER BY seq {order} LIMIT ? OFFSET ?",
                    (*named.values(), *bound, limit, offset),
                ).fetchall()
            return [Row(*row) for row in rows]

        rows = found(limit, offset)
        if not all(is_of(row, named) for row in rows):
            rows = [row for row in found(2**53, 0) if is_of(row, named)][offset : offset + limit]
        return tuple(rows)

    def iterate(self, kind: str) -> Iterator[Row]:
        """All entries of a rare kind, or all outcomes, in order; by their index, so that a long log is no matter."""
        if self.format < 2:
            return
        source, where = ("entries INDEXED BY entries_decision", "decision IS NOT NULL")
        if kind != "outcome":
            source, where = "entries", f"kind = '{_RARE_KINDS[kind]}' AND {RARE}"
        with self._guarded() as connection:
            found = sorted(seq for (seq,) in connection.execute(f"SELECT seq FROM {source} WHERE {where}"))
        for lo in range(0, len(found), _CHUNK):
            with self._guarded() as connection:
                rows = connection.execute(
                    f"SELECT {_COLUMNS} FROM entries WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY seq",
                    (json.dumps(found[lo : lo + _CHUNK]),),
                ).fetchall()
            for row in rows:
                yield Row(*row)

    def closed_by(self) -> str:
        """Name of the file in which the log goes on; "" while this one is written to."""
        if self.format < 2:
            return ""
        with self._guarded() as connection:
            return closed_by(connection)

    def newest(self, series: str, plan: str | None = None) -> Row | None:
        """The newest decision or refusal of a series."""
        found = self.list(series=series, plan=plan, kind=("decision", "refusal"), limit=1, newest_first=True)
        return found[0] if found else None

    def has_all(self, ids: Sequence[str]) -> bool:
        """Whether every one of these records is in the log."""
        with self._guarded() as connection:
            (count,) = connection.execute(
                "SELECT count(DISTINCT id) FROM entries WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps([*ids]),),
            ).fetchone()
        return int(count) == len(set(ids))

    def overrides(self, decision: str | int) -> tuple[Row, ...]:
        """The overrides of a decision (by number or id), oldest first."""
        row = self.get(decision)
        return self._overrides([row]).get(row.seq, ())

    def reports(self, decision: str) -> tuple[Row, ...]:
        """What was reported to have come of the decisions with this id, in order."""
        if self.format < 2:
            return ()
        with self._guarded() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE decision = ? AND kind = 'outcome' ORDER BY seq", (decision,)
            ).fetchall()
        return tuple(Row(*row) for row in rows)

    def effective(self, rows: Sequence[Row]) -> dict[int, Effective]:
        """For each decision or refusal among these, by its number: the action that counts. The last override does;
        one without an action withdraws those before it."""
        chosen = [row for row in rows if row.record.get("kind") in ("decision", "refusal")]
        standing = self._overrides(chosen)
        return {row.seq: effective_of(row, standing.get(row.seq, ())) for row in chosen}

    def _overrides(self, rows: Sequence[Row]) -> dict[int, tuple[Row, ...]]:
        with self._guarded() as connection:
            found = connection.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE overrides IN (SELECT value FROM json_each(?))"
                " AND kind = 'override' ORDER BY seq",
                (json.dumps(sorted({row.id for row in rows})),),
            ).fetchall()
        out: dict[int, tuple[Row, ...]] = {}
        for other in (Row(*one) for one in found):
            record = other.record
            for row in rows:
                # Records of format 1 name no entry; an id was in the log once.
                if row.id == record["overrides"] and record.get("entry", row.seq) == row.seq:
                    out[row.seq] = (*out.get(row.seq, ()), other)
        return out

    def blob(self, id: str) -> bytes:
        """A stored blob, checked against its name."""
        if (data := self._blob(id)) is None:
            raise RecordError(f"{self.path}: no blob {id}")
        if blob_id(data) != id:
            raise RecordError(f"{self.path}: the blob {id} was altered")
        return data

    def blobs_of(self, row: Row) -> dict[str, bytes]:
        """Every blob an entry refers to, by id."""
        return {ref: self.blob(ref) for ref in blob_refs(row.body)}

    def _blob(self, id: str) -> bytes | None:
        with self._guarded() as connection:
            found = connection.execute("SELECT CAST(data AS BLOB) FROM blobs WHERE id = ?", (id,)).fetchone()
        return None if found is None else found[0] or b""

    # Trust

    def checkpoint(self, *, max_marks: int | None = 4096) -> Checkpoint:
        """Count and head, to be kept outside the database, with heads on the way to it.

        Up to `max_marks` entries every head is a mark, so that a later verification names the first changed
        entry exactly; above, every second, fourth, ... head is. None keeps all of them.
        """
        with self._guarded() as connection:
            count, head = tail(connection)
            stride = 1
            while max_marks is not None and count // stride > max_marks:
                stride *= 2
                if stride > count:
                    return Checkpoint(count, head)
            marks = connection.execute(
                "SELECT seq, head FROM entries WHERE seq < ? AND seq % ? = 0 ORDER BY seq", (count, stride)
            ).fetchall()
        return Checkpoint(count, head, tuple(marks))

    def root(self, count: int | None = None) -> bytes:
        """Root of the RFC 6962 tree over the heads of the first `count` entries, or of all."""
        last = self.count() if count is None else count
        tree = Tree()
        with self._guarded() as connection:
            for (head,) in connection.execute("SELECT head FROM entries WHERE seq <= ? ORDER BY seq", (last,)):
                tree.add(bytes.fromhex(head))
        if tree.size != last:
            raise RecordError(f"{self.path}: {tree.size} entries up to number {last}")
        return tree.root()

    def verify(self, checkpoint: Checkpoint | None = None) -> ChainReport:
        """Re-derive every id, digest and head, and every blob's name; the report names the first bad entry.

        Alone it finds edits, deletions in the middle and swaps. With a checkpoint it also finds a missing
        tail, a chain recomputed after an edit, and a log replaced as a whole.
        """
        good = 0
        head = GENESIS

        def watched() -> Iterator[Row]:
            nonlocal good, head
            for row in self._rows(2**63 - 1):
                yield row
                good, head = row.seq, row.head

        def lookup(id: str, entry: int | None) -> tuple[int, bytes] | None:
            with self._guarded() as connection:
                return find(connection, id, entry)

        try:
            report = check_rows(watched(), checkpoint, self._blob, lookup)
            if report.ok:
                return self._check_file(report)
        except RecordError as error:
            if not is_damage(error.__cause__):
                raise
            bad = (good + 1, good + 1)
            return ChainReport(good, head, "corrupt", bad, None, f"entry {good + 1}: {error}", checkpoint)
        return report

    def _check_file(self, report: ChainReport) -> ChainReport:
        # The entries are right; an index that is not would still hide some of them from a query.
        with self._guarded() as connection:
            problem = schema_problem(connection)
            (state,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        fault = "schema" if problem else "corrupt" if state != "ok" else None
        if fault is None:
            return report
        message = f"all entries are right, but {problem or state}"
        return ChainReport(report.count, report.head, fault, None, None, message, report.against)

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
        return export.write_parquet(path, *self._part(first, last), self.blobs_of if inline_blobs else None)

    def _part(self, first: int, last: int | None) -> tuple[Iterator[Row], str]:
        """Those entries, and the head before them."""
        if first < 1 or (last is not None and last < first):
            raise InputError("entries", f"{first} to {last}", "numbers from 1, in order")
        count = self.count()
        previous = GENESIS if first == 1 or first > count else self.get(first - 1).head
        return self._rows(count if last is None else min(last, count), first - 1), previous


def _rarest_first(named: Mapping[str, str]) -> dict[str, str]:
    """What entries are found by, first what few of them have: SQLite is left one index, because with two it may take
    the one that leads through all of a plan, or all that was released."""
    often = (("reason", "none"), ("outcome", "RELEASED"))
    return dict(sorted(named.items(), key=lambda item: item[0] == "plan" or item in often))


def find_head(reader: AuditReader, count: int) -> str:
    """The head after so many entries."""
    return GENESIS if count == 0 else reader.get(count).head
