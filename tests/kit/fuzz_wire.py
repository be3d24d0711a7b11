"""One connection of a client that sends requests right behind another and reads their answers in order."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence

from tests.kit.fuzz_answers import Answer
from tests.kit.fuzz_requests import Sent

__all__ = ["Wire"]


class Wire:
    """A connection that is kept: what was sent on it and is not answered, and what came."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.awaited: deque[Sent] = deque()
        self.out, self.came = b"", bytearray()
        self.ends = self.half_closes = self.is_closed = False  # nothing more is sent; the service is to be told; it was
        self.said_close = self.is_over = False  # the service announced its end; it came
        self.is_reset = False  # bytes of ours were not read: what was answered may be lost
        self.silences = 0  # looks since the last byte

    def put(self, burst: Sequence[Sent], *, half_closes: bool) -> None:
        self.awaited.extend(burst)
        self.out = b"".join([sent.raw for sent in burst])
        self.ends, self.half_closes = burst[-1].ends, half_closes
        self.silences = 0
        self.send()

    def send(self) -> None:
        try:
            while self.out:
                self.out = self.out[self.socket.send(self.out) :]
            if self.ends and self.half_closes and not self.is_closed:
                self.is_closed = True
                self.socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:  # it closed while we were sending; what it said is read next
            self.out = b""

    def close(self) -> None:
        """Tell the service that nothing more comes."""
        self.half_closes = True
        self.send()

    def receive(self) -> None:
        try:
            while part := self.socket.recv(1 << 18):
                self.came += part
                self.silences = 0
            self.is_over = True
        except BlockingIOError:
            return
        except OSError:
            self.is_over = self.is_reset = True

    def answers(self) -> Iterator[tuple[Sent, Answer]]:
        """Every answer that is whole, with what it answers."""
        while self.awaited and (found := self._next()) is not None:
            if found.status >= 200:
                sent = self.awaited[0]
                if not sent.ends:
                    self.awaited.popleft()
                self.said_close = b"close" in found.headers.get(b"connection", b"").lower()
                yield sent, found

    def _next(self) -> Answer | None:
        end = self.came.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = bytes(self.came[:end]).split(b"\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(b":") for line in lines)}
        status, at = int(first[9:12]), end + 4
        if self.awaited[0].headless or status < 200 or status in (204, 304):
            body, stop = b"", at
        elif headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            whole = _chunked(self.came, at)
            if whole is None:
                return None
            body, stop = whole
        elif b"content-length" in headers:
            stop = at + int(headers[b"content-length"])
            if stop > len(self.came):
                return None
            body = bytes(self.came[at:stop])
        elif self.is_over:  # the end of the connection is the end of the body
            body, stop = bytes(self.came[at:]), len(self.came)
        else:
            return None
        del self.came[:stop]
        return Answer(status, headers, body)


def _chunked(data: bytearray, at: int) -> tuple[bytes, int] | None:
    parts = []
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end], 16)
        at = end + 2 + size + 2
        if at > len(data):
            return None
        if not size:
            return b"".join(parts), at
        parts.append(bytes(data[end + 2 : at - 2]))
    return None
