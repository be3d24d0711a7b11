"""Endpoints about plans and the log; health, readiness, metrics, OpenAPI."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ucsearch.pipeline.cases import state_columns
from ucsearch.service import bodies, described, reads, telling
from ucsearch.service.config import Limits
from ucsearch.service.core import Service
from ucsearch.service.described import told
from ucsearch.service.front import principal_of
from ucsearch.service.logbook import log_view
from ucsearch.service.problems import Refusal
from ucsearch.service.routes import as_json, check_query, service_of
from ucsearch.service.schemas import PROBLEM, problems

__all__ = ["describe", "exported", "health", "state_router"]

state_router = APIRouter(tags=["plans and log"])
_READS = problems(401, 403, 404, 422, 429, 503)
First = Annotated[int, Query(ge=1, le=2**53, alias="from")]
Last = Annotated[int | None, Query(ge=1, le=2**53, alias="to")]
health = APIRouter(tags=["health"])


@state_router.get("/plans", summary="All plans", responses={**told("Plans"), **problems(401, 403, 429, 503)})
async def list_plans(request: Request) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    found = await service.read(reads.plans, service.plans, service.clock(), service.tally)
    return as_json({"items": reads.plain(found)})


@state_router.get(
    "/log", summary="How far the log has come", responses={**told("LogView"), **problems(401, 403, 429, 503)}
)
async def log(request: Request) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    return as_json(reads.plain(await log_view(service)))


@state_router.get(
    "/plans/{plan}/schema", summary="What a request to a plan may say", responses={**told("PlanSchema"), **_READS}
)
async def plan_schema(request: Request, plan: str) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    found = service.plan(plan)
    columns = state_columns(found.settings.task)
    return as_json(
        {
            "plan": found.name, "settings": found.settings.digest, "units": found.settings.units,
            # For whoever reads files: by what their dates follow each other, and what their columns are called.
            "period": found.settings.period, "columns": found.settings.columns.model_dump(exclude_defaults=True),
            "state": {
                "required": list(columns.required), "numbers": [n for n in columns.single if n not in columns.required],
                "lists": list(columns.several), "parameters": sorted(columns.numbers), "words": sorted(columns.words),
            },
            "steps": max(found.settings.policy.depth, int(getattr(found.settings.task, "lead_time", 0)) + 1),
            "body": _limited(service.config.limits),
        }
    )  # fmt: skip


def _limited(limits: Limits) -> dict[str, Any]:
    """The body of a request to decide, with the limits of this service."""
    schema = bodies.DecideBody.model_json_schema()
    described.limit({"DecideBody": schema, **schema["$defs"]}, limits)
    return schema


@state_router.get(
    "/log/checkpoint", summary="Count and head, to be kept elsewhere",
    responses={**told("CheckpointTold"), **problems(401, 403, 429, 503)},
)  # fmt: skip
async def checkpoint(request: Request) -> Response:
    principal_of(request, "viewer")
    found = await service_of(request).read(lambda reader: reader.checkpoint(max_marks=0))
    return as_json({"schema": "ucsearch.checkpoint/1", "count": found.count, "head": found.head})


@state_router.get(
    "/log/export", summary="Entries as JSON lines", response_class=PlainTextResponse,
    responses={**told("Lines", media="application/x-ndjson"), **problems(401, 403, 422, 429, 503)},
)  # fmt: skip
async def export(request: Request, first: First = 1, last: Last = None) -> Response:
    principal_of(request, "viewer")
    check_query(request, "from", "to")
    lines = await exported(service_of(request), first, last)
    return StreamingResponse(lines, media_type="application/x-ndjson")


async def exported(service: Service, first: int = 1, last: int | None = None) -> AsyncIterator[bytes]:
    """Entries as JSON lines, some at a time; a log that cannot be read is a 503 before the first."""
    begun = await service.read(telling.export_part, first, last, "")

    async def lines() -> AsyncIterator[bytes]:
        at, (part, previous) = first, begun
        while part:
            yield b"".join(line + b"\n" for line in part)
            at += len(part)
            part, previous = await service.read(telling.export_part, at, last, previous)

    return lines()


def _open_here(request: Request) -> None:
    """No token is asked for on loopback; anywhere else a viewer's."""
    try:
        local = request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        local = False
    if not local or not service_of(request).config.server.on_loopback:
        principal_of(request, "viewer")


@health.get("/healthz", summary="The loop is alive", responses={**told("State"), **problems(401, 403, 429)})
async def healthz(request: Request) -> Response:
    _open_here(request)
    return as_json({"status": "ok"})


@health.get("/readyz", summary="Decisions can be made", responses={**told("State"), **problems(401, 403, 429, 503)})
async def readyz(request: Request) -> Response:
    _open_here(request)
    if why := service_of(request).not_ready():
        raise Refusal("not_ready", ", ".join(why), retry_after=2)
    return as_json({"status": "ready"})


@health.get(
    "/metrics", summary="Prometheus", response_class=PlainTextResponse,
    responses={**told("Text", media="text/plain"), **problems(401, 403, 429)},
)  # fmt: skip
async def metrics(request: Request) -> Response:
    _open_here(request)
    service = service_of(request)
    service.measure()
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@health.get("/openapi.json", summary="This description", responses={**told("Description"), **problems(401, 403, 429)})
async def openapi(request: Request) -> Response:
    principal_of(request, "viewer")
    return as_json(describe(request.app))


def describe(app: Any) -> dict[str, Any]:
    """The OpenAPI description, with bodies, problems and limits."""
    made: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # the framework's, which nobody is answered with
        schemas.pop(name, None)
    schemas |= described.answer_schemas()
    schemas["Problem"] = PROBLEM
    for kind in bodies.ALL:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = schema
    described.limit(schemas, app.state.service.config.limits)
    for path, operations in made["paths"].items():
        for operation in operations.values():
            _told_of(operation, path, sorted(app.state.service.plans))
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    made["info"]["x-limits"] = app.state.service.config.limits.model_dump()
    return made


def _told_of(operation: dict[str, Any], path: str, plans: list[str]) -> None:
    """What every route may answer besides, and which plans there are."""
    if path.rpartition("/")[2] in ("healthz", "readyz", "metrics"):
        operation["security"] = [{}, {"token": []}]  # none is asked for on loopback
    for content in [answer["content"] for answer in operation["responses"].values() if "content" in answer]:
        for media in [m for m, how in content.items() if not how.get("schema") or how["schema"] == {"type": "string"}]:
            del content[media]  # the framework's guess
    # Headers that are doubled, late or too long, and connections that are too many, are refused before any route.
    operation["responses"] |= {str(k): v for k, v in problems(400, 405, 408, 413, 422, 503).items()}
    if "requestBody" not in operation and "{" not in path and not operation.get("parameters"):
        operation["responses"].pop("422")
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == "plan" and parameter["in"] == "path" and plans:
            parameter["schema"] = {"type": "string", "enum": plans}


def age(since: float) -> float | None:
    return None if not since else time.monotonic() - since
