"""What goes into the audit log and what comes back: requests, checked drafts, receipts, rows, the action that counts.

Two equal decisions are two releases and two entries. A caller that was cut off before its receipt asks again under the
same request; the log then returns the entry it has. Only key and item decide about that; the rest are words.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError
from ucsearch.records.canonical import MAX_INT, blob_id, blob_shape, digest_bytes, loads, seal_bytes

__all__ = [
    "ERASURE_SCHEMA",
    "GENESIS",
    "JUDGED",
    "NOTHING",
    "OFTEN",
    "OVERRIDE_SCHEMA",
    "ROW_OVERRIDE_SCHEMA",
    "AlteredEntry",
    "Damaged",
    "Draft",
    "Effective",
    "Entry",
    "Erased",
    "LogClosed",
    "NoEntry",
    "Query",
    "Request",
    "RequestTaken",
    "Row",
    "RowOf",
    "Sealed",
    "Share",
    "Target",
    "Under",
    "as_request",
    "blob_refs",
    "check_blobs",
    "check_members",
    "check_request",
    "check_texts",
    "draft_of",
    "effective_of",
    "entry_digest",
    "erased_by",
    "erased_of",
    "is_count",
    "next_head",
    "target_of",
    "time_text",
]


# Outcomes, controls and monitors are the service's: reports of what came of a decision, pauses, and the calibration
# monitor's events. A rotation links a log's files. An allocation shares a limit among decisions. An erasure says which
# entries' content was taken away.
KINDS = (
    "decision", "override", "refusal", "outcome", "control", "monitor", "segment", "allocation", "rotation", "erasure",
)  # fmt: skip
OVERRIDE_SCHEMA = "ucsearch.override/1"
ROW_OVERRIDE_SCHEMA = "ucsearch.row-override/1"  # of a segment's row
ERASURE_SCHEMA = "ucsearch.erasure/1"
NOTHING = b"{}"  # the body of an entry whose content was deleted
_TARGETS = ("decision", "refusal")
# In canonical JSON quotes inside strings are escaped, so these bytes can only be a member named $blob.
_REF_KEY = b'"$blob":'
_REF = re.compile(rb'\{"\$blob":"([0-9a-f]{64})"\}')
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DOMAIN = b"ucsearch/request/1\0"


@dataclass(frozen=True, slots=True)
class Request:
    """One item of one request; the member `request` of its record."""

    key: str  # SHA-256 of whatever names the request: 64 hex digits
    item: int = 0  # its place among the request's items
    body: str = ""  # SHA-256 of what was asked, "" when nobody kept it
    by: str = ""  # who asked

    def __post_init__(self) -> None:
        check_request(self.content())

    @classmethod
    def named(cls, text: str, *, by: str = "") -> Request:
        """The request that this text names."""
        if not isinstance(text, str) or not text:
            raise InputError("request", repr(text), "a text that names the request")
        return cls(hashlib.sha256(_DOMAIN + text.encode("utf-8", "surrogatepass")).hexdigest(), by=by)

    def at(self, offset: int) -> Request:
        """The item so many places further on."""
        return replace(self, item=self.item + offset) if offset else self

    def content(self) -> dict[str, Any]:
        """As its record holds it."""
        words = {name: value for name, value in (("body", self.body), ("by", self.by)) if value}
        return {"key": self.key, "item": self.item, **words}


@dataclass(frozen=True, slots=True)
class Under:
    """Under which plan of a service a decision was made, and until when it may be followed: words of its record."""

    plan: str
    valid_until: str  # ISO time with its offset; "" when there is no end

    def content(self) -> dict[str, str]:
        return {"plan": self.plan, "valid_until": self.valid_until}


def as_request(request: Request | str | None) -> Request | None:
    return Request.named(request) if isinstance(request, str) else request


def check_request(content: Any) -> tuple[str, int]:
    """Key and item of a record's `request`; anything else than its four members is refused."""
    if not isinstance(content, Mapping):
        raise RecordError(f"record.request: saw a {type(content).__name__}, expected an object")
    if odd := sorted(set(content) - {"key", "item", "body", "by"}):
        raise RecordError(f"record.request.{odd[0]}: an unknown member")
    key, item = content.get("key"), content.get("item")
    for name in ("key", "body"):
        value = content.get(name, key)
        if not isinstance(value, str) or _HEX.fullmatch(value) is None:
            raise RecordError(f"record.request.{name}: saw {value!r}, expected 64 hex digits")
    if type(item) is not int or not 0 <= item <= MAX_INT:
        raise RecordError(f"record.request.item: saw {item!r}, expected a number from 0")
    if not isinstance(content.get("by", ""), str):
        raise RecordError(f"record.request.by: saw {content['by']!r}, expected text")
    return str(key), item


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
        """Its content; empty where that was deleted."""
        record = loads(self.body)
        if not isinstance(record, dict):
            raise RecordError(f"entry {self.seq}: saw a {type(record).__name__}, expected an object")
        return record


