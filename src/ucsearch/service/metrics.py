"""Figures for Prometheus, and the text log: JSON lines on stderr without forecasts, states or tokens."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter as Counts
from collections.abc import Sequence
from datetime import UTC, datetime

from ucsearch.records.writer import Body

__all__ = ["JsonLines", "Metrics", "set_up_logging"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """One registry for each service, so that two in one process do not meet."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = r = CollectorRegistry()
        p = "ucsearch"
        self.decisions = Counter(f"{p}_decisions", "decisions recorded", ("plan", "outcome", "reason"), registry=r)
        self.stage = Histogram(
            f"{p}_decision_seconds", "time of a batch by stage", ("stage",), buckets=_SECONDS, registry=r
        )
        sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
        self.batch_size = Histogram(f"{p}_batch_size", "items decided together", buckets=sizes, registry=r)
        self._queue, self._decide, self._commit = map(self.stage.labels, ("queue", "decide", "commit"))
        self.queue = Gauge(f"{p}_queue_items", "items that wait", registry=r)
        self.commit = Histogram(f"{p}_commit_seconds", "time of a commit", buckets=_SECONDS, registry=r)
        self.entries = Gauge(f"{p}_log_entries", "entries of the log", registry=r)
        self.log_bytes = Gauge(f"{p}_log_bytes", "size of the log", registry=r)
        self.free = Gauge(f"{p}_disk_free_bytes", "free bytes of the log's disk", registry=r)
        self.checkpoint_age = Gauge(
            f"{p}_checkpoint_age_seconds", "since the last checkpoint, 0 if it holds all", registry=r
        )
        self.evidence = Gauge(f"{p}_monitor_evidence", "evidence of the pool", ("plan",), registry=r)
        self.limit = Gauge(f"{p}_monitor_limit", "evidence at which a monitor trips", ("plan",), registry=r)
        self.tripped = Gauge(f"{p}_monitor_tripped", "series whose monitor has tripped", ("plan",), registry=r)
        self.overdue = Gauge(f"{p}_outcomes_overdue", "outcomes that are missing", ("plan",), registry=r)
        self.overrides = Counter(f"{p}_overrides", "overrides recorded", ("plan",), registry=r)
        self.auth_failures = Counter(f"{p}_auth_failures", "requests without a valid token", registry=r)
        self.requests = Counter(f"{p}_http_requests", "requests answered", ("route", "code"), registry=r)

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


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # Type and place, not the text: a message may quote somebody's numbers.
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            at = "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
            line["error"], line["where"] = record.exc_info[0].__name__, at
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(level: int = logging.INFO) -> None:
    """The service's own logger, and nothing of uvicorn's but errors, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, at in (("ucsearch", level), ("uvicorn", logging.WARNING), ("uvicorn.access", logging.CRITICAL)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(at)
