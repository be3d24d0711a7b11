"""The application: middleware, routes under /v1, the console, and how a refusal becomes an answer."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service.auth import FailedLogins, Rates
from ucsearch.service.bodies import HeldBodies
from ucsearch.service.console import forms, views
from ucsearch.service.console.render import stray_page
from ucsearch.service.console.sessions import Sessions
from ucsearch.service.errors import ApiProblem, excerpt
from ucsearch.service.routes import routers
from ucsearch.service.service import Service

__all__ = ["RequestMiddleware", "make_app", "problem_response"]

_log = logging.getLogger("ucsearch.service")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d+$")
_ONCE = frozenset({b"authorization", b"content-encoding", b"content-type", b"host", b"idempotency-key", b"origin"})
_BEAT_S = 1.0
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class RequestMiddleware:
    """Request id, `Host`, doubled headers, bugs, metrics and the text log. Plain ASGI, so that it sees answers as they
    are sent."""

    def __init__(self, app: App, service: Service) -> None:
        self.app, self.service = app, service
        server = service.config.server
        self.hosts = {host.lower() for host in server.hosts}
        proxy_headers = (server.proxy_user_header, server.proxy_groups_header)
        self.once = _ONCE | {name.lower().encode("latin-1", "replace") for name in proxy_headers if name}
        self._prefix, self._count = secrets.token_hex(5), itertools.count()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        state = scope.setdefault("state", {})
        request_id = state["request_id"] = self._request_id(headers)
        started = time.monotonic()
        status = 0

        async def out(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            if (problem := self._problem(scope, headers)) is not None:
                await problem_response(Request(scope), problem)(scope, receive, out)
            else:
                await self.app(scope, receive, out)
        except Exception as error:
            if status:  # the answer has begun: the server cuts the connection
                raise
            await _answer(Request(scope), as_problem(error, request_id))(scope, receive, out)
        finally:
            self._note(scope, status or 500, time.monotonic() - started, headers)

    def _request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """The caller's own, where it is a proper one."""
        request_id = headers.get(b"x-request-id", b"").decode("latin-1")
        return request_id if _ID.fullmatch(request_id) else f"{self._prefix}{next(self._count):06x}"

    def _problem(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ApiProblem | None:
        """Why a request is refused before any route sees it."""
        # Of two hosts, keys or tokens nobody knows which one others will believe.
        names = [key for key, _ in scope["headers"] if key in self.once]
        doubled = next((key.decode("latin-1") for key in sorted(set(names)) if names.count(key) > 1), "")
        host = _PORT.sub("", headers.get(b"host", b"").decode("latin-1").lower())
        if host not in self.hosts or doubled == "host":
            return ApiProblem("bad_host", "the Host header is not in server.hosts")
        if doubled:
            return ApiProblem("bad_request", f"the header {doubled} is repeated")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            return ApiProblem("bad_request", "the body has two lengths: Content-Length and Transfer-Encoding")
        if "\n" in scope["path"]:  # routes would not see it at the end, and what stands before might
            return ApiProblem("not_found")
        return None

    def _note(self, scope: Scope, status: int, seconds: float, headers: Mapping[bytes, bytes]) -> None:
        route, state, metrics = _route(scope), scope["state"], self.service.metrics
        metrics.requests.labels(route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        fields = {
            "request": state["request_id"], "method": scope["method"], "route": route, "status": status,
            "ms": round(1000.0 * seconds, 2),
        }  # fmt: skip
        if code := state.get("refused", ""):
            metrics.refusals.labels(code).inc()
            fields["refused"] = code
        if trace := headers.get(b"traceparent", b"").decode("latin-1"):
            fields["traceparent"] = trace[:80]
        if by := state.get("principal", ""):
            fields["by"] = by
        _log.info("request", extra={"fields": fields})


def _route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path", "other")
    if scope["path"].startswith("/v1/") and route.startswith("/") and not route.startswith("/v1/"):
        return f"/v1{route}"  # routers know themselves without their prefix
    return route


def as_problem(error: BaseException, request_id: str) -> ApiProblem:
    """A refusal as it is; anything else is a bug, written to the text log and not shown to the caller."""
    if isinstance(error, ApiProblem):
        return error
    _log.error("a bug", exc_info=error, extra={"fields": {"request": request_id}})
    return ApiProblem("internal", "see the service's log")


def problem_response(request: Request, problem: ApiProblem) -> Response:
    """A refusal as `application/problem+json`."""
    request.state.refused = problem.code
    return problem.answer(getattr(request.state, "request_id", ""))


_BY_STATUS = {404: "not_found", 405: "method_not_allowed", 400: "bad_request", 413: "too_large"}


def make_app(service: Service) -> FastAPI:
    """The ASGI application of a service. It starts the service when the server starts, and stops it with it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if not service.started:
            service.start()
        beat = asyncio.create_task(_beat(service))
        try:
            yield
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat
            service.stop()

    app = FastAPI(
        title="ucsearch decision service", version="1", lifespan=lifespan, openapi_url=None, docs_url=None,
        redoc_url=None, redirect_slashes=False, generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    app.state.service, app.state.rates = service, Rates()
    app.state.bodies = HeldBodies(service.config.limits, service.metrics.held_bytes)
    for router in routers:
        app.include_router(router, prefix="/v1")
    app.state.sessions = Sessions(service.tokens)
    app.state.failed_logins = FailedLogins(service.config.limits.logins)
    for router in (views.router, forms.router):
        app.include_router(router, include_in_schema=False)
    app.add_exception_handler(ApiProblem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(RequestMiddleware, service=service)
    return app


async def _beat(service: Service) -> None:
    """Say that the event loop goes round; /healthz asks."""
    while True:
        service.beat_at = time.monotonic()
        await asyncio.sleep(_BEAT_S)


def _answer(request: Request, problem: ApiProblem) -> Response:
    """JSON for programs, a page for people."""
    if f"{request.scope['path']}/".startswith("/console/"):
        return stray_page(request, problem)
    return problem_response(request, problem)


async def _on_problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiProblem):
        raise error
    return _answer(request, error)


async def _on_invalid(request: Request, error: Exception) -> Response:
    """Parameters of path, query and headers; bodies are checked by `dependencies.read_body`."""
    errors = error.errors() if isinstance(error, RequestValidationError) else ()
    if any(str(e["loc"][-1]).lower() == "idempotency-key" for e in errors):
        text = "expected Idempotency-Key with 1 to 128 visible ASCII characters"
        return problem_response(request, ApiProblem("no_idempotency_key", text))
    where = tuple(f"{'.'.join(excerpt(x) for x in e['loc'])}: {excerpt(e['msg'])}" for e in errors)
    return problem_response(request, ApiProblem("invalid", "a parameter is not what is expected", where=where))


async def _on_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    answer = _answer(request, ApiProblem(_BY_STATUS.get(status, "bad_request")))
    if isinstance(error, HTTPException) and error.headers:
        answer.headers.update({k: v for k, v in error.headers.items() if k.lower() == "allow"})
    return answer
