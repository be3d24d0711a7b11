"""What endpoints and console show of monitors, and what decisions that were followed were worth."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ucsearch.engine.plain.window import mean_and_spread
from ucsearch.errors import UCSearchError
from ucsearch.monitor.bets import ADVICE
from ucsearch.monitor.fold import POOL, Settings, Status
from ucsearch.monitor.journal import WatchedPlan
from ucsearch.policies import MODES
from ucsearch.records.canonical import decode_array, decode_number, encode_number
from ucsearch.records.entries import NoEntry, Row
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import recorded_action, recorded_inputs
from ucsearch.rules.answers import as_number
from ucsearch.service.errors import ApiProblem
from ucsearch.service.schemas import EventView, MonitorView, RealisedView, StreamView
from ucsearch.service.tokens import Scope
from ucsearch.task import Task

if TYPE_CHECKING:
    from ucsearch.service.service import Service

__all__ = [
    "DecisionWorth",
    "Realised",
    "curve",
    "ends",
    "monitor",
    "monitors",
    "pool_tripped",
    "stream",
    "stream_of",
    "trips_of",
    "worth",
]

_WHOLE = Scope()
RECENT = 500  # outcomes that count, as for coverage
_LEVEL = 0.95
_CLOSE = 1e-9

TaskOf = Callable[[Mapping[str, Any]], Task | None]


class DecisionWorth(NamedTuple):
    """One followed decision, in units of reward."""

    realised: float
    expected: float
    spread: float
    risk: float  # the policy's price of spread

    @property
    def excess(self) -> float:
        return max(0.0, abs(self.expected - self.realised) - self.risk * self.spread)


def worth(record: Mapping[str, Any], task: Task, value: Any, blob: Callable[[str], bytes]) -> DecisionWorth | None:
    """Of a recorded decision whose first outcome was `value`; None where the record does not say, or where what it
    says of its first step does not follow from it."""
    if record.get("kind") != "decision" or record["settings"]["mode"] == MODES["scores"]:
        return None
    action = record["outcome"]["action"]
    rival = next((r for r in record["rivals"] if r["action"] == action), None)
    if action is None or rival is None or rival["step_score"] is None:
        return None
    try:
        inputs = recorded_inputs(record, task)
        trace, settings, a = record["inputs"]["trace"], record["settings"], recorded_action(action)
        members, weights, mean = (decode_array(blob(trace[n]["$blob"]))[0] for n in ("members", "weights", "mean"))
        values = value if isinstance(value, list) else [value]
        if len(values) != task.fields or not len(members):
            return None

        def reward(y: Any) -> float:
            outcome = y[0] if task.outcome is None else task.outcome(*y)
            return as_number(task.reward_at(inputs.state, a, outcome, 0, inputs.params))

        rewards = [reward(path[0].tolist()) for path in members]
        mean_reward, spread = mean_and_spread(rewards, weights.tolist(), settings["spread"], settings["tail"])
        expected = reward(mean[0].tolist()) if settings["mode"] == MODES["mean"] else mean_reward
        claimed = float(decode_number(rival["step_score"]))
        if not abs(expected - settings["risk"] * spread - claimed) <= _CLOSE * max(1.0, abs(claimed), abs(expected)):
            return None
        return DecisionWorth(reward([float(x) for x in values]), expected, spread, float(settings["risk"]))
    except (UCSearchError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
        return None


class Realised:
    """The last worths by plan. Every look reads only the outcomes that are new."""

    def __init__(self, task_of: TaskOf) -> None:
        self._task_of, self._lock = task_of, threading.Lock()
        self._looked_to: dict[str, int] = {}  # newest outcome that was looked at, by plan
        self._worths: dict[str, deque[DecisionWorth]] = {}

    def look(self, reader: AuditReader, plan: str) -> RealisedView:
        with self._lock:
            last_seen = self._looked_to.get(plan, 0)
            rows = reader.list(plan=plan, kind="outcome", newest_first=True, limit=RECENT)
            worths = self._worths.setdefault(plan, deque(maxlen=RECENT))
            for row in reversed([row for row in rows if row.seq > last_seen]):
                if (worth := self._worth(reader, row.record)) is not None:
                    worths.append(worth)
            if rows:
                self._looked_to[plan] = rows[0].seq
            return _view(worths)

    def _worth(self, reader: AuditReader, outcome: Mapping[str, Any]) -> DecisionWorth | None:
        if outcome["step"] != 1 or "replaces" in outcome or outcome.get("taken") is None:
            return None
        try:
            row = reader.get(outcome["entry"])
        except NoEntry:  # in a file that was moved away
            return None
        if row.id != outcome["decision"] or outcome["taken"] != row.record["outcome"]["action"]:
            return None
        decision, task = row.record, self._task_of(row.record)
        return None if task is None else worth(decision, task, outcome["value"], reader.blob)


def _view(worths: deque[DecisionWorth]) -> RealisedView:
    count = len(worths)
    if not count:
        return RealisedView(0, None, None, None)
    excess = sorted(w.excess for w in worths)
    return RealisedView(
        count, math.fsum(w.realised for w in worths) / count, math.fsum(w.expected for w in worths) / count,
        excess[min(count - 1, math.ceil(_LEVEL * count) - 1)],
    )  # fmt: skip


_SHOWN = 500  # streams of one answer
_EVENTS = 10_000  # of a plan's monitor in which trips are looked for


def monitors(reader: AuditReader, service: Service, scope: Scope = _WHOLE, worths: bool = True) -> list[MonitorView]:
    """One for each plan; without `worths` nobody asks what decisions were worth."""
    return [monitor(reader, service, name, scope, worths) for name in service.plans_of(scope)]


def monitor(
    reader: AuditReader, service: Service, plan: str, scope: Scope = _WHOLE, worths: bool = True
) -> MonitorView:  # fmt: skip
    """As the service knows it now; a snapshot, taken without stopping the deciding thread."""
    named = service.plan(plan)
    realised = service.realised.look(reader, named.name) if worths else None
    watched = _watched(service, plan)
    if watched is None:
        return MonitorView(plan, "off", None, 0, (), None, (), 0, (), realised)
    tripped = watched.monitor.tripped()
    trips = trips_of(reader, plan, tripped)
    pool, *statuses = watched.monitor.statuses(_SHOWN if scope.is_whole else None)
    tripped_series = [name for name in tripped if name and scope.has(plan, name)]
    settings, states = watched.monitor.settings, service.plan_states
    streams = [_stream(s, settings, trips) for s in statuses if scope.has(plan, s.series)]
    events = tuple(e for e in events_of(reader, plan) if scope.has(plan, e.series) or not e.series)
    return MonitorView(
        plan, "tripped" if pool.tripped else "partly" if tripped_series else "armed", _stream(pool, settings, trips),
        len(tripped_series), tuple(streams[:_SHOWN]), watched.coverage, watched.histogram(),
        states.overdue(plan, service.clock()), events, realised,
    )  # fmt: skip


def stream(reader: AuditReader, service: Service, plan: str, series: str) -> StreamView:
    """One stream of a plan with a monitor."""
    view = stream_of(reader, service, service.plan(plan).name, series)
    if view is None:
        raise ApiProblem("not_found", "the plan has no monitor")
    # A misspelt name would look like a good one.
    if series != POOL and not view.outcomes and not view.since and reader.newest(series, plan) is None:
        raise ApiProblem("not_found", "there is no decision of this series")
    return view


def stream_of(reader: AuditReader, service: Service, plan: str, series: str) -> StreamView | None:
    """A stream; None where nothing is watched."""
    watched = _watched(service, plan)
    if watched is None:
        return None
    status = watched.monitor.status(series)
    trips = trips_of(reader, plan, {series}) if status.tripped else {}
    return _stream(status, watched.monitor.settings, trips)


def pool_tripped(service: Service, plan: str) -> bool:
    """Whether nothing of a plan is released because all its series together have tripped."""
    watched = _watched(service, plan)
    return watched is not None and watched.monitor.status().tripped


def _watched(service: Service, plan: str) -> WatchedPlan | None:
    """None for a plan whose monitor was taken out of service.toml, though the log still knows it."""
    named = service.plans.get(plan)
    return None if named is None or named.watching is None else service.plan_states.journal.plans.get(plan)


def trips_of(reader: AuditReader, plan: str, streams: Collection[str]) -> dict[str, Row]:
    """The entries that say that these streams have tripped, the last of each, as far as the log's files are there."""
    wanted_streams, trips = set(streams), dict[str, Row]()
    rows = reader.list(plan=plan, kind="monitor", newest_first=True, limit=_EVENTS) if wanted_streams else ()
    for row in rows:
        stream = str(row.record["series"])
        if row.record["event"] == "tripped" and stream in wanted_streams:
            wanted_streams.discard(stream)
            trips[stream] = row
            if not wanted_streams:
                break
    return trips


