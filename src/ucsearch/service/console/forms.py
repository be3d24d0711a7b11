"""Pages that change something: login, override, pause, re-arm, tokens. Every form is checked before it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from fastapi import APIRouter
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ucsearch.errors import InputError, RecordError, UCSearchError
from ucsearch.planner.recorded.override import typed_action
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import Request as RecordedRequest
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import NotAllowed, judge, recorded_inputs
from ucsearch.service import queries
from ucsearch.service.auth import FailedLogins, check_whole
from ucsearch.service.bodies import service_of
from ucsearch.service.console import presenters
from ucsearch.service.console.render import HEADERS, new_key, page, problem_page, render, see
from ucsearch.service.console.sessions import (
    COOKIE,
    Session,
    Sessions,
    address_of,
    checked_form,
    set_cookie,
)
from ucsearch.service.console.views import Values, decision_values, log_page, show
from ucsearch.service.errors import ApiProblem, excerpt, sentence_of
from ucsearch.service.schemas import DecisionView, OverrideBody, PauseBody, RearmBody, ResumeBody
from ucsearch.service.service import Service, request_of
from ucsearch.service.tokens import ROLES
from ucsearch.service.writer import actions
from ucsearch.service.writer.answers import order_of

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
_STREAM = "stream:"  # begins the field of a stream that is to be armed again
_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")


def _validate(kind: type[BaseModel], **values: Any) -> Any:
    try:
        return kind.model_validate(values, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(x) for x in first["loc"])
        raise ApiProblem("invalid", f"{where}: {excerpt(first['msg'])}") from error


def _request_of(session: Session, route: str, fields: Mapping[str, str], body: BaseModel) -> RecordedRequest:
    key = fields.get("key", "")
    if not 0 < len(key) <= 128 or not key.isascii() or not key.isprintable():
        raise ApiProblem("no_idempotency_key", "the form has no key; open the page again")
    return request_of(session.principal, f"console/{route}", key, canonical(body.model_dump()))


def _utc(text: str) -> str:
    """A time as browsers give it, without an offset, is one in UTC, as the page says; any other stays as it is."""
    clean = text.strip()
    try:
        return f"{datetime.fromisoformat(clean).isoformat()}+00:00" if _LOCAL.fullmatch(clean) else clean
    except ValueError:
        return clean


# -------------------------------------------------------------------- login


def _safe_path(path: str) -> str:
    """Where to go after the login: a page of the console, nowhere else."""
    place = path.partition("?")[0]
    fits = place == "/console" or place.startswith("/console/")
    is_safe = (
        fits and "//" not in place and "\\" not in path and path.isascii() and path.isprintable() and " " not in path
    )
    return path if is_safe and place != "/console/login" else "/console"


@router.get("/console/login")
async def login_form(request: Request) -> Response:
    return render(request, None, "login", problem="", next=_safe_path(request.query_params.get("next", "")))


@router.post("/console/login")
async def login(request: Request) -> Response:
    service, sessions = service_of(request), request.app.state.sessions
    failed: FailedLogins = request.app.state.failed_logins
    try:
        fields = await checked_form(request, None)
        principal = service.tokens.find(fields.get("token", "").strip())
        if principal is None:
            service.metrics.auth_failures.inc()
            failed.add(address_of(request))
            words = "That is no token of this service, or it has expired."
            return render(request, None, "login", status=401, problem=words, next=_safe_path(fields.get("next", "")))
        if principal.role == "agent":
            words = "Agents are programs; the console is for people. Ask for a token with another role."
            return render(request, None, "login", status=403, problem=words, next="/console")
    except ApiProblem as error:
        return problem_page(request, None, error)
    # A new session always: one that was there before the login may be somebody else's.
    sessions.end(request.cookies.get(COOKIE, ""))
    session = sessions.begin(principal)
    response = RedirectResponse(_safe_path(fields.get("next", "")), 303, HEADERS)
    set_cookie(request, response, session)
    return response


@router.post("/console/logout")
@page()
async def logout(request: Request, session: Session) -> Response:
    await checked_form(request, session)
    sessions: Sessions = request.app.state.sessions
    sessions.end(session.id)
    response = see("/login")
    set_cookie(request, response, None)
    return response


# -------------------------------------------------------------------- override


def _override_values(reader: AuditReader, service: Service, session: Session, id: str) -> Values:
    """What can be chosen instead: actions that the rules allow or, where none is, ranges of numbers that they do."""
    view = queries.decision(reader, id, session.scope)
    plan = service.plans.get(view.line.plan)
    feasible = actions.feasible_actions(service, view.record)
    orders = [order_of(view.record, action) for action, _ in feasible]
    task = service.task_of(view.record)
    return {
        "view": view, "expects": view.expects, "allowed": len(feasible), "levels": presenters.levels_head(),
        "options": presenters.options(view.record, feasible, orders, view.line.effective),
        "ranges": () if feasible else presenters.ranges(view.record, task), "several": task.width if task else 0,
        "told": presenters.tell(reader, id, plan, {}), "unit": presenters.action_unit(view.record, plan),
        "expired": presenters.expired(view.line.valid_until, service.clock()),
    }  # fmt: skip


@router.get("/console/decisions/{id}/override")
@page("operator")
async def override_form(request: Request, session: Session) -> Response:
    more = {"problem": "", "given": {}, "key": new_key(), "may_force": False}
    return await show(request, session, "override", _override_values, request.path_params["id"], **more)


class _Refused(NamedTuple):
    """Why a form is not taken."""

    problem: str
    may_force: bool = False  # by a person who insists


def _judge_form(
    reader: AuditReader, service: Service, session: Session, id: str, fields: Mapping[str, str]
) -> tuple[OverrideBody, Values] | _Refused:
    """The override that a form asks for, and a page with both actions; or why the rules refuse it."""
    view = queries.decision(reader, id, session.scope)
    force = fields.get("force") == "yes"
    try:
        action, why = _chosen_action(service, view, fields), actions.reason_of(fields.get("why", ""))
        body: OverrideBody = _validate(
            OverrideBody, action=action, why=why, expects=fields.get("expects", ""), force=force
        )
        chosen = tuple(action) if isinstance(action, list) else action
        judged = judge(view.record, service.task_of(view.record), chosen, force=force)
    except ApiProblem as error:
        return _Refused(error.detail)
    except NotAllowed as error:
        return _Refused(sentence_of(error.problem), may_force=True)
    except (RecordError, InputError) as error:
        return _Refused(sentence_of(error))
    return body, {
        "view": view, "judged": judged, "order": order_of(view.record, judged.action), "why": why, "fields": fields,
        "key": fields.get("key") or new_key(),
        "unit": presenters.action_unit(view.record, service.plans.get(view.line.plan)),
    }  # fmt: skip


@router.post("/console/decisions/{id}/override")
@page("operator")
async def override(request: Request, session: Session) -> Response:
    """First a page with both actions side by side, then the record."""
    id, service = request.path_params["id"], service_of(request)
    fields = await checked_form(request, session)
    judged = await service.read(_judge_form, service, session, id, fields)
    if isinstance(judged, _Refused):
        more = {"given": fields, "key": new_key(), "status": 422, **judged._asdict()}
        return await show(request, session, "override", _override_values, id, **more)
    body, values = judged
    if fields.get("step") != "record":
        return render(request, session, "confirm", **values)
    await actions.override(service, session.principal, _request_of(session, f"override/{id}", fields, body), id, body)
    return see(f"/decisions/{id}", done="override")


def _chosen_action(service: Service, view: DecisionView, fields: Mapping[str, str]) -> Any:
    """The action of a form: one of the offered ones, a number or several of one's own, or none (withdrawn)."""
    choice = fields.get("choice", "")
    if choice == "withdraw":
        return None
    text = fields.get("other", "").strip() if choice == "other" else choice.removeprefix("action:")
    if choice == "other" and re.fullmatch(r"[-+]?[\d.' ]*,[\d.' ]*", text):
        raise ApiProblem(
            "invalid", f"{excerpt(text)}: write numbers with a point and nothing between the digits, as 1250.5"
        )
    if not text or (choice != "other" and not choice.startswith("action:")):
        raise ApiProblem("invalid", "choose an action, or write a number")
    task = service.task_of(view.record)
    if task is None:
        raise ApiProblem("not_allowed", "the rules of this decision's task cannot be checked here")
    if choice != "other":
        for action in view.record["task"]["actions"]:
            if action is not None and presenters.choice_of(action) == text:
                return action
    typed = typed_action(text, task, recorded_inputs(view.record, task), None)
    return list(typed) if isinstance(typed, tuple) else typed


