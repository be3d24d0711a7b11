"""A service inside another program: examples, tests, a trial on one's own machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ucsearch.service.run import address_of, listen, make_server, ready_plans
from ucsearch.service.service import Service

__all__ = ["embedded"]

_STOP_S = 30.0


@contextmanager
def embedded(service: Service) -> Iterator[str]:
    """Serve in a thread of its own, without a port for health; yields the address. `server.bind` with port 0 takes any
    that is free."""
    ready_plans(service.plans)
    service.start()
    listening = listen(service.config.server.bind)
    server = make_server(service)
    thread = threading.Thread(target=server.run, args=([listening],), name="ucsearch-serve", daemon=True)
    thread.start()
    try:
        yield f"http://{address_of(listening)}"
    finally:
        server.should_exit = True
        thread.join(_STOP_S)
