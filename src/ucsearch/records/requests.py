"""Who asked for an entry, and as which item of which request: what makes a repeat a repeat.

Two equal decisions are two releases and two entries. A caller that was cut off before its receipt asks again under the
same request; the log then returns the entry it has. Only key and item decide about that; the rest are words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ucsearch.errors import InputError, RecordError

__all__ = ["Request", "Under", "as_request", "check_request"]

_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DOMAIN = b"ucsearch/request/1\0"
_ITEMS = 2**53


@dataclass(frozen=True, slots=True)
class Request:
    """One item of one request; the member `request` of its record."""

    key: str  # SHA-256 of whatever names the request: 64 hex digits
    item: int = 0  # its place among the request's items
    body: str = ""  # SHA-256 of what was asked, "" when nobody kept it
    by: str = ""  # who asked

    def __post_init__(self) -> None:
        check_request(self.content())

    @classmethod
    def named(cls, text: str, *, by: str = "") -> Request:
        """The request that this text names."""
        if not isinstance(text, str) or not text:
            raise InputError("request", repr(text), "a text that names the request")
        return cls(hashlib.sha256(_DOMAIN + text.encode("utf-8", "surrogatepass")).hexdigest(), by=by)

    def at(self, offset: int) -> Request:
        """The item so many places further on."""
        return replace(self, item=self.item + offset) if offset else self

    def content(self) -> dict[str, Any]:
        """As its record holds it."""
        words = {name: value for name, value in (("body", self.body), ("by", self.by)) if value}
        return {"key": self.key, "item": self.item, **words}


@dataclass(frozen=True, slots=True)
class Under:
    """Under which plan of a service a decision was made, and until when it may be followed: words of its record."""

    plan: str
    valid_until: str  # ISO time with its offset; "" when there is no end

    def content(self) -> dict[str, str]:
        return {"plan": self.plan, "valid_until": self.valid_until}


def as_request(request: Request | str | None) -> Request | None:
    return Request.named(request) if isinstance(request, str) else request


def check_request(content: Any) -> tuple[str, int]:
    """Key and item of a record's `request`; anything else than its four members is refused."""
    if not isinstance(content, Mapping):
        raise RecordError(f"record.request: saw a {type(content).__name__}, expected an object")
    if odd := sorted(set(content) - {"key", "item", "body", "by"}):
        raise RecordError(f"record.request.{odd[0]}: an unknown member")
    key, item = content.get("key"), content.get("item")
    for name in ("key", "body"):
        value = content.get(name, key)
        if not isinstance(value, str) or _HEX.fullmatch(value) is None:
            raise RecordError(f"record.request.{name}: saw {value!r}, expected 64 hex digits")
    if type(item) is not int or not 0 <= item <= _ITEMS:
        raise RecordError(f"record.request.item: saw {item!r}, expected a number from 0")
    if not isinstance(content.get("by", ""), str):
        raise RecordError(f"record.request.by: saw {content['by']!r}, expected text")
    return str(key), item
