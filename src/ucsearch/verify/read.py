"""What is read: canonical JSON, array blobs, exported lines, the SQLite log with its chain. Standard library only."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sqlite3
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.verify.figures import expect
from ucsearch.verify.untrusted import lines, open_regular, opened
from ucsearch.verify.verdict import Malformed as Malformed

MAX_INT = 2**53
RARE = "kind NOT IN ('decision', 'refusal', 'outcome')"  # a log's index of all other kinds asks for these words
MOST_VALUES = 2_000_000  # in a JSON text; a limit on time
_HEX = re.compile("[0-9a-f]{64}")
NORMAL_NAN = struct.pack("<Q", 0x7FF8000000000000)
Blobs = Callable[[str], bytes | None]


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


def read_record(body: bytes, *, whole: bool = True) -> dict[str, Any]:
    """A record whose bytes are canonical and, if it is the `whole` one, whose id is the digest of the rest."""
    record = loads(body)
    if not isinstance(record, dict) or "id" not in record or canonical(record) != body:
        raise Malformed("the record is not an object with an id, in canonical form")
    if whole:
        expect("id", record["id"], digest("record-id/1", canonical({k: v for k, v in record.items() if k != "id"})))
    return record


_NPY = re.compile(
    rb"\x93NUMPY\x01\0..(\{'descr': '<f8', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \})( *)\n", re.DOTALL
)


def _shape_of(header: bytes) -> tuple[int, ...] | None:
    """The shape in the header of a .npy file of float64; None where NumPy writes another header."""
    if (found := _NPY.fullmatch(header)) is None:
        return None
    try:
        shape = tuple(map(int, found[2].replace(b",", b" ").split()))
    except ValueError:  # too many digits
        return None
    room = 21 - len(str(shape[0])) if shape else 0  # for more digits of the first size
    spaces = room + -(11 + len(found[1]) + room) % 64
    return shape if found[2].decode() == f"{shape}"[1:-1] and len(found[3]) == spaces else None


def read_blob(name: str, blobs: Blobs) -> tuple[tuple[int, ...], bytes, tuple[float, ...]]:
    """Shape, raw bytes and values of the blob with this id."""
    data = blobs(name) or b""
    if hashlib.sha256(data).hexdigest() != name:
        raise Malformed(f"the blob {name} is missing or altered")
    size = 10 + int.from_bytes(data[8:10], "little")
    shape = _shape_of(data[:size])
    if shape is None:
        raise Malformed(f"the blob {name} is no .npy file of float64 as NumPy writes it")
    raw = data[size:]
    if len(raw) != 8 * math.prod(shape):
        raise Malformed(f"the blob {name} has {len(raw)} bytes of values for the shape {shape}")
    values = struct.unpack(f"<{len(raw) // 8}d", raw)
    plain = struct.pack(f"<{len(values)}d", *[x + 0.0 for x in values]) == raw  # in most blobs, and quickly seen
    for i, x in enumerate(() if plain and not any(x != x for x in values) else values):
        if raw[8 * i : 8 * i + 8] != (NORMAL_NAN if x != x else struct.pack("<d", x + 0.0)):
            raise Malformed(f"the blob {name} holds a -0.0 or an unusual NaN")
    return shape, raw, values


# -------------------------------------------------------------------- entries: of a log, or exported


# Body of another entry, by id and number.
Find = Callable[[str, int], bytes | None]


def _nothing(*_: Any) -> None:
    return None


class Entry(NamedTuple):
    """One entry; `seq` is None for a record that came without a chain."""

    seq: int | None
    body: bytes
    digest: str = ""
    head: str = ""
    written_at: str | None = None
    id: str | None = None  # as the log calls it
    blobs: Blobs = _nothing
    find: Find = _nothing
    previous: str | None = None  # head before it, where the line says so
    fault: str = ""  # why there is nothing to verify; all else is empty then
    log: Path | None = None  # the file of its log, where it was read from one


class Source:
    """A SQLite log, JSON lines exported from one, or one exported or bare record. Entries come with a fault where they
    cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stack = ExitStack()
        self._log: sqlite3.Connection | None = None
        self._places: dict[tuple[str, int], int] = {}  # of the lines that hold a record, by its id and number
        self._seen: int | None = 0  # up to which place of the file; None: to its end
        self._last: Blobs = _nothing  # of the line that was found last: an outcome is ranked by its decision's
        try:
            with open_regular(path) as file:
                start = file.read(16)
        except OSError as error:
            raise Malformed(f"{path}: {error}") from None
        if not start:
            raise Malformed(f"{path}: empty")
        self.is_log = start == b"SQLite format 3\0"

    def close(self) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Entry]:
        with self._words():
            yield from self._entries() if self.is_log else self._exported()

    @contextmanager
    def _words(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes a damaged schema in its message
            raise Malformed(f"{self.path}: {error}") from None

    def find(self, name: str, number: int) -> bytes | None:
        """The body of the entry with this id and number."""
        with self._words():
            if not self.is_log:
                return self._find_line(name, number)
            found = (
                self._opened().execute("SELECT body FROM entries WHERE id = ? AND seq = ?", (name, number)).fetchone()
            )
            return _bytes(found[0]) if found and isinstance(found[0], str) else None

    def blob(self, name: str) -> bytes | None:
        with self._words():
            if not self.is_log:
                return self._last(name)
            found = self._opened().execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
            if found is not None and not isinstance(found[0], bytes):
                raise Malformed(f"the blob {name} is of another type")
            return None if found is None else found[0] or b""

    def erasures(self) -> Iterator[tuple[int, bytes]]:
        """Numbers and bodies of the entries that say whose content was taken away."""
        with self._words():
            if self.is_log:
                where = f"WHERE kind = 'erasure' AND {RARE} ORDER BY seq"
                for seq, body in self._opened().execute(f"SELECT seq, body FROM entries {where}"):
                    yield seq, _bytes(body) if isinstance(body, str) else b""
                return
            for _, line in lines(self.path):
                if line is not None and b'"kind":"erasure"' in line:
                    entry = _readable(line)
                    if entry.seq is not None:  # what stands in no chain takes nothing out of one
                        yield entry.seq, entry.body

    # A log

    def _opened(self) -> sqlite3.Connection:
        if self._log is None:
            self._log = self._stack.enter_context(opened(self.path))
        return self._log

    def _entries(self) -> Iterator[Entry]:
        last, columns = 0, "seq, body, digest, head, written_at, id"
        for seq, body, *texts in self._opened().execute(f"SELECT {columns} FROM entries ORDER BY seq"):
            if not (type(seq) is int and seq > last):
                raise Malformed(f"{self.path}: after entry {last} comes {seq!r}")
            last, (own, head, time, name) = seq, texts
            if not all(isinstance(x, str) for x in (body, own, head, time or "", name)):
                yield _fault(f"entry {seq}: a column of another type")
            elif not (_HEX.fullmatch(own) and _HEX.fullmatch(head)):
                yield _fault(f"entry {seq}: a digest or a head that is none")
            else:
                yield Entry(seq, _bytes(body), own, head, time, name, self.blob, self.find, log=self.path)

    # JSON lines

    def _exported(self) -> Iterator[Entry]:
        for number, (_, line) in enumerate(lines(self.path), 1):
            entry = _readable(line)
            if entry.fault:
                yield _fault(f"line {number}: {entry.fault}")
            else:
                yield entry._replace(blobs=self._also(entry.blobs), find=self.find)

    def _also(self, own: Blobs) -> Blobs:
        return lambda name: own(name) or self._last(name)

    def _find_line(self, name: str, number: int) -> bytes | None:
        if self._seen is not None:
            for place, line in lines(self.path, self._seen):
                self._seen = place
                entry = _readable(line)
                content = None if entry.fault else loads(entry.body)
                if isinstance(content, dict) and isinstance(content.get("id"), str):
                    self._places.setdefault((content["id"], entry.seq or 0), place)
            self._seen = None
        if (at := self._places.get((name, number))) is None:
            return None
        with self.path.open("rb") as file:
            file.seek(at)
            entry = _readable(file.readline().rstrip(b"\r\n"))
        self._last = entry.blobs
        return None if entry.fault else entry.body


class Sources:
    """The files of a log, the oldest first, as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._held: dict[Path, Source] = {}

    def close(self) -> None:
        for source in self._held.values():
            source.close()

    def of(self, path: Path) -> Source:
        if path not in self._held:
            self._held[path] = Source(path)
        return self._held[path]

    def find(self, name: str, number: int) -> bytes | None:
        return next((body for path in self.paths if (body := self.of(path).find(name, number)) is not None), None)

    def blob(self, name: str) -> bytes | None:
        return next((data for path in self.paths if (data := self.of(path).blob(name)) is not None), None)

    def entries(self, path: Path) -> Iterator[Entry]:
        """Those of one of the files, which may be about entries of the others."""
        if len(self.paths) == 1:
            yield from self.of(path)
            return
        for entry in self.of(path):
            own = entry.blobs
            yield entry._replace(find=self.find, blobs=lambda name, own=own: own(name) or self.blob(name))  # type: ignore[misc]


def _fault(message: str) -> Entry:
    return Entry(None, b"", fault=message)


def _readable(line: bytes | None) -> Entry:
    try:
        if line is None:
            raise Malformed("too long")
        return _parsed(line)
    except Malformed as error:
        return _fault(str(error))
    except MemoryError:
        return _fault("it does not fit into memory")


def _parsed(line: bytes) -> Entry:
    content = loads(line)
    if not isinstance(content, dict) or "record" not in content:
        return Entry(None, line)
    names = ["blobs", "digest", "head", "previous", "record", "seq", "written_at"]
    if sorted(content) != names or canonical(content) != line:
        raise Malformed("not an exported entry in canonical form")
    blobs, seq, head, time = content["blobs"], content["seq"], content["head"], content["written_at"]
    try:
        held = {name: b64decode(text, validate=True) for name, text in blobs.items()}
        hashes = all(_HEX.fullmatch(text) for text in (head, content["previous"], content["digest"]))
        if not (type(seq) is int and seq >= 1 and hashes and (time is None or isinstance(time, str))):
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        raise Malformed("an exported entry with members of other types") from None
    body = canonical(content["record"])
    return Entry(seq, body, content["digest"], head, time, blobs=held.get, previous=content["previous"])


def _bytes(text: str) -> bytes:
    """As the log holds them; what was no UTF-8 has come as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")
