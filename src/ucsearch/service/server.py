"""The server: uvicorn with a timer for headers, which it has none of, and a limit of connections."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ucsearch.service.app import make_app
from ucsearch.service.core import Service
from ucsearch.service.door import open_doors
from ucsearch.service.express import Express
from ucsearch.service.front import Front
from ucsearch.service.loop import FACTORY
from ucsearch.service.metrics import gather_lines
from ucsearch.service.problems import Answered, Refusal
from ucsearch.service.together import Together

__all__ = ["make_server"]

_IDLE_S = 30  # between two requests of one connection
_DRAIN_S = 10
_HEADERS = 64 << 10  # bytes of a request's line and headers
_BACKLOG = 2_048  # connections that wait to be accepted
_ACCEPTED = 32  # of them in one turn of the loop: a crowd must not keep those waiting that are there already
_COMING_S = 1.0  # after which nobody is on his way in
_TURNED, _TURNED_S = 32, 0.5  # connections beyond the limit that are heard out, and how long
_BODIES = frozenset({b"content-length", b"transfer-encoding"})  # headers that announce one
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Crowd:
    """Connections that are open, those beyond the limit that are heard out, and those that were let in and are not
    there yet: a loop accepts many before it makes anything of the first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open_now: set[int] = set()
        self.turned_away: set[int] = set()
        self.answer = _raw(Refusal("queue_full", "too many connections").answer(""), last=True)
        self._coming, self._let_in_at = 0, 0.0

    @property
    def is_full(self) -> bool:
        return len(self.open_now) >= self.limit

    @property
    def hears_out(self) -> bool:
        """Whether one more who comes beyond the limit is."""
        return len(self.turned_away) < _TURNED

    def lets_in(self) -> bool:
        """Asked at the door, for each who comes."""
        now = time.monotonic()
        if now - self._let_in_at > _COMING_S:  # they have come, or never will
            self._coming = 0
        if len(self.open_now) + len(self.turned_away) + self._coming >= self.limit + _TURNED:
            return False
        self._coming, self._let_in_at = self._coming + 1, now
        return True

    def came(self) -> None:
        self._coming = max(0, self._coming - 1)


