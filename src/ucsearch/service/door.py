"""The sockets that are listened to: whoever comes while too many are there is told so as he is accepted.

Making a connection, a protocol and a parser of him first took several times as long, and under overload that is most
of what the event loop does: those who will be answered waited behind those who will not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Door", "open_doors"]

_AT_ONCE = 64  # of those who are refused, in one turn of the loop
_LEFT_OPEN, _LEFT_S = 48, 0.5  # so many, so long: what comes after the end is answered by a reset, and the answer lost
_TAKEN = 64 << 10  # bytes that such a one may have sent; what nobody took is answered so, too
_NOW = getattr(socket, "MSG_DONTWAIT", 0)


class Door(socket.socket):
    """A listening socket. Loops that do not ask it to accept (uvloop's) have everybody refused by the protocol."""

    lets_in: Callable[[], bool] = staticmethod(lambda: True)
    answer = b""
    _left: deque[socket.socket]
    _timer: asyncio.TimerHandle | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        for _ in range(_AT_ONCE):
            wire, address = super().accept()
            if self.lets_in():
                return wire, address
            self._refuse(wire)
        raise BlockingIOError  # the others in the next turn

    def _refuse(self, wire: socket.socket) -> None:
        # As few calls as will do: at each of them another thread may take the interpreter.
        with contextlib.suppress(OSError):  # he may have gone
            wire.send(self.answer, _NOW)
            wire.shutdown(socket.SHUT_WR)
        self._left.append(wire)
        if len(self._left) > _LEFT_OPEN:
            _let_go(self._left.popleft())
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LEFT_S, self._let_all_go)

    def _let_all_go(self) -> None:
        self._timer = None
        while self._left:
            _let_go(self._left.popleft())

    def close(self) -> None:
        self._let_all_go()
        super().close()


def _let_go(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.recv(_TAKEN, _NOW)
    wire.close()


def open_doors(host: str, port: int, lets_in: Callable[[], bool], answer: bytes) -> list[socket.socket]:
    """Sockets bound to every address of a host; nobody is listened to yet. Raises `OSError` where one is taken."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            door = Door(family, kind, protocol)
            door.lets_in, door.answer, door._left = lets_in, answer, deque()
            made.append(door)
            if os.name == "posix":
                door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            door.bind(address)
    except BaseException:
        for other in made:
            other.close()
        raise
    return made
