"""Who asks: a token, or a user whom a trusted proxy names; what the role may do; how often."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from ucsearch.service.config import Limits
from ucsearch.service.core import Service
from ucsearch.service.problems import Refusal
from ucsearch.service.tokens import Principal, allows

__all__ = ["Admin", "Agent", "Operator", "Rates", "Viewer", "principal_of", "proxy_principal", "still_stands"]

PROXIED = "proxy:"  # begins the name of everybody whom a proxy names: no token has such a name
_LONGEST_NAME = 254  # characters of a user whom a proxy names: an address of mail may have as many


class Rates:
    """Token buckets: so many a second, and as many at once."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_second: float) -> None:
        """Refuse when the bucket is empty."""
        now, most = time.monotonic(), max(1.0, per_second)
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
    """Who asks, after token, role and rate were checked."""
    service: Service = request.app.state.service
    principal = _recognised(request, service)
    if principal is None:
        service.metrics.auth_failures.inc()
        raise Refusal("unauthorized", "expected Authorization: Bearer with a token of this service")
    request.state.principal, request.state.token = principal.name, principal
    request.app.state.rates.take_for(principal, service.config.limits)
    if not allows(principal.role, needed):
        raise Refusal("forbidden", f"this needs the role {needed}, the token has {principal.role}")
    return principal


def still_stands(request: Request) -> None:
    """Refuse where the token was revoked while the body was sent."""
    principal: Principal | None = getattr(request.state, "token", None)
    if principal is None or principal.name.startswith(PROXIED):
        return
    if not request.app.state.service.tokens.stands(principal):
        raise Refusal("unauthorized", "the token was revoked while the body was sent")


def _recognised(request: Request, service: Service) -> Principal | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text:
        return service.tokens.find(text.strip())
    return proxy_principal(request, service)


def proxy_principal(request: Request, service: Service) -> Principal | None:
    """The user whom a proxy of ours names, as `proxy:NAME`; None where there is no such proxy, or it names nobody."""
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
            return Principal(f"{PROXIED}{name}", server.proxy_role, f"{PROXIED}{name}")
    return None


def _requires(role: str) -> Callable[[Request], Awaitable[Principal]]:
    async def principal(request: Request) -> Principal:
        return principal_of(request, role)

    return principal


Viewer = Annotated[Principal, Depends(_requires("viewer"))]
Operator = Annotated[Principal, Depends(_requires("operator"))]
Admin = Annotated[Principal, Depends(_requires("admin"))]
Agent = Annotated[Principal, Depends(_requires("agent"))]
