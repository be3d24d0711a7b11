"""The files of a log, read as one. Numbers and heads go on from file to file: nobody need know where an entry lies.

    log/decisions.db          ... entry 4711: closed, next decisions.0002.db
    log/decisions.0002.db     entry 4712: opened, after 4711 entries of decisions.db, with its last head; then the rest

The old file's last entry names the next file; the next one's first entry says what it follows. Nothing is renamed, so
that who has the old file open learns it at the next write. Older files may be moved away: what is left can be read and
followed, and says how many entries lie before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ucsearch.errors import RecordError
from ucsearch.records.entries import NOTHING, AlteredEntry, Entry, Erased, Query, Row, entry_digest, erased_by
from ucsearch.records.files import present
from ucsearch.records.sqlite import SqliteStore

__all__ = ["LogChain", "Store", "files_of", "following", "newest_file", "open_newest", "opening"]

_MOST = 10_000  # files that are followed
_CHUNK = 500  # rows read at a time, so that a long walk neither holds a lock nor the whole log
T = TypeVar("T")
OpenFile = Callable[[Path], SqliteStore]


class Store(Protocol):
    """A place that keeps entries: a SQLite file (`sqlite.py`) or a PostgreSQL database (`postgres.py`). Every method is
    a statement or two, written once for each of them. Entries are numbered without gaps; the first one has another
    number than 1 where the log began in another file."""

    path: Path  # for messages

    def first(self) -> int:
        """Number of the first entry; 0 without entries."""

    def tail(self) -> tuple[int, str]:
        """Number and head of the last entry; 0 and the head of the empty log without entries."""

    def rows(self, after: int, last: int, limit: int) -> list[Row]:
        """Entries in order, numbered above `after` and up to `last`."""

    def row(self, seq: int) -> Row | None: ...

    def newest(self, id: str) -> Row | None:
        """The newest entry with this id."""

    def ids(self, start: str) -> list[str]:
        """Ids that begin so, two at most."""

    def requested(self, keys: Sequence[str]) -> list[tuple[str, int, Row]]:
        """Key, item and entry of everything that was recorded under these requests, by key and item."""

    def answered(self, requests: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
        """Entries of these requests, by key and item."""

    def search(self, query: Query, limit: int) -> list[Row]: ...

    def numbers(self, kind: str) -> list[int]:
        """Numbers of all entries of a rare kind, or of all outcomes, in order."""

    def picked(self, numbers: Sequence[int]) -> list[Row]:
        """The entries with these numbers, in order."""

    def overrides(self, ids: Sequence[str]) -> list[Row]:
        """The overrides of entries with these ids, in order."""

    def reports(self, decision: str) -> list[Row]:
        """The outcomes of decisions with this id, in order."""

    def has(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids are there."""

    def heads(self, last: int, stride: int = 1) -> list[tuple[int, str]]:
        """Number and head of every `stride`-th entry up to `last`."""

    def blob(self, id: str) -> bytes | None: ...

    def blobs(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Those of these blobs that are there."""

    def fault(self) -> tuple[str, str]:
        """What is wrong with tables, indexes and triggers: a word of `chain.FAULTS`, and a sentence; "" where nothing
        is."""

    def writing(self) -> AbstractContextManager[None]:
        """One transaction, alone: on disk after a clean exit, undone after any other."""

    def add(self, rows: Iterable[Row]) -> None:
        """Append entries, inside `writing`."""

    def add_blobs(self, blobs: Iterable[tuple[str, bytes]]) -> None: ...

    def replace(self, rows: Iterable[tuple[int, bytes]], blobs: Iterable[str]) -> None:
        """Put other bodies in the place of those of entries, and delete blobs, inside `writing`: what `erasure.py`
        does. Number, id, digest and head stay."""

    def sync(self) -> None:
        """Make what can be read durable."""

    def check_place(self) -> None:
        """Raise where the store is no longer the one that was opened: what is written now would be lost."""

    def close(self) -> None: ...


class LogChain:
    """Reads the stores of a log, of which the newest is given; files before it are opened when they are asked for, and
    files after it as soon as the log goes on there. Methods are those of `Store`; the content of every entry has been
    compared with its digest, but of those that are asked for `raw`."""

    def __init__(self, newest: Store, open_next: OpenFile | None = None, *, timeout_s: float = 5.0) -> None:
        """Without `open_next` the one store is all."""
        self._stores: list[Store] = [newest]  # the newest first
        self._open_next, self._timeout_s = open_next, timeout_s
        self._firsts: dict[int, int] = {}  # numbers of first entries, by store
        self._complete = open_next is None  # there is no file before the last of these
        self._erased: dict[int, Erased] = {}  # as of the last look
        self._lock = threading.RLock()

    @property
    def newest_store(self) -> Store:
        return self._stores[0]

    def close(self) -> None:
        with self._lock:
            for store in self._stores:
                store.close()

    def follow(self) -> bool:
        """Go on to the file in which the log goes on, if it does; whether it did."""
        with self._lock:
            newest = self._stores[0]
            name = "" if self._open_next is None else following(newest)
            if not name or self._open_next is None or not present(path := _beside(newest.path, name)):
                return False
            self._stores.insert(0, self._open_next(path))
            return True

    def backwards(self) -> Iterator[Store]:
        """The newest store first."""
        while self.follow():
            pass
        place = 0
        while (store := self._at(place)) is not None:
            yield store
            place += 1

    def forwards(self) -> list[Store]:
        return [*self.backwards()][::-1]

    def _at(self, place: int) -> Store | None:
        with self._lock:
            if len(self._stores) <= place and not self._complete:
                before = _previous(self._stores[-1])
                if before is None or len(self._stores) >= _MOST:
                    self._complete = True
                else:
                    self._stores.append(SqliteStore(before, timeout_s=self._timeout_s))
            return self._stores[place] if len(self._stores) > place else None

    def _first_of(self, store: Store) -> int:
        if (number := self._firsts.get(id(store), 0)) == 0:
            number = self._firsts[id(store)] = store.first()
        return number

    # One answer

    def tail(self) -> tuple[int, str]:
        return next(self.backwards()).tail()

    def first(self) -> int:
        return self.forwards()[0].first()

    def row(self, seq: int, *, raw: bool = False) -> Row | None:
        row = self.store_of(seq).row(seq)
        return row if raw or row is None else self._checked(row)

    def store_of(self, seq: int) -> Store:
        """Where an entry lies, by its number."""
        for store in self.backwards():
            if seq >= self._first_of(store):
                return store
        return self.newest_store

    def newest(self, id: str) -> Row | None:
        row = self._found(lambda store: store.newest(id))
        return None if row is None else self._checked(row)

    def blob(self, id: str) -> bytes | None:
        return self._found(lambda store: store.blob(id))

    def _found(self, ask: Callable[[Store], T | None]) -> T | None:
        return next((answer for store in self.backwards() if (answer := ask(store)) is not None), None)

    def ids(self, start: str) -> list[str]:
        names: dict[str, None] = {}
        for store in self.backwards():
            names |= dict.fromkeys(store.ids(start))
            if len(names) > 1:
                break
        return list(names)[:2]

    def has(self, ids: Sequence[str]) -> set[str]:
        missing = set(ids)
        for store in self.backwards():
            missing -= store.has(sorted(missing)) if missing else set()
        return set(ids) - missing

    # Many

    def rows(self, after: int, last: int, *, raw: bool = False) -> Iterator[Row]:
        for store in self.forwards():
            at = after
            while rows := store.rows(at, last, _CHUNK):
                yield from rows if raw else map(self._checked, rows)
                at = rows[-1].seq
                if len(rows) < _CHUNK:
                    break

    def search(self, query: Query, limit: int) -> list[Row]:
        out: list[Row] = []
        for store in self.backwards() if query.newest_first else self.forwards():
            if len(out) >= limit:
                break
            out += map(self._checked, store.search(query, limit - len(out)))
        return out

    def iterate(self, kind: str) -> Iterator[Row]:
        """All entries of a rare kind, or all outcomes, in order; by their index, so that a long log is no matter."""
        for store in self.forwards():
            numbers = iter(store.numbers(kind))
            while chunk := list(islice(numbers, _CHUNK)):
                yield from map(self._checked, store.picked(chunk))

    def requested(self, keys: Sequence[str]) -> list[tuple[str, int, Row]]:
        answers = self._each(lambda store: store.requested(keys))
        return sorted(((key, item, self._checked(row)) for key, item, row in answers), key=lambda answer: answer[:2])

    def answered(self, requests: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
        out: dict[tuple[str, int], Entry] = {}
        for store in self.backwards() if requests else ():
            out = {**store.answered(requests), **out}
        return out

    def overrides(self, ids: Sequence[str]) -> list[Row]:
        return [*map(self._checked, self._each(lambda store: store.overrides(ids)))]

    def reports(self, decision: str) -> list[Row]:
        return [*map(self._checked, self._each(lambda store: store.reports(decision)))]

    def heads(self, last: int, stride: int = 1) -> Iterator[tuple[int, str]]:
        for store in self.forwards():
            yield from store.heads(last, stride)

    def erased(self) -> dict[int, Erased]:
        """By number, entries whose content was taken away."""
        erasures = (row for store in self.forwards() for row in store.picked(store.numbers("erasure")))
        return erased_by(row for row in erasures if entry_digest(row.body) == row.digest)

    def _checked(self, row: Row) -> Row:
        """An entry whose content is the one that was recorded, or what an erasure left of it."""
        body_digest = entry_digest(row.body) if isinstance(row.body, bytes) else ""
        if body_digest != row.digest:
            left_digest = None if row.body == NOTHING else body_digest
            if not self._is_said(row, left_digest):
                self._erased = self.erased()
            if not self._is_said(row, left_digest):
                raise AlteredEntry(f"entry {row.seq}: its content does not match its digest")
        return row

    def _is_said(self, row: Row, left_digest: str | None) -> bool:
        """Whether an erasure that is known says that this is left of an entry."""
        erased = self._erased.get(row.seq)
        return erased is not None and (erased.digest, erased.left) == (row.digest, left_digest)

    def _each(self, ask: Callable[[Store], list[T]]) -> list[T]:
        return [x for store in self.forwards() for x in ask(store)]


# -------------------------------------------------------------------- which files


def opening(store: Store) -> dict[str, Any] | None:
    """What a file says about the one before it; None for the first of a log."""
    first = next(iter(store.rows(-(2**63), 2**63 - 1, 1)), None)
    if first is None or b'"event":"opened"' not in first.body:
        return None
    record = first.record
    return record if record.get("kind") == "rotation" and record.get("event") == "opened" else None


def following(store: Store) -> str:
    """Name of the file in which the log goes on; "" while this one is written to."""
    rotations = store.search(Query(kinds=("rotation",), newest_first=True), 1)
    return str(rotations[0].record.get("next", "")) if rotations else ""


def _beside(path: Path, name: str) -> Path:
    """The file of this name beside a log's; the log's own for what is no name."""
    last = Path(name).name
    return path if last in ("", ".", "..") or "\0" in last else path.with_name(last)


def _previous(store: Store) -> Path | None:
    """The file before this one, where it is still there."""
    if not isinstance(store, SqliteStore) or (pinned := opening(store)) is None:
        return None
    before = _beside(store.path, str(pinned["previous"]))
    return before if present(before) and before != store.path else None


def newest_file(path: Path, timeout_s: float = 5.0) -> Path:
    """Where a log is written to now; `path` may be any of its files."""
    if not present(path):
        return path
    with closing(open_newest(path, partial(SqliteStore, timeout_s=timeout_s))) as store:
        return store.path


def open_newest(path: Path, open_file: OpenFile, *, there: bool = False) -> SqliteStore:
    """The file in which a log is written to now, opened; `path` may be any of its files. `there`: the last file that is
    there, such as one that was moved to an archive alone."""
    store = open_file(path)
    for _ in range(_MOST):
        try:
            name = following(store)
            beside = _beside(store.path, name)
            if not name or (there and not present(beside)):
                return store
            if beside == store.path or not present(beside):
                raise RecordError(f"{store.path}: the log continues in {name}, which is not there")
        except BaseException:
            store.close()
            raise
        store.close()
        store = open_file(beside)
    raise RecordError(f"{path}: more than {_MOST} files follow each other")


def files_of(path: Path) -> list[Path]:
    """All files of a log that are there, from the oldest to the newest."""
    with closing(LogChain(open_newest(path, SqliteStore), SqliteStore)) as chain:
        return [store.path for store in chain.forwards()]
