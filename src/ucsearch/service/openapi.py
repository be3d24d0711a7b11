"""The OpenAPI description: FastAPI's own, with the bodies that endpoints read themselves, and this service's limits."""

from __future__ import annotations

from typing import Any

from fastapi.openapi.utils import get_openapi

from ucsearch.service.config import Limits
from ucsearch.service.schemas import BODIES, PROBLEM, DecideBody, problems

__all__ = ["decide_schema", "describe"]


def describe(app: Any) -> dict[str, Any]:
    """The description of an application and the limits it runs with."""
    limits: Limits = app.state.service.config.limits
    made: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's, which nobody is answered with
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    for kind in BODIES:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = schema
    _limit(schemas, limits)
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _complete(operation, path)
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    made["info"]["x-limits"] = limits.model_dump()
    return made


def _complete(operation: dict[str, Any], path: str) -> None:
    """What every route may answer besides: doubled headers and unknown hosts are refused before any of them."""
    if path.rpartition("/")[2] in ("healthz", "readyz", "metrics"):
        operation["security"] = [{}, {"token": []}]  # no token is asked for on loopback
    operation["responses"] |= {str(k): v for k, v in problems(400, 405, 422, 503).items()}
    if "requestBody" not in operation and "{" not in path and not operation.get("parameters"):
        operation["responses"].pop("422")


def decide_schema(limits: Limits) -> dict[str, Any]:
    """The body of a request to decide, with the limits of this service."""
    schema = DecideBody.model_json_schema()
    _limit({"DecideBody": schema, **schema["$defs"]}, limits)
    return schema


def _limit(schemas: dict[str, Any], limits: Limits) -> None:
    """Write the limits of this service into the schemas of bodies."""
    for name in ("DecideBody", "OutcomesBody"):
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
