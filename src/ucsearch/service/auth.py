"""Who asks and what they may do: tokens, users whom a proxy names, roles, scopes, rates. Endpoints depend on `Viewer`,
`Operator`, `Admin` or `Agent`."""

from __future__ import annotations

import ipaddress
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request

from ucsearch.service.config import Limits, Server
from ucsearch.service.errors import ApiProblem
from ucsearch.service.tokens import PROXIED, Principal, allows, asker

if TYPE_CHECKING:
    from ucsearch.service.service import Service

__all__ = [
    "Admin",
    "Agent",
    "FailedLogins",
    "Operator",
    "Rates",
    "Viewer",
    "check_plan",
    "check_series",
    "check_still_valid",
    "check_whole",
    "principal_of",
    "proxy_principal",
    "requires",
]

_LONGEST_NAME = 254  # characters of a user whom a proxy names: an address of mail may have as many
_RANK = ("viewer", "operator", "admin")
_MINUTE_S = 60.0
_MOST_KEYS = 10_000  # of rates and failed logins; then they are forgotten


class Rates:
    """Token buckets: so many a second, and as many at once."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, per_second: float) -> None:
        """Refuse when the bucket is empty."""
        now, most = time.monotonic(), max(1.0, per_second)
        tokens_left, at = self._buckets.get(key, (most, now))
        tokens_left = min(most, tokens_left + (now - at) * per_second)
        if tokens_left < 1.0:
            raise ApiProblem("too_many", "slow down", retry_after=max(1, round((1.0 - tokens_left) / per_second)))
        if len(self._buckets) > _MOST_KEYS:
            self._buckets.clear()
        self._buckets[key] = (tokens_left - 1.0, now)

    def take_for(self, principal: Principal, limits: Limits) -> None:
        """One request of somebody who was recognised."""
        self.take(principal.token, limits.per_agent if principal.role == "agent" else limits.per_token)


class FailedLogins:
    """So many a minute and address; more are refused. Whoever has a right token is let in all the same: tokens cannot
    be guessed, and behind a proxy everybody has one address."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._failed: dict[str, deque[float]] = {}

    def add(self, address: str) -> None:
        """One more; raises where there are too many."""
        now = self._clock()
        if len(self._failed) > _MOST_KEYS:
            self._failed.clear()
        times = self._failed.setdefault(address, deque(maxlen=self._most))
        while times and times[0] <= now - _MINUTE_S:
            times.popleft()
        if len(times) >= self._most:
            wait_s = max(1, round(times[0] + _MINUTE_S - now))
            raise ApiProblem("too_many", "too many failed logins", retry_after=wait_s)
        times.append(now)


def principal_of(request: Request, needed: str) -> Principal:
    """Who asks, after token, role and rate were checked."""
    service: Service = request.app.state.service
    principal = _authenticate(request, service)
    if principal is None:
        service.metrics.auth_failures.inc()
        raise ApiProblem("unauthorized", "expected Authorization: Bearer with a token of this service")
    request.state.principal, request.state.token = principal.name, principal
    asker.set(principal.token)
    request.app.state.rates.take_for(principal, service.config.limits)
    check_role(principal, needed)
    return principal


def check_role(principal: Principal, needed: str) -> None:
    if not allows(principal.role, needed):
        raise ApiProblem("forbidden", f"this needs the role {needed}, the token has {principal.role}")


def check_plan(principal: Principal, plan: str) -> None:
    """Refuse a plan that the token is not for."""
    if not principal.scope.has_plan(plan):
        raise ApiProblem("forbidden", f"the token is for {_names('plan', principal.scope.plans)}")


def check_series(principal: Principal, plan: str, series: str) -> None:
    """Refuse a series that the token is not for."""
    check_plan(principal, plan)
    if not principal.scope.has(plan, series):
        begins = " or ".join(repr(x) for x in principal.scope.series[:5])
        raise ApiProblem("forbidden", f"the token is for series whose names begin with {begins}")


def check_whole(principal: Principal, plan: str = "") -> None:
    """Refuse what concerns all series of a plan, or without one all plans, to a token that is for some."""
    scope = principal.scope
    if plan:
        check_plan(principal, plan)
    if scope.series or (scope.plans and not plan):
        raise ApiProblem("forbidden", "the token is for some plans or series, and this is about all of them")


def _names(word: str, names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > 5 else ""
    return f"the {word}{'' if len(names) == 1 else 's'} {', '.join(names[:5])}{more}"


def check_still_valid(request: Request) -> None:
    """Refuse where the token was revoked while the body was sent."""
    principal: Principal | None = getattr(request.state, "token", None)
    if principal is None or principal.name.startswith(PROXIED):
        return
    if not request.app.state.service.tokens.is_valid(principal):
        raise ApiProblem("unauthorized", "the token was revoked while the body was sent")


def _authenticate(request: Request, service: Service) -> Principal | None:
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text:
        return service.tokens.find(text.strip())
    return proxy_principal(request, service.config.server)


def proxy_principal(request: Request, server: Server) -> Principal | None:
    """The user whom a proxy of ours names, as `proxy:NAME`; None where there is no such proxy, or it names nobody."""
    if not server.proxy_user_header or request.client is None:
        return None
    try:
        # As proxies write it; the framework reads one character for each byte, and it is signed with for ever.
        name = _header(request, server.proxy_user_header).strip()
        groups = _header(request, server.proxy_groups_header) if server.proxy_groups_header else ""
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return None
    # Not cut: two people with long names would be one.
    is_valid = 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    if not is_valid or not any(address in ipaddress.ip_network(p) for p in server.proxies):
        return None
    return Principal(f"{PROXIED}{name}", _role_of(groups, server), f"{PROXIED}{name}")


def _header(request: Request, name: str) -> str:
    return request.headers.get(name, "").encode("latin-1").decode("utf-8")


def _role_of(groups: str, server: Server) -> str:
    """The highest role of somebody's groups, or that of everybody."""
    roles: list[str] = [
        server.proxy_groups[name] for g in groups.split(",") if (name := g.strip()) in server.proxy_groups
    ]
    return max(roles, key=_RANK.index) if roles else server.proxy_role


def requires(role: str) -> Callable[[Request], Awaitable[Principal]]:
    """A dependency: who asks, and has at least this role."""

    async def principal(request: Request) -> Principal:
        return principal_of(request, role)

    return principal


as_viewer, as_operator, as_admin, as_agent = map(requires, ("viewer", "operator", "admin", "agent"))
Viewer = Annotated[Principal, Depends(as_viewer)]
Operator = Annotated[Principal, Depends(as_operator)]
Admin = Annotated[Principal, Depends(as_admin)]
Agent = Annotated[Principal, Depends(as_agent)]
