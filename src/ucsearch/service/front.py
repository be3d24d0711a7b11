"""What every request passes: Host, request id, limits of body and time, tokens, rates; and every answer too."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ucsearch.service.access import Principal, allows
from ucsearch.service.config import Limits
from ucsearch.service.core import Service, name_of
from ucsearch.service.metrics import tell_request
from ucsearch.service.plans import Plan
from ucsearch.service.problems import Answered, Refusal

__all__ = ["Front", "Rates", "as_refusal", "bug", "principal_of", "problem", "proxy_principal", "raw_body"]

_log = logging.getLogger("ucsearch.service")
PROXIED = "proxy:"  # of principals that have no token of ours
_LONGEST_NAME = 254  # characters of a user whom a proxy names: an address of mail may have as many
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PORT = re.compile(r":\d+$")
_ONCE = frozenset({b"authorization", b"content-encoding", b"content-type", b"host", b"idempotency-key", b"origin"})
_DECIDE = re.compile(r"/v1/plans/([^/]+)/decisions")
_DECIDE_RAW = re.compile(rb"/v1/plans/([A-Za-z0-9._-]+)/decisions")
_DECIDE_ROUTE = "/v1/plans/{plan}/decisions"
Endpoint = Callable[[Request, str], Awaitable[Response]]
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


class Asker(NamedTuple):
    """Who asks to decide, and under which plan."""

    headers: dict[bytes, bytes]
    plan: Plan
    by: Principal
    key: str  # what his idempotency key stands for


class Front:
    """The outermost layer, plain ASGI: cheap, and it sees every answer.

    `decide` is the endpoint that is asked most: what the framework does on the way to it (looking for the route,
    opening its stacks) took longer than reading the request, so it is called from here. It is a route like the others
    for whoever reads the description.
    """

    def __init__(self, app: App, service: Service, decide: Endpoint, rates: Rates) -> None:
        self.app, self.service, self.decide, self.rates = app, service, decide, rates
        self.hosts = {h.lower() for h in service.config.server.hosts}
        self.once = _ONCE | {service.config.server.proxy_user_header.lower().encode("latin-1", "replace")}
        self._own, self._count = secrets.token_hex(5), itertools.count()
        self._counters: dict[tuple[str, int], Any] = {}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        name = self.name(headers)
        state = scope.setdefault("state", {})
        state["request_id"] = name
        started = time.monotonic()
        status = 500

        async def out(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", name.encode())]
            await send(message)

        bare = self._bare_host(headers)
        asked = _DECIDE.fullmatch(scope["path"]) if scope["method"] == "POST" else None
        try:
            # Of two names, keys or tokens nobody knows which one others will believe.
            twice = self._twice(scope["headers"]) if len(headers) != len(scope["headers"]) else ""
            if bare not in self.hosts or twice == "host":
                await problem(Refusal("bad_host", "the Host header is not in server.hosts"), name)(scope, receive, out)
            elif twice:
                await problem(Refusal("bad_request", f"the header {twice} is there twice"), name)(scope, receive, out)
            elif (
                "\n" in scope["path"]
            ):  # at an end routes would not see it, and a proxy that keeps /metrics to itself does
                await problem(Refusal("not_found"), name)(scope, receive, out)
            elif asked is not None:
                await (await self._decided(asked[1], scope, receive, name))(scope, receive, out)
            else:
                await self.app(scope, receive, out)
        finally:
            route = _DECIDE_ROUTE if asked is not None else _route(scope)
            self._note(name, scope["method"], route, status, started, headers, state.get("principal", ""))

    def asker(self, path: bytes, given: list[tuple[bytes, bytes]]) -> Asker | None:
        """Who asks to decide, from the headers alone; None wherever there is something to say against it."""
        headers, service = dict(given), self.service
        asked = _DECIDE_RAW.fullmatch(path)
        if asked is None or len(headers) != len(given) or self._bare_host(headers) not in self.hosts:
            return None
        kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        found = service.tokens.find(token.strip()) if kind.lower() == "bearer" else None
        plan = service.plans.get(asked[1].decode("ascii"))
        if found is None or plan is None or not allows(found.role, "agent"):
            return None
        try:
            key = headers.get(b"idempotency-key", b"").decode("latin-1")
            return Asker(headers, plan, found, name_of(found, f"decide/{plan.name}", key))
        except Refusal:
            return None

    def turned_away(self, target: bytes, given: list[tuple[bytes, bytes]]) -> Answered | None:
        """The refusal of a request to decide for which there is no room, from its headers alone. None wherever the
        answer may be another one (who asks, what for, whether it is at work already): then it is looked at closely."""
        started, asker = time.monotonic(), self.asker(target, given)
        if asker is None or self.service.is_at_work(asker.key):
            return None
        try:
            self.service.writer.queue.make_room()
            return None  # there is room again
        except Refusal as refusal:
            name = self.name(asker.headers)
            made = refusal.answer(name)
            self.note_decide(name, made.status, started, asker.headers, asker.by.name)
            return made._replace(headers={**made.headers, "X-Request-Id": name})

    def name(self, headers: Mapping[bytes, bytes]) -> str:
        """The id of a request: its own, where it has a proper one."""
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        return given if _ID.fullmatch(given) else f"{self._own}{next(self._count):06x}"

    def note_decide(self, name: str, status: int, started: float, headers: Mapping[bytes, bytes], by: str) -> None:
        """A request to decide that was answered without a task of its own."""
        self._note(name, "POST", _DECIDE_ROUTE, status, started, headers, by)

    def _twice(self, given: list[tuple[bytes, bytes]]) -> str:
        """A header that must not be there twice, and is; "" where there is none."""
        names = [key for key, _ in given if key in self.once]
        return next((key.decode("latin-1") for key in sorted(set(names)) if names.count(key) > 1), "")

    def _bare_host(self, headers: Mapping[bytes, bytes]) -> str:
        return _PORT.sub("", headers.get(b"host", b"").decode("latin-1").lower())

    def _note(
        self, name: str, method: str, route: str, status: int, started: float, headers: Mapping[bytes, bytes], by: str
    ) -> None:
        """A request that was answered, for metrics and text log."""
        self._counted(route, status)
        fields = {
            "request": name, "method": method, "route": route, "status": status,
            "ms": round(1000.0 * (time.monotonic() - started), 2),
        }  # fmt: skip
        if trace := headers.get(b"traceparent", b"").decode("latin-1"):
            fields["traceparent"] = trace[:80]
        if by:
            fields["by"] = by
        tell_request(fields)

    async def _decided(self, plan: str, scope: Scope, receive: Any, name: str) -> Response:
        scope["app"] = self.app
        try:
            return await self.decide(Request(scope, receive), plan)
        except Exception as error:
            return bug(error, name)

    def _counted(self, route: str, status: int) -> None:
        known = self._counters.get((route, status))
        if known is None:
            known = self._counters[route, status] = self.service.metrics.requests.labels(route, str(status))
        known.inc()


def _route(scope: Scope) -> str:
    route: str = getattr(scope.get("route"), "path", "other")
    if scope["path"].startswith("/v1/") and route.startswith("/") and not route.startswith("/v1/"):
        return f"/v1{route}"  # routers know themselves without their prefix
    return route


def bug(error: Exception, request: str) -> Response:
    """What nobody expected: told in the text log, not to the caller."""
    return problem(as_refusal(error, request), request)


def as_refusal(error: BaseException, request: str) -> Refusal:
    """A refusal as it is; anything else is a bug, told in the text log."""
    if isinstance(error, Refusal):
        return error
    _log.error("a bug", exc_info=error, extra={"fields": {"request": request}})
    return Refusal("internal", "see the service's log")


def problem(refusal: Refusal, request: str) -> Response:
    """A refusal as an answer."""
    made = refusal.answer(request)
    return Response(made.body, made.status, made.headers, made.media)


class Rates:
    """Token buckets: so many a second, and as many at once."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_second: float, burst: float | None = None) -> None:
        """Refuse when the bucket is empty."""
        now, most = time.monotonic(), max(1.0, per_second if burst is None else burst)
        left, at = self._buckets.get(key, (most, now))
        left = min(most, left + (now - at) * per_second)
        if left < 1.0:
            raise Refusal("too_many", "slow down", retry_after=max(1, round((1.0 - left) / per_second)))
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        self._buckets[key] = (left - 1.0, now)

    def take_for(self, principal: Principal, limits: Limits) -> None:
        """One request of somebody who was recognised."""
        self.take(principal.token, limits.per_agent if principal.role == "agent" else limits.per_token)


