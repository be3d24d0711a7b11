"""What both clients share: address, token, keys, and judging an answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ucsearch.client.exchanges import Exchange
from ucsearch.client.problems import ServiceUnreachable, problem_of
from ucsearch.client.retry import Retry, retry_after
from ucsearch.errors import InputError

if TYPE_CHECKING:
    import httpx

__all__ = ["Base", "Timeout", "httpx_module"]

T = TypeVar("T")
Timeout = float
_HINTS = {  # what to look at, by what the system says
    "Connection refused": " (does the service run, and is this its address?)",
    "WRONG_VERSION_NUMBER": " (what answers there speaks http, not https)",
    "CERTIFICATE_VERIFY_FAILED": " (SSL_CERT_FILE names the file of an authority of your own)",
}


def httpx_module() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise InputError(
            "httpx", "not installed", "it to be", hint="Install it with: pip install 'ucsearch[service]'"
        ) from error
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
        asked = retry_after(response.headers.get("Retry-After"), self._now())
        wait = self._retry.wait_s(tried, exchange.key, asked)
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