def protocol_of(service: Service, front: Front, crowd: Crowd) -> type[asyncio.Protocol]:
    """uvicorn's protocol, closing connections whose headers do not come in time or that are too many, and refusing
    what there is no room for before anything is made of it: under overload most of the work would be refusing."""
    limits, express = service.config.limits, Express(service, front)

    class Timed(HttpToolsProtocol):
        _timer: asyncio.TimerHandle | None = None
        _too_many = False  # a connection that was refused: nothing is made of it
        _within = False  # headers have begun, or are waited for, and have not ended
        _taken = 0  # bytes since then
        _problem = ("bad_request", "not a request of HTTP")
        _skips = False  # the body of a request that was refused is still coming
        _unread = False  # what was refused may still be coming
        _heard_all = False  # nothing more will come
        _in_body = False  # headers have ended, what they announced has not
        _reads = False  # within data_received
        _held: tuple[Any, Any] | None = None  # a request that may be whole when all of the data is read
        _at_last: bytes | None = None  # said once all that came whole is answered; nothing more is read

        def connection_made(self, transport: Any) -> None:
            crowd.came()
            if crowd.is_full:
                self._too_many = True
                transport.write(crowd.answer)
                if crowd.hears_out and transport.can_write_eof():
                    with suppress(OSError):  # he may have gone
                        transport.write_eof()
                    crowd.turned_away.add(id(self))  # what it says is thrown away: cut off, it would not read why
                    self._timer = self.loop.call_later(_TURNED_S, transport.close)
                else:
                    transport.close()
                return
            super().connection_made(cast(asyncio.Transport, Together(transport, self.loop, self._is_coming)))
            crowd.open_now.add(id(self))
            self._within = True
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            crowd.turned_away.discard(id(self))
            if self._too_many:
                return
            crowd.open_now.discard(id(self))
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._too_many or self._at_last is not None or self.transport.is_closing():
                return
            if not self._within and not self._in_body and (self.cycle is None or self.cycle.response_complete):
                self._within, self._taken = True, 0  # the first byte of the next request
            self._taken += len(data)
            self._reads = True
            try:
                self._feed(data)
            finally:
                self._reads = False
                self._let_go()
            if self._is_left_over() and self._timer is None:  # most bodies have come with their headers
                self._timer = self.loop.call_later(limits.body_s, self.transport.close)
            if not self._within:
                return
            if self._taken > _HEADERS:
                self._refuse("too_large", f"headers of more than {_HEADERS} bytes")
            elif self._timer is None:  # most headers come in one piece, and need no timer
                self._arm()

        def _feed(self, data: bytes) -> None:
            """As uvicorn does, but for a wish for another protocol: the parser stops behind it, and as nobody is given
            another one, what comes there is the next request."""
            self._unset_keepalive_if_required()
            while data and not self.transport.is_closing():
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserError:
                    self.send_400_response("")
                    return
                except httptools.HttpParserUpgrade as wish:
                    data = data[wish.args[0] :]

        def eof_received(self) -> bool:  # type: ignore[override]
            """Whoever sends no more may still read: what came whole is answered before the connection ends."""
            if self._too_many:
                return False
            self._heard_all = True
            if self.scheme != "http" or (self._at_last is None and not self._is_at_work()):  # TLS ends both ways
                self.transport.close()  # after what is written and was not sent yet
                return False
            if self._at_last is None:
                self._at_last = b""
                self.cycle.keep_alive = False  # of several it is the last one
            return True

        def _is_at_work(self) -> bool:
            """Whether requests that came whole wait for their answers. One that did not is no longer among them."""
            if self.cycle is None or self.cycle.response_complete:
                return False
            if self.cycle.more_body and not self.pipeline:
                return False
            if self.cycle.more_body:
                self.pipeline.popleft()
            return True

        def on_response_complete(self) -> None:
            was_last = not self.pipeline
            super().on_response_complete()
            if was_last and self._at_last is not None:
                self._last_words(self._at_last)

        def on_message_begin(self) -> None:
            if not self._within:  # right behind the request before
                self._within, self._taken = True, 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            if self._within:  # not what comes behind a body in pieces: whoever asks was judged by what came before it
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._within, self._in_body = False, True
            self._disarm()
            if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > _HEADERS:
                self._problem = ("too_large", f"headers of more than {_HEADERS} bytes")
                raise ValueError("headers that are too long")  # ends in send_400_response
            if self.parser.should_upgrade() and any(name in _BODIES for name, _ in self.headers):
                # The parser would not read the body, and take it for the next request.
                self._problem = ("bad_request", "a body and a wish for another protocol (Upgrade): send HTTP/1.1 alone")
                raise ValueError("another protocol")
            if not self.url.startswith(b"/"):
                self._take_host_of_target()
            if not self._turned_away():
                super().on_headers_complete()

        def _take_host_of_target(self) -> None:
            # Where the target names a host, it is the one that is meant, whatever the header says.
            with suppress(httptools.HttpParserInvalidURLError):  # refused in a moment
                if host := httptools.parse_url(self.url).host:
                    self.headers[:] = [(k, host if k == b"host" else v) for k, v in self.headers]

        def _turned_away(self) -> bool:
            at_work = self.cycle is not None and not self.cycle.response_complete
            if at_work or self.flow.write_paused or self.expect_100_continue or not service.writer.queue.is_full:
                return False
            if self.parser.get_method() != b"POST" or not self.parser.should_keep_alive():
                return False
            made = front.turned_away(self.url, self.headers)
            if made is None:
                return False
            self.transport.write(_raw(made))
            self._skips = True
            return True

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            if self._reads and self._held is None and cycle.keep_alive and not self.flow.write_paused:
                self._held = (cycle, app)
            else:
                super()._start_asgi_task(cycle, app)

        def _let_go(self) -> None:
            if self._held is None:
                return
            (cycle, app), self._held = self._held, None
            whole = not cycle.more_body and cycle.scope["method"] == "POST" and not self.transport.is_closing()
            if not whole or not express.begin(cycle.scope, bytes(cycle.body), partial(self._send, cycle)):
                super()._start_asgi_task(cycle, app)

        def _send(self, cycle: Any, made: Answered) -> None:
            cycle.response_started = cycle.response_complete = True
            if cycle.disconnected or self.transport.is_closing():
                return
            last = not cycle.keep_alive or "Connection" in made.headers  # the service is stopping, or will not read on
            self.transport.write(_raw(made, last=last, more=self.server_state.default_headers))
            if last:
                self.transport.close()
            self.on_response_complete()

        def on_body(self, body: bytes) -> None:
            if not self._skips:
                super().on_body(body)

        def on_message_complete(self) -> None:
            self._in_body = False
            self._disarm()
            if not self._skips:
                super().on_message_complete()
                return
            self._skips = False
            self.on_response_complete()

        def _is_left_over(self) -> bool:
            """Whether what is coming is the body of a request that has its answer."""
            return self._in_body and (self._skips or (self.cycle is not None and self.cycle.response_complete))

        def send_400_response(self, msg: str) -> None:
            self._disarm()
            self._refuse(*self._problem)

        def _arm(self) -> None:
            self._timer = self.loop.call_later(limits.header_s, self._late)

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _late(self) -> None:
            self._timer = None
            self._refuse("too_slow", f"the headers did not arrive within {limits.header_s:g} s")

        def _is_coming(self) -> bool:
            return not self._heard_all and (self._unread or (self.cycle is not None and self.cycle.more_body))

        def _refuse(self, code: str, detail: str) -> None:
            if self._at_last is not None:
                return
            self._unread = True
            text = _raw(Refusal(code, detail).answer(""), last=True)
            if self._is_at_work():  # else who waits for an answer would take this for it
                self._at_last = text
            else:
                self._last_words(text)

        def _last_words(self, text: bytes) -> None:
            if self.transport is not None and not self.transport.is_closing():
                self.transport.write(text)
                self.transport.close()

    return Timed


