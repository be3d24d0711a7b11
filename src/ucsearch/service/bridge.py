"""Results of the writer's threads, handed to the event loop together: waking it takes longer than telling it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Bridge"]

T = TypeVar("T")
_Pair = tuple["asyncio.Future[Any]", "Future[Any]"]


class Bridge:
    """As `asyncio.wrap_future`, with one wake-up for all results that are there when the loop comes to look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: dict[asyncio.AbstractEventLoop, list[_Pair]] = {}

    def wrap(self, future: Future[T]) -> asyncio.Future[T]:
        """The same result for the running loop. Giving up the one returned does not stop the work."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: self._finished(loop, mine, done))
        return mine

    def _finished(self, loop: asyncio.AbstractEventLoop, mine: asyncio.Future[Any], done: Future[Any]) -> None:
        with self._lock:
            known = self._done.get(loop)
            if known is not None:
                known.append((mine, done))
                return
            self._done[loop] = [(mine, done)]
        try:
            loop.call_soon_threadsafe(self._deliver, loop)
        except RuntimeError:  # the loop has ended: nobody waits any more
            self._done.pop(loop, None)

    def _deliver(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            found = self._done.pop(loop, [])
        for mine, done in found:
            if mine.done():
                continue
            if done.cancelled():
                mine.cancel()
            elif (error := done.exception()) is not None:
                # A future takes no StopIteration; whatever raised it, it is a bug.
                mine.set_exception(RuntimeError(str(error)) if isinstance(error, StopIteration) else error)
            else:
                mine.set_result(done.result())
