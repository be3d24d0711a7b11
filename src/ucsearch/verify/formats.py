"""What is read: canonical JSON, array blobs, exported lines, the SQLite log with its chain. Standard library only."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.verify.clock import OutOfTime
from ucsearch.verify.opening import lines, open_regular, opened
from ucsearch.verify.verdict import Malformed as Malformed

MAX_INT = 2**53
MOST_VALUES = 2_000_000  # in a JSON text; a limit on time
FEWER_DIGITS = 64 * 2.0**-1074  # near the smallest number of all a sum is rounded to whole multiples of it
NORMAL_NAN = struct.pack("<Q", 0x7FF8000000000000)
Record = Mapping[str, Any]
Blobs = Callable[[str], bytes | None]


class Invalid(Exception):
    """A claim that is false: where it stands, what the record says, what was derived instead."""

    def __init__(self, where: str, claimed: object, derived: object) -> None:
        super().__init__(f"{where}: the record says {claimed!r}, derived {derived!r}")
        self.where = where


class Elsewhere(Invalid):
    """A figure that is false here, by so little that the functions of another platform may have given it."""


# -------------------------------------------------------------------- claimed and derived values


def version_of(record: Mapping[str, Any]) -> int:
    """The version whose rules a decision is judged by; the newest where it names none that is known."""
    return 1 if record.get("schema") == "ucsearch.decision/1" else 2


def num(value: Any) -> float:
    """A recorded figure as a float; null is NaN."""
    return math.nan if value is None else float(value)


def shown(x: Any) -> Any:
    """A derived value as a record holds it."""
    if not isinstance(x, float) or math.isfinite(x):
        return x
    return None if x != x else str(x)


def slack(*values: float) -> float:
    """What figures from user functions may differ by, because platforms do."""
    return 1e-9 * (1.0 + max([abs(x) for x in values if math.isfinite(x)], default=0.0))


def is_close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= slack(a, b)


def share(steps: int, averaged: int) -> float:
    """eps of the tolerance (version 2): `steps` are added up, `averaged` members or points are averaged."""
    return max(1e-12, 2.0**-52 * steps * (max(averaged, 1) + 2))


def tolerance(eps: float, size_x: float, size_y: float) -> float:
    """By how much two scores must differ to count as different (version 2): a share of what was added up for them."""
    return eps * max([s for s in (size_x, size_y) if s > 0.0], default=0.0)


def near(where: str, claimed: Any, derived: float, size: float, eps: float) -> None:
    """A recorded figure may differ by the tolerance of what was added up for it. No claim is derived from it. Beyond
    that it is false, unless another platform may have rounded its functions otherwise."""
    own = num(claimed)
    if own == derived or (own != own and derived != derived):
        return
    apart, whole = abs(own - derived), max(abs(own), abs(derived), size)
    if not (whole < math.inf and apart <= eps * size + FEWER_DIGITS):
        raise (Elsewhere if apart <= 1e-9 * whole < math.inf else Invalid)(where, claimed, shown(derived))


def require(where: str, holds: bool, claimed: Any, derived: Any) -> None:
    if not holds:
        raise Invalid(where, claimed, shown(derived))


def expect(where: str, claimed: Any, derived: Any) -> None:
    require(where, claimed == shown(derived), claimed, derived)


def expect_close(where: str, claimed: Any, derived: float) -> None:
    own = num(claimed)
    require(where, is_close(own, derived) or (own != own and derived != derived), claimed, derived)


# -------------------------------------------------------------------- canonical JSON (RFC 8785) and digests


def digest(domain: str, data: bytes) -> str:
    """Domain-separated SHA-256, as hex digits."""
    return hashlib.sha256(f"ucsearch/{domain}\0".encode() + data).hexdigest()


GENESIS = digest("audit-genesis/1", b"")


def canonical(value: Any) -> bytes:
    try:
        return _text(value).encode("utf-8")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Malformed(f"JSON that has no canonical form: {error}") from None


def _text(v: Any) -> str:
    if isinstance(v, str):
        return encode_basestring(v)
    if isinstance(v, dict):
        return "{" + ",".join([f"{encode_basestring(k)}:{_text(v[k])}" for k in sorted(v, key=_utf16)]) + "}"
    if isinstance(v, list | tuple):
        return "[" + ",".join(map(_text, v)) + "]"
    if v is None or isinstance(v, bool):
        return {None: "null", True: "true", False: "false"}[v]
    if isinstance(v, int) and abs(v) <= MAX_INT:
        return str(int(v))
    return _number(v)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _number(x: float) -> str:
    """ECMAScript's Number::toString. It has exponents from 1e21 up and below 1e-6, Python from 1e16 and below 1e-4."""
    if not isinstance(x, float) or not math.isfinite(x):
        raise ValueError(f"saw {x!r}")
    if "e" not in (text := repr(float(x))):
        return text.removesuffix(".0") if x else "0"
    sign, figures, exponent = Decimal(text).as_tuple()
    digits, minus, n = "".join(map(str, figures)), "-" if sign else "", len(figures) + int(exponent)
    if n in range(17, 22):  # the point comes after the n-th digit, and there are fewer
        return minus + digits.ljust(n, "0")
    if n in (-5, -4):
        return f"{minus}0.{'0' * -n}{digits}"
    point = "." if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{point}{digits[1:]}e{n - 1:+d}"


