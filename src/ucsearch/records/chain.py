"""The hash chain of the audit log: its two hashes, checkpoints kept outside it, and its verification.

- digest of entry n: SHA-256 of `ucsearch/audit-entry/1`, a zero byte, the record's canonical bytes;
- head after entry n: SHA-256 of `ucsearch/audit-head/1`, a zero byte, the head before it (32 bytes), n
  (8 bytes, big-endian), the digest (32 bytes), the time of writing (UTF-8, nothing if none was recorded);
- head of the empty log: SHA-256 of `ucsearch/audit-genesis/1` and a zero byte.

The prefixes differ so that an entry can never be passed off as a head. A chain alone shows edits; that the
tail is missing, or that everything was recomputed after an edit, shows only against a checkpoint.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.blobs import blob_id, blob_shape
from ucsearch.records.canonical import canonical, digest, digest_bytes, loads, seal_bytes
from ucsearch.records.files import read_whole, whole_file
from ucsearch.records.requests import check_request

__all__ = [
    "GENESIS",
    "OVERRIDE_SCHEMA",
    "ROW_OVERRIDE_SCHEMA",
    "ChainReport",
    "Checkpoint",
    "Row",
    "Target",
    "blob_refs",
    "check_members",
    "check_rows",
    "entry_digest",
    "next_head",
    "target_of",
]

# Outcomes, controls and monitors are the service's: reports of what came of a decision, pauses, and the calibration
# monitor's events. A rotation links a log's files. An allocation shares a limit among decisions.
KINDS = ("decision", "override", "refusal", "outcome", "control", "monitor", "segment", "allocation", "rotation")
OVERRIDE_SCHEMA = "ucsearch.override/2"
ROW_OVERRIDE_SCHEMA = "ucsearch.row-override/1"  # of a segment's row
_TARGETS = ("decision", "refusal")
CHECKPOINT_SCHEMA = "ucsearch.checkpoint/1"
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
# In canonical JSON quotes inside strings are escaped, so these bytes can only be a member named $blob.
_REF_KEY = b'"$blob":'
_REF = re.compile(rb'\{"\$blob":"([0-9a-f]{64})"\}')


def entry_digest(body: bytes) -> str:
    return digest_bytes(body, "audit-entry/1")


def next_head(head: str, seq: int, entry: str, written_at: str | None) -> str:
    time = (written_at or "").encode("utf-8", "surrogateescape")
    return digest_bytes(bytes.fromhex(head) + seq.to_bytes(8, "big") + bytes.fromhex(entry) + time, "audit-head/1")


GENESIS = digest_bytes(b"", "audit-genesis/1")


@dataclass(frozen=True, slots=True)
class Row:
    """One stored entry."""

    seq: int  # 1, 2, 3, ... without gaps
    id: str  # of the record
    digest: str  # SHA-256 of the record under its domain, hex
    head: str  # of the chain after it, hex
    written_at: str | None  # by the log's clock; not part of the record
    body: bytes  # canonical JSON

    @property
    def record(self) -> dict[str, Any]:
        record = loads(self.body)
        if not isinstance(record, dict):
            raise RecordError(f"entry {self.seq}: saw a {type(record).__name__}, expected an object")
        return record


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
        if not _is_count(self.count) or not _is_hex(self.head):
            raise RecordError(f"checkpoint: saw count {self.count!r} and head {self.head!r}")
        if self.count == 0 and self.head != GENESIS:
            raise RecordError("checkpoint: count 0 with a head that is not the empty log's")
        last = 0
        for count, head in self.marks:
            if not _is_count(count) or not last < count < self.count or not _is_hex(head):
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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


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


def blob_refs(body: bytes) -> tuple[str, ...]:
    """Ids of the blobs that a canonical record refers to, in order, each once."""
    # After a backslash they end a longer key that has a quote in it.
    members = body.count(_REF_KEY) - body.count(b"\\" + _REF_KEY)
    if not members:
        return ()
    found = _REF.findall(body)
    if len(found) != members:
        raise RecordError('record: a "$blob" member must be alone in its object and hold 64 hex digits')
    return tuple(dict.fromkeys(name.decode("ascii") for name in found))


def check_members(record: Mapping[str, Any]) -> None:
    """What every record must say about itself, and what an override must say besides."""
    schema, kind = record.get("schema"), record.get("kind")
    if not isinstance(schema, str) or not schema:
        raise RecordError(f"record.schema: saw {schema!r}, expected the schema's name")
    if kind not in KINDS:
        raise RecordError(f"record.kind: saw {kind!r}, expected one of {', '.join(KINDS)}")
    if "request" in record:
        check_request(record["request"])
    if kind == "override":
        _check_override(record, schema)
    elif kind == "outcome":
        _check_text(record, "decision", "outcome")


def _check_override(record: Mapping[str, Any], schema: str) -> None:
    for field in ("who", "why", "overrides"):
        _check_text(record, field, "override")
    action = record.get("action")
    if schema not in (
        OVERRIDE_SCHEMA,
        ROW_OVERRIDE_SCHEMA,
    ):  # as format 1 had them: whoever wrote them vouched for them
        if (feasible := record.get("feasible")) is not True:
            raise RecordError(f"override.feasible: saw {feasible!r}; only a feasible replacement is recorded")
        if action in (None, ""):
            raise RecordError("override.action: missing, expected the replacement action")
        return
    number = isinstance(action, int | float) and not isinstance(action, bool) and math.isfinite(action)
    if "action" not in record or not (action is None or number):
        raise RecordError(f"override.action: saw {action!r}, expected a finite number, or null to withdraw")
    if not _is_count(record.get("entry")) or not isinstance(record.get("off_grid"), bool):
        raise RecordError("override: without the number of the entry it replaces, or without off_grid")


def _check_text(record: Mapping[str, Any], field: str, kind: str) -> None:
    value = record.get(field)
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f"{kind}.{field}: saw {value!r}, expected text")


class Target(NamedTuple):
    """The entry that an override or an outcome is about."""

    field: str
    id: str
    entry: int | None  # its number; None in records of format 1, where an id was in the log once
    kinds: tuple[str, ...] = _TARGETS

    def problem(self, found: tuple[int, bytes] | None, before: int) -> str:
        """What is wrong with the entry found for it; empty if nothing is."""
        if found is None or found[0] >= before:
            return f"no decision {self.id} in the log before it"
        kind = loads(found[1]).get("kind")
        return "" if kind in self.kinds else f"{self.id} is of kind {kind!r}, expected a {' or a '.join(self.kinds)}"


def target_of(record: Mapping[str, Any]) -> Target | None:
    field = {"override": "overrides", "outcome": "decision"}.get(record["kind"])
    if field is None or "log" in record:  # what it is about is in an earlier file of the log
        return None
    entry = record.get("entry")
    kinds = ("segment",) if record.get("schema") == ROW_OVERRIDE_SCHEMA else _TARGETS
    return Target(f"{record['kind']}.{field}", record[field], entry if isinstance(entry, int) else None, kinds)


Find = Callable[[str, int | None], tuple[int, bytes] | None]


def check_rows(
    rows: Iterable[Row],
    checkpoint: Checkpoint | None,
    blob: Callable[[str], bytes | None],
    find: Find,
) -> ChainReport:
    """Follow the chain from its first entry and stop at the first entry that is not right.

    `blob` returns a stored blob; `find` returns number and body of the entry with an id, and a number if one is given.
    """
    pins = {} if checkpoint is None else {**dict(checkpoint.marks), checkpoint.count: checkpoint.head}
    count, head, pinned = 0, GENESIS, 0
    seen_blobs: set[str] = set()

    def fault(kind: str, bad: tuple[int, int], name: str | None, detail: str) -> ChainReport:
        where = f"entry {bad[0]}" if bad[0] == bad[1] else f"one of entries {bad[0]} to {bad[1]}"
        return ChainReport(count, head, kind, bad, name, f"{where}: {detail}", checkpoint)

    for row in rows:
        n = count + 1
        if row.seq != n:
            if row.seq < n:
                return fault("unchained", (n, n), row.id, f"is numbered {row.seq}")
            return fault("missing", (n, n), None, f"is missing; the next one present is entry {row.seq}")
        if problem := _row_problem(row, head, blob, find, seen_blobs):
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


def _row_problem(
    row: Row,
    head: str,
    blob: Callable[[str], bytes | None],
    find: Find,
    seen_blobs: set[str],
) -> tuple[str, str] | None:
    # Strict tables keep their types only while their schema is left alone.
    texts = (row.id, row.digest, row.head, "" if row.written_at is None else row.written_at)
    if not isinstance(row.body, bytes) or not all(isinstance(text, str) for text in texts):
        return "edited", "a column holds a value of another type"
    if row.digest != entry_digest(row.body):
        return "edited", "its content does not match its digest"
    if row.head != next_head(head, row.seq, row.digest, row.written_at):
        return "unchained", "does not follow from the entry before it"
    try:
        record = row.record
        name, body = seal_bytes(record)
        check_members(record)
        refs = blob_refs(row.body)
    except RecordError as error:
        return "malformed", str(error)
    if body != row.body and name == record.get("id"):
        return "malformed", "its content is not in canonical form"
    if body != row.body or name != row.id:
        return "edited", "its content does not match its id"
    if (target := target_of(record)) is not None:
        try:
            wrong = target.problem(find(target.id, target.entry), row.seq)
        except (RecordError, AttributeError) as error:
            wrong = str(error)
        if wrong:
            return "malformed", f"{target.field}: {wrong}"
    for ref in refs:
        if ref in seen_blobs:
            continue
        data = blob(ref)
        if data is None:
            return "blob", f"its blob {ref} is missing"
        if blob_id(data) != ref:
            return "blob", f"its blob {ref} was altered"
        try:
            blob_shape(data)
        except RecordError as error:
            return "blob", f"its blob {ref} is malformed: {error}"
        if len(seen_blobs) >= 200_000:  # only saves hashing twice; must not grow with the log
            seen_blobs.clear()
        seen_blobs.add(ref)
    return None
