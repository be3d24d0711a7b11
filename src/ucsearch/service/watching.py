"""How the monitors stand, for endpoints and console. The deciding thread owns them; it is asked between two batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ucsearch.monitor import Monitor
from ucsearch.monitor.fold import POOL, Settings, Status
from ucsearch.monitor.journal import Watched, period_key
from ucsearch.records.canonical import encode_number
from ucsearch.records.reader import AuditReader
from ucsearch.service.core import Service
from ucsearch.service.problems import Refusal
from ucsearch.service.reads import Figure
from ucsearch.service.realised import RealisedView
from ucsearch.service.standing import Standing

__all__ = ["EventView", "MonitorView", "StreamView", "curve", "ends", "monitor", "monitors", "stream"]

_SHOWN = 500  # streams of one answer


@dataclass(frozen=True)
class StreamView:
    """One series, or all together."""

    series: str  # "" for the pool
    state: str  # armed or tripped
    evidence: Figure
    limit: float
    about: str  # what carries the evidence
    outcomes: int  # since it was armed


@dataclass(frozen=True)
class EventView:
    seq: int
    at: str
    series: str
    event: str
    evidence: Figure
    about: str
    by: str  # "" where it followed from the outcomes
    why: str


@dataclass(frozen=True)
class MonitorView:
    """The monitor of a plan."""

    plan: str
    state: str  # off, armed, tripped (the pool), or partly (some series)
    pool: StreamView | None
    tripped: int  # series
    streams: tuple[StreamView, ...]  # by evidence
    coverage: float | None  # of the last outcomes, of a range that should hold 0.9
    histogram: tuple[int, ...]  # the same, by tenth of their rank
    overdue: int
    events: tuple[EventView, ...]  # newest first
    realised: RealisedView | None = None  # what followed decisions were worth; None where nothing was asked


async def monitors(service: Service, worths: bool = True) -> tuple[MonitorView, ...]:
    """One for each plan; without `worths` nobody asks what decisions were worth."""
    return tuple([await monitor(service, name, worths) for name in service.plans])


async def monitor(service: Service, plan: str, worths: bool = True) -> MonitorView:
    found = service.plan(plan)
    worth = await service.read(service.realised.look, found.name) if worths else None
    if found.watching is None:
        return MonitorView(plan, "off", None, 0, (), None, (), 0, (), worth)
    events = await service.read(events_of, found.name)
    return dataclasses.replace(view(service.standing, found.name, service.clock(), events), realised=worth)


def view(standing: Standing, plan: str, now: datetime, events: tuple[EventView, ...]) -> MonitorView:
    """As the service knows it now; a snapshot, taken without stopping the deciding thread."""
    watched = standing.journal.plans.get(plan)
    if watched is None:
        return MonitorView(plan, "off", None, 0, (), None, (), 0, events)
    pool, *rest = watched.monitor.statuses()
    tripped = sum(s.tripped for s in rest)
    limit = watched.monitor.settings.limit
    return MonitorView(
        plan, "tripped" if pool.tripped else "partly" if tripped else "armed", _stream(pool, limit), tripped,
        tuple(_stream(s, limit) for s in rest[:_SHOWN]), watched.coverage, watched.histogram(),
        standing.overdue(plan, now), events,
    )  # fmt: skip


async def stream(service: Service, plan: str, series: str) -> StreamView:
    watched = _watched(service, service.plan(plan).name)
    if watched is None:
        raise Refusal("not_found", "the plan has no monitor")
    status = watched.monitor.status(series)
    if series != POOL and not status.outcomes and not status.tripped:  # a misspelt name would look like a good one
        await service.read_one(_check_known, series, plan)
    return _stream(status, watched.monitor.settings.limit)


def _check_known(reader: AuditReader, series: str, plan: str) -> None:
    if reader.newest(series, plan) is None:
        raise Refusal("not_found", "there is no decision of this series")


def pool_tripped(service: Service, plan: str) -> bool:
    """Whether nothing of a plan is released because all its series together have tripped."""
    watched = _watched(service, plan)
    return watched is not None and watched.monitor.status().tripped


def plain_stream(service: Service, plan: str, series: str) -> dict[str, Any] | None:
    """A stream as JSON-able content; None where nothing is watched."""
    watched = _watched(service, plan)
    if watched is None:
        return None
    return asdict(_stream(watched.monitor.status(series), watched.monitor.settings.limit))


def _watched(service: Service, plan: str) -> Watched | None:
    """None for a plan whose monitor was taken out of service.toml, though the log still knows it."""
    found = service.plans.get(plan)
    return None if found is None or found.watching is None else service.standing.journal.plans.get(plan)


def _stream(status: Status, limit: float) -> StreamView:
    return StreamView(
        status.series, "tripped" if status.tripped else "armed", encode_number(status.evidence), limit, status.about,
        status.outcomes,
    )  # fmt: skip


def events_of(reader: AuditReader, plan: str, limit: int = 100) -> tuple[EventView, ...]:
    rows = reader.list(plan=plan, kind="monitor", newest_first=True, limit=limit)
    return tuple(
        EventView(row.seq, r["at"], r["series"], r["event"], r["evidence"], r["about"], r["by"], r["why"])
        for row, r in ((row, row.record) for row in rows)
    )


def curve(standing: Standing, plan: str, series: str = POOL) -> tuple[tuple[float, float], ...]:
    """(number of the outcome, evidence) of one stream, for a picture. From memory: a replay took as long as the log."""
    watched = standing.journal.plans.get(plan)
    return () if watched is None else watched.monitor.curve(series)


def ends(reader: AuditReader, plan: str, series: str = POOL) -> tuple[str, str]:
    """When the first and the last outcome of a stream, as far as this file knows, were observed."""
    found = [
        reader.list(plan=plan, series=series or None, kind="outcome", newest_first=newest, limit=1)
        for newest in (False, True)
    ]
    first, last = (str(rows[0].record["observed_at"]) if rows else "" for rows in found)
    return first, last


def replay(ranks: Sequence[tuple[str, str, float, float]], settings: Settings, period: str) -> Monitor:
    """The monitor over a history of (observed_at, series, low, high), in order."""
    watched = Watched(Monitor(settings), period)
    for observed_at, series, low, high in ranks:
        watched.take(series, low, high, period_key(observed_at, period))
    return watched.monitor