def _stream(status: Status, settings: Settings, trips: Mapping[str, Row]) -> StreamView:
    trip = trips.get(status.series)
    since = "" if not status.tripped else "an earlier file of the log" if trip is None else trip.record["at"]
    return StreamView(
        status.series, "tripped" if status.tripped else "armed", encode_number(status.evidence), settings.limit,
        status.about, status.outcomes, since, _next(status, settings),
    )  # fmt: skip


def _next(status: Status, settings: Settings) -> str:
    """What to do about a stream that has tripped."""
    if not status.tripped:
        return ""
    advice = ADVICE.get(status.about, "look for what has changed")
    if status.series == POOL:
        return f"{advice[0].upper()}{advice[1:]}. Then an admin arms the monitor again."
    return (
        f"{advice[0].upper()}{advice[1:]}. Override what cannot wait. It is armed again after {settings.probation} "
        "calm outcomes, or by an admin."
    )


def events_of(reader: AuditReader, plan: str, limit: int = 100) -> tuple[EventView, ...]:
    rows = reader.list(plan=plan, kind="monitor", newest_first=True, limit=limit)
    return tuple(
        EventView(row.seq, r["at"], r["series"], r["event"], r["evidence"], r["about"], r["by"], r["why"])
        for row, r in ((row, row.record) for row in rows)
    )


def curve(service: Service, plan: str, series: str = POOL) -> tuple[tuple[float, float], ...]:
    """(number of the outcome, evidence) of one stream, for a picture. From memory: a replay took as long as the log."""
    watched = _watched(service, plan)
    return () if watched is None else watched.monitor.curve(series)


def ends(reader: AuditReader, plan: str, series: str = POOL) -> tuple[str, str]:
    """When the first and the last outcome of a stream, as far as this file knows, were observed."""
    first_and_last = [
        reader.list(plan=plan, series=series or None, kind="outcome", newest_first=newest, limit=1)
        for newest in (False, True)
    ]
    first, last = (str(rows[0].record["observed_at"]) if rows else "" for rows in first_and_last)
    return first, last
