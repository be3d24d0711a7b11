"""`ucsearch monitor`: recorded forecasts against what came, and when releasing should have stopped.

A forecast meets its outcome by the decision's id, by date (one period after the forecast's cutoff), or, where forecasts
name no cutoff, by count (the n-th outcome of a series belongs to its n-th decision). The first decision of a series and
cutoff counts, and the first report of an outcome: nobody can choose among them afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import InputError, RecordError
from ucsearch.monitor import Monitor, Settings, Status, rank_of
from ucsearch.monitor.bets import LEAST_MEMBERS
from ucsearch.monitor.journal import settings_of
from ucsearch.pipeline.numbers import parse_dates
from ucsearch.pipeline.outcomes import Outcomes, read_outcomes, wall_clock
from ucsearch.pipeline.periods import later
from ucsearch.pipeline.watch_segments import Forecast, entry_forecast, segment_forecasts, segment_of
from ucsearch.records.canonical import decode_number
from ucsearch.records.reader import AuditReader
from ucsearch.records.rotation import files_of

__all__ = ["COVERED", "Event", "Seen", "StreamReport", "WatchReport", "run_watch", "settings_in", "watch"]

COVERED = 0.9  # the share that the range people look at should hold
RECENT = 500  # outcomes that "lately" means
TENTHS = 10  # bars of the histogram of ranks
_POOL = ""


class Seen(NamedTuple):
    """Where one outcome fell among the members of its forecast."""

    place: Any  # orders periods: the forecast's cutoff, or the number of the decision within its series
    when: str  # of the outcome, for people
    series: str
    low: float
    high: float

    @property
    def missed(self) -> bool:
        """Outside the range that should hold 90 % of outcomes."""
        tail = 0.5 * (1.0 - COVERED)
        return not tail <= 0.5 * (self.low + self.high) <= 1.0 - tail


class Event(NamedTuple):
    """A stream tripped, or was armed again."""

    series: str  # "" for all together
    event: str  # "tripped" or "rearmed"
    when: str
    outcomes: int  # of the stream until then
    evidence: float
    about: str


class StreamReport(NamedTuple):
    """One series, or all together."""

    series: str  # "" for all together
    status: Status
    since: str  # when it tripped, "" while it is armed
    outcomes: int
    missed: float  # share outside the 90 % range, all outcomes
    missed_lately: float  # of the last 500
    blocked: int  # outcomes that came while the series' own stream was tripped
    missed_blocked: float  # share of those outside the range; NaN if there are none
    missed_free: float  # share of the others
    curve: tuple[tuple[str, float], ...]  # (when, evidence) after each outcome
    members: int  # fewest members of its forecasts; 0 where it is not known


@dataclass(frozen=True, eq=False)
class WatchReport:
    """What the monitor says about a log."""

    settings: Settings
    pool: StreamReport
    series: tuple[StreamReport, ...]  # by need: tripped ones first, then by evidence
    events: tuple[Event, ...]
    first: str
    last: str
    notes: tuple[str, ...]  # what could not be used, and what to know
    ranks: tuple[int, ...]  # outcomes by tenth of their rank, all series

    @property
    def tripped(self) -> tuple[StreamReport, ...]:
        return tuple(s for s in (self.pool, *self.series) if s.status.tripped)

    @property
    def outcomes(self) -> int:
        return sum(s.outcomes for s in self.series)


def run_watch(
    log: str | Path, outcomes: str | Path | None = None, *, settings: Settings | None = None, period: str = "any",
    plan: str | None = None,
) -> WatchReport:  # fmt: skip
    """Replay the monitor over a log, all its files where it was rotated, with outcomes from a file, from the log
    itself, or both; of one plan where a service wrote several. Without `settings` it is watched as the log says."""
    files = files_of(log)
    wanted = (settings_in(files, plan) or Settings()) if settings is None else settings
    given = None if outcomes is None else read_outcomes(outcomes, period)
    found = _Matched(wanted.lags)
    plans: set[str] = set()
    with ExitStack() as stack:
        readers = [stack.enter_context(AuditReader(file)) for file in files]
        reported = _logged(readers)
        if given is None and not reported:
            raise InputError(
                "--outcomes", "nothing", "a file, because the log holds no outcomes", hint="See docs/monitor.md."
            )
        for file, reader, row in ((f, r, row) for f, r in zip(files, readers, strict=True) for row in r):
            record = row.record
            if record.get("kind") == "decision" and plan in (None, record.get("plan", "")):
                plans.add(str(record.get("plan", "")))
                if len(plans) > 1:
                    names = ", ".join(sorted(plans))
                    raise InputError("--plan", "nothing", f"one plan of this log, such as {names}")
                try:
                    found.add(entry_forecast(reader, row.id, record), given, reported.get(row.id, {}))
                except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
                    if isinstance(error, InputError):
                        raise
                    words = f"entry {row.seq} of {file} is no decision this version can read ({error!r})"
                    raise RecordError(words) from error
            elif plan is None and (sealed := segment_of(record, row)) is not None:
                for forecast in segment_forecasts(file, sealed):
                    found.add(forecast, given, reported.get(forecast.id, {}))
    notes = found.notes(given)
    return watch(found.seen, wanted, notes=notes, members=found.members)


def watch(
    seen: Sequence[Seen], settings: Settings | None = None, *, notes: Sequence[str] = (),
    members: dict[str, int] | None = None,
) -> WatchReport:  # fmt: skip
    """Replay ranks in the order of their periods."""
    monitor = Monitor(Settings() if settings is None else settings)
    if not seen:
        raise InputError("outcomes", "none that belongs to a decision", "at least one", hint=" ".join(notes))
    ordered = sorted(seen, key=lambda s: (s.place, s.series))
    kept: dict[str, list[tuple[Seen, bool]]] = {}  # with whether its own stream was tripped when it came
    curves: dict[str, list[tuple[str, float]]] = {_POOL: []}
    events: list[Event] = []
    for _, group in groupby(ordered, key=lambda s: s.place):
        rows = list(group)
        when = max(row.when for row in rows)
        for row in rows:
            kept.setdefault(row.series, []).append((row, monitor.status(row.series).tripped))
        for trip in monitor.period((row.series, row.low, row.high) for row in rows):
            events.append(Event(trip.series, trip.event, when, trip.outcomes, trip.evidence, trip.about))
        curves[_POOL].append((when, monitor.status().evidence))
        for row in rows:
            curves.setdefault(row.series, []).append((row.when, monitor.status(row.series).evidence))
    since = {e.series: e.when if e.event == "tripped" else "" for e in events}
    fewest = {} if members is None else members
    every = sorted((pair for pairs in kept.values() for pair in pairs), key=lambda pair: pair[0].place)
    made = [_stream(name, monitor, kept[name], curves[name], since.get(name, ""), fewest.get(name, 0)) for name in kept]
    made.sort(key=lambda s: (not s.status.tripped, -s.status.evidence, s.series))
    pool = _stream(_POOL, monitor, every, curves[_POOL], since.get(_POOL, ""), min(fewest.values(), default=0))
    whens = sorted({row.when for row in seen}, key=_natural)
    return WatchReport(
        monitor.settings, pool, tuple(made), tuple(events), whens[0], whens[-1], tuple(notes), _tenths(ordered)
    )


def _stream(
    name: str, monitor: Monitor, rows: list[tuple[Seen, bool]], curve: list[tuple[str, float]], since: str, members: int
) -> StreamReport:
    missed = [row.missed for row, _ in rows]
    blocked = [row.missed for row, tripped in rows if tripped]
    free = [row.missed for row, tripped in rows if not tripped]
    return StreamReport(
        name, monitor.status(name), since, len(rows), _share(missed), _share(missed[-RECENT:]), len(blocked),
        _share(blocked), _share(free), tuple(curve), members,
    )  # fmt: skip


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _tenths(rows: Sequence[Seen]) -> tuple[int, ...]:
    counts = [0] * TENTHS
    for row in rows:
        counts[min(TENTHS - 1, int(TENTHS * 0.5 * (row.low + row.high)))] += 1
    return tuple(counts)


def _natural(text: str) -> tuple[int, str]:
    """Numbers in their order, dates in theirs."""
    return (len(text), text) if text.isdigit() else (0, text)


def settings_in(files: Sequence[Path], plan: str | None = None) -> Settings | None:
    """What a service's monitor of this plan (or of the only one) watches by; None where the log's files do not say."""
    found: dict[str, Settings] = {}
    for file in files:
        with AuditReader(file) as reader:
            for row in reader.iterate("monitor"):
                record = row.record
                if record["event"] in ("armed", "carried") and plan in (None, record["plan"]):
                    found[record["plan"]] = settings_of(record["settings"])
    return next(iter(found.values())) if len(found) == 1 else None


def _logged(readers: Sequence[AuditReader]) -> dict[str, dict[int, float]]:
    """Outcomes in the log: by decision and step, the first report of each."""
    out: dict[str, dict[int, float]] = {}
    for row in (row for reader in readers for row in reader):
        record = row.record
        if record.get("kind") == "outcome":
            value = record["value"]
            first = value[0] if isinstance(value, list) else value
            out.setdefault(str(record["decision"]), {}).setdefault(int(record["step"]), float(decode_number(first)))
    return out


class _Matched:
    """Collects the ranks of decisions that have an outcome."""

    def __init__(self, lags: int) -> None:
        self.seen: list[Seen] = []
        self.members: dict[str, int] = {}
        self._lags = lags
        self._count: dict[str, int] = {}
        self._taken: set[tuple[str, Any]] = set()
        self._waiting = self._undated = self._repeated = self._short = 0

    def add(self, forecast: Forecast, given: Outcomes | None, own: dict[int, float]) -> None:
        id, series = forecast.id, forecast.series
        number = self._count[series] = self._count.get(series, 0) + 1
        cutoff = _cutoff(forecast.cutoff, "any" if given is None else given.period)
        steps = range(1, self._lags + 1)
        values = [own.get(h) for h in steps]
        when: Any = cutoff if cutoff is not None else number
        if given is not None and None in values:
            values, when = self._from_file(given, id, series, number, cutoff, when)
        if None in values:
            self._waiting += 1
            return
        place = when if given is not None and not given.dated else number if cutoff is None else cutoff
        if (series, place) in self._taken:
            self._repeated += 1
            return
        self._taken.add((series, place))
        members, weights = forecast.members()
        if members.shape[0] == 0 or members.shape[1] < self._lags:
            self._short += 1
            return
        # Exact sums on both sides, as a service has them: a path that came as it was is a tie.
        sums = [math.fsum(path) for path in members[:, : self._lags].tolist()]
        total = math.fsum(x for x in values if x is not None)
        low, high = rank_of(sums, total, weights.tolist())
        self.members[series] = min(self.members.get(series, members.shape[0]), members.shape[0])
        self.seen.append(Seen(place, _when_text(when), series, low, high))

    def _from_file(
        self, given: Outcomes, id: str, series: str, number: int, cutoff: Any, when: Any
    ) -> tuple[list[float | None], Any]:
        steps = range(1, self._lags + 1)
        if given.by_decision:
            return [given.values.get((id, h)) for h in steps], when
        if not given.dated:
            return [given.values.get((series, number + h - 1)) for h in steps], number
        if cutoff is None:
            self._undated += 1
            return [None], when
        times = [later(cutoff, h, given.period) for h in steps]
        return [given.values.get((series, t)) for t in times], times[-1]

    def notes(self, given: Outcomes | None) -> list[str]:
        out = list(given.notes) if given is not None else []
        if self._undated:
            out.append(
                f"{self._undated} decisions have forecasts without a cutoff, so outcomes by date cannot be told apart: "
                "give forecasts a column cutoff, or number outcomes by step."
            )
        if self._waiting - self._undated > 0:
            out.append(f"{self._waiting - self._undated} decisions have no outcome yet.")
        if self._short:
            out.append(f"{self._short} decisions keep too few steps of their forecast to be held against an outcome.")
        if self._repeated:
            out.append(f"{self._repeated} decisions repeat a cutoff of their series; the first of each counts.")
        coarse = sorted(name for name, count in self.members.items() if count < LEAST_MEMBERS)
        if coarse:
            fewest = min(self.members[name] for name in coarse)
            out.append(
                f"{len(coarse)} series have forecasts of fewer than {LEAST_MEMBERS} members (from {fewest}): a misfit "
                "shows late, or not at all."
            )
        return out


def _cutoff(found: str, period: str) -> Any:
    """datetime64 of the last value that the forecast saw; None where it names none."""
    if not found:
        return None
    time = parse_dates([found], "auto", wall_clock=wall_clock(period))[0]
    return None if np.isnat(time) else time


def _when_text(when: Any) -> str:
    return str(when).removesuffix("T00:00:00") if isinstance(when, np.datetime64) else str(when)


def curve_of(stream: StreamReport, most: int = 400) -> Iterator[tuple[int, float]]:
    """(outcome number, evidence), thinned to `most` points without losing peaks."""
    points = [(i + 1, value) for i, (_, value) in enumerate(stream.curve)]
    width = max(1, math.ceil(len(points) / most))
    for lo in range(0, len(points), width):
        yield max(points[lo : lo + width], key=lambda p: p[1])
