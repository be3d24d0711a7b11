"""What waits for the writer, what it works with, and what it tells others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ucsearch.dispatch.gate import Calibration
from ucsearch.records.audit import AuditLog
from ucsearch.records.requests import Request
from ucsearch.records.writer import Body
from ucsearch.service.plans import Plan

__all__ = ["Call", "Desk", "Job", "Meter", "Standings"]


class Standings(Protocol):
    """What decisions depend on besides their request; changed by calls, read by batches, in one thread."""

    def calibrations(self, plan: Plan, series: Sequence[str], now: datetime) -> Mapping[str, Calibration]: ...

    def paused(self, plan: Plan, now: datetime) -> bool: ...

    def rebuild(self, log: AuditLog) -> None:
        """From the log alone."""

    def waits(self, plan: Plan, seq: int, record: Mapping[str, Any]) -> None:
        """A decision was recorded whose outcome is to come."""

    def arm(self, log: AuditLog, now: datetime) -> None:
        """Write what the monitors watch by, where the log does not say it."""


class Meter(Protocol):
    """Where figures go."""

    def decided(self, plan: str, bodies: Sequence[Body]) -> None: ...

    def batch(self, items: int, queue_s: float, decide_s: float) -> None: ...

    def committed(self, seconds: float, seq: int) -> None: ...


@dataclass(eq=False)
class Job:
    """One request to decide."""

    plan: Plan
    rows: Sequence[Mapping[str, Any]]
    request: Request  # of its first item
    future: Future[bytes] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def items(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class Call:
    """Something that runs alone."""

    run: Callable[[Desk], Any]
    items: int = 1
    future: Future[Any] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Desk(NamedTuple):
    """What a call works with."""

    log: AuditLog
    now: datetime
