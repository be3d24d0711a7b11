"""What decisions depend on besides their request: pauses, monitors, missing outcomes. All follows from the log."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from ucsearch.decision.gate import Calibration
from ucsearch.monitor.journal import Journal, period_key, settings_content
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.service.writer.plans import ServicePlan

__all__ = ["AwaitedOutcomes", "Pause", "PlanStates", "due_at", "pause_of"]

_LOOK_BACK = 10_000  # decisions of a plan in which missing outcomes are looked for at a start
_PAGE = 500
_OPEN = 100  # periods of a series that wait for their outcomes

Place = tuple[int, int]  # period and step


class Due(NamedTuple):
    """When outcomes of a decision should have been reported."""

    series: str
    steps: Mapping[Place, datetime]


class _Logged(NamedTuple):
    """A decision that waits, or an outcome of one."""

    seq: int
    decision: str
    due: Due | None
    step: int


def due_at(plan: ServicePlan, record: Mapping[str, Any], step: int = 1) -> datetime | None:
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


def _length(plan: ServicePlan) -> float:
    return plan.table.valid_for_s if math.isnan(plan.period_s) else plan.period_s


def _due(plan: ServicePlan, record: Mapping[str, Any]) -> Due | None:
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


class AwaitedOutcomes:
    """Of all plans; kept by the deciding thread."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, dict[Place, datetime]]] = {}  # plan, series

    def rebuild(self, plans: Iterable[ServicePlan], log: AuditReader) -> None:
        """From the log's last decisions: told in their order, it comes to what it was."""
        self._open = {plan.name: {} for plan in plans}
        for plan in plans:
            dues: dict[str, Due] = {}
            for entry in _recent_entries(log, plan, _LOOK_BACK):
                if entry.due is not None:
                    dues[entry.decision] = entry.due
                    self._expect(plan, entry.due)
                elif entry.decision in dues:
                    self._remove(plan.name, dues[entry.decision], entry.step)

    def expect(self, plan: ServicePlan, record: Mapping[str, Any]) -> None:
        """A decision was recorded."""
        if (due := _due(plan, record)) is not None:
            self._expect(plan, due)

    def note_outcome(self, plan: ServicePlan, decision: Mapping[str, Any], step: int) -> None:
        """An outcome of it was reported."""
        if (due := _due(plan, decision)) is not None:
            self._remove(plan.name, due, step)

    def overdue(self, plan: str, now: datetime, series: str | None = None) -> int:
        by_series = self._open.get(plan, {})
        chosen: Iterable[dict[Place, datetime]] = by_series.values() if series is None else (by_series.get(series, {}),)
        return sum(when < now for dues in list(chosen) for when in list(dues.values()))

    def overdue_since(self, plan: str, now: datetime) -> str:
        times = [when for dues in list(self._open.get(plan, {}).values()) for when in list(dues.values())]
        overdue = [when for when in times if when < now]
        return min(overdue).isoformat() if overdue else ""

    def overdue_series(self, plan: str, now: datetime) -> tuple[tuple[str, int], ...]:
        """Series of a plan with overdue outcomes, and how many; the most first."""
        counts = [(series, self.overdue(plan, now, series)) for series in list(self._open.get(plan, {}))]
        return tuple(sorted((x for x in counts if x[1]), key=lambda x: (-x[1], x[0])))

    def _expect(self, plan: ServicePlan, due: Due) -> None:
        dues = self._open[plan.name].setdefault(due.series, {})
        for place, when in due.steps.items():
            dues.setdefault(place, when)
        while len(dues) > _OPEN * len(due.steps):
            del dues[next(iter(dues))]

    def _remove(self, plan: str, due: Due, step: int) -> None:
        dues = self._open.get(plan, {}).get(due.series, {})
        for place in due.steps:
            if place[1] == step:
                dues.pop(place, None)


