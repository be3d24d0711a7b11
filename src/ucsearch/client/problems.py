"""What can go wrong: the service says no, or cannot be reached."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ucsearch.errors import UCSearchError

__all__ = ["ServiceProblem", "ServiceUnreachable", "problem_of"]

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


def _named(found: re.Match[str], about: Sequence[str]) -> str:
    """An item by its series too: in a file of thousands nobody counts."""
    at = int(found[1])
    return f"{found[0]} {about[at]!r}" if at < len(about) else found[0]


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
