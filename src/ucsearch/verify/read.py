"""What is read: canonical JSON, array blobs, exported lines, the SQLite log with its chain. Standard library only."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import sqlite3
import stat
import struct
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from functools import cache
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ucsearch.verify.verdict import Malformed as Malformed
from ucsearch.verify.verdict import expect

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
    if (match := _NPY.fullmatch(header)) is None:
        return None
    try:
        shape = tuple(map(int, match[2].replace(b",", b" ").split()))
    except ValueError:  # too many digits
        return None
    room = 21 - len(str(shape[0])) if shape else 0  # for more digits of the first size
    spaces = room + -(11 + len(match[1]) + room) % 64
    return shape if match[2].decode() == f"{shape}"[1:-1] and len(match[3]) == spaces else None


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


# -------------------------------------------------------------------- files from strangers

# Lines are of bounded length. SQLite is used as its authors advise for untrusted files
# (https://sqlite.org/security.html): nothing of the schema is trusted, no memory map, cells are checked, lengths are
# limited, statements may only read our tables, and an operation that takes too many steps is interrupted. A log's
# tables must be word for word those that the writer makes; of its indexes and triggers some may be missing, none be
# added. Every page is checked before an entry is read, and every index against its table: one that lacks an entry would
# hide it from whoever looks into the log, an override for instance, while the chain is right.

APPLICATION_ID = 0x55434131  # "UCA1"
LONGEST_LINE = 128 << 20  # bytes of an exported entry, its arrays included
LONGEST_VALUE = 64 << 20  # bytes of a record or an array
STEPS_A_CALL = 10_000  # virtual machine steps between two looks at the limit
STEPS_A_BYTE = 20  # what a log may take by its size; reading one takes less than 1
FREE_STEPS = 10_000_000
SCHEMA_STEPS = 100_000  # ours takes some hundred; where pages are shared, a small file can have any number of rows

FORMAT = 1
# First digits of the SHA-256 of what the writer puts into sqlite_master.
SCHEMA = {
    "blobs": "13c9cc69f487e392",
    "entries": "cc03ea96a601cdca",
    "entries_id": "d0dadff1f02fcd57",
    "entries_outcome": "75180b273a9d645d",
    "entries_reason": "5ed7e3cd9af3f063",
    "entries_series": "9275601d9bb4f89d",
    "entries_overrides": "1624d8b2424633cf",
    "entries_decision": "263c930d1dfbbe96",
    "entries_plan": "2a91a5c7e0a96f3f",
    "entries_rare": "8a596da31b08036d",
    "entries_request": "bc195fe865f96bfd",
    "entries_append": "ac11970f5ba68267",
    "entries_update": "240ac7b4182b38dc",
    "entries_delete": "3fd95f73d72f179c",
    "blobs_append": "b2d19987c2458b9a",
    "blobs_update": "abe4f2ea998298b7",
    "blobs_delete": "d56db04b2fdbec46",
}
TABLES = ("blobs", "entries")
_OWN_INDEX = re.compile("sqlite_autoindex_(blobs|entries)_1")
_LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000, sqlite3.SQLITE_LIMIT_COLUMN: 64, sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4, sqlite3.SQLITE_LIMIT_VDBE_OP: 10_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8, sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 8,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100, sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}  # fmt: skip


MOST_SKIPPED = 4 * LONGEST_LINE  # bytes


def open_regular(path: Path) -> BinaryIO:
    """A file to read from. A pipe or a device, which may never answer or never end, is an `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def lines(path: Path, place: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Place and bytes of every line from a place on, without its end; None for one that is too long to look at. Beyond
    one whose end is not found nearby nothing is looked at: a hole of a terabyte takes no room on a disk, but hours to
    read."""
    with path.open("rb") as file:
        file.seek(place)
        while line := file.readline(LONGEST_LINE + 1):
            long = len(line) > LONGEST_LINE
            yield place, None if long else line.rstrip(b"\r\n")
            skipped = 0
            while long and line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE + 1)
                skipped += len(line)
                if skipped > MOST_SKIPPED:
                    return
            place = file.tell()


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A log to read from."""
    wal = path.with_name(path.name + "-wal")
    more = wal.stat().st_size if wal.exists() else 0
    size = path.stat().st_size + more
    _settled(path)
    # Without a write-ahead log no index of it is needed, and a read-only medium will do.
    still = "" if more else "&immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{still}", uri=True)) as log:
        log.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        log.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(1_000, min(size, LONGEST_VALUE)))
        for limit, value in _LIMITS.items():
            log.setlimit(limit, value)
        log.set_progress_handler(_steps(SCHEMA_STEPS), STEPS_A_CALL)
        pragmas = ("cell_size_check = ON", "mmap_size = 0", "query_only = ON")
        for pragma in (*pragmas, *(["trusted_schema = OFF"] if _can_distrust() else [])):
            log.execute(f"PRAGMA {pragma}").close()
        # Until the schema is known to be the writer's, its text is all that is read.
        log.set_authorizer(_reading("sqlite_master", "sqlite_schema"))
        _check_schema(log, path)
        log.set_authorizer(_reading(*TABLES))
        log.set_progress_handler(_steps(FREE_STEPS + STEPS_A_BYTE * size), STEPS_A_CALL)
        if (state := log.execute("PRAGMA integrity_check(1)").fetchone()) != ("ok",):
            raise Malformed(f"{path}: damaged ({state[0] if state else 'no answer'})")
        yield log


def _settled(path: Path) -> None:
    """A journal of changes that were not finished: whoever opens the log to write finds another content than we do."""
    journal = path.with_name(path.name + "-journal")
    try:
        with open_regular(journal) as file:
            has_content = file.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return
    if has_content:
        raise Malformed(f"{path}: {journal.name} lies beside it: changes that were not finished, and not undone yet")


def _steps(most: int) -> Any:
    calls_left = most // STEPS_A_CALL

    def count() -> bool:
        nonlocal calls_left
        calls_left -= 1
        return calls_left < 0

    return count


def _reading(*tables: str) -> Any:
    """Nothing but to read these tables, and to ask the file about itself."""

    def allow(action: int, first: str | None, second: str | None, schema: str | None, inside: str | None) -> int:
        reading = action == sqlite3.SQLITE_SELECT or (action == sqlite3.SQLITE_READ and first in tables)
        asking = action == sqlite3.SQLITE_PRAGMA and first in ("application_id", "user_version", "integrity_check")
        # What our generated columns are computed by.
        computing = action == sqlite3.SQLITE_FUNCTION and second in ("json_extract", "json_type", "coalesce")
        return sqlite3.SQLITE_OK if reading or asking or computing else sqlite3.SQLITE_DENY

    return allow


@cache
def _can_distrust() -> bool:
    """Whether a table with our generated columns can be read where no schema is trusted: SQLite's JSON functions were
    long not marked as harmless. Where not, the comparison of the schema with the writer's has to do."""
    with closing(sqlite3.connect(":memory:")) as probe:
        probe.execute("CREATE TABLE t (a TEXT, b TEXT GENERATED ALWAYS AS (json_extract(a, '$.b')) VIRTUAL)")
        probe.execute("PRAGMA trusted_schema = OFF")
        try:
            probe.execute("SELECT b FROM t").fetchall()
        except sqlite3.Error:
            return False
    return True


def _check_schema(log: sqlite3.Connection, path: Path) -> None:
    """Whether it is a log of this format, with the writer's tables, indexes and triggers."""
    (application,), (version,) = (
        log.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    if (application, version) != (APPLICATION_ID, FORMAT):
        raise Malformed(f"{path}: not an audit log")
    names = set()
    for kind, name, sql in log.execute("SELECT type, name, sql FROM sqlite_master"):
        if sql is None and kind == "index" and _OWN_INDEX.fullmatch(str(name)):
            continue
        text = str(sql).encode("utf-8", "surrogateescape")
        if SCHEMA.get(name) != hashlib.sha256(text).hexdigest()[:16]:
            raise Malformed(f"{path}: the {kind} {name!r} of its schema is not one that a log has")
        names.add(name)
    if lacking := [name for name in TABLES if name not in names]:
        raise Malformed(f"{path}: not an audit log: it has no table {lacking[0]}")


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


class EntrySource:
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
            row = self._opened().execute("SELECT body FROM entries WHERE id = ? AND seq = ?", (name, number)).fetchone()
            return _bytes(row[0]) if row and isinstance(row[0], str) else None

    def blob(self, name: str) -> bytes | None:
        with self._words():
            if not self.is_log:
                return self._last(name)
            row = self._opened().execute("SELECT data FROM blobs WHERE id = ?", (name,)).fetchone()
            if row is not None and not isinstance(row[0], bytes):
                raise Malformed(f"the blob {name} is of another type")
            return None if row is None else row[0] or b""

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
            last, (own_digest, head, time, name) = seq, texts
            if not all(isinstance(x, str) for x in (body, own_digest, head, time or "", name)):
                yield _fault(f"entry {seq}: a column of another type")
            elif not (_HEX.fullmatch(own_digest) and _HEX.fullmatch(head)):
                yield _fault(f"entry {seq}: a digest or a head that is none")
            else:
                yield Entry(seq, _bytes(body), own_digest, head, time, name, self.blob, self.find, log=self.path)

    # JSON lines

    def _exported(self) -> Iterator[Entry]:
        for number, (_, line) in enumerate(lines(self.path), 1):
            entry = _readable(line)
            if entry.fault:
                yield _fault(f"line {number}: {entry.fault}")
            else:
                yield entry._replace(blobs=self._also(entry.blobs), find=self.find)

    def _also(self, of_line: Blobs) -> Blobs:
        return lambda name: of_line(name) or self._last(name)

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


class LogSources:
    """The files of a log, the oldest first, as one."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self._held: dict[Path, EntrySource] = {}

    def close(self) -> None:
        for source in self._held.values():
            source.close()

    def of(self, path: Path) -> EntrySource:
        if path not in self._held:
            self._held[path] = EntrySource(path)
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
        arrays = {name: b64decode(text, validate=True) for name, text in blobs.items()}
        hashes = all(_HEX.fullmatch(text) for text in (head, content["previous"], content["digest"]))
        if not (type(seq) is int and seq >= 1 and hashes and (time is None or isinstance(time, str))):
            raise ValueError
    except (AttributeError, TypeError, ValueError):
        raise Malformed("an exported entry with members of other types") from None
    body = canonical(content["record"])
    return Entry(seq, body, content["digest"], head, time, blobs=arrays.get, previous=content["previous"])


def _bytes(text: str) -> bytes:
    """As the log holds them; what was no UTF-8 has come as lone surrogates."""
    return text.encode("utf-8", "surrogateescape")