def _recent_entries(log: AuditReader, plan: ServicePlan, most: int) -> list[_Logged]:
    """The last decisions of a plan, and the outcomes since the first of them, in order. Read in pages, so that no
    record is kept."""
    out, first = list[_Logged](), 0
    for row in _newest(log, plan, "decision"):
        if len(out) == most:
            first = out[-1].seq
            break
        if (due := _due(plan, row.record)) is not None:
            out.append(_Logged(row.seq, row.id, due, 0))
    for row in _newest(log, plan, "outcome"):
        if row.seq < first:
            break
        out.append(_Logged(row.seq, str(row.record["decision"]), None, int(row.record["step"])))
    return sorted(out, key=lambda entry: entry.seq)


def _newest(log: AuditReader, plan: ServicePlan, kind: str) -> Iterator[Row]:
    before: int | None = None
    while True:
        rows = log.list(plan=plan.name, kind=kind, newest_first=True, limit=_PAGE, before=before)
        yield from rows
        if len(rows) < _PAGE:
            return
        before = rows[-1].seq


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


class PlanStates:
    """Kept by the deciding thread; `rebuild` makes it again from the log."""

    def __init__(self, plans: Mapping[str, ServicePlan]) -> None:
        self._plans = plans
        self.pauses: dict[str, Pause | None] = {}
        self.journal = Journal()
        self._awaited = AwaitedOutcomes()

    def rebuild(self, log: AuditReader) -> None:
        self.pauses = {name: pause_of(log, name) for name in self._plans}
        watched = [plan for plan in self._plans.values() if plan.watching is not None]
        self.journal = journal_of(log)
        self._awaited.rebuild(watched, log)

    def plans_to_arm(self, log: AuditReader) -> list[tuple[ServicePlan, dict[str, Any]]]:
        """Plans whose monitor has no settings in the log yet, or others; with what must be written."""
        out = []
        for plan in self._plans.values():
            if plan.watching is None:
                continue
            current = settings_content(plan.watching, plan.settings.period)
            rows = log.list(plan=plan.name, kind="monitor", newest_first=True, limit=100_000)
            last = next((r.record["settings"] for r in rows if r.record["event"] in ("armed", "carried")), None)
            if last != current:
                out.append((plan, current))
        return out

    def arm(self, log: AuditLog, now: datetime) -> None:
        """Settings of the monitors are entries too: whoever has the log can derive what they did."""
        for plan, settings in self.plans_to_arm(log):
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

    def paused(self, plan: ServicePlan, now: datetime) -> bool:
        pause = self.pauses.get(plan.name)
        return pause is not None and pause.holds(now)

    def calibrations(self, plan: ServicePlan, series: Sequence[str], now: datetime) -> Mapping[str, Calibration]:
        measured = plan.settings.calibration
        if plan.watching is None:
            return {}
        return {
            name: Calibration(
                eps_c=measured.eps_c, undercoverage=measured.undercoverage, drift=self.journal.drift(plan.name, name),
                overdue=float(self.overdue(plan.name, now, name)),
            )
            for name in series
        }  # fmt: skip

    # Outcomes that are waited for

    def expect(self, plan: ServicePlan, record: Mapping[str, Any]) -> None:
        self._awaited.expect(plan, record)

    def note_outcome(self, decision: Mapping[str, Any], step: int) -> None:
        """An outcome of a decision was reported."""
        plan = self._plans.get(str(decision.get("plan", "")))
        if plan is not None and plan.watching is not None:
            self._awaited.note_outcome(plan, decision, step)

    def overdue(self, plan: str, now: datetime, series: str | None = None) -> int:
        return self._awaited.overdue(plan, now, series)

    def overdue_since(self, plan: str, now: datetime) -> str:
        """When the first outcome of a plan that is missing was due; "" where none is."""
        return self._awaited.overdue_since(plan, now)

    def overdue_series(self, plan: str, now: datetime) -> tuple[tuple[str, int], ...]:
        """Series of a plan whose outcomes were not reported in time, and how many; the most first."""
        return self._awaited.overdue_series(plan, now)


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