def blob_refs(body: bytes) -> tuple[str, ...]:
    """Ids of the blobs that a canonical record refers to, in order, each once."""
    # After a backslash they end a longer key that has a quote in it.
    members = body.count(_REF_KEY) - body.count(b"\\" + _REF_KEY)
    if not members:
        return ()
    names = _REF.findall(body)
    if len(names) != members:
        raise RecordError('record: a "$blob" member must be alone in its object and hold 64 hex digits')
    return tuple(dict.fromkeys(name.decode("ascii") for name in names))


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
        _check_override(record)
    elif kind == "erasure":
        _check_erasure(record)
    elif kind == "outcome":
        _check_text(record, "decision", "outcome")
        if not is_count(record.get("entry")):
            raise RecordError("outcome: without the number of the entry it is about")


def _check_override(record: Mapping[str, Any]) -> None:
    for field in ("who", "why", "overrides"):
        _check_text(record, field, "override")
    action = record.get("action")
    numbers = action if isinstance(action, list) and action else [action]
    is_finite = all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers)
    if "action" not in record or not (action is None or is_finite):
        raise RecordError(f"override.action: saw {action!r}, expected finite numbers, or null to withdraw")
    if not is_count(record.get("entry")) or not isinstance(record.get("off_grid"), bool):
        raise RecordError("override: without the number of the entry it replaces, or without off_grid")


def _check_erasure(record: Mapping[str, Any]) -> None:
    for field in ("by", "why"):
        _check_text(record, field, "erasure")
    try:
        erased = erased_of(record, 0)
    except (KeyError, TypeError, ValueError):
        erased = {}
    if not erased or len(erased) != len(record["entries"]):
        raise RecordError("erasure.entries: expected some entries, each once, with number, digest and what is left")


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT


def _check_text(record: Mapping[str, Any], field: str, kind: str) -> None:
    value = record.get(field)
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f"{kind}.{field}: saw {value!r}, expected text")


class Target(NamedTuple):
    """The entry that an override or an outcome is about."""

    field: str
    id: str
    entry: int  # its number
    kinds: tuple[str, ...] = _TARGETS

    def problem(self, entry: Row | None, before: int) -> str:
        """What is wrong with the entry found for it; empty if nothing is."""
        if entry is None or entry.seq >= before:
            return f"no decision {self.id} in the log before it"
        kind = entry.record.get("kind")
        return "" if kind in self.kinds else f"{self.id} is of kind {kind!r}, expected a {' or a '.join(self.kinds)}"


def target_of(record: Mapping[str, Any]) -> Target | None:
    field = {"override": "overrides", "outcome": "decision"}.get(record["kind"])
    if field is None:
        return None
    kinds = ("segment",) if record.get("schema") == ROW_OVERRIDE_SCHEMA else _TARGETS
    return Target(f"{record['kind']}.{field}", record[field], record["entry"], kinds)


class Erased(NamedTuple):
    """What an erasure says of an entry."""

    digest: str  # of the whole entry
    left: str | None  # digest of what is left in its place; None: nothing is, the body is `NOTHING`
    by: int  # number of the erasure's entry


