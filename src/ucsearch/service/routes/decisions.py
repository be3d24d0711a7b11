"""Endpoints that decide, and those that show decisions."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.decision.decision import Outcome
from ucsearch.decision.gate import Reason
from ucsearch.records.reader import AuditReader
from ucsearch.service.auth.principals import Agent, Viewer, as_agent, check_plan, check_series
from ucsearch.service.queries import monitoring
from ucsearch.service.queries import records as queries
from ucsearch.service.routes.bodies import parse, rows_of
from ucsearch.service.routes.common import Keyed, Limit, ServiceDep, Text, as_json, check_query, keyed_body
from ucsearch.service.routes.openapi import body_of, problems
from ucsearch.service.schemas import (
    Answers,
    DecideBody,
    DecisionPage,
    Decisions,
    Explained,
    Record,
    Series,
    Verified,
)

__all__ = ["router"]

router = APIRouter(tags=["decisions"])
_TAG = {"ETag": {"description": "digest of the record", "required": True, "schema": {"type": "string"}}}
Before = Annotated[int | None, Query(ge=1, le=2**53 - 1)]
Deciding = Annotated[Keyed[DecideBody], Depends(keyed_body(DecideBody, as_agent, many=True))]


@router.post(
    "/plans/{plan}/decisions", summary="Decide series; every answer is on disk before it is given",
    response_model=Answers, openapi_extra=body_of(DecideBody), responses=problems(404, 408, 409, 413, 415),
)  # fmt: skip
async def decide(plan: str, service: ServiceDep, principal: Agent, asked: Deciding) -> Response:
    check_plan(principal, plan)
    named, limits, body = service.plan(plan), service.config.limits, asked.body
    for item in body.items if principal.scope.series else ():
        check_series(principal, plan, item.series)
    rows = await parse(asked.size, lambda: rows_of(body, limits, named.settings))
    return as_json(await service.decide(named, rows, asked.request))


@router.get("/decisions", summary="Decisions, newest first")
async def list_decisions(
    request: Request, service: ServiceDep, principal: Viewer, plan: Text = None, series: Text = None,
    outcome: Outcome | None = None, reason: Reason | None = None, kind: Literal["decision", "refusal"] | None = None,
    before: Before = None, limit: Limit = 50,
) -> Decisions:  # fmt: skip
    filters = {"plan": plan, "series": series, "outcome": outcome, "reason": reason, "kind": kind}
    check_query(request, *filters, "before", "limit")
    given = {k: str(v) for k, v in filters.items() if v is not None}

    def run(reader: AuditReader) -> DecisionPage:
        return queries.decisions(reader, principal.scope, **given, before=before, limit=limit)

    page = await service.read(run)
    after = None if page.next is None else f"/v1/decisions?{urlencode({**given, 'before': page.next, 'limit': limit})}"
    return Decisions(page.items, after)


@router.get(
    "/decisions/{id}", summary="A record's canonical bytes", response_model=Record,
    responses={
        200: {"headers": _TAG}, 304: {"description": "as If-None-Match has it", "headers": _TAG}, **problems(404),
    },
    openapi_extra={"parameters": [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]},
)  # fmt: skip
async def one_decision(request: Request, id: str, service: ServiceDep, principal: Viewer) -> Response:
    row = await service.read(queries.find_row, id, principal.scope)
    tag = f'"{row.digest}"'
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:  # proxies that compress make weak tags of ours
        return Response(status_code=304, headers={"ETag": tag})
    return as_json(row.body, headers={"ETag": tag})


@router.get("/decisions/{id}/explain", summary="Words and a picture", responses=problems(404))
async def explain(id: str, service: ServiceDep, principal: Viewer) -> Explained:
    return await service.read(queries.explain, id, principal.scope, service.plans)


@router.post("/decisions/{id}/verify", summary="Derive it again", responses=problems(404))
async def verify(id: str, service: ServiceDep, principal: Viewer) -> Verified:
    return await service.verify(id, principal.scope)


@router.get("/series/{series:path}", summary="A series as it stands", responses=problems(404))
async def one_series(
    request: Request, series: str, service: ServiceDep, principal: Viewer, plan: Text = None
) -> Series:
    check_query(request, "plan")
    # Where the log was rotated since, what counts is in the file before.
    view = await service.read(queries.series, series, principal.scope, service.clock(), plan)
    name = view.newest.plan
    stream = await monitoring.stream_of(service, name, series)
    return Series(**vars(view), monitor=stream, overdue=service.plan_states.overdue(name, service.clock(), series))
