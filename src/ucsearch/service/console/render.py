"""Templates, the style sheet, headers, and the frame around every handler: problems are pages too."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ucsearch.errors import UCSearchError
from ucsearch.records.canonical import decode_number
from ucsearch.report.page import environment
from ucsearch.report.style import CSS
from ucsearch.report.text import NONE, count_text, number
from ucsearch.service.console.sessions import LoginNeeded, Session, person, set_cookie
from ucsearch.service.errors import CODES, ApiProblem, sentence_of

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["HEADERS", "STYLE", "STYLE_PATH", "link", "new_key", "page", "render", "see", "stray_page"]

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
}  # fmt: skip
STYLE = CSS.encode("utf-8") + (files("ucsearch.service.console") / "static" / "console.css").read_bytes()
# Its name changes with its content, so that it can be kept for ever.
STYLE_PATH = f"/console/style-{hashlib.sha256(STYLE).hexdigest()[:12]}.css"
TONES = {
    "RELEASED": "good", "FALLBACK": "warn", "HOLD": "bad", "armed": "good", "tripped": "bad", "partly": "warn",
    "off": "plain", "running": "good", "paused": "warn", "unknown": "warn",
}  # fmt: skip
WORDS = {
    "partly": "partly tripped",
    "rearmed": "armed again",
    "carried": "carried over",
}  # of states, where theirs are short
_LEAST_REFRESH, _MOST_REFRESH = 5, 3600
Handler = Callable[[Request, Session], Awaitable[Response]]


def new_key() -> str:
    """In every form that writes, so that a second click does nothing."""
    return secrets.token_urlsafe(18)


def link(path: str, **query: Any) -> str:
    """A path of the console with a query; names may hold anything."""
    parameters = {k: v for k, v in query.items() if v not in (None, "")}
    return f"/console{path}?{urlencode(parameters)}" if parameters else f"/console{path}"


def figure(value: Any, places: int | None = None) -> str:
    """A number of a record for people."""
    if value is None or value == "":
        return NONE
    if isinstance(value, list | tuple):  # an action of several numbers
        return "+".join(figure(x, places) for x in value)
    try:
        amount = float(decode_number(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, UCSearchError):
        return str(value)
    return number(float(f"{amount:.6g}") if places is None else amount, places)


def duration(seconds: Any) -> str:
    """How long, in the largest unit of which there are two or more."""
    try:
        count = max(0.0, float(seconds))
    except (TypeError, ValueError):
        return NONE
    for size, name in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if count >= 2.0 * size or count == size:
            return count_text(round(count / size), name)
    return count_text(round(count), "second")


def when(text: Any) -> str:
    """A time for people, in UTC."""
    if not text:
        return NONE
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    if moment.tzinfo is None:
        return f"{moment:%Y-%m-%d %H:%M}"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def ago(text: Any, now: Any) -> str:
    """A time, and how long ago it was."""
    try:
        seconds = (datetime.fromisoformat(str(now)) - datetime.fromisoformat(str(text))).total_seconds()
    except (ValueError, TypeError):
        return when(text)
    return f"{when(text)}, {duration(seconds)} ago"


def _part(text: Any) -> str:
    """A name as one part of a path."""
    return quote(str(text), safe="")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = files("ucsearch.service.console") / "templates"
    texts = {p.name.removesuffix(".html"): p.read_text(encoding="utf-8") for p in folder.iterdir()}
    templates = environment(**texts)
    templates.filters.update(figure=figure, when=when, ago=ago, duration=duration, part=_part)
    templates.globals.update(link=link, tones=TONES, words=WORDS, style=STYLE_PATH, keys=new_key)
    return templates


def render(
    request: Request, session: Session | None, template: str, /, *, status: int = 200,
    headers: Mapping[str, str] | None = None, **values: Any,
) -> Response:  # fmt: skip
    """A page. Every value is escaped."""
    refresh = request.query_params.get("refresh", "") if request.method == "GET" else ""
    every = int(refresh) if refresh.isdecimal() and len(refresh) < 6 else 0
    every = every if _LEAST_REFRESH <= every <= _MOST_REFRESH else 0
    parameters = {k: v for k, v in request.query_params.items() if k not in ("refresh", "done")}
    again = f"{request.url.path}?{urlencode(parameters)}&" if parameters else f"{request.url.path}?"
    plans = {} if session is None else request.app.state.service.plans_of(session.scope)
    text = _environment().get_template(template).render(
        session=session, sharing=[name for name, plan in plans.items() if plan.settings.shared],
        here=request.url.path, again=again, refresh=every, done=request.query_params.get("done", ""), **values,
    )  # fmt: skip
    response = Response(text.encode("utf-8"), status, {**HEADERS, **(headers or {})}, "text/html; charset=utf-8")
    return response


def see(path: str, **query: Any) -> Response:
    """Go and look at the result: a reload then sends nothing again."""
    return RedirectResponse(link(path, **query), 303, HEADERS)


def page(needed: str = "viewer") -> Callable[[Handler], Callable[[Request], Awaitable[Response]]]:
    """A handler for people with a role: others are sent to the login, problems are shown as pages."""

    def wrap(run: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            session: Session | None = None
            try:
                session = person(request, needed)
                response = await run(request, session)
            except LoginNeeded:
                target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                response = see("/login", next=target if request.method == "GET" else "")
            except ApiProblem as error:
                response = problem_page(request, session or _current_session(request), error)
            except UCSearchError as error:
                response = problem_page(request, session, ApiProblem("invalid", sentence_of(error)))
            if (new_session := getattr(request.state, "new_session", None)) is not None:
                set_cookie(request, response, new_session)
            return response

        handle.__name__, handle.__doc__ = run.__name__, run.__doc__
        return handle

    return wrap


def _current_session(request: Request) -> Session | None:
    """Whoever is logged in, for the frame of a page that says no."""
    try:
        return person(request, "viewer")
    except (LoginNeeded, ApiProblem):
        return None


def stray_page(request: Request, error: ApiProblem) -> Response:
    """For what no handler of a page was there to tell: an address that leads nowhere, a method, a bug."""
    if error.code == "not_found" and not error.detail:
        error = ApiProblem("not_found", "No page of the console has this address. The overview leads to all of them.")
    return problem_page(request, _current_session(request), error)


def problem_page(request: Request, session: Session | None, error: ApiProblem) -> Response:
    request.state.refused = error.code
    headers = {"Retry-After": str(error.retry_after or 1)} if error.status in (429, 503) else {}
    return render(
        request, session, "problem", status=error.status, headers=headers, title=CODES[error.code].title,
        detail=error.detail, places=error.where, allowed=error.allowed, code=error.code,
        request_id=getattr(request.state, "request_id", ""),
    )  # fmt: skip