def erased_of(record: Mapping[str, Any], by: int) -> dict[int, Erased]:
    """By number, what an erasure takes away."""
    erased: dict[int, Erased] = {}
    for item in record["entries"]:
        digests = (item["digest"], item["digest"] if item["left"] is None else item["left"])
        if not is_count(item["entry"]) or not all(_HEX.fullmatch(digest) for digest in digests):
            raise ValueError(item)
        erased[item["entry"]] = Erased(item["digest"], item["left"], by)
    return erased


def erased_by(erasures: Iterable[Row]) -> dict[int, Erased]:
    """By number, what these entries, in order, have taken away; of an entry that was erased twice the last counts."""
    erased: dict[int, Erased] = {}
    for row in erasures:
        erased |= erased_of(row.record, row.seq)
    return erased


@dataclass(frozen=True, slots=True)
class Entry:
    """The receipt of a recorded entry; whoever holds it may hand the action over."""

    seq: int  # its number in the log, from 1
    id: str  # of the record
    digest: str  # of the record
    head: str  # of the chain after it
    repeated: bool = False  # this request was answered by it already; nothing was added


class RequestTaken(RecordError):
    """The request was answered by another record already; `entry` is it, and it stands."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        super().__init__(
            f"request: answered by entry {entry.seq}, id {entry.id}, with another content; nothing was added"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.entry,)


class NoEntry(RecordError):
    """There is no such entry, or more than one."""


class AlteredEntry(RecordError):
    """An entry or a blob is not what was recorded."""


class LogClosed(RecordError):
    """The log goes on in another file; nothing was added here."""

    def __init__(self, path: object, following: str) -> None:
        self.path, self.following = path, following
        super().__init__(f"{path}: this file is closed, the log continues in {following}; nothing was recorded")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.following)


class RowOf(NamedTuple):
    """A decision that is a row of a segment."""

    record: Mapping[str, Any]  # as it would stand in the log
    proof: Mapping[str, Any]  # its columns, and the path to the segment's root


class Sealed(NamedTuple):
    """A record that is canonical bytes already, as `records.canonical.seal_bytes` makes them."""

    id: str  # of the record
    body: bytes  # canonical JSON
    refs: tuple[str, ...]  # ids of the blobs it refers to, each once
    blobs: Mapping[str, bytes] = {}
    request: Request | None = None  # as its member `request` says
    decision: Any = None  # that it records


@dataclass(frozen=True, slots=True)
class Draft:
    """A record that was checked, as it will be written."""

    id: str
    body: bytes
    refs: tuple[str, ...]
    request: tuple[str, int] | None  # key and item
    target: Target | None  # what it is about


JUDGED = "an override is recorded by `override` alone, which asks the task's rules"


def draft_of(record: Mapping[str, Any], index: int, *, judged: bool = False) -> Draft:
    """A record that may be written, number `index` of its batch."""
    try:
        if not isinstance(record, Mapping):
            raise RecordError(f"record: saw a {type(record).__name__}, expected a mapping")
        check_members(record)
        if record["kind"] == "override" and not judged:
            raise RecordError(JUDGED)
        name, body = seal_bytes(record)
        if record.get("id", name) != name:
            raise RecordError(f"record.id: saw {record['id']!r}, expected {name}, which its content gives")
        request = check_request(record["request"]) if "request" in record else None
        return Draft(name, body, blob_refs(body), request, target_of(record))
    except RecordError as error:
        if index == 0:
            raise
        raise RecordError(f"{error} (record {index} of the batch)") from error


_NUL = b"\\u0000"  # as canonical JSON writes it


def check_texts(drafts: Sequence[Draft]) -> None:
    """No text has a NUL: databases take it for the end of a name, and a series would be found under another's."""
    for draft in drafts:
        if _NUL in draft.body and (where := _with_nul(json.loads(draft.body), "record")):
            raise RecordError(f"{where}: saw a NUL character, expected text without")


