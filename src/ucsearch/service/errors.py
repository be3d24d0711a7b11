"""The closed list of what a request can be answered with besides success, as `application/problem+json`."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from starlette.responses import Response

from ucsearch.errors import InputError

__all__ = ["CODES", "ApiProblem", "ProblemKind", "excerpt", "sentence_of"]

MEDIA = "application/problem+json"
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode  # `dumps` would make an encoder for every problem
_SHOWN = 80  # characters of the input that are echoed
_SENTENCE = 400  # characters of our own words, with what they quote
_LONG = re.compile(rf"'[^']{{{_SHOWN},}}'|[^\s']{{{_SHOWN + 1},}}")
_PLACES = 20


class ProblemKind(NamedTuple):
    """One kind of problem."""

    status: int
    title: str


CODES: dict[str, ProblemKind] = {
    "not_json": ProblemKind(400, "The body is not JSON"),
    "no_idempotency_key": ProblemKind(400, "The header Idempotency-Key is missing or malformed"),
    "bad_request": ProblemKind(400, "The request cannot be read"),
    "unauthorized": ProblemKind(401, "A valid token is needed"),
    "forbidden": ProblemKind(403, "The token's role does not allow this"),
    "bad_host": ProblemKind(403, "The Host header is not one of this service"),
    "bad_origin": ProblemKind(403, "The request comes from another site"),
    "not_found": ProblemKind(404, "There is no such thing"),
    "method_not_allowed": ProblemKind(405, "The method is not allowed here"),
    "too_slow": ProblemKind(408, "The request did not arrive in time"),
    "not_newest": ProblemKind(409, "The decision is not the newest of its series, or was overridden meanwhile"),
    "expired": ProblemKind(409, "The decision is no longer valid"),
    "already": ProblemKind(409, "It is so already"),
    "in_flight": ProblemKind(409, "A request with the same key is still at work"),
    "too_large": ProblemKind(413, "The request is too large"),
    "not_json_type": ProblemKind(415, "The body must be application/json"),
    "invalid": ProblemKind(422, "The content is not what is expected"),
    "not_allowed": ProblemKind(422, "The rules do not allow this"),
    "key_reused": ProblemKind(422, "The idempotency key was used with another body"),
    "too_many": ProblemKind(429, "Too many requests"),
    "queue_full": ProblemKind(503, "Too much is waiting"),
    "not_ready": ProblemKind(503, "The service is not ready"),
    "audit_unavailable": ProblemKind(503, "Nothing can be recorded, so nothing is decided"),
    "log_altered": ProblemKind(503, "The log is not what was recorded, so nothing is decided"),
    "internal": ProblemKind(500, "A bug"),
}


def excerpt(value: object) -> str:
    """Somebody else's text for a message: printable, and not long."""
    text = "".join(c if c.isprintable() else "?" for c in str(value)[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def sentence_of(error: Exception | str) -> str:
    """Our own sentence, whole: what is expected stands at its end. What it quotes of somebody else's is cut."""
    text = str(error)
    if isinstance(error, InputError):
        place, _, _ = text.partition(f": saw {error.seen}, expected ")
        _, _, hint = text.partition(f", expected {error.expected}")
        text = f"{excerpt(place)}: saw {excerpt(error.seen)}, expected {error.expected}{hint}"
    text = _LONG.sub(lambda match: excerpt(match[0]), text)  # names that others chose are one word or stand in quotes
    text = "".join(c if c.isprintable() else "?" for c in text[: _SENTENCE + 1])
    return text if len(text) <= _SENTENCE else text[: _SENTENCE - 1] + "…"


class ApiProblem(Exception):
    """Raised anywhere in the service; `app` makes an answer of it."""

    def __init__(
        self, code: str, detail: str = "", *, where: tuple[str, ...] = (), retry_after: int | None = None,
        allowed: tuple[str, ...] = (), closes: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(detail or CODES[code].title)
        self.code, self.detail, self.where, self.retry_after = code, detail, where[:_PLACES], retry_after
        self.allowed = allowed  # labels of actions, for an override that is not
        self.closes = closes  # the connection: what is still coming is not read

    @property
    def status(self) -> int:
        return CODES[self.code].status

    def answer(self, request: str) -> Response:
        """As `application/problem+json`; `request` is the request's id."""
        kind = CODES[self.code]
        content: dict[str, Any] = {
            "type": f"urn:ucsearch:problem:{self.code}", "title": kind.title, "status": kind.status, "code": self.code,
            "detail": self.detail, "where": list(self.where), "request": request,
        }  # fmt: skip
        if self.allowed:
            content["allowed"] = list(self.allowed)
        headers = {}
        if kind.status in (429, 503):
            headers["Retry-After"] = str(self.retry_after if self.retry_after is not None else 1)
        if self.closes:
            headers["Connection"] = "close"
        if kind.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(_ENCODE(content).encode("utf-8", "replace"), kind.status, headers, MEDIA)
