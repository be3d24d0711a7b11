"""Endpoints about plans and the log, and the OpenAPI description."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ucsearch.planner.decide.states import state_columns
from ucsearch.records.canonical import canonical
from ucsearch.service.auth import Viewer, check_plan, check_whole
from ucsearch.service.queries import records as queries
from ucsearch.service.routes.dependencies import ServiceDep, as_json, check_query
from ucsearch.service.routes.openapi import decide_schema, describe, problems
from ucsearch.service.schemas import CheckpointView, LogView, Plans, PlanSchema, StateNames
from ucsearch.service.service import Service

__all__ = ["export_lines", "router"]

router = APIRouter(tags=["plans and log"])
First = Annotated[int, Query(ge=1, le=2**53 - 1, alias="from")]
Last = Annotated[int | None, Query(ge=1, le=2**53 - 1, alias="to")]


@router.get("/plans", summary="All plans")
async def list_plans(service: ServiceDep, principal: Viewer) -> Plans:
    plans = service.plans_of(principal.scope)
    return Plans(await service.read(queries.plans, plans, service.clock(), service.tally))


@router.get("/plans/{plan}/schema", summary="What a request to a plan may say", responses=problems(404))
async def plan_schema(plan: str, service: ServiceDep, principal: Viewer) -> PlanSchema:
    check_plan(principal, plan)
    named = service.plan(plan)
    settings = named.settings
    columns = state_columns(settings.task)
    return PlanSchema(
        plan=named.name, settings=settings.digest, units=settings.units,
        # For whoever reads files: by what their dates follow each other, and what their columns are called.
        period=settings.period, columns=settings.columns.model_dump(exclude_defaults=True),
        state=StateNames(
            tuple(columns.required), tuple(n for n in columns.single if n not in columns.required),
            tuple(columns.several), tuple(sorted(columns.numbers)), tuple(sorted(columns.words)),
        ),
        steps=max(settings.policy.depth, int(getattr(settings.task, "lead_time", 0)) + 1),
        body=decide_schema(service.config.limits),
    )  # fmt: skip


@router.get("/log", summary="How far the log has come")
async def log(service: ServiceDep, principal: Viewer) -> LogView:
    check_whole(principal)
    return await service.read(queries.log_view, service)


@router.get("/log/checkpoint", summary="Count and head, to be kept elsewhere")
async def checkpoint(service: ServiceDep, principal: Viewer) -> CheckpointView:
    check_whole(principal)
    mark = await service.read(lambda reader: reader.checkpoint(max_marks=0))
    return CheckpointView("ucsearch.checkpoint/1", mark.count, mark.head)


class JsonLines(StreamingResponse):
    """JSON, one entry a line."""

    media_type = "application/x-ndjson"


@router.get("/log/export", summary="Entries as JSON lines", response_class=JsonLines)
async def export(
    request: Request, service: ServiceDep, principal: Viewer, first: First = 1, last: Last = None
) -> Response:
    check_query(request, "from", "to")
    check_whole(principal)
    return JsonLines(await export_lines(service, first, last))


async def export_lines(service: Service, first: int = 1, last: int | None = None) -> AsyncIterator[bytes]:
    """Entries as JSON lines, some at a time; a log that cannot be read is a 503 before the first."""
    begun = await service.read(queries.export_part, first, last, "")

    async def lines() -> AsyncIterator[bytes]:
        at, (part, previous) = first, begun
        while part:
            yield b"".join(line + b"\n" for line in part)
            at += len(part)
            part, previous = await service.read_on(queries.export_part, at, last, previous)

    return lines()


@router.get("/openapi.json", summary="This description", response_model=dict[str, Any])
async def openapi(request: Request, _: Viewer) -> Response:
    state = request.app.state
    if not hasattr(state, "description"):
        state.description = await asyncio.to_thread(lambda: canonical(describe(request.app)))
    return as_json(state.description)