def _with_nul(value: Any, path: str) -> str:
    """The first place of a NUL; "" where there is none."""
    if isinstance(value, dict):
        items = [(name, f"{path} key {name!r}") for name in value] + [(v, f"{path}.{n}") for n, v in value.items()]
    elif isinstance(value, list):
        items = [(item, f"{path}[{i}]") for i, item in enumerate(value)]
    else:
        return path if isinstance(value, str) and "\0" in value else ""
    return next((bad_path for item, where in items if (bad_path := _with_nul(item, where))), "")


def check_blobs(blobs: dict[str, bytes], drafts: Sequence[Draft]) -> None:
    """Every blob has the name of its content, and some draft refers to it."""
    referred = {ref for draft in drafts for ref in draft.refs}
    for name, data in blobs.items():
        if name not in referred:
            raise RecordError(f"blob {name}: no record of the batch refers to it")
        blob_shape(data)
        if (blob_name := blob_id(data)) != name:
            raise RecordError(f"blob {name}: its content has the id {blob_name}")


def time_text(time: str | datetime, field: str) -> str:
    """ISO text of a time; one without an offset from UTC names no instant and is refused."""
    try:
        moment = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    except (TypeError, ValueError) as error:
        raise InputError(field, repr(time), "an ISO 8601 time such as 2024-05-01T06:00:00+00:00") from error
    if moment.utcoffset() is None:
        raise InputError(field, repr(time), "a time with an offset, such as 2024-05-01T06:00:00+00:00")
    return time if isinstance(time, str) else moment.isoformat()


class Effective(NamedTuple):
    """What counts for a decision: its own action, what an allocation left of it, or the last override's."""

    action: float | str | None  # None: nothing leaves
    override: Row | None  # the override in force; None when there is none, or it was withdrawn
    share: Share | None = None  # of a limit that series share; None where the decision shares none


class Share(NamedTuple):
    """What an allocation left of a decision."""

    allocation: Row  # its entry
    place: int  # of the decision among its members
    outcome: str
    action: Any


def effective_of(row: Row, overrides: Sequence[Row], share: Share | None = None) -> Effective:
    """The last override counts; one without an action withdraws those before it. Without one, what an allocation left
    of the decision counts."""
    last = overrides[-1] if overrides else None
    if last is not None and (action := last.record.get("action")) is not None:
        return Effective(action, last, share)
    if share is not None:
        return Effective(share.action, None, share)
    record: dict[str, Any] = row.record
    outcome = record.get("outcome")
    return Effective((outcome if isinstance(outcome, dict) else record).get("action"), None)


# -------------------------------------------------------------------- hashes of the chain


def entry_digest(body: bytes) -> str:
    """SHA-256 of `ucsearch/audit-entry/1`, a zero byte, the record's canonical bytes."""
    return digest_bytes(body, "audit-entry/1")


def next_head(head: str, seq: int, entry: str, written_at: str | None) -> str:
    """SHA-256 of `ucsearch/audit-head/1`, a zero byte, the head before the entry (32 bytes), its number (8 bytes,
    big-endian), its digest (32 bytes), the time of writing (UTF-8, nothing if none was recorded). The prefix differs
    from an entry's, so that an entry can never be passed off as a head."""
    time = (written_at or "").encode("utf-8", "surrogateescape")
    return digest_bytes(bytes.fromhex(head) + seq.to_bytes(8, "big") + bytes.fromhex(entry) + time, "audit-head/1")


GENESIS = digest_bytes(b"", "audit-genesis/1")


# -------------------------------------------------------------------- asked of a store


OFTEN = ("decision", "refusal", "outcome")  # kinds of most entries; all others are found by an index of their own


class Damaged(RecordError):
    """The store itself is damaged; nothing can be said about the entries behind that place."""


class Query(NamedTuple):
    """Which entries are wanted."""

    named: dict[str, str] = {}  # noqa: RUF012 - members and their values: outcome, reason, series, plan
    kinds: tuple[str, ...] = ()  # one of these; (): any
    before: int | None = None  # numbers below this
    newest_first: bool = False
