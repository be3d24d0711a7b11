"""What an answer of the service may be: the codes that its description declares, problems of the listed form, nothing
of others' secrets in them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.kit.fuzz_json import MARK
from ucsearch.service.errors import CODES, MEDIA

__all__ = ["CLOSED", "Answer", "Declared", "needed_role", "wrong_with"]

# The contract's list: what is answered before a route is found is one of these.
CLOSED = frozenset({400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 503})
SUCCESS = frozenset({200, 201, 303, 304})
EARLY = frozenset({"bad_request", "bad_host", "too_large", "too_slow", "queue_full"})
FIELDS = {"type", "title", "status", "code", "detail", "where", "request"}
_ECHOED = (MARK * 41).encode()
_MOST_WORDS, _MOST_PLACES = 400, 20
_HEALTH = re.compile(r"^(/v1)?/(healthz|readyz|metrics)\Z")
_ROLES = {
    "viewer": {"viewer"}, "operator": {"viewer", "operator"}, "admin": {"viewer", "operator", "admin"},
    "agent": {"viewer", "agent"}, "": set[str](),
}  # fmt: skip


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]  # names in small letters
    body: bytes


class Declared:
    """Which codes each route may answer, from the service's own description."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self.routes: list[tuple[str, str]] = []
        self._known: list[tuple[re.Pattern[str], dict[str, frozenset[int]]]] = []
        for path, operations in description["paths"].items():
            text = re.sub(r"\{(\w+)\}", lambda m: ".*" if m[1] == "series" else "[^/]+", path)
            codes = {m.upper(): frozenset(map(int, o["responses"])) for m, o in operations.items()}
            self._known.append((re.compile(rf"^{text}\Z"), codes))
            self.routes += [(method, path) for method in codes]

    def codes(self, method: str, path: str) -> frozenset[int]:
        """Of all routes that a path may be; a path that is none is 404, another method 405."""
        found = [codes for pattern, codes in self._known if pattern.match(path)]
        own = frozenset[int]().union(*(codes.get(method, frozenset()) for codes in found))
        return own or frozenset({405 if found else 404})


def needed_role(method: str, path: str) -> str:
    """The role without which nothing is done; "" where nobody is asked."""
    if _HEALTH.match(path):
        return ""
    if method == "POST" and not path.endswith("/verify"):
        last = path.rpartition("/")[2]
        return {"rearm": "admin", "decisions": "agent", "outcomes": "agent", "allocations": "agent"}.get(
            last, "operator"
        )
    return "viewer"


# A head that is none never reaches the application.
BY_THE_SERVER = (400, b"Invalid HTTP request received.")


def wrong_with(sent: Any, answer: Answer, declared: Declared, secrets: tuple[bytes, ...]) -> str:
    """What is wrong with an answer; "" nothing."""
    status, body = answer.status, answer.body
    if (status, body) == BY_THE_SERVER and (sent.is_odd or sent.ends):
        return ""
    if status == 500 or (status not in CLOSED and status not in SUCCESS):
        return f"the code {status}"
    if any(secret in body for secret in secrets):
        return "a secret in the answer"
    path = unquote(sent.target.partition(b"?")[0].decode("latin-1"))
    is_page = path == "/" or path.startswith("/console") or (sent.ends and "/console" in path)
    code = ""
    if status >= 400 and not sent.headless:
        text = _problem(answer, is_page)
        if isinstance(text, str):
            return text
        code = str(text.get("code", ""))
    if sent.ends:
        return ""
    if not sent.is_odd and b"x-request-id" not in answer.headers:
        return "an answer to something else"
    if is_page:
        return ""
    method = sent.method.decode("latin-1")
    if status not in declared.codes(method, path) and not (sent.is_odd and code in EARLY):
        return f"{status} {code}, declared are {sorted(declared.codes(method, path))}"
    needed = needed_role(method, path)
    if status < 400 and needed and sent.role is not None and needed not in _ROLES[sent.role]:
        return f"{status} for the role {sent.role or 'nobody'}, {needed} is needed"
    return ""


def _problem(answer: Answer, is_page: bool) -> dict[str, Any] | str:
    """The content of a problem, or what is wrong with it."""
    status, headers, body = answer.status, answer.headers, answer.body
    kind = headers.get(b"content-type", b"").decode("latin-1")
    if _ECHOED in body and not is_page:
        return "more than 80 characters of the request in the answer"
    if status in (429, 503) and not headers.get(b"retry-after", b"").isdigit():
        return f"{status} without Retry-After"
    if is_page and kind.startswith("text/html"):
        return {}
    if kind != MEDIA:
        return f"{status} as {kind!r}"
    try:
        found = json.loads(body)
    except ValueError:
        return "a problem that is no JSON"
    if not isinstance(found, dict) or not FIELDS <= set(found) <= FIELDS | {"allowed"}:
        return "a problem with other fields"
    if (
        found["status"] != status
        or CODES[found["code"]].status != status
        or CODES[found["code"]].title != found["title"]
    ):
        return f"a problem {found['code']} as {status}"
    if len(found["detail"]) > _MOST_WORDS or len(found["where"]) > _MOST_PLACES:
        return "a problem with many words"
    if any(len(place) > _MOST_WORDS for place in found["where"]):
        return "a problem with long places"
    if found["request"] != headers.get(b"x-request-id", b"").decode("latin-1"):
        return "a problem of another request"
    if status == 401 and b"www-authenticate" not in headers:
        return "401 without WWW-Authenticate"
    if status == 405 and b"allow" not in headers:
        return "405 without Allow"
    return found
