"""Figures for Prometheus."""

from __future__ import annotations

import platform
from collections import Counter as Counts
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ucsearch.records.record import Body

__all__ = ["Metrics", "installed_version"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def installed_version() -> str:
    try:
        return version("ucsearch")
    except PackageNotFoundError:
        return "unknown"


class Metrics:
    """One registry for each service, so that two in one process do not meet."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

        self.registry = r = CollectorRegistry()
        p = "ucsearch"
        ProcessCollector(registry=r)
        build = Info(f"{p}_build", "what is installed", registry=r)
        build.info({"version": installed_version(), "python": platform.python_version()})
        # Decisions
        self.decisions = Counter(f"{p}_decisions", "decisions recorded", ("plan", "outcome", "reason"), registry=r)
        self.stage = Histogram(
            f"{p}_decision_seconds", "time of a batch by stage", ("stage",), buckets=_SECONDS, registry=r
        )
        self.batch_size = Histogram(f"{p}_batch_size", "items decided together", buckets=_SIZES, registry=r)
        self._queue, self._decide, self._commit = map(self.stage.labels, ("queue", "decide", "commit"))
        self.queue = Gauge(f"{p}_queue_items", "items that wait", registry=r)
        self.held_bytes = Gauge(f"{p}_held_bytes", "of large bodies that are not answered yet", registry=r)
        # What waits for people
        self.paused = Gauge(f"{p}_paused", "1 while a plan is paused", ("plan",), registry=r)
        self.on_hold = Gauge(f"{p}_on_hold", "series on HOLD that nobody has decided", ("plan",), registry=r)
        self.evidence = Gauge(f"{p}_monitor_evidence", "evidence of the pool", ("plan",), registry=r)
        self.limit = Gauge(f"{p}_monitor_limit", "evidence at which a monitor trips", ("plan",), registry=r)
        self.tripped = Gauge(f"{p}_monitor_tripped", "series whose monitor has tripped", ("plan",), registry=r)
        self.overdue = Gauge(f"{p}_outcomes_overdue", "outcomes that are missing", ("plan",), registry=r)
        self.overrides = Counter(f"{p}_overrides", "overrides recorded", ("plan",), registry=r)
        self.notifications = Counter(f"{p}_notifications", "webhook messages", ("result",), registry=r)
        # The log
        self.commit = Histogram(f"{p}_commit_seconds", "time of a commit", buckets=_SECONDS, registry=r)
        self.entries = Gauge(f"{p}_log_entries", "entries of the log", registry=r)
        self.log_bytes = Gauge(f"{p}_log_bytes", "size of the log", registry=r)
        self.log_checked = Gauge(f"{p}_log_checked_entries", "entries whose digests were checked", registry=r)
        self.log_altered = Gauge(f"{p}_log_altered", "1 where the log is not what was recorded", registry=r)
        self.free = Gauge(f"{p}_disk_free_bytes", "free bytes of the log's disk", registry=r)
        self.checkpoint_age = Gauge(
            f"{p}_checkpoint_age_seconds", "since the last checkpoint, 0 if it holds all", registry=r
        )
        self.backup_age = Gauge(f"{p}_backup_age_seconds", "since the newest backup; NaN: none is taken", registry=r)
        # Requests
        self.auth_failures = Counter(f"{p}_auth_failures", "requests without a valid token", registry=r)
        self.requests = Counter(f"{p}_http_requests", "requests answered", ("route", "code"), registry=r)
        self.seconds = Histogram(
            f"{p}_http_request_seconds", "from the request's head to the end of its answer", ("route",),
            buckets=_SECONDS, registry=r,
        )  # fmt: skip
        self.refusals = Counter(f"{p}_refusals", "requests that were refused, by reason", ("code",), registry=r)

    def decided(self, plan: str, bodies: Sequence[Body]) -> None:
        found = Counts((body.decision.outcome.value, body.decision.reason.value) for body in bodies)
        for (outcome, reason), count in found.items():
            self.decisions.labels(plan, outcome, reason).inc(count)

    def batch(self, items: int, queue_s: float, decide_s: float) -> None:
        self.batch_size.observe(items)
        self._queue.observe(queue_s)
        self._decide.observe(decide_s)

    def committed(self, seconds: float, seq: int) -> None:
        self.commit.observe(seconds)
        self._commit.observe(seconds)
        self.entries.set(seq)

    def text(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
