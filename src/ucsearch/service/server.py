"""The HTTP server: uvicorn, as its manual shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import uvicorn

from ucsearch.service.app import make_app
from ucsearch.service.core import Service

__all__ = ["make_server"]

_IDLE_S = 30  # between two requests of one connection
_DRAIN_S = 10
_HEAD = 64 << 10  # bytes of a request's line and headers


class _Server(uvicorn.Server):
    """Says where it listens once it does; with port 0 nobody knows before."""

    ready: Callable[[str], None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.ready is not None and self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self.ready(f"{host}:{port}")


def make_server(service: Service, ready: Callable[[str], None] | None = None) -> uvicorn.Server:
    """A server for a started service; `ready` is called with its address once it listens.

    h11 bounds the bytes of a request's head. Timeouts for headers and limits on connections are the proxy's
    (`deploy/Caddyfile`).
    """
    server = service.config.server
    tls: dict[str, Any] = {}
    if server.tls_cert:
        tls = {
            "ssl_certfile": str(service.folder / server.tls_cert),
            "ssl_keyfile": str(service.folder / server.tls_key),
        }
    config = uvicorn.Config(
        make_app(service), host=server.host, port=server.port, http="h11", ws="none", lifespan="on",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_DRAIN_S, h11_max_incomplete_event_size=_HEAD, **tls,
    )  # fmt: skip
    made = _Server(config)
    made.ready = ready
    return made
