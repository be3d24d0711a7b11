"""The event loop, which hears few at a time.

asyncio looks at every socket that has something to say before it goes on with what was begun. Where hundreds ask at
once, an answer that is ready waits for all of them, at each of the few turns that it takes to be sent.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
from typing import Any

__all__ = ["FACTORY", "Few", "make_loop"]

FACTORY = f"{__name__}:make_loop"  # as uvicorn wants it
_HEARD = 16  # sockets in one turn


class Few(selectors.DefaultSelector):
    """Tells of a few sockets only, those first that were not told of for longest."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self._told: dict[int, int] = {}  # when, by the number of the socket; numbers are used again, so they are few
        inner = getattr(self, "_selector", None)
        self._asks_for_few = hasattr(select, "epoll") and isinstance(inner, select.epoll)
        if self._asks_for_few:
            setattr(self, "_selector", _FewAtOnce(inner))  # noqa: B010 - Python's own name, which types do not know

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout)
        if self._asks_for_few:
            return ready
        if len(ready) > _HEARD:
            ready = sorted(ready, key=lambda told: self._told.get(told[0].fd, 0))[:_HEARD]
        self._turn += 1
        for key, _ in ready:
            self._told[key.fd] = self._turn
        return ready


class _FewAtOnce:
    """Linux's poll, asked for a few: it begins with those whom it did not tell of for longest. Of several hundred that
    are told of at every turn most would be put aside again, which took longer than asking."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def poll(self, timeout: float, _: int) -> Any:
        return self._inner.poll(timeout, _HEARD)


def make_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed: its turns cannot be shortened, but they are cheaper."""
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        if sys.platform == "win32":
            return asyncio.ProactorEventLoop()
        return asyncio.SelectorEventLoop(Few())
    made: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return made