def principal_of(request: Request, needed: str) -> Principal:
    """Who asks, after token, role and rate were looked at."""
    service: Service = request.app.state.service
    found = _recognised(request, service)
    if found is None:
        service.metrics.auth_failures.inc()
        raise Refusal("unauthorized", "expected Authorization: Bearer with a token of this service")
    request.state.principal, request.state.token = found.name, found
    request.app.state.rates.take_for(found, service.config.limits)
    if not allows(found.role, needed):
        raise Refusal("forbidden", f"this needs the role {needed}, the token has {found.role}")
    return found


def _recognised(request: Request, service: Service) -> Principal | None:
    given = request.headers.get("authorization", "")
    kind, _, text = given.partition(" ")
    if kind.lower() == "bearer" and text:
        return service.tokens.find(text.strip())
    return proxy_principal(request, service)


def proxy_principal(request: Request, service: Service) -> Principal | None:
    """The user whom a proxy of ours names; None where there is no such proxy, or it names nobody."""
    server = service.config.server
    if server.proxy_user_header and request.client is not None:
        try:
            # As proxies write it; the framework reads one character for each byte, and it is signed with for ever.
            name = request.headers.get(server.proxy_user_header, "").encode("latin-1").decode("utf-8").strip()
            address = ipaddress.ip_address(request.client.host)
        except ValueError:
            return None
        # Not cut: two people with long names would be one.
        right = 0 < len(name) <= _LONGEST_NAME and name.isprintable()
        if right and any(address in ipaddress.ip_network(p) for p in server.proxies):
            return Principal(name, server.proxy_role, f"{PROXIED}{name}")
    return None


async def raw_body(request: Request) -> bytes:
    """The body as bytes, counted and timed while it comes."""
    limits = request.app.state.service.config.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal("not_json_type", "expected Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal("not_json_type", "compressed bodies are not read")
    if request.headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Refusal("not_json_type", "of transfer encodings only chunked is read")
    raw = await counted(request, limits.body_bytes, limits.body_s)
    found: Principal | None = getattr(request.state, "token", None)
    tokens = request.app.state.service.tokens
    if found is not None and not found.token.startswith(PROXIED) and not tokens.stands(found):
        raise Refusal("unauthorized", "the token was revoked while the body was sent")
    return raw


async def counted(request: Request, most: int, seconds: float) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise Refusal("too_large", f"{length} bytes, at most {most}")
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                total += len(part)
                if total > most:
                    raise Refusal("too_large", f"more than {most} bytes")
                parts.append(part)
    except TimeoutError:
        raise Refusal("too_slow", f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise Refusal("bad_request", "the client went away") from None
    return b"".join(parts)
