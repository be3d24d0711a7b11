"""A place that keeps entries: what the log asks of a SQLite file (`sqlite.py`) and of a PostgreSQL database
(`postgres.py`). Every method is one statement or two, written once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from ucsearch.errors import RecordError
from ucsearch.records.entries import Entry, Row

__all__ = ["OFTEN", "Damaged", "Query", "Store"]

OFTEN = ("decision", "refusal", "outcome")  # kinds of most entries; all others are found by an index of their own


class Damaged(RecordError):
    """The store itself is damaged; nothing can be said about the entries behind that place."""


class Query(NamedTuple):
    """Which entries are wanted."""

    named: dict[str, str] = {}  # noqa: RUF012 - members and their values: outcome, reason, series, plan
    kinds: tuple[str, ...] = ()  # one of these; (): any
    before: int | None = None  # numbers below this
    newest_first: bool = False


class Store(Protocol):
    """One file or database. Entries are numbered without gaps; the first one has another number than 1 where the log
    began in another file."""

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

    def answered(self, asked: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Entry]:
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
