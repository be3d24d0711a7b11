"""What is written to a connection: in one piece for each turn of the loop, and read by who asked before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

__all__ = ["Together"]

_PIECE = 64 << 10  # bytes that are sent at once
_LINGER_S = 2.0  # that a refused request may still be sent: a client that is cut off meanwhile never sees why


class Together:
    """A transport that sends what is written during one turn of the loop in one piece. Headers and body are written one
    after the other, and with each sending another thread may take the interpreter, for which the loop then waits.

    Closed while a request `is_coming`, it takes the rest for a while and throws it away: the system would answer what
    nobody reads with a reset, and the client would lose the answer that it did not come to read yet."""

    def __init__(
        self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop, is_coming: Callable[[], bool] = lambda: False
    ) -> None:
        self._inner, self._loop, self._is_coming = inner, loop, is_coming
        self._ends = False
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes) -> None:
        if self._ends:  # the last word is said; a task that was at work does not know yet
            return
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _PIECE:  # whoever writes much must feel it
            self._send()

    def _send(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts:
            self._inner.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self._ends or self._inner.is_closing()

    def close(self) -> None:
        self._send()
        if self._ends or self._inner.is_closing() or not self._is_coming() or not self._inner.can_write_eof():
            self._inner.close()
            return
        self._ends = True
        try:
            self._inner.write_eof()
        except OSError:  # he has gone
            self._inner.close()
            return
        self._inner.resume_reading()
        self._loop.call_later(_LINGER_S, self._inner.close)