def loads(data: bytes) -> Any:
    """Strict JSON: no key twice, no NaN, every number a binary64."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise ValueError("a key occurs twice")
        return dict(items)

    def whole(text: str) -> int | float:
        return int(text) if len(text) <= len(str(-MAX_INT)) and abs(int(text)) <= MAX_INT else float(text)

    def refuse(text: str) -> float:
        raise ValueError(f"{text} is not JSON")

    try:
        if data.count(b",") > MOST_VALUES:
            raise ValueError("more values than any record has")
        return json.loads(data.decode("utf-8"), parse_int=whole, parse_constant=refuse, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None


def read_record(body: bytes) -> dict[str, Any]:
    """A record whose bytes are canonical and whose id is the digest of the rest."""
    record = loads(body)
    if not isinstance(record, dict) or "id" not in record or canonical(record) != body:
        raise Malformed("the record is not an object with an id, in canonical form")
    expect("id", record["id"], digest("record-id/1", canonical({k: v for k, v in record.items() if k != "id"})))
    return record


def read_blob(name: str, blobs: Blobs) -> tuple[tuple[int, ...], bytes, tuple[float, ...]]:
    """Shape, raw bytes and values of the blob with this id."""
    data = blobs(name) or b""
    if hashlib.sha256(data).hexdigest() != name:
        raise Malformed(f"the blob {name} is missing or altered")
    if data[:7] != b"UCBLOB\1" or data[8:16] != b"<f8".ljust(8, b"\0") or len(data) < 16 + 8 * (n := data[7]) or n > 8:
        raise Malformed(f"the blob {name} has another header")
    shape, raw = struct.unpack_from(f"<{n}Q", data, 16), data[16 + 8 * n :]
    if len(raw) != 8 * math.prod(shape):
        raise Malformed(f"the blob {name} has {len(raw)} bytes of values for the shape {shape}")
    values = struct.unpack(f"<{len(raw) // 8}d", raw)
    plain = struct.pack(f"<{len(values)}d", *[x + 0.0 for x in values]) == raw  # in most blobs, and quickly seen
    for i, x in enumerate(() if plain and not any(x != x for x in values) else values):
        if raw[8 * i : 8 * i + 8] != (NORMAL_NAN if x != x else struct.pack("<d", x + 0.0)):
            raise Malformed(f"the blob {name} holds a -0.0 or an unusual NaN")
    return shape, raw, values


# -------------------------------------------------------------------- entries: of a log, or exported


# Number and body of another entry, by id and, if given, by number; of the first such without one.
Find = Callable[[str, int | None], tuple[int, bytes] | None]


class Entry(NamedTuple):
    """One entry; `seq` is None for a record that came without a chain."""

    seq: int | None
    body: bytes
    digest: str
    head: str
    written_at: str | None
    id: str | None  # as the log calls it
    blobs: Blobs
    find: Find = lambda name, number: None
    previous: str | None = None  # head before it, where the line says so
    fault: str = ""  # why there is nothing to verify; all else is empty then


def read_entries(path: Path) -> Iterator[Entry]:
    """Entries of a SQLite log, of JSON lines, or of one exported or bare record; with a fault if unreadable."""
    try:
        with open_regular(path) as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            yield from _logged(path)
        elif start:
            yield from _lines(path)
        else:
            raise Malformed(f"{path}: empty")
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes a damaged schema in its message
        raise Malformed(f"{path}: {error}") from None


def _fault(message: str) -> Entry:
    return Entry(None, b"", "", "", None, None, lambda name: None, fault=message)


def _lines(path: Path) -> Iterator[Entry]:
    # Of the records that a line holds, by id and by number too; filled when an override asks, from where the time of
    # the entry that asked before was up.
    places: dict[tuple[str, int | None], int] = {}
    seen: list[int | None] = [0]  # up to which place of the file; None: to its end
    last: list[Blobs] = [lambda name: None]  # of the line that was found last: an outcome is ranked by its decision's

    def find(name: str, number: int | None) -> tuple[int, bytes] | None:
        if seen[0] is not None:
            for place, line in lines(path, seen[0]):
                seen[0] = place
                entry = _exported(line, find)
                content = None if entry.fault else loads(entry.body)
                if isinstance(content, dict) and isinstance(content.get("id"), str):
                    for key in (None, entry.seq):
                        places.setdefault((content["id"], key), place)
            seen[0] = None
        if (at := places.get((name, number))) is None:
            return None
        with path.open("rb") as file:
            file.seek(at)
            line = file.readline().rstrip(b"\r\n")
        try:  # a lack of memory or time here says nothing about the line
            entry = _parsed(line, find)
        except Malformed:
            return None
        last[:] = [entry.blobs]
        return entry.seq or 0, entry.body

    def both(own: Blobs) -> Blobs:
        return lambda name: own(name) or last[0](name)

    for number, (_, line) in enumerate(lines(path), 1):
        entry = _exported(line, find)
        yield _fault(f"line {number}: {entry.fault}") if entry.fault else entry._replace(blobs=both(entry.blobs))


def _exported(line: bytes | None, find: Find) -> Entry:
    try:
        if line is None:
            raise Malformed("too long")
        return _parsed(line, find)
    except Malformed as error:
        return _fault(str(error))
    except OutOfTime:
        raise
    except MemoryError:
        return _fault("it does not fit into the memory that is allowed")


def _parsed(line: bytes, find: Find) -> Entry:
    content = loads(line)
    if not isinstance(content, dict) or "record" not in content:
        return Entry(None, line, "", "", None, None, lambda name: None)
    # Lines of the first version lack `previous`.
    members = [name for name in sorted(content) if name != "previous"]
    if members != ["blobs", "digest", "head", "record", "seq", "written_at"] or canonical(content) != line:
        raise Malformed("not an exported entry in canonical form")
    blobs, seq, head, time = content["blobs"], content["seq"], content["head"], content["written_at"]
    before: Any = content.get("previous", head)
    try:
        held = {name: b64decode(text, validate=True) for name, text in blobs.items()}
        hashes = all(re.fullmatch("[0-9a-f]{64}", text) for text in (head, before, content["digest"]))
        if not (type(seq) is int and seq >= 1 and hashes and (time is None or isinstance(time, str))):
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        raise Malformed("an exported entry with members of other types") from None
    body, own = canonical(content["record"]), content["digest"]
    return Entry(seq, body, own, head, time, None, held.get, find, content.get("previous"))


@contextmanager
def lookups(path: Path) -> Iterator[tuple[Find, Blobs]]:
    """What asks a log for an entry, and for a blob."""
    with opened(path) as (log, _):
        yield _lookups(log)


def _lookups(log: sqlite3.Connection) -> tuple[Find, Blobs]:
    def blob(name: str) -> bytes | None:
        found = log.execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
        if found is not None and not isinstance(found[0], bytes):
            raise Malformed(f"the blob {name} is of another type")
        return None if found is None else found[0] or b""

    def find(name: str, number: int | None) -> tuple[int, bytes] | None:
        where = "id = ? AND seq = coalesce(?, seq) ORDER BY seq LIMIT 1"
        found = log.execute(f"SELECT seq, body FROM entries WHERE {where}", (name, number)).fetchone()
        return (found[0], _bytes(found[1])) if found and isinstance(found[1], str) else None

    return find, blob


def _logged(path: Path) -> Iterator[Entry]:
    with opened(path) as (log, _):
        find, blob = _lookups(log)
        last, columns = 0, "seq, body, digest, head, written_at, id"
        for seq, body, *texts in log.execute(f"SELECT {columns} FROM entries ORDER BY seq"):
            if not (type(seq) is int and seq > last):
                raise Malformed(f"{path}: after entry {last} comes {seq!r}")
            last, (own, head, time, name) = seq, texts
            if not all(isinstance(x, str) for x in (body, own, head, time or "", name)):
                yield _fault(f"entry {seq}: a column of another type")
            elif not re.fullmatch("[0-9a-f]{64}", head):
                yield _fault(f"entry {seq}: a head that is no digest")
            else:
                yield Entry(seq, _bytes(body), own, head, time, name, blob, find)


def _bytes(text: str) -> bytes:
    """As the log holds them; what was no UTF-8 has come as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")
