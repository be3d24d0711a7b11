"""Requests to decide that came whole, with nothing in their headers to doubt: most of them, under load all.

Such a request is read as soon as it is there, and its answer is written as soon as it is true. The other way, with a
task and the framework's objects for each, took longer than reading and checking what it says. Whatever is not plain
goes that other way, which knows every answer; so does a repeat of what is at work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from ucsearch.records.requests import Request
from ucsearch.service.bodies import DecideBody, read_body, rows_of
from ucsearch.service.core import Service, digest_of, takes_long
from ucsearch.service.front import Front, as_refusal
from ucsearch.service.problems import Answered

__all__ = ["Express"]

_JSON = "application/json"
# Headers that say more about a request than who asks for what, and what kind of body it has.
_ODD = frozenset({b"content-encoding", b"expect", b"trailer", b"transfer-encoding", b"upgrade"})
Send = Callable[[Answered], None]


class Express:
    """For one service; the event loop's alone."""

    def __init__(self, service: Service, front: Front) -> None:
        self._service, self._front = service, front

    def begin(self, scope: Mapping[str, Any], raw: bytes, send: Send) -> bool:
        """Whether a POST is taken; then `send` is called once with its answer, now or later."""
        started, service, front = time.monotonic(), self._service, self._front
        asker = front.asker(scope["raw_path"], scope["headers"])
        if asker is None or service.is_at_work(asker.key):
            return False
        headers, limits = asker.headers, service.config.limits
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind != b"application/json" or not _ODD.isdisjoint(headers) or len(raw) > limits.body_bytes:
            return False
        waiting = _Waiting(front, front.name(headers), started, headers, asker.by.name, send)
        try:
            front.rates.take_for(asker.by, limits)
            request = Request(asker.key, body=digest_of(raw), by=asker.by.name)
            service.admit(request)
            rows = rows_of(read_body(DecideBody, raw), limits, asker.plan.settings)
            waiting.wait(service.begin(asker.plan, rows, request), limits.request_s)
        except Exception as error:
            waiting.fail(error)
        return True


class _Waiting:
    """A request that was taken and is not answered."""

    def __init__(
        self, front: Front, name: str, started: float, headers: Mapping[bytes, bytes], by: str, send: Send
    ) -> None:
        self._front, self._name, self._started = front, name, started
        self._headers, self._by, self._send = headers, by, send
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, future: asyncio.Future[bytes], seconds: float) -> None:
        self._timer = future.get_loop().call_later(seconds, self._late, future)
        future.add_done_callback(self._done)

    def fail(self, error: BaseException) -> None:
        self._answer(as_refusal(error, self._name).answer(self._name))

    def _late(self, future: asyncio.Future[bytes]) -> None:
        future.remove_done_callback(self._done)  # what is recorded is there when he asks again
        self.fail(takes_long())

    def _done(self, future: asyncio.Future[bytes]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if future.cancelled():  # with the loop
            return
        if (error := future.exception()) is not None:
            self.fail(error)
        else:
            self._answer(Answered(200, future.result(), _JSON, {}))

    def _answer(self, made: Answered) -> None:
        named = made._replace(headers={**made.headers, "x-request-id": self._name})
        try:
            self._send(named)
        finally:
            self._front.note_decide(self._name, made.status, self._started, self._headers, self._by)
