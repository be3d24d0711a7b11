"""Webhooks: messages about what a person should know, signed as the Standard Webhooks say.

A message is a POST with the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is `v1,` and the
base64 of HMAC-SHA256 over `id.timestamp.body`. Every address has a thread of its own, so that one that hangs keeps no
other waiting; a message is sent several times where nobody takes it. What happens while the service is down is in the
log and on the console, not here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import queue
import secrets
import stat
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import InputError
from ucsearch.records.files import regular_file
from ucsearch.service.config import Webhook
from ucsearch.service.observability import Metrics

__all__ = ["Notifier", "WebhookTarget", "signature", "targets"]

_log = logging.getLogger("ucsearch.service")
_WAITS_S = (0.0, 5.0, 30.0, 300.0, 1_800.0)  # before each try
_TIMEOUT_S = 10.0
_MOST_WAITING = 1_000
_NAMED = 20  # series of a message
_TOGETHER_S = 60.0  # in which equal messages about a plan are one
_SECRET = "whsec_"  # begins a secret in base64, as the Standard Webhooks write it
Send = Callable[[urllib.request.Request, float], None]


class WebhookTarget(NamedTuple):
    """A webhook with its secret."""

    url: str
    secret: bytes
    events: frozenset[str]


class _Message(NamedTuple):
    id: str
    body: bytes
    tried: int
    due: float  # time.monotonic()


def targets(tables: Sequence[Webhook], folder: Path) -> tuple[WebhookTarget, ...]:
    """The webhooks of a configuration; their secrets must be files that nobody else can read."""
    return tuple(WebhookTarget(t.url, _secret(folder / t.secret_file), frozenset(t.events)) for t in tables)


def _secret(path: Path) -> bytes:
    try:
        with regular_file(path) as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise InputError("webhook.secret_file", str(path), "a file that others may not read; chmod 600 it")
            text = file.read(4096).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("webhook.secret_file", str(path), "a readable file with a secret") from error
    if len(text) < 16:
        raise InputError("webhook.secret_file", f"{path} with {len(text)} characters", "a secret of 16 or more")
    if text.startswith(_SECRET):
        try:
            return base64.b64decode(text.removeprefix(_SECRET), validate=True)
        except binascii.Error as error:
            raise InputError("webhook.secret_file", str(path), f"base64 behind {_SECRET}") from error
    return text.encode("utf-8")


def signature(secret: bytes, id: str, timestamp: str, body: bytes) -> str:
    """What the header `webhook-signature` holds."""
    signed = hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def _send(request: urllib.request.Request, timeout_s: float) -> None:
    class Refused(urllib.request.HTTPRedirectHandler):
        """A redirection is not followed: the message is for one address."""

        def redirect_request(self, *_: Any) -> None:
            return None

    with urllib.request.build_opener(Refused).open(request, timeout=timeout_s):
        pass


class Notifier:
    """Told what happens by any thread."""

    def __init__(
        self, targets: Sequence[WebhookTarget], metrics: Metrics, clock: Callable[[], datetime], *, send: Send = _send,
        waits_s: Sequence[float] = _WAITS_S,
    ) -> None:  # fmt: skip
        self._metrics, self._clock = metrics, clock
        self._senders = [_Sender(target, metrics, clock, send, tuple(waits_s)) for target in targets]
        self._last: dict[tuple[str, str], float] = {}  # when there was a message about an event and plan

    def tell(self, event: str, plan: str = "", series: Sequence[str] = (), **more: Any) -> None:
        """Something happened. Messages about series of one plan come at most once a minute for each event."""
        senders = [sender for sender in self._senders if event in sender.target.events]
        if not senders:
            return
        now = time.monotonic()
        if series and now - self._last.get((event, plan), -_TOGETHER_S) < _TOGETHER_S:
            self._metrics.notifications.labels("left out").inc()
            return
        self._last[event, plan] = now
        at = self._clock().astimezone(UTC).isoformat()
        data = {"plan": plan, "count": len(series), "series": list(series[:_NAMED]), **more}
        content = {"type": f"ucsearch.{event}", "timestamp": at, "data": {k: v for k, v in data.items() if v != ""}}
        body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
        for sender in senders:
            sender.put(_Message(f"msg_{secrets.token_hex(12)}", body, 0, now))

    def stop(self) -> None:
        """Messages that are being sent have some seconds to arrive; the others are dropped."""
        end = time.monotonic() + _TIMEOUT_S
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.join(max(0.0, end - time.monotonic()))


class _Sender:
    """Messages to one address, sent one after another in a thread of their own."""

    def __init__(
        self,
        target: WebhookTarget,
        metrics: Metrics,
        clock: Callable[[], datetime],
        send: Send,
        waits_s: tuple[float, ...],
    ) -> None:
        self.target = target
        self._metrics, self._clock, self._send, self._waits_s = metrics, clock, send, waits_s
        self._queue: queue.Queue[_Message | None] = queue.Queue()
        self._later: list[_Message] = []
        self._thread: threading.Thread | None = None

    def put(self, message: _Message) -> None:
        if self._queue.qsize() >= _MOST_WAITING:
            self._metrics.notifications.labels("dropped").inc()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ucsearch-notify", daemon=True)
            self._thread.start()
        self._queue.put(message)

    def end(self) -> None:
        self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            due = min((message.due for message in self._later), default=None)
            try:
                wait_s = None if due is None else max(0.0, due - time.monotonic())
                message = self._queue.get(timeout=wait_s)
                if message is None:
                    return
                self._later.append(message)
            except queue.Empty:
                pass
            now = time.monotonic()
            ready = [message for message in self._later if message.due <= now]
            self._later = [message for message in self._later if message.due > now]
            for message in ready:
                self._try(message)

    def _try(self, message: _Message) -> None:
        stamp = str(int(self._clock().timestamp()))
        headers = {
            "Content-Type": "application/json", "User-Agent": "ucsearch", "webhook-id": message.id,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(self.target.secret, message.id, stamp, message.body),
        }  # fmt: skip
        try:
            request = urllib.request.Request(self.target.url, message.body, headers, method="POST")
            self._send(request, _TIMEOUT_S)
        except (OSError, ValueError) as error:  # URLError and HTTPError are OSErrors
            tried = message.tried + 1
            _log.warning("webhook %s not taken (try %d): %s", message.id, tried, error)
            if tried < len(self._waits_s):
                self._later.append(message._replace(tried=tried, due=time.monotonic() + self._waits_s[tried]))
            else:
                self._metrics.notifications.labels("given up").inc()
        else:
            self._metrics.notifications.labels("sent").inc()
