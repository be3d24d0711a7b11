"""Pages to look at: overview, decisions, a decision, a series, monitors, log, plans."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ucsearch.allocation.result import Interval
from ucsearch.decision.gate import Reason
from ucsearch.records.canonical import decode_number
from ucsearch.records.reader import AuditReader
from ucsearch.report.charts import evidence_curve, rank_histogram
from ucsearch.service.auth import check_plan, check_whole
from ucsearch.service.console import presenters
from ucsearch.service.console.attention import (
    Need,
    decision_needs,
    fitting,
    in_order,
    log_needs,
    monitor_needs,
    plan_needs,
)
from ucsearch.service.console.render import HEADERS, STYLE, STYLE_PATH, link, page, render
from ucsearch.service.console.sessions import Session
from ucsearch.service.errors import Problem
from ucsearch.service.queries import monitoring
from ucsearch.service.queries import records as queries
from ucsearch.service.routes.dependencies import service_of
from ucsearch.service.routes.state import exported
from ucsearch.service.schemas import (
    Allocated,
    DecisionLine,
    DecisionPage,
    EventView,
    MonitorView,
    OutcomeView,
    PlanView,
    StreamView,
)
from ucsearch.service.service import Service
from ucsearch.service.storage.store import LogVerified, log_view
from ucsearch.service.writer import allocations as shared_limits

__all__ = ["decision_values", "log_page", "router"]

router = APIRouter(include_in_schema=False)
_FILTERS = ("plan", "series", "outcome", "reason", "kind")
_PER_PAGE = 50
_CSV_ROWS = 5_000
_LONG = 1_000  # characters of a filter
_NEEDS = 100
_STREAMS = 100  # of a plan
_STARVED = 5  # series of a plan with overdue outcomes that are named
_DRAWN = 5  # plans on one page with pictures
_PALLET = 0.05  # of a limit: what is meant by some more of it, where nobody says
_ROOM = 110_000  # bytes of a page's rows: 150 KB are its limit, and there is more on it


@router.get("/")
@router.get("/console/", include_in_schema=False)
async def root(request: Request) -> Response:
    return RedirectResponse("/console", 303, HEADERS)


@router.get(STYLE_PATH)
async def style(request: Request) -> Response:
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(STYLE, 200, headers, "text/css; charset=utf-8")


@router.get("/console")
@page()
async def overview(request: Request, session: Session) -> Response:
    """What needs a person first, with what helps beside it; then every plan."""
    return await overview_page(request, session)


async def overview_page(request: Request, session: Session) -> Response:
    service = service_of(request)
    now = service.clock()
    plans = await service.read(queries.plans, service.plans_of(session.scope), now, service.tally)
    monitors = {m.plan: m for m in await monitoring.monitors(service, session.scope, worths=False)}
    needs = await _needs(service, session, plans, monitors)
    most = fitting([n.series for n in needs[:_NEEDS]], _ROOM - 3_000 * len(plans))
    return render(
        request, session, "overview", plans=plans, monitors=monitors, needs=needs[:most], more=len(needs) - most,
        problems=service.not_ready(), now=now.isoformat(),
    )  # fmt: skip


async def _needs(
    service: Service, session: Session, plans: tuple[PlanView, ...], monitors: dict[str, MonitorView]
) -> list[Need]:
    now = service.clock()
    found: list[Need] = []
    if session.scope.is_whole:
        found += log_needs(service.integrity.fault, service.upkeep.backup_age_s(), service.config.backup.every_h)
    for m in monitors.values():
        starved = service.plan_states.starved(m.plan, now)
        found += monitor_needs(m, starved, service.plan_states.overdue_since(m.plan, now))
    needs = await service.read(decision_needs, service.tally, [p.name for p in plans], now)
    found += [n for n in needs if not n.series or session.scope.has(n.plan, n.series)]
    for plan in plans:
        found += plan_needs(plan, service.plans[plan.name].is_changed(service.folder))
    return in_order(found)


def _filters(request: Request) -> dict[str, str]:
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    if any(len(value) > _LONG for value in given.values()):
        raise Problem("invalid", "a filter is too long")
    given["reason"] = given["reason"].replace(" ", "_")  # as tables show it
    if given["kind"] not in ("", "decision", "refusal"):
        raise Problem("invalid", "kind is decision or refusal")
    return {name: value for name, value in given.items() if value}


def _before(request: Request) -> int | None:
    text = request.query_params.get("before", "")
    if text and not (text.isascii() and text.isdecimal() and 0 < len(text) <= 15):
        raise Problem("invalid", "before is a number of an entry")
    return int(text) if text else None


@router.get("/console/decisions")
@page()
async def decisions(request: Request, session: Session) -> Response:
    service, given, before = service_of(request), _filters(request), _before(request)

    def run(reader: AuditReader) -> tuple[DecisionPage, frozenset[str]]:
        found = queries.decisions(reader, session.scope, **given, before=before, limit=_PER_PAGE)
        return found, presenters.changeable(reader, found.items, service.clock())

    found, changeable = await service.read(run)
    most = fitting([line.series for line in found.items], _ROOM)
    lines, after = found.items[:most], found.next if most == len(found.items) else found.items[most - 1].seq
    older = link("/decisions", **given, before=after) if after is not None else ""
    newest = link("/decisions", **given) if before is not None else ""
    return render(
        request, session, "decisions", lines=lines, given=given, older=older, newest=newest, changeable=changeable,
        csv=link("/decisions.csv", **given), plans=list(service.plans_of(session.scope)),
        reasons=[r.value for r in Reason],
    )  # fmt: skip


@router.get("/console/decisions.csv")
@page()
async def decisions_csv(request: Request, session: Session) -> Response:
    service, given = service_of(request), _filters(request)

    def run(reader: AuditReader) -> list[DecisionLine]:
        lines: list[DecisionLine] = []
        before: int | None = None
        while len(lines) < _CSV_ROWS:
            found = queries.decisions(reader, session.scope, **given, before=before, limit=500)
            lines += found.items
            if (before := found.next) is None:
                break
        return lines[:_CSV_ROWS]

    text = presenters.csv_text(await service.read(run))
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="decisions.csv"'}
    return Response(text, 200, headers, "text/csv; charset=utf-8")


def _came(outcomes: tuple[OutcomeView, ...]) -> dict[int, float]:
    """The first report of every step, of the first field."""
    out: dict[int, float] = {}
    for o in outcomes:
        value = o.value[0] if isinstance(o.value, list) else o.value
        if not o.replaces and value is not None:
            out.setdefault(o.step, float(decode_number(value)))
    return out


async def decision_values(service: Service, id: str, session: Session) -> dict[str, Any]:
    """All that the page of a decision shows."""
    view = await service.read(queries.decision, id, session.scope)
    plan = service.plans.get(view.line.plan)
    told = await service.read(presenters.tell, id, plan, _came(view.outcomes))
    return {
        "view": view, "told": told, "levels": presenters.levels_head(), "verified": None,
        "unit": presenters.action_unit(view.record, plan),
        "expired": presenters.expired(view.line.valid_until, service.clock()),
    }  # fmt: skip


@router.get("/console/decisions/{id}")
@page()
async def decision(request: Request, session: Session) -> Response:
    values = await decision_values(service_of(request), request.path_params["id"], session)
    return render(request, session, "decision", **values)


@router.get("/console/series")
@page()
async def series(request: Request, session: Session) -> Response:
    """By query, because a name may hold anything."""
    service, name = service_of(request), request.query_params.get("name", "")
    if not name or len(name) > _LONG:
        raise Problem("not_found", "there is no decision of this series")
    asked = request.query_params.get("plan", "")[:_LONG] or None
    view = await service.read(queries.series, name, session.scope, service.clock(), asked)
    plan = view.newest.plan
    known = [p for p in service.plans_of(session.scope) if p != plan]
    others = await service.read(queries.plans_of, name, known)
    came = _came(tuple(o for o in view.outcomes if o.decision == view.newest.id))
    told = await service.read(presenters.tell, view.newest.id, service.plans.get(plan), came)
    settings = service.plans[plan].settings if plan in service.plans else None
    history = await service.read(presenters.history, view, settings.units if settings is not None else "")
    stream, pool = [await monitoring.stream_of(service, plan, one) for one in (name, "")]
    curve = "" if stream is None else await _curve(service, "evidence", plan, name, stream.limit)
    return render(
        request, session, "series", view=view, told=told, levels=presenters.levels_head(), curve=curve, stream=stream,
        pool=pool, history=history, unit=told.action_unit, others=others,
    )  # fmt: skip


async def _curve(service: Service, key: str, plan: str, name: str, limit: float) -> str:
    """The evidence of a stream as a picture; "" before there is any."""
    points = monitoring.curve(service.plan_states, plan, name)
    if not points:
        return ""
    first, last = await service.read(monitoring.ends, plan, name)
    return evidence_curve(key, "Evidence against the forecasts", points, limit, (first[:10], last[:10]))


@router.get("/console/monitor")
@page()
async def monitor(request: Request, session: Session) -> Response:
    """Every plan, or with `plan` the one: where there are many, each shows its first streams and no pictures."""
    service, asked = service_of(request), request.query_params.get("plan", "")
    known = list(service.plans_of(session.scope))
    if asked:
        check_plan(session.principal, asked)
    found = [await monitoring.monitor(service, name, session.scope) for name in ([asked] if asked else known)]
    room = _ROOM // max(1, len(found))
    shown = []
    for i, m in enumerate(found):
        starved = service.plan_states.starved(m.plan, service.clock())
        if len(found) > _DRAWN:
            shown.append((_fitted(m, room, starved), "", ""))
            continue
        curve = "" if m.pool is None else await _curve(service, f"evidence{i}", m.plan, "", m.pool.limit)
        title = "Where outcomes fell among the sample paths"
        words = "High ends: too narrow. A hill: too wide. A slope: biased."
        ranks = rank_histogram(f"ranks{i}", title, m.histogram, words) if any(m.histogram) else ""
        shown.append((_fitted(m, room - len(curve) - len(ranks), starved), curve, ranks))
    return render(request, session, "monitor", shown=shown, asked=asked, several=len(known) > 1)


class _Fitted(NamedTuple):
    """A monitor with as many of its streams and events as fit on the page."""

    view: MonitorView
    streams: tuple[StreamView, ...]
    tripped: tuple[StreamView, ...]  # all together first, then series; with what to do
    events: tuple[EventView, ...]
    more: int  # streams that are left out
    starved: tuple[tuple[str, int], ...]  # series with overdue outcomes, the most first


def _fitted(m: MonitorView, room: int, starved: tuple[tuple[str, int], ...]) -> _Fitted:
    known = [m.pool, *m.streams] if m.pool is not None else list(m.streams)
    tripped = [s for s in known if s.state == "tripped"]
    chosen = tuple(tripped[: fitting([s.series for s in tripped], room // 4)])
    events = m.events[: fitting([e.series for e in m.events], room // 4)]
    streams = m.streams[: fitting([s.series for s in m.streams[:_STREAMS]], room // 2)]
    return _Fitted(m, streams, chosen, events, len(m.streams) - len(streams), starved[:_STARVED])


@router.get("/console/log")
@page()
async def log(request: Request, session: Session) -> Response:
    check_whole(session.principal)
    return await log_page(request, session)


async def log_page(request: Request, session: Session, report: LogVerified | None = None) -> Response:
    """Without figures where the log was altered in a place that they need."""
    service = service_of(request)
    try:
        view = await log_view(service)
    except Problem as problem:
        if problem.code != "log_altered":
            raise
        view = None
    return render(
        request, session, "log", view=view, store=service.config.store, report=report, fault=service.integrity.fault,
        backup_age_s=service.upkeep.backup_age_s(),
    )  # fmt: skip


@router.get("/console/log/export")
@page()
async def export(request: Request, session: Session) -> Response:
    check_whole(session.principal)
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="log.jsonl"'}
    return StreamingResponse(await exported(service_of(request)), 200, headers, "application/x-ndjson")


@router.get("/console/allocations")
@page()
async def allocations(request: Request, session: Session) -> Response:
    """Every truck, budget or other limit that was shared, newest first."""
    service = service_of(request)
    rows = await service.read(shared_limits.newest_allocations, session.scope)
    return render(request, session, "allocations", rows=rows)


@router.get("/console/allocations/{id}")
@page()
async def allocation(request: Request, session: Session) -> Response:
    """How full it is, its price, who got less, and what some more of it would be worth."""
    service, more = service_of(request), _more(request)

    def run(reader: AuditReader) -> tuple[Allocated, dict[str, tuple[float, Interval]]]:
        row, plan = shared_limits.allocation(reader, request.path_params["id"], session.scope)
        view, found = shared_limits.view_of(reader, row, service.plans.get(plan))
        worth: dict[str, tuple[float, Interval]] = {}
        if (result := found.result) is not None:
            for price in result.table():
                amount = _PALLET * price.limit if more is None else more
                worth[price.resource] = (amount, result.worth_of_more(price.resource, amount))
        return view, worth

    view, worth = await service.read(run)
    plan = service.plans.get(view.plan)
    less = [item for item in view.items if item.limit]
    shown = less[: fitting([item.series for item in less], _ROOM)]
    return render(
        request, session, "allocation", view=view, worth=worth, less=shown, more=len(less) - len(shown),
        units=plan.settings.units if plan is not None else "", money=plan.settings.currency if plan is not None else "",
    )  # fmt: skip


def _more(request: Request) -> float | None:
    """How much more of a limit is asked about."""
    text = request.query_params.get("more", "").strip()
    try:
        amount = float(text) if text else None
    except ValueError:
        amount = -1.0
    if amount is not None and not 0.0 < amount < 1e12:
        raise Problem("invalid", "more is a number above 0")
    return amount


@router.get("/console/plans")
@page()
async def plans(request: Request, session: Session) -> Response:
    return await plans_page(request, session)


async def plans_page(request: Request, session: Session) -> Response:
    service = service_of(request)
    known = service.plans_of(session.scope)
    found = await service.read(queries.plans, known, service.clock(), service.tally)
    texts = {name: plan.text for name, plan in known.items()}
    changed = {name for name, plan in known.items() if plan.is_changed(service.folder)}
    kernels = {name: plan.kernels.states() for name, plan in known.items()}
    tripped = {name for name in known if monitoring.pool_tripped(service, name)}
    return render(
        request, session, "plans", plans=found, texts=texts, changed=changed, tripped=tripped, kernels=kernels,
        sharing={name: ", ".join(plan.settings.shared) for name, plan in known.items() if plan.settings.shared},
    )  # fmt: skip