# -------------------------------------------------------------------- verify


@router.post("/console/decisions/{id}/verify")
@page()
async def verify(request: Request, session: Session) -> Response:
    service, id = service_of(request), request.path_params["id"]
    await checked_form(request, session)
    verdict = await service.verify(id, session.scope)
    return await show(request, session, "decision", decision_values, id, verified=verdict)


@router.post("/console/log/verify")
@page()
async def verify_log(request: Request, session: Session) -> Response:
    """The whole chain; one at a time, because it takes long."""
    service = service_of(request)
    await checked_form(request, session)
    check_whole(session.principal)
    if service.verifying.locked():
        raise ApiProblem("too_many", "a verification is under way; ask again when it is finished", retry_after=5)
    async with service.verifying:
        report = await service.read(queries.verify_log)
    if not report.ok:
        service.integrity.report(f"{report.where}: {report.message}")
    return await log_page(request, session, report)


# -------------------------------------------------------------------- plans and monitors


@router.post("/console/plans/{plan}/pause")
@page("operator")
async def pause(request: Request, session: Session) -> Response:
    service, plan = service_of(request), request.path_params["plan"]
    fields = await checked_form(request, session)
    until = _utc(fields.get("until", "")) or None
    body: PauseBody = _validate(PauseBody, why=actions.reason_of(fields.get("why", "")), until=until)
    await actions.pause(service, session.principal, _request_of(session, f"pause/{plan}", fields, body), plan, body)
    return see(_return_path(fields), done="paused", plan=plan)


