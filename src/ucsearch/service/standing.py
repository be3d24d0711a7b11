"""What decisions depend on besides their request: pauses, monitors, missing outcomes. All follows from the log."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ucsearch.dispatch.gate import Calibration
from ucsearch.monitor.journal import Journal, settings_content
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Row
from ucsearch.records.reader import AuditReader
from ucsearch.service.plans import Plan

__all__ = ["Pause", "Standing", "due_at", "pause_of"]

_LOOK_BACK = 10_000  # decisions of a plan in which missing outcomes are looked for at a start
_PAGE = 500
_FILES_BACK = 2  # earlier files in which they are looked for
_OPEN = 100  # decisions of a series that wait for their outcome


class Pause(NamedTuple):
    """The control entry that stands for a plan."""

    seq: int
    who: str
    why: str
    at: str
    until: str  # "" until somebody resumes

    def holds(self, now: datetime) -> bool:
        return not self.until or now < datetime.fromisoformat(self.until)


def pause_of(reader: AuditReader, plan: str) -> Pause | None:
    """The pause that the log's newest control entry of a plan says; None when it says resume, or there is none."""
    rows = reader.list(plan=plan, kind="control", newest_first=True, limit=1)
    if not rows or (record := rows[0].record)["action"] != "pause":
        return None
    return Pause(rows[0].seq, record["who"], record["why"], record["at"], record.get("until", ""))


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
            length = plan.table.valid_for_s if math.isnan(plan.period_s) else plan.period_s
            return moment + timedelta(seconds=step * length + table.grace_s)
        except (ValueError, OverflowError):  # no time, or one near the end of the calendar: the next one says it
            continue
    return None


class Standing:
    """Kept by the deciding thread; `rebuild` makes it again from the log."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self._plans = plans
        self.pauses: dict[str, Pause | None] = {}
        self.journal = Journal()
        self.earlier: Callable[[], list[AuditReader]] = list  # files of the log before the one that is written to
        self._open: dict[str, dict[str, dict[str, datetime]]] = {}  # plan, series, decision: when its outcome is due

    def rebuild(self, log: AuditReader) -> None:
        self.pauses = {name: pause_of(log, name) for name in self._plans}
        watched = [plan for plan in self._plans.values() if plan.watching is not None]
        self.journal = journal_of(log)
        self._open = {plan.name: {} for plan in watched}
        older = self.earlier()[:_FILES_BACK] if watched else []
        files = [*reversed(older), log]
        for plan in watched:
            for file in files:
                for name, series, due in reversed(_recent(file, plan)):
                    self._wait(plan.name, name, series, due)
            for file in files:
                for row in file.list(plan=plan.name, kind="outcome", newest_first=True, limit=_LOOK_BACK):
                    self.arrived(plan.name, row.record)
        for file in older:
            file.close()

    def unarmed(self, log: AuditReader) -> list[tuple[Plan, dict[str, Any]]]:
        """Plans whose monitor has no settings in the log yet, or others; with what must be written."""
        out = []
        for plan in self._plans.values():
            if plan.watching is None:
                continue
            wanted = settings_content(plan.watching, plan.settings.period)
            rows = log.list(plan=plan.name, kind="monitor", newest_first=True, limit=100_000)
            last = next((r.record["settings"] for r in rows if r.record["event"] in ("armed", "carried")), None)
            if last != wanted:
                out.append((plan, wanted))
        return out

    def arm(self, log: AuditLog, now: datetime) -> None:
        """Settings of the monitors are entries too: whoever has the log can derive what they did."""
        for plan, settings in self.unarmed(log):
            record = {
                "schema": "ucsearch.monitor/1", "kind": "monitor", "plan": plan.name, "series": "", "event": "armed",
                "evidence": 0.0, "count": 0, "about": "", "at": now.isoformat(), "by": "service",
                "why": "as service.toml says", "settings": settings,
            }  # fmt: skip
            log.append(record)
            self.journal.add(record)

    def follow(self, log: AuditReader, record: Mapping[str, Any]) -> None:
        """After something was recorded by a person."""
        if record["kind"] == "control":
            self.pauses[record["plan"]] = pause_of(log, record["plan"])
        elif record["kind"] == "monitor":
            self.journal.add(record)

    def paused(self, plan: Plan, now: datetime) -> bool:
        found = self.pauses.get(plan.name)
        return found is not None and found.holds(now)

    def calibrations(self, plan: Plan, series: Sequence[str], now: datetime) -> Mapping[str, Calibration]:
        own = plan.settings.calibration
        if plan.watching is None:
            return {}
        return {
            name: Calibration(
                eps_c=own.eps_c, undercoverage=own.undercoverage, drift=self.journal.drift(plan.name, name),
                overdue=float(self.overdue(plan.name, now, name)),
            )
            for name in series
        }  # fmt: skip

    # Outcomes that are waited for

    def waits(self, plan: Plan, seq: int, record: Mapping[str, Any]) -> None:
        due = due_at(plan, record)
        if due is not None:
            self._wait(plan.name, record["id"], record["series"], due)

    def _wait(self, plan: str, name: str, series: str, due: datetime) -> None:
        known = self._open[plan].setdefault(series, {})
        # Decisions of one period wait for one outcome.
        for other in [s for s, when in known.items() if when == due]:
            del known[other]
        known[name] = due
        while len(known) > _OPEN:
            del known[next(iter(known))]

    def arrived(self, plan: str, outcome: Mapping[str, Any]) -> None:
        known = self._open.get(plan, {}).get(outcome["series"])
        if known is not None and outcome["step"] == 1:
            due = known.pop(outcome["decision"], None)
            for other in [s for s, when in known.items() if when == due]:
                del known[other]

    def overdue(self, plan: str, now: datetime, series: str | None = None) -> int:
        found = self._open.get(plan, {})
        chosen: Iterable[dict[str, datetime]] = found.values() if series is None else (found.get(series, {}),)
        return sum(when < now for known in list(chosen) for when in list(known.values()))

    def starved(self, plan: str, now: datetime) -> tuple[tuple[str, int], ...]:
        """Series of a plan whose outcomes were not reported in time, and how many; the most first."""
        found = [
            (series, sum(when < now for when in list(known.values())))
            for series, known in list(self._open.get(plan, {}).items())
        ]
        return tuple(sorted((x for x in found if x[1]), key=lambda x: (-x[1], x[0])))


def journal_of(log: AuditReader) -> Journal:
    """The monitors as the log says, also of plans that are not watched any more: what follows from their outcomes is
    recorded all the same, as everybody who has the log derives it."""
    journal = Journal()
    if not log.list(kind="monitor", limit=1):
        return journal
    for row in events(log):
        journal.add(row.record)
    return journal


def events(log: AuditReader) -> Iterator[Row]:
    """Outcome and monitor entries, in order, a few at a time."""
    return heapq.merge(log.iterate("outcome"), log.iterate("monitor"), key=lambda row: row.seq)


def _recent(log: AuditReader, plan: Plan) -> list[tuple[str, str, datetime]]:
    """Id, series and due time of the last decisions, newest first; read in pages, so that none is kept."""
    out: list[tuple[str, str, datetime]] = []
    before: int | None = None
    for _ in range(_LOOK_BACK // _PAGE):
        rows = log.list(plan=plan.name, kind="decision", newest_first=True, limit=_PAGE, before=before)
        for row in rows:
            record = row.record
            if (due := due_at(plan, record)) is not None:
                out.append((row.id, record["series"], due))
        if len(rows) < _PAGE:
            break
        before = rows[-1].seq
    return out
