"""Endpoints that change something besides deciding, and the monitors."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from ucsearch.service.auth import (
    Admin,
    Agent,
    Operator,
    Viewer,
    as_admin,
    as_agent,
    as_operator,
    check_plan,
    check_series,
)
from ucsearch.service.queries import monitoring
from ucsearch.service.routes.dependencies import Keyed, ServiceDep, as_json, keyed_body
from ucsearch.service.routes.openapi import body_of, problems
from ucsearch.service.schemas import (
    AllocateBody,
    Allocated,
    Controlled,
    Monitors,
    MonitorView,
    OutcomesBody,
    Overridden,
    OverrideBody,
    PauseBody,
    RearmBody,
    RearmedStreams,
    Reports,
    ResumeBody,
    StreamView,
)
from ucsearch.service.writer import actions, allocations, outcomes

__all__ = ["router"]

router = APIRouter(tags=["people and outcomes"])
_WRITES = problems(404, 408, 409, 413, 415)


@router.post(
    "/decisions/{id}/override", status_code=201, summary="A person's action instead", response_model=Overridden,
    responses=_WRITES, openapi_extra=body_of(OverrideBody),
)  # fmt: skip
async def override(
    id: str, service: ServiceDep, principal: Operator,
    asked: Annotated[Keyed[OverrideBody], Depends(keyed_body(OverrideBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.override(service, principal, asked.request, id, asked.body))


@router.post(
    "/plans/{plan}/allocations", status_code=201, summary="Share the plan's limits among decisions",
    response_model=Allocated, responses=_WRITES, openapi_extra=body_of(AllocateBody),
)  # fmt: skip
async def allocate(
    plan: str, service: ServiceDep, principal: Agent,
    asked: Annotated[Keyed[AllocateBody], Depends(keyed_body(AllocateBody, as_agent, many=True))],
) -> Response:  # fmt: skip
    check_plan(principal, plan)
    return _answer(await allocations.allocate(service, principal, asked.request, plan, asked.body))


@router.get("/allocations/{id}", summary="Who got how much of a shared limit", responses=problems(404))
async def allocation(id: str, service: ServiceDep, principal: Viewer) -> Allocated:
    row, plan = await service.read(allocations.allocation, id, principal.scope)
    view, _ = await service.read(allocations.view_of, row, service.plans.get(plan))
    return view


@router.post(
    "/outcomes", status_code=201, summary="Outcomes of decisions", response_model=Reports,
    responses={200: {"description": "all of it was known already", "model": Reports}, **_WRITES},
    openapi_extra=body_of(OutcomesBody),
)  # fmt: skip
async def report(
    service: ServiceDep, principal: Agent,
    asked: Annotated[Keyed[OutcomesBody], Depends(keyed_body(OutcomesBody, as_agent, many=True))],
) -> Response:  # fmt: skip
    return _answer(await outcomes.report(service, principal, asked.request, asked.body))


@router.post(
    "/plans/{plan}/pause", status_code=201, summary="Stop releases", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(PauseBody),
)  # fmt: skip
async def pause(
    plan: str, service: ServiceDep, principal: Operator,
    asked: Annotated[Keyed[PauseBody], Depends(keyed_body(PauseBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.pause(service, principal, asked.request, plan, asked.body))


@router.post(
    "/plans/{plan}/resume", status_code=201, summary="Release again", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(ResumeBody),
)  # fmt: skip
async def resume(
    plan: str, service: ServiceDep, principal: Operator,
    asked: Annotated[Keyed[ResumeBody], Depends(keyed_body(ResumeBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.resume(service, principal, asked.request, plan, asked.body))


@router.post(
    "/monitors/{plan}/rearm", status_code=201, summary="Start tripped streams anew", response_model=RearmedStreams,
    responses=_WRITES, openapi_extra=body_of(RearmBody),
)  # fmt: skip
async def rearm(
    plan: str, service: ServiceDep, principal: Admin,
    asked: Annotated[Keyed[RearmBody], Depends(keyed_body(RearmBody, as_admin))],
) -> Response:  # fmt: skip
    return _answer(await actions.rearm(service, principal, asked.request, plan, asked.body))


@router.get("/monitors", summary="All monitors")
async def monitors(service: ServiceDep, principal: Viewer) -> Monitors:
    return Monitors(tuple(await service.read(monitoring.monitors, service, principal.scope)))


@router.get("/monitors/{plan}", summary="A plan's monitor", responses=problems(404))
async def monitor(plan: str, service: ServiceDep, principal: Viewer) -> MonitorView:
    check_plan(principal, plan)
    return await service.read(monitoring.monitor, service, plan, principal.scope)


@router.get("/monitors/{plan}/{series:path}", summary="One stream", responses=problems(404))
async def stream(plan: str, series: str, service: ServiceDep, principal: Viewer) -> StreamView:
    check_series(principal, plan, series)
    return await service.read(monitoring.stream, service, plan, series)


def _answer(done: actions.Done) -> Response:
    return as_json(done.content, done.status)
