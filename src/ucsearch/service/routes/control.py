"""Endpoints that change something besides deciding, and the monitors."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service import actions, outcomes, watching
from ucsearch.service.auth import Admin, Agent, Operator, Viewer
from ucsearch.service.routes.common import ServiceDep, as_json, named_body
from ucsearch.service.schemas import (
    Controlled,
    Monitors,
    OutcomesBody,
    Overridden,
    OverrideBody,
    PauseBody,
    RearmBody,
    Rearmed,
    Reports,
    ResumeBody,
    body_of,
    problems,
)  # fmt: skip
from ucsearch.service.watching import MonitorView, StreamView

__all__ = ["router"]

router = APIRouter(tags=["people and outcomes"])
_WRITES = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)


@router.post(
    "/decisions/{id}/override", status_code=201, summary="A person's action instead", response_model=Overridden,
    responses=_WRITES, openapi_extra=body_of(OverrideBody),
)  # fmt: skip
async def override(request: Request, id: str, service: ServiceDep, principal: Operator) -> Response:
    named, body = await named_body(request, principal, f"override/{id}", OverrideBody)
    return _answer(await actions.override(service, principal, named, id, body))


@router.post(
    "/outcomes", status_code=201, summary="What came of decisions", response_model=Reports,
    responses={200: {"description": "all of it was known already", "model": Reports}, **_WRITES},
    openapi_extra=body_of(OutcomesBody),
)  # fmt: skip
async def report(request: Request, service: ServiceDep, principal: Agent) -> Response:
    most = service.config.limits.body_bytes
    named, body = await named_body(request, principal, "outcomes", OutcomesBody, most)
    return _answer(await outcomes.report(service, principal, named, body))


@router.post(
    "/plans/{plan}/pause", status_code=201, summary="Stop releases", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(PauseBody),
)  # fmt: skip
async def pause(request: Request, plan: str, service: ServiceDep, principal: Operator) -> Response:
    named, body = await named_body(request, principal, f"pause/{plan}", PauseBody)
    return _answer(await actions.pause(service, principal, named, plan, body))


@router.post(
    "/plans/{plan}/resume", status_code=201, summary="Release again", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(ResumeBody),
)  # fmt: skip
async def resume(request: Request, plan: str, service: ServiceDep, principal: Operator) -> Response:
    named, body = await named_body(request, principal, f"resume/{plan}", ResumeBody)
    return _answer(await actions.resume(service, principal, named, plan, body))


@router.post(
    "/monitors/{plan}/rearm", status_code=201, summary="Start a tripped stream anew", response_model=Rearmed,
    responses=_WRITES, openapi_extra=body_of(RearmBody),
)  # fmt: skip
async def rearm(request: Request, plan: str, service: ServiceDep, principal: Admin) -> Response:
    named, body = await named_body(request, principal, f"rearm/{plan}", RearmBody)
    return _answer(await actions.rearm(service, principal, named, plan, body))


@router.get("/monitors", summary="All monitors", responses=problems(401, 403, 429, 503))
async def monitors(service: ServiceDep, _: Viewer) -> Monitors:
    return Monitors(tuple(await watching.monitors(service)))


@router.get("/monitors/{plan}", summary="A plan's monitor", responses=problems(401, 403, 404, 429, 503))
async def monitor(plan: str, service: ServiceDep, _: Viewer) -> MonitorView:
    return await watching.monitor(service, plan)


@router.get("/monitors/{plan}/{series:path}", summary="One stream", responses=problems(401, 403, 404, 429, 503))
async def stream(plan: str, series: str, service: ServiceDep, _: Viewer) -> StreamView:
    return await watching.stream(service, plan, series)


def _answer(done: actions.Done) -> Response:
    return as_json(done.content, done.status)
