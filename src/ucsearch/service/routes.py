"""Endpoints under /v1: decisions, what people and outcomes change, monitors, plans and the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ucsearch.decision.decision import Outcome
from ucsearch.decision.gate import Reason
from ucsearch.planner.decide.states import state_columns
from ucsearch.records.canonical import canonical
from ucsearch.records.log import AuditReader
from ucsearch.service import monitoring, queries
from ucsearch.service.auth import (
    Viewer,
    as_admin,
    as_agent,
    as_operator,
    check_plan,
    check_series,
    check_whole,
)
from ucsearch.service.bodies import (
    Keyed,
    Limit,
    ServiceDep,
    Text,
    as_json,
    check_query,
    keyed_body,
    rows_of,
)
from ucsearch.service.openapi import body_of, decide_schema, describe, problems
from ucsearch.service.schemas import (
    AllocateBody,
    Allocated,
    Answers,
    CheckpointView,
    Controlled,
    DecideBody,
    DecisionPage,
    Decisions,
    Explained,
    LogView,
    Monitors,
    MonitorView,
    OutcomesBody,
    Overridden,
    OverrideBody,
    PauseBody,
    Plans,
    PlanSchema,
    RearmBody,
    RearmedStreams,
    Record,
    Reports,
    ResumeBody,
    Series,
    StateNames,
    StreamView,
    Verified,
)
from ucsearch.service.service import Service
from ucsearch.service.writer import actions, allocations, outcomes

__all__ = ["export_lines", "routers"]

decision_router = APIRouter(tags=["decisions"])
_TAG = {"ETag": {"description": "digest of the record", "required": True, "schema": {"type": "string"}}}
Before = Annotated[int | None, Query(ge=1, le=2**53 - 1)]
Deciding = Annotated[Keyed[DecideBody], Depends(keyed_body(DecideBody, as_agent, many=True))]


@decision_router.post(
    "/plans/{plan}/decisions", summary="Decide series; every answer is on disk before it is given",
    response_model=Answers, openapi_extra=body_of(DecideBody), responses=problems(404, 408, 409, 413, 415),
)  # fmt: skip
async def decide(plan: str, service: ServiceDep, keyed: Deciding) -> Response:
    principal = keyed.principal
    check_plan(principal, plan)
    named, limits, body = service.plan(plan), service.config.limits, keyed.body
    for item in body.items if principal.scope.series else ():
        check_series(principal, plan, item.series)
    rows = await service.parse(keyed.size, lambda: rows_of(body, limits, named.settings))
    return as_json(await service.decide(named, rows, keyed.request))


@decision_router.get("/decisions", summary="Decisions, newest first")
async def list_decisions(
    request: Request, service: ServiceDep, principal: Viewer, plan: Text = None, series: Text = None,
    outcome: Outcome | None = None, reason: Reason | None = None, kind: Literal["decision", "refusal"] | None = None,
    before: Before = None, limit: Limit = 50,
) -> Decisions:  # fmt: skip
    filters = {"plan": plan, "series": series, "outcome": outcome, "reason": reason, "kind": kind}
    check_query(request, *filters, "before", "limit")
    chosen = {k: str(v) for k, v in filters.items() if v is not None}

    def run(reader: AuditReader) -> DecisionPage:
        return queries.decisions(reader, principal.scope, **chosen, before=before, limit=limit)

    page = await service.read(run)
    after = None if page.next is None else f"/v1/decisions?{urlencode({**chosen, 'before': page.next, 'limit': limit})}"
    return Decisions(page.items, after)


@decision_router.get(
    "/decisions/{id}", summary="A record's canonical bytes", response_model=Record,
    responses={
        200: {"headers": _TAG}, 304: {"description": "as If-None-Match has it", "headers": _TAG}, **problems(404),
    },
    openapi_extra={"parameters": [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]},
)  # fmt: skip
async def one_decision(request: Request, id: str, service: ServiceDep, principal: Viewer) -> Response:
    row = await service.read(queries.find_row, id, principal.scope)
    tag = f'"{row.digest}"'
    tags = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if tags & {tag, "*"}:  # proxies that compress make weak tags of ours
        return Response(status_code=304, headers={"ETag": tag})
    return as_json(row.body, headers={"ETag": tag})


@decision_router.get("/decisions/{id}/explain", summary="Words and a picture", responses=problems(404))
async def explain(id: str, service: ServiceDep, principal: Viewer) -> Explained:
    return await service.read(queries.explain, id, principal.scope, service.plans)


@decision_router.post("/decisions/{id}/verify", summary="Derive it again", responses=problems(404))
async def verify(id: str, service: ServiceDep, principal: Viewer) -> Verified:
    return await service.verify(id, principal.scope)


@decision_router.get("/series/{series:path}", summary="Current state of a series", responses=problems(404))
async def one_series(
    request: Request, series: str, service: ServiceDep, principal: Viewer, plan: Text = None
) -> Series:
    check_query(request, "plan")

    def run(reader: AuditReader) -> Series:
        view = queries.series(reader, series, principal.scope, service.clock(), plan)
        name = view.newest.plan
        stream = monitoring.stream_of(reader, service, name, series)
        overdue = service.plan_states.overdue(name, service.clock(), series)
        return Series(**vars(view), monitor=stream, overdue=overdue)

    return await service.read(run)


action_router = APIRouter(tags=["people and outcomes"])
_WRITES = problems(404, 408, 409, 413, 415)


@action_router.post(
    "/decisions/{id}/override", status_code=201, summary="A person's action instead", response_model=Overridden,
    responses=_WRITES, openapi_extra=body_of(OverrideBody),
)  # fmt: skip
async def override(
    id: str, service: ServiceDep,
    keyed: Annotated[Keyed[OverrideBody], Depends(keyed_body(OverrideBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.override(service, keyed.principal, keyed.request, id, keyed.body))


@action_router.post(
    "/plans/{plan}/allocations", status_code=201, summary="Share the plan's limits among decisions",
    response_model=Allocated, responses=_WRITES, openapi_extra=body_of(AllocateBody),
)  # fmt: skip
async def allocate(
    plan: str, service: ServiceDep,
    keyed: Annotated[Keyed[AllocateBody], Depends(keyed_body(AllocateBody, as_agent, many=True))],
) -> Response:  # fmt: skip
    check_plan(keyed.principal, plan)
    return _answer(await allocations.allocate(service, keyed.principal, keyed.request, plan, keyed.body))


@action_router.get("/allocations/{id}", summary="Who got how much of a shared limit", responses=problems(404))
async def allocation(id: str, service: ServiceDep, principal: Viewer) -> Allocated:
    row, plan = await service.read(allocations.allocation, id, principal.scope)
    view, _ = await service.read(allocations.view_of, row, service.plans.get(plan))
    return view


@action_router.post(
    "/outcomes", status_code=201, summary="Outcomes of decisions", response_model=Reports,
    responses={200: {"description": "all of it was known already", "model": Reports}, **_WRITES},
    openapi_extra=body_of(OutcomesBody),
)  # fmt: skip
async def report(
    service: ServiceDep,
    keyed: Annotated[Keyed[OutcomesBody], Depends(keyed_body(OutcomesBody, as_agent, many=True))],
) -> Response:  # fmt: skip
    return _answer(await outcomes.report(service, keyed.principal, keyed.request, keyed.body))


@action_router.post(
    "/plans/{plan}/pause", status_code=201, summary="Stop releases", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(PauseBody),
)  # fmt: skip
async def pause(
    plan: str, service: ServiceDep,
    keyed: Annotated[Keyed[PauseBody], Depends(keyed_body(PauseBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.pause(service, keyed.principal, keyed.request, plan, keyed.body))


@action_router.post(
    "/plans/{plan}/resume", status_code=201, summary="Release again", response_model=Controlled, responses=_WRITES,
    openapi_extra=body_of(ResumeBody),
)  # fmt: skip
async def resume(
    plan: str, service: ServiceDep,
    keyed: Annotated[Keyed[ResumeBody], Depends(keyed_body(ResumeBody, as_operator))],
) -> Response:  # fmt: skip
    return _answer(await actions.resume(service, keyed.principal, keyed.request, plan, keyed.body))


@action_router.post(
    "/monitors/{plan}/rearm", status_code=201, summary="Re-arm tripped streams", response_model=RearmedStreams,
    responses=_WRITES, openapi_extra=body_of(RearmBody),
)  # fmt: skip
async def rearm(
    plan: str, service: ServiceDep,
    keyed: Annotated[Keyed[RearmBody], Depends(keyed_body(RearmBody, as_admin))],
) -> Response:  # fmt: skip
    return _answer(await actions.rearm(service, keyed.principal, keyed.request, plan, keyed.body))


@action_router.get("/monitors", summary="All monitors")
async def monitors(service: ServiceDep, principal: Viewer) -> Monitors:
    return Monitors(tuple(await service.read(monitoring.monitors, service, principal.scope)))


@action_router.get("/monitors/{plan}", summary="A plan's monitor", responses=problems(404))
async def monitor(plan: str, service: ServiceDep, principal: Viewer) -> MonitorView:
    check_plan(principal, plan)
    return await service.read(monitoring.monitor, service, plan, principal.scope)


@action_router.get("/monitors/{plan}/{series:path}", summary="One stream", responses=problems(404))
async def stream(plan: str, series: str, service: ServiceDep, principal: Viewer) -> StreamView:
    check_series(principal, plan, series)
    return await service.read(monitoring.stream, service, plan, series)


def _answer(done: actions.Done) -> Response:
    return as_json(done.content, done.status)


state_router = APIRouter(tags=["plans and log"])
First = Annotated[int, Query(ge=1, le=2**53 - 1, alias="from")]
Last = Annotated[int | None, Query(ge=1, le=2**53 - 1, alias="to")]


@state_router.get("/plans", summary="All plans")
async def list_plans(service: ServiceDep, principal: Viewer) -> Plans:
    plans = service.plans_of(principal.scope)
    return Plans(await service.read(queries.plans, plans, service.clock(), service.tally))


@state_router.get("/plans/{plan}/schema", summary="What a request to a plan may say", responses=problems(404))
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


@state_router.get("/log", summary="How far the log has come")
async def log(service: ServiceDep, principal: Viewer) -> LogView:
    check_whole(principal)
    return await service.read(queries.log_view, service)


@state_router.get("/log/checkpoint", summary="Count and head, to be kept elsewhere")
async def checkpoint(service: ServiceDep, principal: Viewer) -> CheckpointView:
    check_whole(principal)
    mark = await service.read(lambda reader: reader.checkpoint(max_marks=0))
    return CheckpointView("ucsearch.checkpoint/1", mark.count, mark.head)


class JsonLinesResponse(StreamingResponse):
    """JSON, one entry a line."""

    media_type = "application/x-ndjson"


@state_router.get("/log/export", summary="Entries as JSON lines", response_class=JsonLinesResponse)
async def export(
    request: Request, service: ServiceDep, principal: Viewer, first: First = 1, last: Last = None
) -> Response:
    check_query(request, "from", "to")
    check_whole(principal)
    return JsonLinesResponse(await export_lines(service, first, last))


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


@state_router.get("/openapi.json", summary="This description", response_model=dict[str, Any])
async def openapi(request: Request, _: Viewer) -> Response:
    state = request.app.state
    if not hasattr(state, "description"):
        state.description = await asyncio.to_thread(lambda: canonical(describe(request.app)))
    return as_json(state.description)


routers = (decision_router, action_router, state_router)
