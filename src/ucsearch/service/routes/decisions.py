"""Endpoints that decide, and those that show decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.decision.decision import Outcome
from ucsearch.decision.gate import Reason
from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.settings import Columns, Settings
from ucsearch.records.reader import AuditReader
from ucsearch.service.auth import Agent, Viewer, as_agent, check_plan, check_series
from ucsearch.service.config import Limits
from ucsearch.service.errors import Problem, excerpt
from ucsearch.service.queries import monitoring
from ucsearch.service.queries import records as queries
from ucsearch.service.routes.dependencies import (
    Keyed,
    Limit,
    ServiceDep,
    Text,
    as_json,
    check_query,
    keyed_body,
    parse,
)
from ucsearch.service.routes.openapi import body_of, problems
from ucsearch.service.schemas import (
    Answers,
    DecideBody,
    DecisionPage,
    Decisions,
    Explained,
    ForecastBody,
    Record,
    Series,
    Verified,
)

__all__ = ["router", "rows_of"]

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

    def run(reader: AuditReader) -> Series:
        view = queries.series(reader, series, principal.scope, service.clock(), plan)
        name = view.newest.plan
        stream = monitoring.stream_of(reader, service, name, series)
        overdue = service.plan_states.overdue(name, service.clock(), series)
        return Series(**vars(view), monitor=stream, overdue=overdue)

    return await service.read(run)


def rows_of(body: DecideBody, limits: Limits, settings: Settings) -> list[dict[str, Any]]:
    """The items as `decide_cases` takes them, after the limits were looked at."""
    names = settings.columns
    known = {"series", *state_columns(settings.task).words}
    texts = {names.date, *names.ignore, *known, *(mine for mine, ours in names.rename.items() if ours in known)}
    rows = []
    seen: set[str] = set()
    for i, item in enumerate(body.items):
        check_series_name(item.series, limits, f"items[{i}].series")
        if item.series in seen:
            raise Problem("invalid", "a series twice", where=(f"items[{i}].series: the series is there already",))
        seen.add(item.series)
        where = f"items[{i}].state"
        state = {name: _state_value(name, value, where, names.series, texts) for name, value in item.state.items()}
        rows.append({"series": item.series, **state, "forecast": _forecast(item.forecast, i, limits, names)})
    return rows


def _state_value(name: str, value: Any, where: str, series_column: str, texts: set[str]) -> Any:
    """A member of a state: a number, a list of numbers, nothing, or a text where the task has a word there."""
    if name in ("series", "forecast", series_column):
        raise Problem("invalid", "a reserved name", where=(f"{where}.{name}: not a state",))
    if not name.isprintable() or len(name) > 200 or (isinstance(value, str) and not value.isprintable()):
        raise Problem("invalid", "an odd name", where=(f"{where}: names and words are printable",))
    numbers = value if isinstance(value, list) else [] if isinstance(value, str) else [value]
    if not all(x is None or _is_number(x) for x in numbers):
        raise Problem("invalid", "no number", where=(f"{where}.{excerpt(name)}: a finite number is expected",))
    if isinstance(value, str) and name not in texts:
        # A file has only texts; here a text that looks like a number is somebody's mistake.
        raise Problem("invalid", "a text", where=(f"{where}.{excerpt(name)}: a number is expected",))
    if isinstance(value, list):
        return [None if x is None else float(x) for x in value]
    return value if value is None or isinstance(value, str) else float(value)


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:  # a whole number beyond every float
        return False


def check_series_name(name: str, limits: Limits, where: str) -> None:
    if len(name) > limits.series_length:
        raise Problem("invalid", "a long name", where=(f"{where}: at most {limits.series_length} characters",))
    if name in (".", ".."):  # clients and browsers take them out of an address: nobody could look at it
        raise Problem("invalid", "an odd name", where=(f"{where}: a name that an address can hold",))
    if not name.isprintable() or name != name.strip():
        raise Problem("invalid", "an odd name", where=(f"{where}: no control characters, no spaces around it",))


def _forecast(given: ForecastBody, i: int, limits: Limits, names: Columns) -> dict[str, Any]:
    lists: Mapping[str, Any] = {  # under the names that the plan's settings have for them
        "members": given.members, names.mean: given.mean, names.std: given.std,
        **{f"{names.quantiles}{level}": values for level, values in (given.quantiles or {}).items()},
    }  # fmt: skip
    out = {name: values for name, values in lists.items() if values is not None}
    paths = given.members if given.members is not None else list(out.values())
    longest = max(map(len, paths), default=0)
    if len(paths) > limits.members or longest > limits.steps or len(paths) * longest > limits.numbers:
        raise Problem(
            "too_large",
            f"{len(paths)} x {longest} numbers, at most {limits.members} members, {limits.steps} steps and "
            f"{limits.numbers} together",
            where=(f"items[{i}].forecast",),
        )
    if given.members is not None:
        out["members"] = given.members
    for name in ("issued", "cutoff", "model"):
        if (value := getattr(given, name)) is not None:
            if not value.isprintable():
                raise Problem("invalid", "an odd text", where=(f"items[{i}].forecast.{name}: printable text",))
            out[name] = value
    return out
