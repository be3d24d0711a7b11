"""When to send a request again, and how long to wait before."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from ucsearch.client.problems import ServiceProblem
from ucsearch.errors import InputError

__all__ = ["Retry"]

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

    def wait_s(self, tried: int, key: str, asked: float | None) -> float | None:
        """Seconds before the next try after `tried` of them; None when there is none. `asked` is what Retry-After
        said, in seconds."""
        if tried >= self.tries:
            return None
        # The spread is a function of the key, not of a clock or a global generator.
        draw = int.from_bytes(hashlib.sha256(f"{key} {tried}".encode()).digest()[:4], "big") / 2**32
        if asked is not None and asked >= 0.0:
            # Never sooner than asked; a service that is full tells everybody the same.
            return asked * (1.0 + 0.5 * draw) if asked <= self.most_s else None
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
