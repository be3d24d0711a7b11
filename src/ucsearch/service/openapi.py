"""The OpenAPI description: as FastAPI writes it, with the bodies that endpoints read themselves, the closed list of
problems, examples, and the limits of the running service. Plans are no part of it: a client that was generated from it
goes on when a plan is added."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from ucsearch.service.config import Limits
from ucsearch.service.errors import CODES, MEDIA
from ucsearch.service.schemas import BODIES, DecideBody

__all__ = ["body_of", "decide_schema", "describe", "problems"]

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
_ID = "3f" * 32
_DECIDE = {
    "items": [
        {
            "series": "SKU-017", "state": {"on_hand": 3, "open_orders": [4]},
            "forecast": {"mean": [5, 6, 5, 4], "std": [1, 1, 1, 1], "cutoff": "2024-05-19T00:00:00Z"},
        }
    ]
}  # fmt: skip
EXAMPLES: dict[str, Any] = {
    "DecideBody": _DECIDE,
    "OutcomesBody": {
        "items": [{"decision": _ID, "step": 1, "value": 6.0, "observed_at": "2024-05-20T21:00:00Z", "taken": 10.0}]
    },
    "AllocateBody": {
        "items": [{"decision": _ID, "columns": {"litres": 2.5, "truck": "A"}}],
        "limits": {"truck": {"A": 6000.0}},
    },
    "OverrideBody": {"action": 5.0, "why": "the van is small today", "expects": _ID},
    "PauseBody": {"why": "stocktaking", "until": "2024-05-20T18:00:00+00:00"},
    "ResumeBody": {"why": "the stock was counted"},
    "RearmBody": {"why": "refitted on this year's sales"},
}


def body_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The body of an endpoint that reads it itself, because its bytes are hashed and searched for doubled keys."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


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


def describe(app: FastAPI) -> dict[str, Any]:
    """The description of an application and the limits it runs with."""
    limits: Limits = app.state.service.config.limits
    description: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's, which nobody is answered with
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    for kind in BODIES:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = {**schema, "example": EXAMPLES[kind.__name__]}
    _limit(schemas, limits)
    for operations in description["paths"].values():
        for operation in operations.values():
            _complete(operation)
    description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    description["security"] = [{"token": []}]
    description["info"]["x-limits"] = limits.model_dump()
    return description


def _complete(operation: dict[str, Any]) -> None:
    """What every route may answer besides: doubled headers and unknown hosts are refused before any of them."""
    operation["responses"] |= {str(k): v for k, v in problems(400, 401, 403, 405, 422, 429, 503).items()}


def decide_schema(limits: Limits) -> dict[str, Any]:
    """The body of a request to decide, with the limits of this service."""
    schema = DecideBody.model_json_schema()
    _limit({"DecideBody": schema, **schema["$defs"]}, limits)
    return schema


def _limit(schemas: dict[str, Any], limits: Limits) -> None:
    """Write the limits of this service into the schemas of bodies."""
    for name in ("DecideBody", "OutcomesBody", "AllocateBody"):
        if name in schemas:
            schemas[name]["properties"]["items"]["maxItems"] = limits.items
    schemas["DecideItem"]["properties"]["series"]["maxLength"] = limits.series_length
    forecast = schemas["ForecastBody"]["properties"]
    for name in ("mean", "std", "members"):
        paths = next(kind for kind in forecast[name]["anyOf"] if kind["type"] == "array")
        paths["maxItems"] = limits.steps
        if name == "members":
            paths["maxItems"], paths["items"]["maxItems"] = limits.members, limits.steps
    levels = next(kind for kind in forecast["quantiles"]["anyOf"] if kind["type"] == "object")
    levels["additionalProperties"]["maxItems"] = limits.steps