def _raw(made: Answered, *, last: bool = False, more: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """An answer as it goes over the wire; `last`: the connection ends with it; `more` headers are the server's own."""
    head = (
        f"HTTP/1.1 {made.status} {_PHRASES[made.status]}\r\nContent-Type: {made.media}\r\n"
        f"Content-Length: {len(made.body)}\r\n"
    )
    headers = {**made.headers, **({"Connection": "close"} if last else {})}
    own = b"".join([b"%b: %b\r\n" % header for header in more])
    return b"%b%b%b\r\n%b" % (
        head.encode("ascii"), own, "".join([f"{k}: {v}\r\n" for k, v in headers.items()]).encode("ascii"), made.body,
    )  # fmt: skip


class _Server(uvicorn.Server):
    ready: Callable[[str], None] | None = None
    crowd: Crowd | None = None  # None: whoever comes is told by the protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would send itself the signal once more after it has ended well: being told to stop is no failure.
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    async def startup(self, sockets: Any = None) -> None:
        gather_lines(asyncio.get_running_loop())
        if sockets is None and self.crowd is not None:
            with suppress(OSError):  # then uvicorn says what is wrong with the address
                sockets = open_doors(self.config.host, self.config.port, self.crowd.lets_in, self.crowd.answer)
        await super().startup(sockets)
        for listening in [s for server in self.servers for s in server.sockets]:
            with socket.socket(fileno=os.dup(listening.fileno())) as same:
                same.listen(_BACKLOG)
        if self.ready is not None and self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self.ready(f"{host}:{port}")


def make_server(service: Service, ready: Callable[[str], None] | None = None) -> uvicorn.Server:
    """A server for a started service; `ready` is told the address once it is listened to."""
    server = service.config.server
    tls: dict[str, Any] = {}
    if server.tls_cert:
        tls = {
            "ssl_certfile": str(service.folder / server.tls_cert),
            "ssl_keyfile": str(service.folder / server.tls_key),
        }
    front, crowd = make_app(service), Crowd(service.config.limits.connections)
    config = uvicorn.Config(
        front, host=server.host, port=server.port, http=protocol_of(service, front, crowd), ws="none", loop=FACTORY,
        lifespan="on", log_config=None, access_log=False, server_header=False, proxy_headers=False,
        backlog=_ACCEPTED, timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_DRAIN_S,
        h11_max_incomplete_event_size=65536, **tls,
    )  # fmt: skip
    made = _Server(config)
    made.ready = ready
    if not tls:  # in the clear nobody would understand
        made.crowd = crowd
    return made
