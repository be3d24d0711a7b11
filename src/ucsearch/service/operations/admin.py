"""Health and metrics on a port of their own, in a thread of their own: whoever asks is answered while the service waits
as a standby, while its connections are all taken, and while its event loop is busy."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ucsearch.service.config import host_of, is_loopback
from ucsearch.service.schemas import Health

if TYPE_CHECKING:
    from ucsearch.service.service import Service

__all__ = ["AdminServer", "make_admin_app"]

_LATE_S = 30.0  # without a beat the event loop is held
_JOIN_S = 5.0


def make_admin_app(service: Service) -> FastAPI:
    """`/healthz`, `/readyz` and `/metrics`. Off loopback the last one needs a token of the role viewer."""
    app = FastAPI(title="ucsearch decision service: health", openapi_url=None, docs_url=None, redoc_url=None)
    is_open = is_loopback(host_of(service.config.server.admin_bind))

    def looks(request: Request) -> bool:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        return is_open or (kind.lower() == "bearer" and service.tokens.find(text.strip()) is not None)

    def no(status: int, text: str) -> Response:
        return JSONResponse({"status": text}, status, {"Retry-After": "2"} if status == 503 else None)

    # Not `async def`: they may have to wait for the log, and run in threads.
    @app.get("/healthz", summary="The process is alive and its event loop goes round", response_model=Health)
    def healthz() -> Any:
        if service.beat_at and time.monotonic() - service.beat_at > _LATE_S:
            return no(503, "the event loop is held")
        return Health("ok")

    @app.get("/readyz", summary="Decisions can be made", response_model=Health)
    def readyz() -> Any:
        why = service.not_ready()
        return no(503, ", ".join(why)) if why else Health("ready")

    @app.get("/metrics", summary="Prometheus", response_class=PlainTextResponse)
    def metrics(allowed: bool = Depends(looks)) -> Response:
        if not allowed:
            return no(401, "a viewer's token is needed")
        service.measure()
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return app


class AdminServer:
    """The server and its thread; `stop` when the service has ended."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        config = uvicorn.Config(
            make_admin_app(service), http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=5, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server, self._socket = uvicorn.Server(config), listening
        self._thread = threading.Thread(target=self._serve, name="ucsearch-admin", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(_JOIN_S)
