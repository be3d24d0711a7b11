"""Decisions of the day by plan, outcome and reason, and the newest decision of every series, kept in memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ucsearch.records.entries import NoEntry, Row
from ucsearch.records.reader import AuditReader

__all__ = ["KINDS", "Newest", "Tally"]

KINDS = ("decision", "refusal")
_MOST_SERIES = 20_000  # of a plan whose newest decision is kept
_HELD = 1_000  # on hold, of which overrides are looked up
_LONG_AGO = timedelta(days=2)  # what ended before is nobody's concern any more


class Newest(NamedTuple):
    """The newest decision of a series, as far as a list needs it."""

    seq: int
    series: str
    id: str
    outcome: str
    sends: bool  # it has an action of its own; overrides come on top
    sentence: str  # "" where it sends something: nobody asks then
    now: str  # when it was decided
    valid_until: str

    def is_over(self, now: datetime) -> bool:
        """Whether it may no longer be followed."""
        return bool(self.valid_until) and not now < datetime.fromisoformat(self.valid_until)


class Tally:
    """Decisions of a day by plan, outcome and reason, and who stands where. Every look reads only what is new, so that
    a page costs the same at noon and at midnight; the first look of a process goes back so far and no further."""

    def __init__(self, most: int = 2_000) -> None:
        self._most, self._lock = most, threading.Lock()
        self._day = ""
        self._seen: dict[str, int] = {}  # newest entry that was counted, by plan
        self._counts: dict[str, Counter[tuple[str, str]]] = {}
        self._whole: dict[str, bool] = {}  # nothing of the day was left out
        self._known: dict[str, int] = {}  # newest entry that `newest` has taken in, by plan
        self._newest: dict[str, dict[str, Newest]] = {}

    def look(self, reader: AuditReader, plan: str, now: datetime) -> tuple[dict[tuple[str, str], int], bool]:
        """Counts by outcome and reason since midnight UTC, and whether they are all."""
        with self._lock:
            day = now.date().isoformat()
            if day != self._day:
                self._day, self._seen, self._counts, self._whole = day, {}, {}, {}
            self._take_in(reader, plan, day)
            return dict(sorted(self._counts[plan].items())), self._whole[plan]

    def newest(self, plan: str, now: datetime) -> tuple[Newest, ...]:
        """The newest decision of every series of a plan, newest first, as of the last look."""
        with self._lock:
            known = self._newest.get(plan, {})
            if len(known) > _MOST_SERIES:
                end = (now - _LONG_AGO).isoformat()
                kept = sorted((n for n in known.values() if n.valid_until >= end), key=_age)[-_MOST_SERIES:]
                known = self._newest[plan] = {n.series: n for n in kept}
            return tuple(sorted(known.values(), key=_age, reverse=True))

    def held(self, reader: AuditReader, plan: str, now: datetime, most: int) -> tuple[list[Newest], int]:
        """Newest decisions of a plan that send nothing, are still valid, and for which no person has decided; of the
        newest `most` of them, and how many more send nothing."""
        self.look(reader, plan, now)
        silent = [n for n in self.newest(plan, now) if not n.sends and not n.is_over(now)]
        rows, found = [], set[str]()
        for n in silent[:most]:
            try:
                rows.append(reader.get(n.id))
            except NoEntry:  # of a file that was moved away
                found.add(n.id)
        standing = reader.effective(rows)
        found |= {row.id for row in rows if standing[row.seq].action is None}
        return [n for n in silent[:most] if n.id in found], max(0, len(silent) - most)

    def on_hold(self, reader: AuditReader, plan: str, now: datetime) -> int:
        """How many series of a plan wait for a person."""
        held, more = self.held(reader, plan, now, _HELD)
        return len(held) + more

    def _take_in(self, reader: AuditReader, plan: str, day: str) -> None:
        self._whole.setdefault(plan, True)
        counts, standing = self._counts.setdefault(plan, Counter()), self._newest.setdefault(plan, {})
        taken: set[str] = set()
        last, known = self._seen.get(plan, 0), self._known.get(plan, 0)
        newest, fresh, before, done, whole = max(last, known), 0, None, False, False
        while not done and fresh < self._most:
            rows = reader.list(
                plan=plan, kind=KINDS, newest_first=True, before=before, limit=16 if before is None else 256
            )
            done = not rows
            for row in rows:
                record = row.record if row.seq > min(last, known) else {}
                today = bool(record) and record["gate"]["now"] >= day
                if not record or not (row.seq > known or (today and row.seq > last)):
                    done = True
                    break
                name = record.get("series", "")
                if row.seq > known and name not in taken:
                    taken.add(name)
                    standing[name] = _newest(row, record)
                whole = whole or not today
                if today and row.seq > last:
                    counts[record["outcome"]["outcome"], record["outcome"]["reason"]] += 1
                fresh, newest = fresh + 1, max(newest, row.seq)
            before = rows[-1].seq if rows else None
        self._seen[plan] = self._known[plan] = newest
        self._whole[plan] = self._whole[plan] and (done or whole)


def _age(n: Newest) -> tuple[str, int]:
    return n.now, n.seq


def _newest(row: Row, record: Mapping[str, Any]) -> Newest:
    outcome = record["outcome"]
    sends = outcome.get("action") is not None
    return Newest(
        row.seq, record.get("series", ""), row.id, outcome["outcome"], sends,
        "" if sends else outcome.get("sentence", ""), record["gate"]["now"], record.get("valid_until", ""),
    )  # fmt: skip