@router.post("/console/plans/{plan}/resume")
@page("operator")
async def resume(request: Request, session: Session) -> Response:
    service, plan = service_of(request), request.path_params["plan"]
    fields = await checked_form(request, session)
    body: ResumeBody = _validate(ResumeBody, why=actions.reason_of(fields.get("why", "")))
    await actions.resume(service, session.principal, _request_of(session, f"resume/{plan}", fields, body), plan, body)
    return see(_return_path(fields), done="resumed", plan=plan)


def _return_path(fields: Mapping[str, str]) -> str:
    """The page that a form was sent from: plans, else the overview."""
    return "/plans" if fields.get("back") == "/plans" else ""


@router.post("/console/monitor/{plan}/rearm")
@page("admin")
async def rearm(request: Request, session: Session) -> Response:
    """All streams that were ticked, in one record each and one commit."""
    service, plan = service_of(request), request.path_params["plan"]
    fields = await checked_form(request, session)
    streams = [name.removeprefix(_STREAM) for name in fields if name.startswith(_STREAM)]
    if not streams:
        raise ApiProblem("invalid", "nothing was ticked to be armed again")
    why, accept = actions.reason_of(fields.get("why", "")), fields.get("accept") == "yes"
    body: RearmBody = _validate(RearmBody, streams=streams, why=why, accept=accept)
    await actions.rearm(service, session.principal, _request_of(session, f"rearm/{plan}", fields, body), plan, body)
    return see("/monitor", done="rearmed", plan=plan)


# -------------------------------------------------------------------- tokens


def _tokens_page(request: Request, session: Session, *, secret: str = "", name: str = "", problem: str = "",
                 status: int = 200) -> Response:  # fmt: skip
    return render(
        request, session, "tokens", status=status, tokens=service_of(request).tokens.list(), secret=secret, name=name,
        problem=problem, roles=ROLES,
    )  # fmt: skip


@router.get("/console/tokens")
@page("admin")
async def tokens(request: Request, session: Session) -> Response:
    check_whole(session.principal)
    return _tokens_page(request, session)


@router.post("/console/tokens")
@page("admin")
async def add_token(request: Request, session: Session) -> Response:
    """Shown once, in the answer to the form; nowhere else."""
    fields = await checked_form(request, session)
    check_whole(session.principal)  # else an admin of one plan would make a token for all of them
    name = fields.get("name", "").strip()
    try:
        secret = service_of(request).tokens.add(
            name, fields.get("role", ""), _utc(fields.get("expires", "")), _split_names(fields.get("plans", "")),
            _split_names(fields.get("series", "")),
        )  # fmt: skip
    except UCSearchError as error:
        return _tokens_page(request, session, problem=sentence_of(error), status=422)
    return _tokens_page(request, session, secret=secret, name=name, status=201)


def _split_names(text: str) -> list[str]:
    """Names that a form has separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


@router.post("/console/tokens/revoke")
@page("admin")
async def revoke_token(request: Request, session: Session) -> Response:
    fields = await checked_form(request, session)
    check_whole(session.principal)
    name = fields.get("name", "")
    if name == session.principal.name:
        return _tokens_page(request, session, problem="This is the token you are logged in with.", status=422)
    try:
        service_of(request).tokens.revoke(name)
    except UCSearchError as error:
        return _tokens_page(request, session, problem=sentence_of(error), status=422)
    return see("/tokens", done="revoked")
