"""What the clients share: address and token, when to send again, and what an answer that is no success means."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ucsearch.errors import InputError, UCSearchError

if TYPE_CHECKING:
    import httpx

    from ucsearch.client.exchanges import Exchange

__all__ = ["Base", "Retry", "ServiceProblem", "ServiceUnreachable", "httpx_module"]

T = TypeVar("T")
_HINTS = {  # what to look at, by what the system says
    "Connection refused": " (does the service run, and is this its address?)",
    "WRONG_VERSION_NUMBER": " (what answers there speaks http, not https)",
    "CERTIFICATE_VERIFY_FAILED": " (SSL_CERT_FILE names the file of an authority of your own)",
}


def httpx_module() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise InputError("httpx", "not installed", "it to be", hint="Install it with: pip install httpx") from error
    return httpx


class Base:
    """Address, token and patience."""

    def __init__(self, url: str, token: str, retry: Retry | None, now: Callable[[], datetime] | None) -> None:
        parts = urlsplit(url)
        # First, so that no other message shows them; httpx would send them in place of the token.
        if parts.username is not None or parts.password is not None:
            raise InputError(
                "url", "a name or password before the host", "an address without; the token is given apart"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError("url", repr(url), "an address such as http://127.0.0.1:8411")
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme == "http" and not local:
            raise InputError("url", repr(url), "https: a token must not cross a network in the clear")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InputError("token", "an odd text", "a token such as ucs_...")  # never shown
        self.url = url.rstrip("/")
        self._wire: dict[str, Any] = {  # for httpx
            "base_url": self.url,
            "headers": {"Authorization": f"Bearer {token}", "Accept": "application/json"},
            "follow_redirects": False,
            # A proxy that the environment names would get the token of a service on this machine in the clear.
            "trust_env": parts.scheme == "https",
        }
        self._retry = Retry() if retry is None else retry
        self._now: Callable[[], datetime] = _utc if now is None else now

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"  # without the token

    @staticmethod
    def new_key() -> str:
        """A key that nobody has used; keep it to send the same request again."""
        return secrets.token_urlsafe(18)

    def _judge(
        self, exchange: Exchange[T], response: httpx.Response, tried: int
    ) -> tuple[T, None] | tuple[None, float]:
        """The answer, or how long to wait before the next try; raises what is final."""
        if response.status_code < 300:
            try:
                return exchange.read(response.status_code, response.content), None
            except ServiceUnreachable as error:
                raise ServiceUnreachable(f"{self.url}: {error}", exchange.key) from error
        problem = problem_of(response.status_code, response.content, exchange.about)
        if not self._retry.again(problem):
            raise problem
        after_s = retry_after(response.headers.get("Retry-After"), self._now())
        wait = self._retry.wait_s(tried, exchange.key, after_s)
        if wait is None:
            raise problem
        return None, wait

    def _patience(self, exchange: Exchange[Any], error: Exception, tried: int) -> float:
        """How long to wait before the next try where no answer came; raises when there is to be none."""
        wait = self._retry.wait_s(tried, exchange.key, None)
        if wait is None:
            text = str(error) or type(error).__name__
            hint = next((words for part, words in _HINTS.items() if part in text), "")
            raise ServiceUnreachable(f"{self.url}: {text}{hint}", exchange.key) from error
        return wait


def _utc() -> datetime:
    return datetime.now(UTC)


_STATUSES = frozenset({408, 429, 502, 503, 504})
_CODES = frozenset({"in_flight"})  # of 409: somebody sent the same key and is not finished


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Waits double from `first_s` to `most_s`, spread by up to half so that many clients do not return together; where
    the service asks for a wait, it is that one, or up to half as much again."""

    tries: int = 6  # requests in all, the first included; waits of 6 add up to 8 seconds at most
    first_s: float = 0.25  # seconds
    most_s: float = 30.0  # seconds; also of what Retry-After asks for; longer is left to the caller

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            raise InputError("retry.tries", repr(self.tries), "a whole number of at least 1")
        if not 0.0 <= self.first_s <= self.most_s < math.inf:
            raise InputError("retry.first_s", self.first_s, f"0 to most_s ({self.most_s})")

    def again(self, problem: ServiceProblem) -> bool:
        """Whether the same request may be answered otherwise a little later than with this `problem`."""
        return problem.status in _STATUSES or (problem.status == 409 and problem.code in _CODES)

    def wait_s(self, tried: int, key: str, after_s: float | None) -> float | None:
        """Seconds before the next try after `tried` of them; None when there is none. `asked` is what Retry-After
        said, in seconds."""
        if tried >= self.tries:
            return None
        # The spread is a function of the key, not of a clock or a global generator.
        draw = int.from_bytes(hashlib.sha256(f"{key} {tried}".encode()).digest()[:4], "big") / 2**32
        if after_s is not None and after_s >= 0.0:
            # Never sooner than asked; a service that is full tells everybody the same.
            return after_s * (1.0 + 0.5 * draw) if after_s <= self.most_s else None
        wait: float = min(self.most_s, self.first_s * 2.0 ** (tried - 1)) * (1.0 - 0.5 * draw)
        return wait


def retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date."""
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (TypeError, ValueError):
        return None


_ITEM = re.compile(r"\bitems\[(\d{1,6})\]")


class ServiceProblem(UCSearchError):
    """The service's own answer: a status of 400 or more with a code of its closed list; `content` is its JSON, `about`
    the series of the request's items, for the message."""

    def __init__(self, status: int, content: dict[str, Any], about: Sequence[str] = ()) -> None:
        self.status = status
        self.code = str(content.get("code", ""))  # such as "not_newest"; "" where something in between answered
        self.title = str(content.get("title", ""))
        self.detail = str(content.get("detail", ""))
        self.where = _texts(content.get("where"))
        self.allowed = _texts(content.get("allowed"))  # labels, for an override that is not
        self.request = str(content.get("request", ""))  # its id in the service's text log
        words = ": ".join(x for x in (self.title or _elsewhere(status), self.detail) if x)
        told = [_ITEM.sub(lambda found: _named(found, about), place) for place in self.where[:3]]
        places = f" ({'; '.join(told)})" if told else ""
        allowed = f"; allowed: {', '.join(self.allowed)}" if self.allowed else ""
        super().__init__(f"{status} {words}{places}{allowed}")


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(x) for x in value) if isinstance(value, list | tuple) else ()


def _elsewhere(status: int) -> str:
    if status < 400:
        return "a redirection, which is not followed: a token is for one address; give that of the service itself"
    return "not the service's own answer: something between, or another program at this address"


def _named(match: re.Match[str], about: Sequence[str]) -> str:
    """An item by its series too: in a file of thousands nobody counts."""
    at = int(match[1])
    return f"{match[0]} {about[at]!r}" if at < len(about) else match[0]


class ServiceUnreachable(UCSearchError):
    """No answer, or none that could be read, after all tries; `reason` says which. What was sent may have been
    recorded: send it again with the same `key` to find out."""

    def __init__(self, reason: str, key: str = "") -> None:
        self.key = key
        super().__init__(f"{reason}; sent again with the same key it is done once" if key else reason)


def problem_of(status: int, body: bytes, about: Sequence[str] = ()) -> ServiceProblem:
    """Of an answer; `about` are the series of the request's items."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):  # a proxy's page
        content = {}
    return ServiceProblem(status, content if isinstance(content, dict) else {}, about)
