"""What can go wrong: the service says no, or cannot be reached."""

from __future__ import annotations

import json
from typing import Any

from ucsearch.errors import UCSearchError

__all__ = ["ServiceProblem", "ServiceUnreachable", "problem_of"]


class ServiceProblem(UCSearchError):
    """The service's own answer: a status of 400 or more with a code of its closed list; `content` is its JSON."""

    def __init__(self, status: int, content: dict[str, Any]) -> None:
        self.status = status
        self.code = str(content.get("code", ""))  # such as "not_newest"; "" where something in between answered
        self.title = str(content.get("title", ""))
        self.detail = str(content.get("detail", ""))
        self.where = tuple(str(x) for x in content.get("where", ()) or ())
        self.allowed = tuple(str(x) for x in content.get("allowed", ()) or ())  # labels, for an override that is not
        self.request = str(content.get("request", ""))  # its id in the service's text log
        words = ": ".join(x for x in (self.title or f"status {status}", self.detail) if x)
        places = f" ({'; '.join(self.where[:3])})" if self.where else ""
        allowed = f"; allowed: {', '.join(self.allowed)}" if self.allowed else ""
        super().__init__(f"{status} {words}{places}{allowed}")


class ServiceUnreachable(UCSearchError):
    """No answer, or none that could be read, after all tries; `reason` says which. What was sent may have been
    recorded: send it again with the same `key` to find out."""

    def __init__(self, reason: str, key: str = "") -> None:
        self.key = key
        super().__init__(f"{reason}; sent again with the same key it is done once" if key else reason)


def problem_of(status: int, body: bytes) -> ServiceProblem:
    try:
        content = json.loads(body)
    except ValueError:  # a proxy's page
        content = {}
    return ServiceProblem(status, content if isinstance(content, dict) else {})
