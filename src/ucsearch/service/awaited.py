"""Outcomes that are waited for: a monitor that nobody tells anything is not a good one.

Decisions of one period of a series wait for the same outcomes, one for each step that the monitor's target sums up.
Whoever reports about one of them has reported about that period.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ucsearch.monitor.journal import period_key
from ucsearch.records.chain import Row
from ucsearch.records.reader import AuditReader
from ucsearch.service.plans import Plan

__all__ = ["Awaited", "due_at"]

_LOOK_BACK = 10_000  # decisions of a plan in which missing outcomes are looked for at a start
_PAGE = 500
_OPEN = 100  # periods of a series that wait for their outcomes

Place = tuple[int, int]  # period and step


class Due(NamedTuple):
    """When outcomes of a decision should have been reported."""

    series: str
    steps: Mapping[Place, datetime]


class _Told(NamedTuple):
    """A decision that waits, or an outcome of one."""

    seq: int
    decision: str
    due: Due | None
    step: int


def due_at(plan: Plan, record: Mapping[str, Any], step: int = 1) -> datetime | None:
    """When a decision's outcome should have been reported; None where it has no forecast or no time."""
    table = plan.table.monitor
    if table is None or record.get("kind") != "decision":
        return None
    meta, gate = record["inputs"]["trace"]["meta"], record["gate"]
    for text in (*meta.get("cutoff", []), *meta.get("issued", []), gate["now"]):
        try:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            return moment + timedelta(seconds=step * _length(plan) + table.grace_s)
        except (ValueError, OverflowError):  # no time, or one near the end of the calendar: the next one says it
            continue
    return None


def _length(plan: Plan) -> float:
    return plan.table.valid_for_s if math.isnan(plan.period_s) else plan.period_s


def _due(plan: Plan, record: Mapping[str, Any]) -> Due | None:
    table, first = plan.table.monitor, due_at(plan, record)
    if table is None or first is None:
        return None
    try:
        start = first - timedelta(seconds=_length(plan) + table.grace_s)
        key = period_key(start.isoformat(), plan.settings.period)
    except OverflowError:  # at the beginning of the calendar, where no other zone has this time
        key = 0
    dues = {(key, step): due_at(plan, record, step) for step in range(1, table.lags + 1)}
    return Due(record["series"], {place: when for place, when in dues.items() if when is not None})


class Awaited:
    """Of all plans; kept by the deciding thread."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, dict[Place, datetime]]] = {}  # plan, series

    def rebuild(self, plans: Iterable[Plan], files: Sequence[AuditReader]) -> None:
        """From the log's files, the newest first: told in the order of the log, it comes to what it was."""
        self._open = {plan.name: {} for plan in plans}
        for plan in plans:
            left, told = _LOOK_BACK, list[list[_Told]]()
            for file in files:
                if left:
                    told.append(_recent(file, plan, left))
                    left -= sum(one.due is not None for one in told[-1])
            known: dict[str, Due] = {}
            for one in (one for own in reversed(told) for one in own):
                if one.due is not None:
                    known[one.decision] = one.due
                    self._wait(plan, one.due)
                elif one.decision in known:
                    self._arrived(plan.name, known[one.decision], one.step)

    def waits(self, plan: Plan, record: Mapping[str, Any]) -> None:
        """A decision was recorded."""
        if (due := _due(plan, record)) is not None:
            self._wait(plan, due)

    def arrived(self, plan: Plan, decision: Mapping[str, Any], step: int) -> None:
        """An outcome of it was reported."""
        if (due := _due(plan, decision)) is not None:
            self._arrived(plan.name, due, step)

    def overdue(self, plan: str, now: datetime, series: str | None = None) -> int:
        found = self._open.get(plan, {})
        chosen: Iterable[dict[Place, datetime]] = found.values() if series is None else (found.get(series, {}),)
        return sum(when < now for known in list(chosen) for when in list(known.values()))

    def starved(self, plan: str, now: datetime) -> tuple[tuple[str, int], ...]:
        """Series of a plan with overdue outcomes, and how many; the most first."""
        found = [(series, self.overdue(plan, now, series)) for series in list(self._open.get(plan, {}))]
        return tuple(sorted((x for x in found if x[1]), key=lambda x: (-x[1], x[0])))

    def _wait(self, plan: Plan, due: Due) -> None:
        known = self._open[plan.name].setdefault(due.series, {})
        for place, when in due.steps.items():
            known.setdefault(place, when)
        while len(known) > _OPEN * len(due.steps):
            del known[next(iter(known))]

    def _arrived(self, plan: str, due: Due, step: int) -> None:
        known = self._open.get(plan, {}).get(due.series, {})
        for place in due.steps:
            if place[1] == step:
                known.pop(place, None)


def _recent(log: AuditReader, plan: Plan, most: int) -> list[_Told]:
    """The last decisions of a file, and the outcomes since the first of them, in order; all outcomes where all
    decisions are there, because they may be about the file before. Read in pages, so that no record is kept."""
    out, first = list[_Told](), 0
    for row in _newest(log, plan, "decision"):
        if len(out) == most:
            first = out[-1].seq
            break
        if (due := _due(plan, row.record)) is not None:
            out.append(_Told(row.seq, row.id, due, 0))
    for row in _newest(log, plan, "outcome"):
        if row.seq < first:
            break
        out.append(_Told(row.seq, str(row.record["decision"]), None, int(row.record["step"])))
    return sorted(out, key=lambda one: one.seq)


def _newest(log: AuditReader, plan: Plan, kind: str) -> Iterator[Row]:
    before: int | None = None
    while True:
        rows = log.list(plan=plan.name, kind=kind, newest_first=True, limit=_PAGE, before=before)
        yield from rows
        if len(rows) < _PAGE:
            return
        before = rows[-1].seq
