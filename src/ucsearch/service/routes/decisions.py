"""Endpoints that decide, and those that show decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.dispatch.decision import Outcome
from ucsearch.dispatch.gate import Reason
from ucsearch.service import reads, telling
from ucsearch.service.auth import Agent, Viewer
from ucsearch.service.bodies import parse, read_body, received, rows_of
from ucsearch.service.core import request_of
from ucsearch.service.routes.common import Limit, ServiceDep, Text, as_json, check_query
from ucsearch.service.schemas import Answers, DecideBody, Decisions, Record, Series, body_of, problems
from ucsearch.service.watching import plain_stream

__all__ = ["router"]

router = APIRouter(tags=["decisions"])
_TAG = {"ETag": {"description": "digest of the record", "required": True, "schema": {"type": "string"}}}
_READS = problems(401, 403, 404, 429, 503)
Before = Annotated[int | None, Query(ge=1, le=2**53)]


@router.post(
    "/plans/{plan}/decisions", summary="Decide series; every answer is on disk before it is given",
    response_model=Answers, openapi_extra=body_of(DecideBody),
    responses=problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
)  # fmt: skip
async def decide(request: Request, plan: str, service: ServiceDep, principal: Agent) -> Response:
    named_plan, limits = service.plan(plan), service.config.limits
    async with received(request, limits.body_bytes) as raw:
        named = request_of(principal, f"decide/{named_plan.name}", request.headers.get("idempotency-key"), raw)
        service.admit(named)
        rows = await parse(raw, lambda: rows_of(read_body(DecideBody, raw), limits, named_plan.settings))
    return as_json(await service.decide(named_plan, rows, named))


@router.get("/decisions", summary="Decisions, newest first", responses=problems(401, 403, 422, 429, 503))
async def list_decisions(
    request: Request, service: ServiceDep, _: Viewer, plan: Text = None, series: Text = None,
    outcome: Outcome | None = None, reason: Reason | None = None, kind: Literal["decision", "refusal"] | None = None,
    before: Before = None, limit: Limit = 50,
) -> Decisions:  # fmt: skip
    filters = {"plan": plan, "series": series, "outcome": outcome, "reason": reason, "kind": kind}
    check_query(request, *filters, "before", "limit")
    given = {k: str(v) for k, v in filters.items() if v is not None}

    def run(reader: Any) -> reads.DecisionPage:
        return reads.decisions(reader, **given, before=before, limit=limit)

    page = await service.read(run)
    after = None if page.next is None else f"/v1/decisions?{urlencode({**given, 'before': page.next, 'limit': limit})}"
    return Decisions(page.items, after)


@router.get(
    "/decisions/{id}", summary="A record's canonical bytes", response_model=Record,
    responses={200: {"headers": _TAG}, 304: {"description": "as If-None-Match has it", "headers": _TAG}, **_READS},
    openapi_extra={"parameters": [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]},
)  # fmt: skip
async def one_decision(request: Request, id: str, service: ServiceDep, _: Viewer) -> Response:
    row = await service.read_one(reads.find_row, id)
    tag = f'"{row.digest}"'
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:  # proxies that compress make weak tags of ours
        return Response(status_code=304, headers={"ETag": tag})
    return as_json(row.body, headers={"ETag": tag})


@router.get("/decisions/{id}/explain", summary="Words and a picture", responses=_READS)
async def explain(id: str, service: ServiceDep, _: Viewer) -> telling.Explained:
    return await service.read_one(telling.explain, id, service.plans)


@router.post("/decisions/{id}/verify", summary="Derive it again", responses=_READS)
async def verify(id: str, service: ServiceDep, _: Viewer) -> reads.Verified:
    return await service.verify(id)


@router.get("/series/{series:path}", summary="A series as it stands", response_model=Series, responses=_READS)
async def one_series(
    request: Request, series: str, service: ServiceDep, _: Viewer, plan: Text = None
) -> dict[str, Any]:
    check_query(request, "plan")
    # Where the log was rotated since, what counts is in the file before.
    view = await service.read_one(reads.series, series, service.clock(), plan)
    name = view.newest.plan
    return {
        **reads.plain(view),
        "monitor": plain_stream(service, name, series),
        "overdue": service.standing.overdue(name, service.clock(), series),
    }
