"""Verification of the audit log's hash chain (`entries.py` says what is hashed), and checkpoints kept outside it.

A chain alone shows edits; that the tail is missing, or that everything was recomputed after an edit, shows only against
a checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.canonical import blob_id, blob_shape, canonical, digest, loads, seal_bytes
from ucsearch.records.entries import (
    GENESIS,
    NOTHING,
    Erased,
    Row,
    blob_refs,
    check_members,
    entry_digest,
    is_count,
    next_head,
    target_of,
)
from ucsearch.records.files import read_whole, whole_file

__all__ = [
    "ChainReport",
    "Checkpoint",
    "begun_with",
    "check_rows",
]

CHECKPOINT_SCHEMA = "ucsearch.checkpoint/1"
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the log had come: kept elsewhere, it pins every entry up to `count`.

    `marks` are heads at earlier counts. They detect nothing that `head` does not, but they narrow down
    which entry was changed when somebody recomputed the chain.
    """

    count: int  # entries
    head: str  # of the chain after them, hex
    marks: tuple[tuple[int, str], ...] = ()  # ascending (count, head), all below `count`

    def __post_init__(self) -> None:
        if not is_count(self.count) or not _is_hex(self.head):
            raise RecordError(f"checkpoint: saw count {self.count!r} and head {self.head!r}")
        if self.count == 0 and self.head != GENESIS:
            raise RecordError("checkpoint: count 0 with a head that is not the empty log's")
        last = 0
        for count, head in self.marks:
            if not is_count(count) or not last < count < self.count or not _is_hex(head):
                raise RecordError(f"checkpoint: mark {count!r} is malformed or out of order")
            last = count

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the file at once; it and its folder are synced before this returns."""
        with whole_file(path, private=True) as file:
            file.write(canonical({**self._content(), "digest": digest(self._content(), "checkpoint/1")}) + b"\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """What `write` wrote; a changed file is refused."""
        try:
            content = loads(read_whole(path))
        except OSError as error:
            raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
        except RecordError as error:
            raise RecordError(f"{path}: not a checkpoint ({error})") from error
        if not isinstance(content, dict) or content.get("schema") != CHECKPOINT_SCHEMA:
            raise RecordError(f"{path}: not a checkpoint (schema {CHECKPOINT_SCHEMA!r} expected)")
        sealed = content.pop("digest", None)
        try:
            result = cls(content["count"], content["head"], tuple((n, head) for n, head in content["marks"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{path}: a checkpoint without usable count, head and marks") from error
        if content != result._content() or sealed != digest(content, "checkpoint/1"):
            raise RecordError(f"{path}: the checkpoint was altered or cut short")
        return result

    def _content(self) -> dict[str, Any]:
        marks = [[count, head] for count, head in self.marks]
        return {"schema": CHECKPOINT_SCHEMA, "count": self.count, "head": self.head, "marks": marks}


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a verification found."""

    count: int  # entries that were found good, from the first on
    head: str  # after those
    fault: str | None = None  # None, or one of FAULTS
    bad: tuple[int, int] | None = None  # the first bad entry lies in this range, both ends included
    bad_id: str | None = None  # what the log calls that entry, where it is there and the range is one entry
    message: str = ""  # what is wrong, in words
    against: Checkpoint | None = None  # the checkpoint that it was held against

    @property
    def ok(self) -> bool:
        return self.fault is None

    @property
    def first_bad(self) -> int | None:
        """Number of the first bad entry (the lowest possible one if the checkpoint cannot tell exactly)."""
        return None if self.bad is None else self.bad[0]

    def __str__(self) -> str:
        if not self.ok:
            return self.message
        seen = "" if self.against is None else f", checkpoint at {self.against.count} confirmed"
        return f"{self.count} entries, head {self.head}{seen}"


FAULTS = {
    "edited": "an entry's content does not match its own digest or id",
    "missing": "an entry is missing between two others",
    "unchained": "an entry does not follow from the one before it: swapped, inserted, or edited",
    "rechained": "the chain is not the one the checkpoint saw: edited and recomputed, or replaced",
    "truncated": "the log ends before the checkpoint",
    "blob": "an array that an entry refers to is missing or altered",
    "malformed": "an entry is not a canonical record",
    "corrupt": "SQLite cannot read the file",
    "schema": "tables, indexes or append-only triggers were altered",
}


def begun_with(row: Row) -> tuple[int, str] | None:
    """Number and head of the entry before a log's first one, where that says which file it goes on from."""
    if row.seq == 1:
        return 0, GENESIS
    try:
        record = row.record
    except RecordError:
        return None
    opened = (record.get("kind"), record.get("event"), record.get("count")) == ("rotation", "opened", row.seq - 1)
    return (row.seq - 1, record["head"]) if opened and _is_hex(record.get("head")) else None


