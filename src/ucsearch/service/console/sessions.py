"""Who is logged in: sessions in memory, their cookie, and what a form must prove before it may change anything."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service.auth import proxy_principal
from ucsearch.service.bodies import read_bytes
from ucsearch.service.errors import ApiProblem
from ucsearch.service.tokens import Principal, Scope, TokenBook, allows, asker

__all__ = ["COOKIE", "LoginNeeded", "Session", "Sessions", "checked_form", "own_site", "person", "set_cookie"]

COOKIE = "ucs_session"
LIFE_S = 8 * 3600.0
MOST_SESSIONS = 1_000  # beyond these the oldest one of whoever has the most is ended
_FORM_BYTES = 64 << 10
_MOST_FIELDS = 500


class LoginNeeded(Exception):
    """Nobody is logged in."""


@dataclass(frozen=True)
class Session:
    """Somebody who is logged in."""

    id: str
    principal: Principal
    csrf: str  # in every form
    until: float  # of the sessions' clock
    proxied: bool = False  # the proxy named the user, and must do so in every request

    @property
    def scope(self) -> Scope:
        return self.principal.scope

    def may(self, needed: str) -> bool:
        return allows(self.principal.role, needed)


class Sessions:
    """In memory: a restart logs everybody out."""

    def __init__(self, book: TokenBook, clock: Callable[[], float] = time.monotonic) -> None:
        self._book, self._clock = book, clock
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}

    def begin(self, principal: Principal, *, proxied: bool = False) -> Session:
        session = Session(
            secrets.token_urlsafe(32), principal, secrets.token_urlsafe(32), self._clock() + LIFE_S, proxied
        )
        with self._lock:
            if len(self._sessions) >= MOST_SESSIONS:
                self._end_one()
            self._sessions[session.id] = session
        return session

    def _end_one(self) -> None:
        """One person who logs in again and again must not log others out."""
        counts = Counter(session.principal.token for session in self._sessions.values())
        busiest, _ = counts.most_common(1)[0]
        del self._sessions[next(id for id, session in self._sessions.items() if session.principal.token == busiest)]

    def find(self, id: str) -> Session | None:
        """The session, while it lasts and its token stands."""
        session = self._sessions.get(id)
        if session is None:
            return None
        if not self._clock() < session.until or not (session.proxied or self._book.is_valid(session.principal)):
            self.end(id)
            return None
        return session

    def end(self, id: str) -> None:
        with self._lock:
            self._sessions.pop(id, None)


def address_of(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def person(request: Request, needed: str) -> Session:
    """Who looks at a page. A user whom the proxy names needs no login."""
    sessions: Sessions = request.app.state.sessions
    named = proxy_principal(request, request.app.state.service.config.server)
    session = sessions.find(request.cookies.get(COOKIE, ""))
    if session is not None and session.proxied and (named is None or named != session.principal):
        sessions.end(session.id)
        session = None
    if session is None and named is not None:
        session = sessions.begin(named, proxied=True)
        request.state.new_session = session
    if session is None:
        raise LoginNeeded
    request.state.principal = session.principal.name
    asker.set(session.principal.token)
    limits = request.app.state.service.config.limits
    request.app.state.rates.take(session.principal.token, limits.per_token)
    if not session.may(needed):
        raise ApiProblem("forbidden", f"this needs the role {needed}, you have {session.principal.role}")
    return session


def set_cookie(request: Request, response: Response, session: Session | None) -> None:
    """The session's cookie, or none any more. On a loopback name there may be no TLS; anywhere else there must be."""
    host = (request.url.hostname or "").strip("[]").lower()
    secure = host not in ("127.0.0.1", "::1", "localhost")
    if session is None:
        response.delete_cookie(COOKIE, path="/console", secure=secure, httponly=True, samesite="strict")
    else:
        response.set_cookie(
            COOKIE, session.id, max_age=int(LIFE_S), path="/console", secure=secure, httponly=True, samesite="strict"
        )


def own_site(request: Request) -> None:
    """A form must come from a page of this console.

    Browsers say so in Sec-Fetch-Site. Those that do not are asked for Origin, which pages without referrer send as
    "null" where Sec-Fetch-Site is there to tell.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise ApiProblem("bad_origin", "the form does not come from this console")
        return
    origin = urlsplit(request.headers.get("origin", ""))
    host = request.headers.get("host", "").lower()
    if origin.scheme not in ("http", "https") or origin.netloc.lower() != host:
        raise ApiProblem("bad_origin", "the form does not come from this console")


async def checked_form(request: Request, session: Session | None) -> dict[str, str]:
    """The fields of a form that was sent from a page of ours; with a session, by the person who is logged in."""
    own_site(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ApiProblem("not_json_type", "expected a form")
    raw = await read_bytes(request, _FORM_BYTES, request.app.state.service.config.limits.body_s)
    if session is not None and request.app.state.sessions.find(session.id) is None:  # ended while the form was sent
        raise LoginNeeded
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=False, max_num_fields=_MOST_FIELDS
        )
        fields = dict(pairs)
    except (UnicodeDecodeError, ValueError):
        raise ApiProblem("bad_request", "the form cannot be read") from None
    if session is not None and not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
        raise ApiProblem("bad_origin", "the form is not from this session; open the page again")
    return fields
