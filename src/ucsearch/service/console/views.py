"""Pages to look at: overview, decisions, a decision, a series, monitors, log, plans."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ucsearch.dispatch.gate import Reason
from ucsearch.records.canonical import decode_number
from ucsearch.report.evidence import evidence_curve, rank_histogram
from ucsearch.service import reads, watching
from ucsearch.service.console import looking
from ucsearch.service.console.needs import decision_needs, fitting, in_order, monitor_needs, next_steps, plan_needs
from ucsearch.service.console.pages import HEADERS, STYLE, STYLE_PATH, link, page, render
from ucsearch.service.console.sessions import Session
from ucsearch.service.core import Service
from ucsearch.service.logbook import log_view
from ucsearch.service.problems import Refusal
from ucsearch.service.routes.common import service_of
from ucsearch.service.routes.state import exported

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
_FILTERS = ("plan", "series", "outcome", "reason", "kind")
_PER_PAGE = 50
_CSV_ROWS = 5_000
_LONG = 1_000  # characters of a filter
_NEEDS = 100
_STREAMS = 100  # of a plan
_STARVED = 5  # series of a plan with overdue outcomes that are named
_DRAWN = 5  # plans on one page with pictures
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
    """What needs a person first, then every plan."""
    service = service_of(request)
    now = service.clock()
    plans = await service.read(reads.plans, service.plans, now, service.tally)
    monitors = {m.plan: m for m in await watching.monitors(service, worths=False)}
    newest = {name: service.tally.newest(name, now) for name in service.plans}
    found = [need for m in monitors.values() for need in monitor_needs(m, service.standing.starved(m.plan, now))]
    found += await service.read(decision_needs, newest, now)
    for plan in plans:
        found += plan_needs(plan, service.plans[plan.name].is_changed(service.folder))
    needs = in_order(found)
    most = fitting([n.series for n in needs[:_NEEDS]], _ROOM - 3_000 * len(plans))
    return render(
        request, session, "overview", plans=plans, monitors=monitors, needs=needs[:most], more=len(needs) - most,
        problems=service.not_ready(), now=now.isoformat(),
    )  # fmt: skip


def _filters(request: Request) -> dict[str, str]:
    given = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    if any(len(value) > _LONG for value in given.values()):
        raise Refusal("invalid", "a filter is too long")
    given["reason"] = given["reason"].replace(" ", "_")  # as tables show it
    if given["kind"] not in ("", "decision", "refusal"):
        raise Refusal("invalid", "kind is decision or refusal")
    return {name: value for name, value in given.items() if value}


def _before(request: Request) -> int | None:
    text = request.query_params.get("before", "")
    if text and not (text.isascii() and text.isdecimal() and 0 < len(text) <= 15):
        raise Refusal("invalid", "before is a number of an entry")
    return int(text) if text else None


@router.get("/console/decisions")
@page()
async def decisions(request: Request, session: Session) -> Response:
    service, given, before = service_of(request), _filters(request), _before(request)

    def run(reader: Any) -> reads.DecisionPage:
        return reads.decisions(reader, **given, before=before, limit=_PER_PAGE)

    found = await service.read(run)
    most = fitting([line.series for line in found.items], _ROOM)
    lines, after = found.items[:most], found.next if most == len(found.items) else found.items[most - 1].seq
    older = link("/decisions", **given, before=after) if after is not None else ""
    newest = link("/decisions", **given) if before is not None else ""
    return render(
        request, session, "decisions", lines=lines, given=given, older=older, newest=newest,
        csv=link("/decisions.csv", **given), plans=list(service.plans), reasons=[r.value for r in Reason],
    )  # fmt: skip


@router.get("/console/decisions.csv")
@page()
async def decisions_csv(request: Request, session: Session) -> Response:
    service, given = service_of(request), _filters(request)

    def run(reader: Any) -> list[reads.DecisionLine]:
        lines: list[reads.DecisionLine] = []
        before: int | None = None
        while len(lines) < _CSV_ROWS:
            found = reads.decisions(reader, **given, before=before, limit=500)
            lines += found.items
            if (before := found.next) is None:
                break
        return lines[:_CSV_ROWS]

    text = looking.csv_text(await service.read(run))
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="decisions.csv"'}
    return Response(text, 200, headers, "text/csv; charset=utf-8")


def _came(outcomes: tuple[reads.OutcomeView, ...]) -> dict[int, float]:
    """The first report of every step, of the first field."""
    out: dict[int, float] = {}
    for o in outcomes:
        value = o.value[0] if isinstance(o.value, list) else o.value
        if not o.replaces and value is not None:
            out.setdefault(o.step, float(decode_number(value)))
    return out


async def decision_values(service: Service, id: str) -> dict[str, Any]:
    """All that the page of a decision shows."""
    view = await service.read_one(reads.decision, id)
    plan = service.plans.get(view.line.plan)
    told = await service.read_one(looking.tell, id, plan, _came(view.outcomes))
    return {
        "view": view, "told": told, "levels": looking.levels_head(), "verified": None,
        "unit": looking.action_unit(view.record, plan),
        "expired": looking.expired(view.line.valid_until, service.clock()),
    }  # fmt: skip


@router.get("/console/decisions/{id}")
@page()
async def decision(request: Request, session: Session) -> Response:
    values = await decision_values(service_of(request), request.path_params["id"])
    return render(request, session, "decision", **values)


@router.get("/console/series")
@page()
async def series(request: Request, session: Session) -> Response:
    """By query, because a name may hold anything."""
    service, name = service_of(request), request.query_params.get("name", "")
    if not name or len(name) > _LONG:
        raise Refusal("not_found", "there is no decision of this series")
    asked = request.query_params.get("plan", "")[:_LONG] or None
    view = await service.read(reads.series, name, service.clock(), asked)
    plan = view.newest.plan
    others = await service.read(reads.plans_of, name, [p for p in service.plans if p != plan])
    came = _came(tuple(o for o in view.outcomes if o.decision == view.newest.id))
    told = await service.read(looking.tell, view.newest.id, service.plans.get(plan), came)
    settings = service.plans[plan].settings if plan in service.plans else None
    history = await service.read(looking.history, view, settings.units if settings is not None else "")
    curve, stream, pool = "", None, None
    if plan in service.plans and service.plans[plan].watching is not None:
        stream, pool = [await watching.stream(service, plan, one) for one in (name, "")]
        curve = await _curve(service, "evidence", plan, name, stream.limit)
    return render(
        request, session, "series", view=view, told=told, levels=looking.levels_head(), curve=curve, stream=stream,
        pool=pool, history=history, unit=told.action_unit, others=others,
    )  # fmt: skip


async def _curve(service: Service, key: str, plan: str, name: str, limit: float) -> str:
    """The evidence of a stream as a picture; "" before there is any."""
    points = watching.curve(service.standing, plan, name)
    if not points:
        return ""
    first, last = await service.read(watching.ends, plan, name)
    return evidence_curve(key, "Evidence against the forecasts", points, limit, (first[:10], last[:10]))


@router.get("/console/monitor")
@page()
async def monitor(request: Request, session: Session) -> Response:
    """Every plan, or with `plan` the one: where there are many, each shows its first streams and no pictures."""
    service, asked = service_of(request), request.query_params.get("plan", "")
    names = [asked] if asked else list(service.plans)
    found = [await watching.monitor(service, name) for name in names]
    room = _ROOM // max(1, len(found))
    shown = []
    for i, m in enumerate(found):
        starved = service.standing.starved(m.plan, service.clock())
        steps = next_steps(service.plans[m.plan].watching, m)
        if len(found) > _DRAWN:
            shown.append((_fitted(m, room, starved), "", "", steps))
            continue
        curve = "" if m.pool is None else await _curve(service, f"evidence{i}", m.plan, "", m.pool.limit)
        title = "Where outcomes fell among the members"
        words = "High ends: too narrow. A hill: too wide. A slope: biased."
        ranks = rank_histogram(f"ranks{i}", title, m.histogram, words) if any(m.histogram) else ""
        shown.append((_fitted(m, room - len(curve) - len(ranks), starved), curve, ranks, steps))
    return render(request, session, "monitor", shown=shown, asked=asked, several=len(service.plans) > 1)


class _Fitted(NamedTuple):
    """A monitor with as many of its streams and events as fit on the page."""

    view: watching.MonitorView
    streams: tuple[watching.StreamView, ...]
    tripped: tuple[str, ...]  # series that can be armed again
    events: tuple[watching.EventView, ...]
    more: int  # streams that are left out
    starved: tuple[tuple[str, int], ...]  # series with overdue outcomes, the most first


def _fitted(m: watching.MonitorView, room: int, starved: tuple[tuple[str, int], ...]) -> _Fitted:
    tripped = [s.series for s in m.streams if s.state == "tripped"]
    chosen = tuple(tripped[: fitting(tripped, room // 5)])
    events = m.events[: fitting([e.series for e in m.events], room // 4)]
    streams = m.streams[: fitting([s.series for s in m.streams[:_STREAMS]], room // 2)]
    return _Fitted(m, streams, chosen, events, len(m.streams) - len(streams), starved[:_STARVED])


@router.get("/console/log")
@page()
async def log(request: Request, session: Session) -> Response:
    service = service_of(request)
    view = await log_view(service)
    return render(request, session, "log", view=view, store=service.config.store, report=None)


@router.get("/console/log/export")
@page()
async def export(request: Request, session: Session) -> Response:
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="log.jsonl"'}
    return StreamingResponse(await exported(service_of(request)), 200, headers, "application/x-ndjson")


@router.get("/console/plans")
@page()
async def plans(request: Request, session: Session) -> Response:
    service = service_of(request)
    found = await service.read(reads.plans, service.plans, service.clock(), service.tally)
    texts = {name: plan.text for name, plan in service.plans.items()}
    changed = {name for name, plan in service.plans.items() if plan.is_changed(service.folder)}
    kernels = {name: plan.kernels.states() for name, plan in service.plans.items()}
    tripped = {name for name in service.plans if watching.pool_tripped(service, name)}
    return render(
        request, session, "plans", plans=found, texts=texts, changed=changed, tripped=tripped, kernels=kernels
    )
