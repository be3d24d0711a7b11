"""What whoever runs the service looks at: health and metrics on a port of their own, and the text log.

The port has a thread of its own: whoever asks is answered while the service waits as a standby, while its connections
are all taken, and while its event loop is busy.
"""

from __future__ import annotations

import json
import logging
import platform
import socket
import sys
import threading
import time
from collections import Counter as Counts
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import Depends, FastAPI
from h11 import LocalProtocolError
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ucsearch.records.entries import Sealed
from ucsearch.service.config import host_of, is_loopback
from ucsearch.service.schemas import Health

if TYPE_CHECKING:
    from ucsearch.service.service import Service

__all__ = ["AdminServer", "JsonLinesFormatter", "Metrics", "make_admin_app", "set_up_logging"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LATE_S = 30.0  # without a beat the event loop is held
_JOIN_S = 5.0


class Metrics:
    """One registry for each service, so that two in one process do not meet."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        p = "ucsearch"
        ProcessCollector(registry=r)
        build = Info(f"{p}_build", "what is installed", registry=r)
        build.info({"version": version("ucsearch"), "python": platform.python_version()})
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
        self.on_hold = Gauge(f"{p}_on_hold", "series on HOLD without a decision by a person", ("plan",), registry=r)
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

    def decided(self, plan: str, bodies: Sequence[Sealed]) -> None:
        counts = Counts((body.decision.outcome.value, body.decision.reason.value) for body in bodies)
        for (outcome, reason), count in counts.items():
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
        return generate_latest(self.registry)


def make_admin_app(service: Service) -> FastAPI:
    """`/healthz`, `/readyz` and `/metrics`. Off loopback the last one needs a token of the role viewer."""
    app = FastAPI(title="ucsearch decision service: health", openapi_url=None, docs_url=None, redoc_url=None)
    is_open = is_loopback(host_of(service.config.server.admin_bind))

    def looks(request: Request) -> bool:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        return is_open or (kind.lower() == "bearer" and service.tokens.find(text.strip()) is not None)

    def no(status: int, text: str) -> Response:
        return JSONResponse({"status": text}, status, {"Retry-After": "2"} if status == 503 else None)

    # Not `async def`: they may have to wait for the log, and run in threads.
    @app.get("/healthz", summary="The process is alive and its event loop goes round", response_model=Health)
    def healthz() -> Any:
        if service.beat_at and time.monotonic() - service.beat_at > _LATE_S:
            return no(503, "the event loop is held")
        return Health("ok")

    @app.get("/readyz", summary="Decisions can be made", response_model=Health)
    def readyz() -> Any:
        why = service.not_ready()
        return no(503, ", ".join(why)) if why else Health("ready")

    @app.get("/metrics", summary="Prometheus", response_class=PlainTextResponse)
    def metrics(allowed: bool = Depends(looks)) -> Response:
        if not allowed:
            return no(401, "a viewer's token is needed")
        service.measure()
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return app


class AdminServer:
    """The server and its thread; `stop` when the service has ended."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        config = uvicorn.Config(
            make_admin_app(service), http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=5, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server, self._socket = uvicorn.Server(config), listening
        self._thread = threading.Thread(target=self._serve, name="ucsearch-admin", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_JOIN_S)


class JsonLinesFormatter(logging.Formatter):
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
            place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
            line["error"], line["where"] = record.exc_info[0].__name__, place
        return json.dumps(line, ensure_ascii=False)


def is_our_error(record: logging.LogRecord) -> bool:
    """False for an answer that uvicorn cannot send because it has refused the malformed rest of the request with 400
    meanwhile: anybody could fill the log with such errors."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, LocalProtocolError) and "MUST_CLOSE" in str(error))


def set_up_logging(level: int = logging.INFO) -> None:
    """The service's own logger, and nothing of uvicorn's but errors, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLinesFormatter())
    handler.addFilter(is_our_error)
    for name, at in (("ucsearch", level), ("uvicorn", logging.WARNING), ("uvicorn.access", logging.CRITICAL)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(at)
