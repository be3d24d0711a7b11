"""An open-loop client that costs little: plain sockets and one selector, so that what is measured under overload is the
service. With a task for each request the client itself was late by more than the service was slow."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["OpenLoop"]

_LENGTH = re.compile(rb"content-length: (\d+)", re.I)
_AT_ONCE = 8  # requests that are sent before answers are looked for again
_PIECE = 1 << 18


@dataclass
class _Sent:
    """A connection and what it waits for."""

    wire: socket.socket
    meant: float = 0.0
    begun: float = 0.0
    left: bytes = b""  # not sent yet
    got: bytes = b""
    busy: bool = False


@dataclass
class OpenLoop:
    """Requests at their times, whether the ones before are answered or not."""

    port: int
    make: Callable[[int], bytes]  # the n-th request
    codes: Counter[int] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)  # of what was answered by 200, from the time meant [s]
    service: list[float] = field(default_factory=list)  # the same from when the client began to send [s]
    late: list[float] = field(default_factory=list)  # of every request: how late the client was [s]

    def run(self, seconds: float, rate: float) -> dict[str, Any]:
        self._selector, self._free = selectors.DefaultSelector(), list[_Sent]()
        count, n, started = int(rate * seconds), 0, time.perf_counter() + 0.05
        while sum(self.codes.values()) < count:
            now = time.perf_counter()
            for _ in range(_AT_ONCE):
                if n < count and started + n / rate <= now:
                    self._begin(n, started + n / rate)
                    n += 1
            wait = 1.0 if n == count else max(0.0, started + n / rate - time.perf_counter())
            for key, mask in self._selector.select(wait):
                self._heard(key.data, mask)
        for key in list(self._selector.get_map().values()):
            key.data.wire.close()
        self._selector.close()
        at, own, late = (
            1e3 * np.quantile(x, [0.5, 0.95, 0.99]) if x else np.full(3, np.nan)
            for x in (self.times, self.service, self.late)
        )
        return {
            "p50_ms": at[0], "p95_ms": at[1], "p99_ms": at[2], "sent_p99_ms": own[2], "late_p99_ms": late[2],
            "codes": dict(sorted(self.codes.items())),
        }  # fmt: skip

    def _begin(self, n: int, meant: float) -> None:
        if self._free:
            sent = self._free.pop()
        else:
            wire = socket.socket()
            wire.setblocking(False)
            wire.connect_ex(("127.0.0.1", self.port))
            sent = _Sent(wire)
            self._selector.register(wire, selectors.EVENT_READ | selectors.EVENT_WRITE, sent)
        sent.meant, sent.begun, sent.got, sent.busy = meant, time.perf_counter(), b"", True
        sent.left = self.make(n)
        self.late.append(sent.begun - meant)
        self._send(sent)

    def _send(self, sent: _Sent) -> None:
        with suppress(OSError):  # not connected yet, or refused: reading says which
            sent.left = sent.left[sent.wire.send(sent.left) :]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if sent.left else 0)
        if self._selector.get_key(sent.wire).events != wanted:
            self._selector.modify(sent.wire, wanted, sent)

    def _heard(self, sent: _Sent, mask: int) -> None:
        if mask & selectors.EVENT_READ:
            try:
                part = sent.wire.recv(_PIECE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                part = b""
            sent.got += part
            head, end, rest = sent.got.partition(b"\r\n\r\n")
            length = _LENGTH.search(head) if end else None
            if length is not None and len(rest) >= int(length[1]):
                self._answered(sent, head)
            elif not part:
                self._drop(sent, 0)
        elif mask & selectors.EVENT_WRITE and sent.left:
            self._send(sent)

    def _answered(self, sent: _Sent, head: bytes) -> None:
        code, now = int(head.split(b" ", 2)[1]), time.perf_counter()
        if code == 200:
            self.times.append(now - sent.meant)
            self.service.append(now - sent.begun)
        if sent.left or b"connection: close" in head.lower():
            self._drop(sent, code)
            return
        self.codes[code] += 1
        sent.busy, sent.got = (
            False,
            b"",
        )  # else the service's end of an idle connection would be read as an answer once more
        self._free.append(sent)

    def _drop(self, sent: _Sent, code: int) -> None:
        self._selector.unregister(sent.wire)
        sent.wire.close()
        if sent.busy:
            self.codes[code] += 1
        elif sent in self._free:
            self._free.remove(sent)
