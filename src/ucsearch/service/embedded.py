"""A service inside another program: examples, tests, a trial on one's own machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ucsearch.errors import RecordError
from ucsearch.service.core import Service
from ucsearch.service.server import make_server
from ucsearch.service.start import ready_plans

__all__ = ["embedded"]

_START_S = 60.0
_STOP_S = 30.0


@contextmanager
def embedded(service: Service) -> Iterator[str]:
    """Serve in a thread of its own; yields the address. `server.bind` with port 0 takes any that is free."""
    ready_plans(service.plans)
    service.start()
    address: list[str] = []
    told = threading.Event()

    def ready(found: str) -> None:
        address.append(found)
        told.set()

    server = make_server(service, ready)

    def serve() -> None:
        try:
            server.run()
        finally:
            told.set()  # also when it could not listen

    thread = threading.Thread(target=serve, name="ucsearch-serve", daemon=True)
    thread.start()
    try:
        if not told.wait(_START_S) or not address:
            raise RecordError(f"the service does not listen on {service.config.server.bind}")
        yield f"http://{address[0]}"
    finally:
        server.should_exit = True
        thread.join(_STOP_S)
