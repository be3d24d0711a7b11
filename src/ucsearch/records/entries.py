"""What goes into the audit log and what comes back: checked drafts, receipts, refusals, and the action that counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError
from ucsearch.records.blobs import blob_id, blob_shape
from ucsearch.records.canonical import seal_bytes
from ucsearch.records.chain import Row, Target, blob_refs, check_members, target_of
from ucsearch.records.requests import Request, check_request

__all__ = [
    "JUDGED",
    "Draft",
    "Effective",
    "Entry",
    "LogClosed",
    "RequestTaken",
    "RowOf",
    "Sealed",
    "check_blobs",
    "check_texts",
    "draft_of",
    "effective_of",
    "is_of",
    "time_text",
]


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


class LogClosed(RecordError):
    """The log goes on in another file; nothing was added here."""

    def __init__(self, path: object, following: str) -> None:
        self.path, self.following = path, following
        super().__init__(f"{path}: this file is closed, the log goes on in {following}; nothing was recorded")

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
    request: Request | None = None  # as its member `request` says


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
        asked = check_request(record["request"]) if "request" in record else None
        return Draft(name, body, blob_refs(body), asked, target_of(record))
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
    return next((found for item, where in items if (found := _with_nul(item, where))), "")


def is_of(row: Row, wanted: Mapping[str, str]) -> bool:
    """Whether an entry that SQLite found has these members: of a name with a NUL it compares what stands before it."""
    if _NUL not in row.body:
        return True
    return all(row.record.get(name) == value for name, value in wanted.items() if name in ("series", "plan"))


def check_blobs(blobs: dict[str, bytes], drafts: Sequence[Draft]) -> None:
    """Every blob has the name of its content, and some draft refers to it."""
    referred = {ref for draft in drafts for ref in draft.refs}
    for name, data in blobs.items():
        if name not in referred:
            raise RecordError(f"blob {name}: no record of the batch refers to it")
        blob_shape(data)
        if (seen := blob_id(data)) != name:
            raise RecordError(f"blob {name}: its content has the id {seen}")


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
    """What counts for a decision: its own action, or the last override's."""

    action: float | str | None  # None: nothing leaves
    override: Row | None  # the override in force; None when there is none, or it was withdrawn


def effective_of(row: Row, overrides: Sequence[Row]) -> Effective:
    """The last override counts; one without an action withdraws those before it."""
    last = overrides[-1] if overrides else None
    if last is not None and (action := last.record.get("action")) is not None:
        return Effective(action, last)
    record: dict[str, Any] = row.record
    outcome = record.get("outcome")
    return Effective((outcome if isinstance(outcome, dict) else record).get("action"), None)
