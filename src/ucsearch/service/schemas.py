"""Pieces of the OpenAPI description: bodies that are read by hand, and the closed list of problems."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from ucsearch.service.problems import CODES, MEDIA

__all__ = ["KEY_HEADER", "PROBLEM", "body_of", "problems"]

KEY_HEADER = {
    "name": "Idempotency-Key", "in": "header", "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]{1,128}$"},
    "description": "names the request: the same key gives the same answer, whatever happened in between",
}  # fmt: skip
RETRY_AFTER = {"description": "seconds", "required": True, "schema": {"type": "integer", "minimum": 0}}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "where", "request"],
    "properties": {
        "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
        "code": {"type": "string", "enum": sorted(CODES)}, "detail": {"type": "string"},
        "where": {"type": "array", "items": {"type": "string"}, "maxItems": 20}, "request": {"type": "string"},
        "allowed": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip


def body_of(kind: type[BaseModel], *, keyed: bool = True) -> dict[str, Any]:
    """What FastAPI would have written, had it read the body itself."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {"requestBody": body, **({"parameters": [KEY_HEADER]} if keyed else {})}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers besides success that a route may give."""
    out: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        codes = [code for code, kind in CODES.items() if kind.status == status]
        out[status] = {
            "description": ", ".join(codes),
            "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status in (429, 503):
            out[status]["headers"] = {"Retry-After": RETRY_AFTER}
    return out
