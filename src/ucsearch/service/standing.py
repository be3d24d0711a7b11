"""What decisions depend on besides their request: pauses, and the monitors. All of it follows from the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ucsearch.dispatch.gate import Calibration
from ucsearch.records.reader import AuditReader
from ucsearch.service.plans import Plan

__all__ = ["Pause", "Standing"]


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

    def rebuild(self, log: AuditReader) -> None:
        self.pauses = {name: pause_of(log, name) for name in self._plans}

    def paused(self, plan: Plan, now: datetime) -> bool:
        found = self.pauses.get(plan.name)
        return found is not None and found.holds(now)

    def calibrations(self, plan: Plan, series: Sequence[str], now: datetime) -> Mapping[str, Calibration]:
        if plan.watching is None:
            return {}
        return {name: Calibration(drift=math.nan) for name in series}
