"""All streams of a plan, as a pure function of its outcomes in order: evidence, trips, latches, probation."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ucsearch.errors import InputError
from ucsearch.monitor.bets import Bet, Watch, chosen_bets, gains, tolerance_of
from ucsearch.monitor.streams import MOST, Past, Stream

__all__ = ["Monitor", "Settings", "Status", "Trip"]

POOL = ""  # the stream of all series together
_WHOLE = 2**53 - 1  # the largest whole number that a record holds
LONGEST = 1_000  # steps that a target may sum up; every stream holds as many processes


@dataclass(frozen=True, kw_only=True)
class Settings:
    """When a monitor trips, and when it lets go."""

    max_undercoverage: float = 0.035  # by which a 90 % interval may cover less; 0.035: a spread 10 % too narrow
    watch: Watch = "both"  # "spread": too narrow; "bias": too low or too high; or both
    within: int = 5_000  # outcomes within which a false alarm may happen
    alpha: float = 0.01  # with at most this chance
    lags: int = 1  # steps that a target sums up; 1: the next period
    probation: int = 50  # outcomes in a row with a fresh process below `calm` that re-arm a series
    calm: float = 1_000.0  # evidence below which an outcome of the probation counts

    def __post_init__(self) -> None:
        tolerance_of(self.max_undercoverage)
        chosen_bets(self.watch)
        for name in ("within", "lags", "probation"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _WHOLE:
                raise InputError(f"monitor.{name}", repr(value), f"a whole number from 1 to {_WHOLE}")
        if self.lags > LONGEST:
            raise InputError("monitor.lags", self.lags, f"at most {LONGEST} steps")
        if not 0.0 < self.alpha < 1.0:
            raise InputError("monitor.alpha", self.alpha, "a number in (0, 1)")
        if not self.limit <= MOST:
            # Evidence is held there: the monitor would watch for ever and never trip.
            raise InputError("monitor.alpha", self.alpha, f"a number that makes within / alpha at most {MOST:g}")
        if not 0.0 < self.calm < self.limit:
            raise InputError("monitor.calm", self.calm, f"a number above 0 and below {self.limit:g}")

    @property
    def limit(self) -> float:
        """Evidence at which a stream trips."""
        return self.within / self.alpha

    @property
    def tolerance(self) -> float:
        return tolerance_of(self.max_undercoverage)


class Status(NamedTuple):
    """A stream at one time."""

    series: str  # "" for the pool
    evidence: float  # latched at its value when it tripped
    tripped: bool  # and not armed again since
    about: str  # what carries the evidence
    outcomes: int  # seen since it was armed


class Trip(NamedTuple):
    """A stream tripped or was armed again."""

    series: str  # "" for the pool
    event: str  # "tripped" or "rearmed"
    evidence: float  # at which it tripped
    outcomes: int  # of the stream when it happened
    about: str  # what carried it: "spread too narrow", "forecasts too low" or "forecasts too high"
    why: str  # of a re-arming


@dataclass
class _WatchedSeries:
    stream: Stream
    latched: float = math.nan  # evidence at the trip; NaN while armed
    fresh: Stream | None = None  # the process on probation
    calm: int = 0  # outcomes in a row that it stayed calm


@dataclass
class Monitor:
    """Feed outcomes period by period; ask for `drift`, the larger of a series' evidence and the pool's."""

    settings: Settings = field(default_factory=Settings)  # when it trips, and when it lets go
    trips: list[Trip] = field(default_factory=list)  # what has tripped or was armed again so far, in order

    def __post_init__(self) -> None:
        self._bets: tuple[Bet, ...] = chosen_bets(self.settings.watch)
        self._tolerance = self.settings.tolerance
        self._series: dict[str, _WatchedSeries] = {}
        self._pool = _WatchedSeries(self._new())
        self._pasts: defaultdict[str, Past] = defaultdict(Past)  # for pictures; nothing follows from them

    def period(self, ranks: Iterable[tuple[str, float, float]]) -> tuple[Trip, ...]:
        """The `ranks` of one period's outcomes, (series, low, high) each as `rank_of` has them; returns what tripped or
        was armed again.

        The pool takes the mean gain of those that had not tripped before, which is honest whatever hangs together
        between the series of one period.
        """
        before = len(self.trips)
        names: set[str] = set()
        total, count = [0.0] * len(self._bets), 0
        for series, low, high in ranks:
            if not series or series in names:
                raise InputError("series", repr(series), "a name, once a period")
            names.add(series)
            gained = gains(low, high, self._tolerance, self._bets)
            if not self.has_tripped(series):
                total, count = [t + x for t, x in zip(total, gained, strict=True)], count + 1
            self._take(series, gained)
        if count:
            self._count(POOL, self._pool, tuple(t / count for t in total))
        return tuple(self.trips[before:])

    def late(self, series: str, low: float, high: float) -> tuple[Trip, ...]:
        """An outcome whose period is over: it counts for its series, not for the pool."""
        before = len(self.trips)
        self.single(series, low, high)
        return tuple(self.trips[before:])

    def has_tripped(self, series: str) -> bool:
        """Whether a series has tripped and is not armed again yet: then it is not in the pool."""
        watched = self._series.get(series)
        return watched is not None and not math.isnan(watched.latched)

    def single(self, series: str, low: float, high: float) -> tuple[float, ...]:
        """One outcome for its series alone; returns what the bets gained, of which `pooled` takes the mean."""
        gained = gains(low, high, self._tolerance, self._bets)
        self._take(series, gained)
        return gained

    def pooled(self, gained: tuple[float, ...]) -> None:
        """A period for the pool: the mean of what its series' bets `gained`, as `single` returns it."""
        self._count(POOL, self._pool, gained)

    def latch(self, status: Status) -> None:
        """Take over a stream that has tripped under other settings, by its `status` there; only re-arming lets it
        go."""
        watched = (
            self._pool if status.series == POOL else self._series.setdefault(status.series, _WatchedSeries(self._new()))
        )
        watched.latched, watched.fresh, watched.calm = max(status.evidence, self.settings.limit), self._new(), 0

    def rearm(self, series: str = POOL, *, why: str) -> Trip:
        """Start a stream anew. Only a person may do that to the pool."""
        watched = self._pool if series == POOL else self._series.get(series)
        if watched is None or math.isnan(watched.latched):
            raise InputError("series", repr(series), "a stream that has tripped")
        return self._armed(series, watched, why)

    def drift(self, series: str) -> float:
        """What the gate compares with its limit; latched at a trip."""
        watched = self._series.get(series)
        return max(_evidence(self._pool), 0.0 if watched is None else _evidence(watched))

    def blocked(self, series: str) -> bool:
        """Whether nothing of the series may be released: its own stream or the pool has tripped."""
        return not self.drift(series) < self.settings.limit

    def status(self, series: str = POOL) -> Status:
        """Of a series, or of the pool."""
        watched = self._pool if series == POOL else self._series.get(series, _WatchedSeries(self._new()))
        return Status(
            series, _evidence(watched), not math.isnan(watched.latched), watched.stream.about, watched.stream.count
        )

    def statuses(self, most: int | None = None) -> tuple[Status, ...]:
        """The pool, then the series by evidence; at most so many of them."""
        by_evidence = [(-_evidence(watched), name) for name, watched in list(self._series.items())]
        first = sorted(by_evidence) if most is None else heapq.nsmallest(most, by_evidence)
        return (self.status(), *(self.status(name) for _, name in first))

    def tripped(self) -> tuple[str, ...]:
        """Streams that have tripped and are not armed again, the pool ("") first."""
        all_watched = [(POOL, self._pool), *list(self._series.items())]
        return tuple(name for name, watched in all_watched if not math.isnan(watched.latched))

    @property
    def series(self) -> int:
        """How many series are watched."""
        return len(self._series)

    def curve(self, series: str = POOL) -> tuple[tuple[float, float], ...]:
        """(number of the outcome, evidence) of a series or the pool, thinned to a few points."""
        past = self._pasts.get(series)
        return () if past is None else past.curve()

    def remember(self, earlier: Monitor) -> None:
        """Go on with the picture of an `earlier` monitor of the same streams."""
        self._pasts = earlier._pasts

    def state(self) -> dict[str, Any]:
        """All streams as numbers, for another file of a log; `restore` takes them."""
        all_watched = {POOL: self._pool, **self._series}
        return {name: _content(watched) for name, watched in sorted(all_watched.items())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state()` of a monitor with the same settings."""
        for name, content in state.items():
            watched = _WatchedSeries(self._filled(content["count"], content["growth"]), calm=int(content["calm"]))
            watched.latched = math.nan if content["latched"] is None else float(content["latched"])
            if content["fresh"] is not None:
                watched.fresh = self._filled(content["fresh"]["count"], content["fresh"]["growth"])
            if name == POOL:
                self._pool = watched
            else:
                self._series[name] = watched

    def _filled(self, count: int, growth: Sequence[Sequence[float]]) -> Stream:
        return Stream(self._bets, self.settings.lags, int(count), [[float(x) for x in lagged] for lagged in growth])

    def _new(self) -> Stream:
        return Stream(self._bets, self.settings.lags)

    def _take(self, series: str, gained: tuple[float, ...]) -> None:
        if series not in self._series:
            self._series[series] = _WatchedSeries(self._new())
        self._count(series, self._series[series], gained)

    def _count(self, series: str, watched: _WatchedSeries, gained: tuple[float, ...]) -> None:
        if math.isnan(watched.latched):
            evidence = watched.stream.add(gained)
            if evidence >= self.settings.limit:
                watched.latched, watched.fresh, watched.calm = evidence, self._new(), 0
                about, count = watched.stream.about, watched.stream.count
                self.trips.append(Trip(series, "tripped", evidence, count, about, ""))
        elif series != POOL and watched.fresh is not None:
            # A series earns its way back; the pool waits for a person.
            if watched.fresh.add(gained) < self.settings.calm:
                watched.calm += 1
            else:
                watched.fresh, watched.calm = self._new(), 0
            if watched.calm >= self.settings.probation:
                self._armed(series, watched, f"{watched.calm} outcomes in a row without evidence")
        self._pasts[series].add(_evidence(watched))

    def _armed(self, series: str, watched: _WatchedSeries, why: str) -> Trip:
        event = Trip(series, "rearmed", watched.latched, watched.stream.count, watched.stream.about, why)
        watched.stream, watched.latched, watched.fresh, watched.calm = self._new(), math.nan, None, 0
        self.trips.append(event)
        return event


def _content(watched: _WatchedSeries) -> dict[str, Any]:
    fresh = watched.fresh
    return {
        "count": watched.stream.count, "growth": [list(lagged) for lagged in watched.stream.growth],
        "latched": None if math.isnan(watched.latched) else watched.latched, "calm": watched.calm,
        "fresh": None if fresh is None else {"count": fresh.count, "growth": [list(lagged) for lagged in fresh.growth]},
    }  # fmt: skip


def _evidence(watched: _WatchedSeries) -> float:
    return watched.stream.evidence if math.isnan(watched.latched) else watched.latched
