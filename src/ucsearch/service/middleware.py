"""Every request passes here, and every answer: request id, Host, doubled headers, one line of the text log, metrics."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service.core import Service
from ucsearch.service.problems import Refusal

__all__ = ["RequestMiddleware", "as_refusal", "problem_response"]

_log = logging.getLogger("ucsearch.service")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d+$")
_ONCE = frozenset({b"authorization", b"content-encoding", b"content-type", b"host", b"idempotency-key", b"origin"})
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class RequestMiddleware:
    """Plain ASGI, so that it sees answers as they are sent."""

    def __init__(self, app: App, service: Service, refuse: Callable[[Request, Refusal], Response]) -> None:
        """`refuse` makes an answer of a refusal: JSON for programs, a page for people."""
        self.app, self.service, self.refuse = app, service, refuse
        server = service.config.server
        self.hosts = {host.lower() for host in server.hosts}
        self.once = _ONCE | {server.proxy_user_header.lower().encode("latin-1", "replace")}
        self._prefix, self._count = secrets.token_hex(5), itertools.count()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = self._request_id(headers)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        started = time.monotonic()
        status = 0

        async def out(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            if (refusal := self._refusal(scope, headers)) is not None:
                await problem_response(refusal, request_id)(scope, receive, out)
            else:
                await self.app(scope, receive, out)
        except Exception as error:
            if status:  # the answer has begun: the server cuts the connection
                raise
            await self.refuse(Request(scope), as_refusal(error, request_id))(scope, receive, out)
        finally:
            self._note(request_id, scope, status or 500, started, headers, state.get("principal", ""))

    def _request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """The caller's own, where it is a proper one."""
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        return given if _ID.fullmatch(given) else f"{self._prefix}{next(self._count):06x}"

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Why a request is refused before any route sees it."""
        # Of two hosts, keys or tokens nobody knows which one others will believe.
        names = [key for key, _ in scope["headers"] if key in self.once]
        doubled = next((key.decode("latin-1") for key in sorted(set(names)) if names.count(key) > 1), "")
        host = _PORT.sub("", headers.get(b"host", b"").decode("latin-1").lower())
        if host not in self.hosts or doubled == "host":
            return Refusal("bad_host", "the Host header is not in server.hosts")
        if doubled:
            return Refusal("bad_request", f"the header {doubled} is there twice")
        if b"content-length" in headers and b"transfer-encoding" in headers:
            return Refusal("bad_request", "the body has two lengths: Content-Length and Transfer-Encoding")
        if "\n" in scope["path"]:  # routes would not see it at the end, and a proxy that keeps /metrics to itself does
            return Refusal("not_found")
        return None

    def _note(
        self, request_id: str, scope: Scope, status: int, started: float, headers: Mapping[bytes, bytes], by: str
    ) -> None:
        route = _route(scope)
        self.service.metrics.requests.labels(route, str(status)).inc()
        fields = {
            "request": request_id, "method": scope["method"], "route": route, "status": status,
            "ms": round(1000.0 * (time.monotonic() - started), 2),
        }  # fmt: skip
        if trace := headers.get(b"traceparent", b"").decode("latin-1"):
            fields["traceparent"] = trace[:80]
        if by:
            fields["by"] = by
        _log.info("request", extra={"fields": fields})


def _route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path", "other")
    if scope["path"].startswith("/v1/") and route.startswith("/") and not route.startswith("/v1/"):
        return f"/v1{route}"  # routers know themselves without their prefix
    return route


def as_refusal(error: BaseException, request_id: str) -> Refusal:
    """A refusal as it is; anything else is a bug, written to the text log and not shown to the caller."""
    if isinstance(error, Refusal):
        return error
    _log.error("a bug", exc_info=error, extra={"fields": {"request": request_id}})
    return Refusal("internal", "see the service's log")


def problem_response(refusal: Refusal, request_id: str) -> Response:
    """A refusal as `application/problem+json`."""
    made = refusal.answer(request_id)
    return Response(made.body, made.status, made.headers, made.media)
