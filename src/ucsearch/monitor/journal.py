"""The monitors of all plans as a pure function of a log: its outcome and monitor entries, in order.

An outcome entry carries where it fell among its forecast's members (`rank`); whoever wants to check derives that from
the decision. It counts once for its series and period; a period of the pool is over when a later one begins, and what
comes after that counts for its series only. Monitor entries are either orders of a person (`by` is a name: armed with
settings, armed again) or what followed from the outcomes before them (`by` is empty), which is derived here anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ucsearch.errors import InputError
from ucsearch.monitor.fold import POOL, Monitor, Settings, Status, Trip

__all__ = ["Journal", "WatchedPlan", "period_key", "settings_content", "settings_of"]

RECENT = 500  # outcomes whose coverage is shown
_PERIODS = 64  # of a series that are remembered, so that none counts twice
_SECONDS = {"15min": 900, "30min": 1800, "hour": 3600, "day": 86400, "weekday": 86400}
_NAMES = ("max_undercoverage", "watch", "within", "alpha", "lags", "probation", "calm")


def period_key(observed_at: str, period: str) -> int:
    """The period in which something was observed; later ones are larger. UTC counts."""
    moment = datetime.fromisoformat(observed_at).astimezone(UTC)
    if period == "month":
        return moment.year * 12 + moment.month
    days = moment.toordinal()
    if period == "week":
        return (days - 1) // 7  # the first of January of the year 1 was a Monday
    second = days * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    return second // _SECONDS[period] if period in _SECONDS else second * 1_000_000 + moment.microsecond


def settings_content(settings: Settings, period: str) -> dict[str, Any]:
    """As a monitor entry holds them."""
    return {**{name: getattr(settings, name) for name in _NAMES}, "period": period}


def settings_of(content: Mapping[str, Any]) -> Settings:
    """From what a monitor entry holds."""
    return Settings(**{name: content[name] for name in _NAMES})


@dataclass
class WatchedPlan:
    """One plan."""

    monitor: Monitor
    period: str
    open: int | None = None  # the pool's period that is not over
    gained: tuple[float, ...] = ()  # sums over its series
    count: int = 0
    seen: dict[str, deque[int]] = field(default_factory=dict)  # periods that counted, by series
    ranks: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    model: dict[str, str] = field(default_factory=dict)  # of the forecasts when a stream tripped

    def take(self, series: str, low: float, high: float, key: int) -> tuple[Trip, ...]:
        """One outcome; what tripped or was armed again through it."""
        periods = self.seen.setdefault(series, deque(maxlen=_PERIODS))
        if key in periods or (len(periods) == _PERIODS and key < min(periods)):
            return ()
        periods.append(key)
        self.ranks.append((low, high))
        before = len(self.monitor.trips)
        if self.open is not None and key > self.open:
            if self.count:
                self.monitor.pooled(tuple(g / self.count for g in self.gained))
            self.open = None
        is_pooled = not self.monitor.has_tripped(series)
        status = self.monitor.single(series, low, high)
        if self.open is None and (not self._last or key > self._last):
            self.open, self.gained, self.count = key, (0.0,) * len(status), 0
            self._last = key
        if key == self.open and is_pooled:
            self.gained = tuple(a + b for a, b in zip(self.gained, status, strict=True))
            self.count += 1
        return tuple(self.monitor.trips[before:])

    _last: int = 0  # the latest period of the pool

    def state(self) -> dict[str, Any]:
        """Everything that what comes next depends on; periods are texts, because they may be large."""
        return {
            "streams": self.monitor.state(), "open": None if self.open is None else str(self.open),
            "last": str(self._last), "gained": list(self.gained), "count": self.count,
            "seen": {name: [str(key) for key in periods] for name, periods in sorted(self.seen.items())},
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        self.monitor.restore(state["streams"])
        self.open = None if state["open"] is None else int(state["open"])
        self._last, self.count = int(state["last"]), int(state["count"])
        self.gained = tuple(float(x) for x in state["gained"])
        self.seen = {name: deque(map(int, periods), maxlen=_PERIODS) for name, periods in state["seen"].items()}

    @property
    def coverage(self) -> float | None:
        """Share of the last outcomes within the range that should hold 90 % of them."""
        ranks = tuple(self.ranks)  # at once: who looks on does not stop the thread that adds to them
        if not ranks:
            return None
        return sum(0.05 <= 0.5 * (low + high) <= 0.95 for low, high in ranks) / len(ranks)

    def histogram(self, bars: int = 10) -> tuple[int, ...]:
        counts = [0] * bars
        for low, high in tuple(self.ranks):
            counts[min(int(0.5 * (low + high) * bars), bars - 1)] += 1
        return tuple(counts)


class Journal:
    """Feed it records in the order of the log."""

    def __init__(self) -> None:
        self.plans: dict[str, WatchedPlan] = {}

    def add(self, record: Mapping[str, Any]) -> tuple[Trip, ...]:
        """What follows from an outcome or monitor entry; every other kind is ignored."""
        kind = record.get("kind")
        if kind == "monitor":
            self._order(record)
        elif kind == "outcome":
            plan = self.plans.get(str(record.get("plan", "")))
            if plan is not None and "rank" in record and "replaces" not in record:
                low, high = record["rank"]
                key = period_key(record["observed_at"], plan.period)
                return plan.take(record["series"], float(low), float(high), key)
        return ()

    def _order(self, record: Mapping[str, Any]) -> None:
        name, event = record["plan"], record["event"]
        if event == "carried":
            settings = record["settings"]
            self.plans[name] = WatchedPlan(Monitor(settings_of(settings)), settings["period"])
            self.plans[name].restore(record["state"])
        elif event == "armed":
            settings = record["settings"]
            watched = WatchedPlan(Monitor(settings_of(settings)), settings["period"])
            if (old := self.plans.get(name)) is not None:
                watched.monitor.remember(old.monitor)
                for stream in old.monitor.tripped():
                    watched.monitor.latch(old.monitor.status(stream))
            self.plans[name] = watched
        elif record["by"] and event == "rearmed" and name in self.plans:
            self.plans[name].monitor.rearm(record["series"], why=record["why"])

    def drift(self, plan: str, series: str) -> float:
        """Evidence for the gate; NaN for a plan that was never armed."""
        watched = self.plans.get(plan)
        return float("nan") if watched is None else watched.monitor.drift(series)

    def status(self, plan: str, series: str = POOL) -> Status:
        if plan not in self.plans:
            raise InputError("plan", repr(plan), "a plan with a monitor")
        return self.plans[plan].monitor.status(series)
