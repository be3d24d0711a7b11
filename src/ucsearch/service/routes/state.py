"""Endpoints about plans and the log; health, readiness, metrics, OpenAPI."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from ucsearch.pipeline.cases import state_columns
from ucsearch.service import reads, telling
from ucsearch.service.auth import Viewer, principal_of
from ucsearch.service.core import Service
from ucsearch.service.logbook import log_view
from ucsearch.service.openapi import decide_schema, describe
from ucsearch.service.problems import Refusal
from ucsearch.service.reads import LogView
from ucsearch.service.routes.common import ServiceDep, as_json, check_query
from ucsearch.service.schemas import CheckpointTold, Plans, PlanSchema, State, problems

__all__ = ["exported", "health", "router"]

router = APIRouter(tags=["plans and log"])
health = APIRouter(tags=["health"])
First = Annotated[int, Query(ge=1, le=2**53, alias="from")]
Last = Annotated[int | None, Query(ge=1, le=2**53, alias="to")]


@router.get("/plans", summary="All plans", responses=problems(401, 403, 429, 503))
async def list_plans(service: ServiceDep, _: Viewer) -> Plans:
    return Plans(tuple(await service.read(reads.plans, service.plans, service.clock(), service.tally)))


@router.get("/log", summary="How far the log has come", responses=problems(401, 403, 429, 503))
async def log(service: ServiceDep, _: Viewer) -> LogView:
    return await log_view(service)


@router.get(
    "/plans/{plan}/schema", summary="What a request to a plan may say", response_model=PlanSchema,
    responses=problems(401, 403, 404, 422, 429, 503),
)  # fmt: skip
async def plan_schema(plan: str, service: ServiceDep, _: Viewer) -> dict[str, Any]:
    named = service.plan(plan)
    columns = state_columns(named.settings.task)
    return {
        "plan": named.name, "settings": named.settings.digest, "units": named.settings.units,
        # For whoever reads files: by what their dates follow each other, and what their columns are called.
        "period": named.settings.period, "columns": named.settings.columns.model_dump(exclude_defaults=True),
        "state": {
            "required": list(columns.required), "numbers": [n for n in columns.single if n not in columns.required],
            "lists": list(columns.several), "parameters": sorted(columns.numbers), "words": sorted(columns.words),
        },
        "steps": max(named.settings.policy.depth, int(getattr(named.settings.task, "lead_time", 0)) + 1),
        "body": decide_schema(service.config.limits),
    }  # fmt: skip


@router.get("/log/checkpoint", summary="Count and head, to be kept elsewhere", responses=problems(401, 403, 429, 503))
async def checkpoint(service: ServiceDep, _: Viewer) -> CheckpointTold:
    mark = await service.read(lambda reader: reader.checkpoint(max_marks=0))
    return CheckpointTold("ucsearch.checkpoint/1", mark.count, mark.head)


class JsonLines(StreamingResponse):
    """JSON, one entry a line."""

    media_type = "application/x-ndjson"


@router.get(
    "/log/export", summary="Entries as JSON lines", response_class=JsonLines,
    responses=problems(401, 403, 422, 429, 503),
)  # fmt: skip
async def export(request: Request, service: ServiceDep, _: Viewer, first: First = 1, last: Last = None) -> Response:
    check_query(request, "from", "to")
    return JsonLines(await exported(service, first, last))


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


async def _open_here(request: Request, service: ServiceDep) -> None:
    """No token is asked for on loopback; anywhere else a viewer's."""
    try:
        local = request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        local = False
    if not local or not service.config.server.on_loopback:
        principal_of(request, "viewer")


OpenHere = Annotated[None, Depends(_open_here)]


@health.get("/healthz", summary="The loop is alive", responses=problems(401, 403, 429))
async def healthz(_: OpenHere) -> State:
    return State("ok")


@health.get("/readyz", summary="Decisions can be made", responses=problems(401, 403, 429, 503))
async def readyz(service: ServiceDep, _: OpenHere) -> State:
    if why := service.not_ready():
        raise Refusal("not_ready", ", ".join(why), retry_after=2)
    return State("ready")


@health.get("/metrics", summary="Prometheus", response_class=PlainTextResponse, responses=problems(401, 403, 429))
async def metrics(service: ServiceDep, _: OpenHere) -> Response:
    service.measure()
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get(
    "/openapi.json", summary="This description", response_model=dict[str, Any], responses=problems(401, 403, 429)
)
async def openapi(request: Request, _: Viewer) -> Response:
    return as_json(describe(request.app))
