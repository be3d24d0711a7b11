"""Endpoints that change something besides deciding, and the monitors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service import actions, outcomes, watching
from ucsearch.service.bodies import OutcomesBody, OverrideBody, PauseBody, RearmBody, ResumeBody, T, read_body
from ucsearch.service.core import request_of
from ucsearch.service.described import told
from ucsearch.service.front import principal_of, raw_body
from ucsearch.service.reads import plain
from ucsearch.service.routes import as_json, service_of
from ucsearch.service.schemas import body_of, problems

__all__ = ["action_router"]

action_router = APIRouter(tags=["people and outcomes"])
_WRITES = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)


async def _asked(request: Request, role: str, route: str, kind: type[T]) -> tuple[Any, Any, T]:
    """Who, under which request, and what."""
    principal = principal_of(request, role)
    raw = await raw_body(request)
    asked = request_of(principal, route, request.headers.get("idempotency-key"), raw)
    return principal, asked, read_body(kind, raw)


def _told(done: actions.Done) -> Response:
    return as_json(done.content, done.status)


@action_router.post(
    "/decisions/{id}/override", status_code=201, summary="A person's action instead",
    responses={**told("Overridden", 201), **_WRITES}, openapi_extra=body_of(OverrideBody),
)  # fmt: skip
async def override(request: Request, id: str) -> Response:
    who, asked, body = await _asked(request, "operator", f"override/{id}", OverrideBody)
    return _told(await actions.override(service_of(request), who, asked, id, body))


@action_router.post(
    "/outcomes", status_code=201, summary="What came of decisions", openapi_extra=body_of(OutcomesBody),
    responses={**_WRITES, **told("Reports", 201), **told("Reports", says="all of it was known already")},
)  # fmt: skip
async def report(request: Request) -> Response:
    who, asked, body = await _asked(request, "agent", "outcomes", OutcomesBody)
    return _told(await outcomes.report(service_of(request), who, asked, body))


@action_router.post(
    "/plans/{plan}/pause", status_code=201, summary="Stop releases", openapi_extra=body_of(PauseBody),
    responses={**told("Controlled", 201), **_WRITES},
)  # fmt: skip
async def pause(request: Request, plan: str) -> Response:
    who, asked, body = await _asked(request, "operator", f"pause/{plan}", PauseBody)
    return _told(await actions.pause(service_of(request), who, asked, plan, body))


@action_router.post(
    "/plans/{plan}/resume", status_code=201, summary="Release again", openapi_extra=body_of(ResumeBody),
    responses={**told("Controlled", 201), **_WRITES},
)  # fmt: skip
async def resume(request: Request, plan: str) -> Response:
    who, asked, body = await _asked(request, "operator", f"resume/{plan}", ResumeBody)
    return _told(await actions.resume(service_of(request), who, asked, plan, body))


@action_router.post(
    "/monitors/{plan}/rearm", status_code=201, summary="Start a tripped stream anew",
    responses={**told("Rearmed", 201), **_WRITES}, openapi_extra=body_of(RearmBody),
)  # fmt: skip
async def rearm(request: Request, plan: str) -> Response:
    who, asked, body = await _asked(request, "admin", f"rearm/{plan}", RearmBody)
    return _told(await actions.rearm(service_of(request), who, asked, plan, body))


@action_router.get("/monitors", summary="All monitors", responses={**told("Monitors"), **problems(401, 403, 429, 503)})
async def monitors(request: Request) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    return as_json({"items": [plain(m) for m in await watching.monitors(service)]})


@action_router.get(
    "/monitors/{plan}", summary="A plan's monitor",
    responses={**told("MonitorView"), **problems(401, 403, 404, 429, 503)},
)  # fmt: skip
async def monitor(request: Request, plan: str) -> Response:
    principal_of(request, "viewer")
    return as_json(plain(await watching.monitor(service_of(request), plan)))


@action_router.get(
    "/monitors/{plan}/{series:path}", summary="One stream",
    responses={**told("StreamView"), **problems(401, 403, 404, 429, 503)},
)  # fmt: skip
async def stream(request: Request, plan: str, series: str) -> Response:
    principal_of(request, "viewer")
    return as_json(plain(await watching.stream(service_of(request), plan, series)))