def check_rows(
    rows: Iterable[Row],
    checkpoint: Checkpoint | None,
    blob: Callable[[str], bytes | None],
    entry: Callable[[str, int], Row | None],
    erased: Mapping[int, Erased] | None = None,
) -> ChainReport:
    """Follow the chain from its first entry and stop at the first entry that is not right.

    `blob` returns a stored blob, `entry` the entry with an id and a number; `erased` says of which entries the content
    was taken away, and by which entry. Where older files were moved away the chain begins with what the first entry
    says of them.
    """
    pins = {} if checkpoint is None else {**dict(checkpoint.marks), checkpoint.count: checkpoint.head}
    count, head, pinned = 0, GENESIS, 0
    content = _Content(blob, entry, erased or {})

    def fault(kind: str, bad: tuple[int, int], name: str | None, detail: str) -> ChainReport:
        where = f"entry {bad[0]}" if bad[0] == bad[1] else f"one of entries {bad[0]} to {bad[1]}"
        return ChainReport(count, head, kind, bad, name, f"{where}: {detail}", checkpoint)

    for place, row in enumerate(rows):
        if place == 0 and (start := begun_with(row)) is not None:
            count, head = start
            content.before = pinned = count
        n = count + 1
        if row.seq != n:
            if row.seq < n:
                return fault("unchained", (n, n), row.id, f"is numbered {row.seq}")
            return fault("missing", (n, n), None, f"is missing; the next one present is entry {row.seq}")
        if problem := content.problem(row, head):
            return fault(problem[0], (n, n), row.id, problem[1])
        if (pin := pins.get(n)) is not None:
            if pin != row.head:
                exact = pinned == n - 1
                detail = "is not what the checkpoint saw; the log was edited and its chain recomputed, or replaced"
                return fault("rechained", (pinned + 1, n), row.id if exact else None, detail)
            pinned = n
        count, head = n, row.head
    if checkpoint is not None and count < checkpoint.count:
        detail = f"is missing; the log ends at {count}, the checkpoint was taken at {checkpoint.count}"
        return fault("truncated", (count + 1, count + 1), None, detail)
    return ChainReport(count, head, against=checkpoint)


class _Content:
    """What entries say, held against their digests, their ids, and the entries and blobs that they name."""

    def __init__(
        self, blob: Callable[[str], bytes | None], entry: Callable[[str, int], Row | None], erased: Mapping[int, Erased]
    ) -> None:
        self.blob, self.entry, self.erased = blob, entry, erased
        self.before = 0  # entries of files that are not there
        self.seen: set[str] = set()  # blobs

    def problem(self, row: Row, head: str) -> tuple[str, str] | None:
        # Strict tables keep their types only while their schema is left alone.
        texts = (row.id, row.digest, row.head, "" if row.written_at is None else row.written_at)
        if not isinstance(row.body, bytes) or not all(isinstance(text, str) for text in texts):
            return "edited", "a column holds a value of another type"
        erased = self.erased.get(row.seq)
        if erased is not None and (erased.digest != row.digest or erased.by <= row.seq):
            return "edited", f"entry {erased.by} says that another content was taken away"
        if erased is not None and row.body != NOTHING and entry_digest(row.body) == row.digest:
            erased = None  # still whole: the erasure was cut off, or the file is of before
        is_gone = erased is not None and erased.left is None
        digest_left = row.digest if erased is None else erased.left
        if (row.body != NOTHING) if is_gone else (entry_digest(row.body) != digest_left):
            return "edited", "its content does not match its digest"
        if row.head != next_head(head, row.seq, row.digest, row.written_at):
            return "unchained", "does not follow from the entry before it"
        if is_gone:
            return None
        try:
            record = row.record
            name, body = seal_bytes(record)
            check_members(record)
            refs = blob_refs(row.body)
        except RecordError as error:
            return "malformed", str(error)
        if erased is not None:  # what is left has the id of the whole record
            name, body = str(record.get("id")), canonical(record)
        if body != row.body and name == record.get("id"):
            return "malformed", "its content is not in canonical form"
        if body != row.body or name != row.id:
            return "edited", "its content does not match its id"
        if (record["kind"], record.get("event")) == ("rotation", "opened") and begun_with(row) != (row.seq - 1, head):
            return "unchained", "does not follow from the file before it"
        if wrong := self._target_problem(record, row.seq):
            return "malformed", wrong
        return next((("blob", wrong) for ref in refs if (wrong := self._blob_problem(ref))), None)

    def _target_problem(self, record: Mapping[str, Any], seq: int) -> str:
        target = target_of(record)
        if target is None or target.entry <= self.before or target.entry in self.erased:
            return ""
        try:
            wrong = target.problem(self.entry(target.id, target.entry), seq)
        except (RecordError, AttributeError) as error:
            wrong = str(error)
        return f"{target.field}: {wrong}" if wrong else ""

    def _blob_problem(self, ref: str) -> str:
        if ref in self.seen:
            return ""
        data = self.blob(ref)
        if data is None:
            return f"its blob {ref} is missing"
        if blob_id(data) != ref:
            return f"its blob {ref} was altered"
        try:
            blob_shape(data)
        except RecordError as error:
            return f"its blob {ref} is malformed: {error}"
        if len(self.seen) >= 200_000:  # only saves hashing twice; must not grow with the log
            self.seen.clear()
        self.seen.add(ref)
        return ""
