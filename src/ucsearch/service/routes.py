"""Endpoints that decide, and those that show decisions."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.dispatch.decision import Outcome
from ucsearch.dispatch.gate import Reason
from ucsearch.records.canonical import canonical
from ucsearch.service import reads, telling
from ucsearch.service.bodies import DecideBody, read_body, rows_of
from ucsearch.service.core import Service, request_of
from ucsearch.service.described import told
from ucsearch.service.front import principal_of, raw_body
from ucsearch.service.problems import Refusal, shown
from ucsearch.service.schemas import body_of, problems
from ucsearch.service.watching import plain_stream

__all__ = ["Limit", "check_query", "router", "service_of"]

router = APIRouter(tags=["decisions"])
_TAG = {"ETag": {"description": "digest of the record", "required": True, "schema": {"type": "string"}}}
Text = Annotated[str | None, Query(max_length=1_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(ge=1, le=2**53)]


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def check_query(request: Request, *known: str) -> None:
    """Refuse a name that is misspelt, or there twice: it would show something else than was asked, and somebody would
    take it for that."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise Refusal("invalid", "a parameter that is not known", where=(f"query.{shown(name)}",))
        if given.count(name) > 1:
            raise Refusal("invalid", "a parameter that is there twice", where=(f"query.{name}",))


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Canonical bytes, so that equal content is equal text."""
    body = content if isinstance(content, bytes) else canonical(content)
    return Response(body, status, headers, "application/json")


@router.post(
    "/plans/{plan}/decisions", summary="Decide series; every answer is on disk before it is given",
    openapi_extra=body_of(DecideBody),
    responses={**told("Answers"), **problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)},
)  # fmt: skip
async def decide(request: Request, plan: str) -> Response:
    principal = principal_of(request, "agent")
    service = service_of(request)
    found = service.plan(plan)
    raw = await raw_body(request)
    asked = request_of(principal, f"decide/{found.name}", request.headers.get("idempotency-key"), raw)
    service.admit(asked)
    rows = rows_of(read_body(DecideBody, raw), service.config.limits, found.settings)
    return as_json(await service.decide(found, rows, asked))


@router.get(
    "/decisions", summary="Decisions, newest first",
    responses={**told("Decisions"), **problems(401, 403, 422, 429, 503)},
)  # fmt: skip
async def list_decisions(
    request: Request, plan: Text = None, series: Text = None, outcome: Outcome | None = None,
    reason: Reason | None = None, kind: Literal["decision", "refusal"] | None = None, before: Before = None,
    limit: Limit = 50,
) -> Response:  # fmt: skip
    principal_of(request, "viewer")
    asked = {"plan": plan, "series": series, "outcome": outcome, "reason": reason, "kind": kind}
    check_query(request, *asked, "before", "limit")
    given = {k: str(v) for k, v in asked.items() if v is not None}

    def run(reader: Any) -> reads.DecisionPage:
        return reads.decisions(reader, **given, before=before, limit=limit)

    page = await service_of(request).read(run)
    after = None if page.next is None else f"/v1/decisions?{urlencode({**given, 'before': page.next, 'limit': limit})}"
    return as_json({"items": reads.plain(page.items), "next": after})


@router.get(
    "/decisions/{id}", summary="A record's canonical bytes",
    responses={**told("Record", headers=_TAG), 304: {"description": "as If-None-Match has it", "headers": _TAG},
               **problems(401, 403, 404, 429, 503)},
    openapi_extra={"parameters": [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}]},
)  # fmt: skip
async def one_decision(request: Request, id: str) -> Response:
    principal_of(request, "viewer")
    row = await service_of(request).read_one(reads.find_row, id)
    tag = f'"{row.digest}"'
    known = {part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:  # proxies that compress make weak tags of ours
        return Response(status_code=304, headers={"ETag": tag})
    return as_json(row.body, headers={"ETag": tag})


@router.get(
    "/decisions/{id}/explain", summary="Words and a picture",
    responses={**told("Explained"), **problems(401, 403, 404, 429, 503)},
)  # fmt: skip
async def explain(request: Request, id: str) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    return as_json(reads.plain(await service.read_one(telling.explain, id, service.plans)))


@router.post(
    "/decisions/{id}/verify", summary="Derive it again",
    responses={**told("Verified"), **problems(401, 403, 404, 429, 503)},
)  # fmt: skip
async def verify(request: Request, id: str) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    return as_json(reads.plain(await service.verify(id)))


@router.get(
    "/series/{series:path}", summary="A series as it stands",
    responses={**told("Series"), **problems(401, 403, 404, 429, 503)},
)  # fmt: skip
async def one_series(request: Request, series: str, plan: Text = None) -> Response:
    principal_of(request, "viewer")
    check_query(request, "plan")
    service = service_of(request)
    # Where the log was rotated since, what counts is in the file before.
    found = await service.read_one(reads.series, series, service.clock(), plan)
    name = found.newest.plan
    own = {
        "monitor": plain_stream(service, name, series),
        "overdue": service.standing.overdue(name, service.clock(), series),
    }
    return as_json({**reads.plain(found), **own})
