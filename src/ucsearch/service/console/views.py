"""Pages to look at: overview, decisions, a decision, a series, monitors, log, plans, shared limits.

What a page shows is gathered by one function that `Service.read` runs beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ucsearch.allocation.result import Interval
from ucsearch.decision.gate import Reason
from ucsearch.records.canonical import decode_number
from ucsearch.records.entries import AlteredEntry
from ucsearch.records.log import AuditReader
from ucsearch.report.charts import evidence_curve, rank_histogram
from ucsearch.service import monitoring, queries
from ucsearch.service.auth import check_plan, check_whole
from ucsearch.service.bodies import service_of
from ucsearch.service.console import presenters
from ucsearch.service.console.attention import (
    Need,
    decision_needs,
    in_order,
    log_needs,
    monitor_needs,
    plan_needs,
    rows_that_fit,
)
from ucsearch.service.console.render import HEADERS, STYLE, STYLE_PATH, link, page, render
from ucsearch.service.console.sessions import Session
from ucsearch.service.errors import ApiProblem
from ucsearch.service.routes import export_lines
from ucsearch.service.schemas import DecisionLine, EventView, MonitorView, OutcomeView, PlanView, StreamView
from ucsearch.service.service import Service
from ucsearch.service.writer import allocations as shared_limits

__all__ = ["decision_values", "log_page", "router", "show"]

router = APIRouter(include_in_schema=False)
_FILTERS = ("plan", "series", "outcome", "reason", "kind")
_PER_PAGE = 50
_CSV_ROWS = 5_000
_LONG = 1_000  # characters of a filter
_NEEDS = 100
_ALIKE = 50  # series whose names contain what was looked for
_STREAMS = 100  # of a plan
_STARVED = 5  # series of a plan with overdue outcomes that are named
_DRAWN = 5  # plans on one page with pictures
_PALLET = 0.05  # of a limit: what is meant by some more of it, where nobody says
_ROOM = 110_000  # bytes of a page's rows: 150 KB are its limit, and there is more on it

Values = dict[str, Any]  # of a template


async def show(
    request: Request, session: Session, template: str, gather: Callable[..., Values], *arguments: Any, **more: Any
) -> Response:  # fmt: skip
    """A page of what `gather(reader, service, session, *arguments)` finds."""
    service = service_of(request)
    return render(request, session, template, **await service.read(gather, service, session, *arguments), **more)


@router.get("/")
@router.get("/console/", include_in_schema=False)
async def root(request: Request) -> Response:
    return RedirectResponse("/console", 303, HEADERS)


@router.get(STYLE_PATH)
async def style(request: Request) -> Response:
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(STYLE, 200, headers, "text/css; charset=utf-8")


# -------------------------------------------------------------------- overview


@router.get("/console")
@page()
async def overview(request: Request, session: Session) -> Response:
    """What needs a person first, with what helps beside it; then every plan."""
    return await show(request, session, "overview", _overview)


def _overview(reader: AuditReader, service: Service, session: Session) -> Values:
    now = service.clock()
    plans = queries.plans(reader, service.plans_of(session.scope), now, service.tally)
    monitors = {m.plan: m for m in monitoring.monitors(reader, service, session.scope, worths=False)}
    needs = _needs(reader, service, session, plans, monitors)
    most = rows_that_fit([n.series for n in needs[:_NEEDS]], _ROOM - 3_000 * len(plans))
    return {
        "plans": plans, "monitors": monitors, "needs": needs[:most], "more": len(needs) - most,
        "problems": service.not_ready(), "now": now.isoformat(),
    }  # fmt: skip


def _needs(
    reader: AuditReader, service: Service, session: Session, plans: tuple[PlanView, ...],
    monitors: dict[str, MonitorView],
) -> list[Need]:  # fmt: skip
    now = service.clock()
    waiting: list[Need] = []
    if session.scope.is_whole:
        waiting += log_needs(service.integrity.fault, service.upkeep.backup_age_s(), service.config.backup.every_h)
    for m in monitors.values():
        starved = service.plan_states.overdue_series(m.plan, now)
        waiting += monitor_needs(m, starved, service.plan_states.overdue_since(m.plan, now))
    needs = decision_needs(reader, service.tally, [p.name for p in plans], now)
    waiting += [n for n in needs if not n.series or session.scope.has(n.plan, n.series)]
    for plan in plans:
        waiting += plan_needs(plan, service.plans[plan.name].is_changed(service.folder))
    return in_order(waiting)


# -------------------------------------------------------------------- decisions


def _filters(request: Request) -> dict[str, str]:
    filters = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    if any(len(value) > _LONG for value in filters.values()):
        raise ApiProblem("invalid", "a filter is too long")
    filters["reason"] = filters["reason"].replace(" ", "_")  # as tables show it
    if filters["kind"] not in ("", "decision", "refusal"):
        raise ApiProblem("invalid", "kind is decision or refusal")
    return {name: value for name, value in filters.items() if value}


def _before(request: Request) -> int | None:
    text = request.query_params.get("before", "")
    if text and not (text.isascii() and text.isdecimal() and 0 < len(text) <= 15):
        raise ApiProblem("invalid", "before is a number of an entry")
    return int(text) if text else None


@router.get("/console/decisions")
@page()
async def decisions(request: Request, session: Session) -> Response:
    return await show(request, session, "decisions", _decisions, _filters(request), _before(request))


def _decisions(
    reader: AuditReader, service: Service, session: Session, filters: dict[str, str], before: int | None
) -> Values:
    page = queries.decisions(reader, session.scope, **filters, before=before, limit=_PER_PAGE)
    most = rows_that_fit([line.series for line in page.items], _ROOM)
    lines, after = page.items[:most], page.next if most == len(page.items) else page.items[most - 1].seq
    return {
        "lines": lines, "given": filters, "changeable": presenters.changeable(reader, lines, service.clock()),
        "older": link("/decisions", **filters, before=after) if after is not None else "",
        "newest": link("/decisions", **filters) if before is not None else "",
        "csv": link("/decisions.csv", **filters), "plans": list(service.plans_of(session.scope)),
        "reasons": [r.value for r in Reason],
        "alike": () if lines else _similar_names(reader, service, session, filters),
    }  # fmt: skip


def _similar_names(
    reader: AuditReader, service: Service, session: Session, filters: dict[str, str]
) -> list[tuple[str, str]]:
    """Series and plans where the name contains what was looked for: few know the whole name of a series."""
    part, now, matches = filters.get("series", "").casefold(), service.clock(), list[tuple[str, str]]()
    for plan in service.plans_of(session.scope) if part else ():
        if filters.get("plan") in (None, plan):
            service.tally.look(reader, plan, now)
            names = [n.series for n in service.tally.newest(plan, now)]
            matches += [(x, plan) for x in names if part in x.casefold() and session.scope.has(plan, x)]
    return sorted(matches)[:_ALIKE]


@router.get("/console/decisions.csv")
@page()
async def decisions_csv(request: Request, session: Session) -> Response:
    text = await service_of(request).read(_decisions_csv, session, _filters(request))
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="decisions.csv"'}
    return Response(text, 200, headers, "text/csv; charset=utf-8")


def _decisions_csv(reader: AuditReader, session: Session, filters: dict[str, str]) -> bytes:
    lines: list[DecisionLine] = []
    before: int | None = None
    while len(lines) < _CSV_ROWS:
        page = queries.decisions(reader, session.scope, **filters, before=before, limit=500)
        lines += page.items
        if (before := page.next) is None:
            break
    return presenters.csv_text(lines[:_CSV_ROWS])


def _first_reports(outcomes: tuple[OutcomeView, ...]) -> dict[int, float]:
    """The first report of every step, of the first field."""
    out: dict[int, float] = {}
    for o in outcomes:
        value = o.value[0] if isinstance(o.value, list) else o.value
        if not o.replaces and value is not None:
            out.setdefault(o.step, float(decode_number(value)))
    return out


def decision_values(reader: AuditReader, service: Service, session: Session, id: str) -> Values:
    """All that the page of a decision shows."""
    view = queries.decision(reader, id, session.scope)
    plan = service.plans.get(view.line.plan)
    return {
        "view": view, "told": presenters.tell(reader, id, plan, _first_reports(view.outcomes)),
        "levels": presenters.levels_head(), "unit": presenters.action_unit(view.record, plan),
        "expired": presenters.expired(view.line.valid_until, service.clock()),
    }  # fmt: skip


@router.get("/console/decisions/{id}")
@page()
async def decision(request: Request, session: Session) -> Response:
    return await show(request, session, "decision", decision_values, request.path_params["id"], verified=None)


@router.get("/console/series")
@page()
async def series(request: Request, session: Session) -> Response:
    """By query, because a name may hold anything."""
    name = request.query_params.get("name", "")
    if not name or len(name) > _LONG:
        raise ApiProblem("not_found", "there is no decision of this series")
    return await show(request, session, "series", _series, name, request.query_params.get("plan", "")[:_LONG] or None)


def _series(reader: AuditReader, service: Service, session: Session, name: str, plan_name: str | None) -> Values:
    view = queries.series(reader, name, session.scope, service.clock(), plan_name)
    plan = view.newest.plan
    named = service.plans.get(plan)
    other_plans = [p for p in service.plans_of(session.scope) if p != plan and reader.newest(name, p) is not None]
    outcomes = _first_reports(tuple(o for o in view.outcomes if o.decision == view.newest.id))
    explained = presenters.tell(reader, view.newest.id, named, outcomes)
    stream, pool = [monitoring.stream_of(reader, service, plan, stream_name) for stream_name in (name, "")]
    return {
        "view": view, "told": explained, "levels": presenters.levels_head(), "stream": stream, "pool": pool,
        "curve": "" if stream is None else _curve(reader, service, "evidence", plan, stream),
        "history": presenters.history(reader, view, "" if named is None else named.settings.units),
        "unit": explained.action_unit, "others": other_plans,
    }  # fmt: skip


# -------------------------------------------------------------------- monitors


def _curve(reader: AuditReader, service: Service, key: str, plan: str, stream: StreamView) -> str:
    """The evidence of a stream as a picture; "" before there is any."""
    points = monitoring.curve(service, plan, stream.series)
    if not points:
        return ""
    first, last = monitoring.ends(reader, plan, stream.series)
    return evidence_curve(key, "Evidence against the forecasts", points, stream.limit, (first[:10], last[:10]))


@router.get("/console/monitor")
@page()
async def monitor(request: Request, session: Session) -> Response:
    """Every plan, or with `plan` the one: where there are many, each shows its first streams and no pictures."""
    plan_name = request.query_params.get("plan", "")
    if plan_name:
        check_plan(session.principal, plan_name)
    return await show(request, session, "monitor", _monitor, plan_name)


def _monitor(reader: AuditReader, service: Service, session: Session, plan_name: str) -> Values:
    names = list(service.plans_of(session.scope))
    monitors = [
        monitoring.monitor(reader, service, name, session.scope) for name in ([plan_name] if plan_name else names)
    ]
    room = _ROOM // max(1, len(monitors))
    shown = []
    for i, m in enumerate(monitors):
        starved = service.plan_states.overdue_series(m.plan, service.clock())
        if len(monitors) > _DRAWN:
            shown.append((_fit(m, room, starved), "", ""))
            continue
        curve = "" if m.pool is None else _curve(reader, service, f"evidence{i}", m.plan, m.pool)
        title = "Where outcomes fell among the sample paths"
        words = "High ends: too narrow. A hill: too wide. A slope: biased."
        ranks = rank_histogram(f"ranks{i}", title, m.histogram, words) if any(m.histogram) else ""
        shown.append((_fit(m, room - len(curve) - len(ranks), starved), curve, ranks))
    return {"shown": shown, "asked": plan_name, "several": len(names) > 1}


class _Fit(NamedTuple):
    """A monitor with as many of its streams and events as fit on the page."""

    view: MonitorView
    streams: tuple[StreamView, ...]
    tripped: tuple[StreamView, ...]  # all together first, then series; with what to do
    events: tuple[EventView, ...]
    more: int  # streams that are left out
    starved: tuple[tuple[str, int], ...]  # series with overdue outcomes, the most first


def _fit(m: MonitorView, room: int, starved: tuple[tuple[str, int], ...]) -> _Fit:
    all_streams = [m.pool, *m.streams] if m.pool is not None else list(m.streams)
    tripped = [s for s in all_streams if s.state == "tripped"]
    chosen = tuple(tripped[: rows_that_fit([s.series for s in tripped], room // 4)])
    events = m.events[: rows_that_fit([e.series for e in m.events], room // 4)]
    streams = m.streams[: rows_that_fit([s.series for s in m.streams[:_STREAMS]], room // 2)]
    return _Fit(m, streams, chosen, events, len(m.streams) - len(streams), starved[:_STARVED])


# -------------------------------------------------------------------- log, plans, shared limits


@router.get("/console/log")
@page()
async def log(request: Request, session: Session) -> Response:
    check_whole(session.principal)
    return await log_page(request, session)


async def log_page(request: Request, session: Session, report: queries.LogVerified | None = None) -> Response:
    return await show(request, session, "log", _log, report=report)


def _log(reader: AuditReader, service: Service, session: Session) -> Values:
    """Without figures where the log was altered in a place that they need."""
    try:
        view = queries.log_view(reader, service)
    except AlteredEntry as error:
        service.integrity.report(str(error))
        view = None
    return {
        "view": view, "store": service.config.store, "fault": service.integrity.fault,
        "backup_age_s": service.upkeep.backup_age_s(),
    }  # fmt: skip


@router.get("/console/log/export")
@page()
async def export(request: Request, session: Session) -> Response:
    check_whole(session.principal)
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="log.jsonl"'}
    return StreamingResponse(await export_lines(service_of(request)), 200, headers, "application/x-ndjson")


@router.get("/console/plans")
@page()
async def plans(request: Request, session: Session) -> Response:
    return await show(request, session, "plans", _plans)


def _plans(reader: AuditReader, service: Service, session: Session) -> Values:
    named_plans = service.plans_of(session.scope)
    return {
        "plans": queries.plans(reader, named_plans, service.clock(), service.tally), "known": named_plans,
        "changed": {name for name, plan in named_plans.items() if plan.is_changed(service.folder)},
        "tripped": {name for name in named_plans if monitoring.pool_tripped(service, name)},
    }  # fmt: skip


@router.get("/console/allocations")
@page()
async def allocations(request: Request, session: Session) -> Response:
    """Every truck, budget or other limit that was shared, newest first."""
    return await show(request, session, "allocations", _allocations)


def _allocations(reader: AuditReader, service: Service, session: Session) -> Values:
    return {"rows": shared_limits.newest_allocations(reader, session.scope)}


@router.get("/console/allocations/{id}")
@page()
async def allocation(request: Request, session: Session) -> Response:
    """How full it is, its price, who got less, and what some more of it would be worth."""
    return await show(request, session, "allocation", _allocation, request.path_params["id"], _more(request))


def _allocation(reader: AuditReader, service: Service, session: Session, id: str, more: float | None) -> Values:
    row, name = shared_limits.allocation(reader, id, session.scope)
    plan = service.plans.get(name)
    view, allocation = shared_limits.view_of(reader, row, plan)
    worth: dict[str, tuple[float, Interval]] = {}
    if (result := allocation.result) is not None:
        for price in result.table():
            amount = _PALLET * price.limit if more is None else more
            worth[price.resource] = (amount, result.worth_of_more(price.resource, amount))
    less = [item for item in view.items if item.limit]
    shown = less[: rows_that_fit([item.series for item in less], _ROOM)]
    return {
        "view": view, "worth": worth, "less": shown, "more": len(less) - len(shown),
        "units": "" if plan is None else plan.settings.units, "money": "" if plan is None else plan.settings.currency,
    }  # fmt: skip


def _more(request: Request) -> float | None:
    """How much more of a limit is asked about."""
    text = request.query_params.get("more", "").strip()
    try:
        amount = float(text) if text else None
    except ValueError:
        amount = -1.0
    if amount is not None and not 0.0 < amount < 1e12:
        raise ApiProblem("invalid", "more is a number above 0")
    return amount
