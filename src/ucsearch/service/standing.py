"""What decisions depend on besides their request: pauses, monitors, missing outcomes. All follows from the log."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.dispatch.gate import Calibration
from ucsearch.monitor.journal import Journal, settings_content
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Row
from ucsearch.records.reader import AuditReader
from ucsearch.service.awaited import Awaited
from ucsearch.service.plans import Plan

__all__ = ["Pause", "Standing", "pause_of"]

_FILES_BACK = 2  # earlier files in which missing outcomes are looked for at a start


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


class Standing:
    """Kept by the deciding thread; `rebuild` makes it again from the log."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self._plans = plans
        self.pauses: dict[str, Pause | None] = {}
        self.journal = Journal()
        self.earlier: Callable[[], list[AuditReader]] = list  # files of the log before the one that is written to
        self._awaited = Awaited()

    def rebuild(self, log: AuditReader) -> None:
        self.pauses = {name: pause_of(log, name) for name in self._plans}
        watched = [plan for plan in self._plans.values() if plan.watching is not None]
        self.journal = journal_of(log)
        older = self.earlier()[:_FILES_BACK] if watched else []
        self._awaited.rebuild(watched, [log, *older])
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
        self._awaited.waits(plan, record)

    def arrived(self, decision: Mapping[str, Any], step: int) -> None:
        """An outcome of a decision was reported."""
        plan = self._plans.get(str(decision.get("plan", "")))
        if plan is not None and plan.watching is not None:
            self._awaited.arrived(plan, decision, step)

    def overdue(self, plan: str, now: datetime, series: str | None = None) -> int:
        return self._awaited.overdue(plan, now, series)

    def starved(self, plan: str, now: datetime) -> tuple[tuple[str, int], ...]:
        """Series of a plan whose outcomes were not reported in time, and how many; the most first."""
        return self._awaited.starved(plan, now)


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
