"""What people and agents do besides deciding: override, outcomes, pause, resume, re-arm, tokens.

Every function checks, writes and answers; endpoints and console only call them. Answers are made from what was
recorded, so that a repeated key gets the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError
from ucsearch.records.chain import Row
from ucsearch.records.entries import Entry
from ucsearch.records.judge import NotAllowed, allowed_actions, judge
from ucsearch.records.reader import AuditReader
from ucsearch.records.requests import Request
from ucsearch.service.answers import order_of
from ucsearch.service.core import Service
from ucsearch.service.problems import Refusal, said
from ucsearch.service.reads import expects_of, find_row
from ucsearch.service.remodelled import require_another_model
from ucsearch.service.schemas import OverrideBody, PauseBody, RearmBody, ResumeBody
from ucsearch.service.standing import pause_of
from ucsearch.service.times import moment_of
from ucsearch.service.tokens import Principal
from ucsearch.service.writer import Desk

__all__ = ["Done", "feasible_actions", "override", "pause", "rearm", "repeated", "resume"]


class Done(NamedTuple):
    """Recorded, and what is answered."""

    status: int
    content: dict[str, Any]


def words(text: str, field: str = "why") -> str:
    """A person's words: kept as they are, without control characters and spaces around them."""
    clean = text.strip()
    if not 3 <= len(clean) <= 500 or not all(c.isprintable() or c == "\n" for c in clean):
        raise Refusal("invalid", f"{field} has 3 to 500 printable characters", where=(field,))
    return clean


def later_time(text: str, now: datetime, field: str) -> str:
    moment = moment_of(text)
    if moment is None or not now < moment:
        raise Refusal("invalid", f"{field} is a time to come, with its offset from UTC", where=(field,))
    return text


def feasible_actions(service: Service, record: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """(action, label) of every recorded action that the rules allow in the recorded state."""
    task = service.task_of(record)
    if task is None or "inputs" not in record:
        return ()
    try:
        places = allowed_actions(record, task)
    except (RecordError, InputError):
        return ()
    return tuple((record["task"]["actions"][i], record["task"]["labels"][i]) for i in places)


def repeated(log: AuditReader, request: Request | None) -> tuple[Row, ...]:
    """What was recorded under a request already."""
    rows = () if request is None else log.find_request(request.key)
    if rows and request is not None and rows[0].record["request"].get("body") != request.body:
        raise Refusal("key_reused", "the key was used with another body")
    return rows


async def _recorded(
    service: Service, request: Request | None, write: Callable[[Desk], Entry],
    told: Callable[[AuditReader, Row], dict[str, Any]],
) -> Done:  # fmt: skip
    """Write one record, or find that it was written; answer from it."""

    def run(desk: Desk) -> Done:
        with ExitStack() as stack:
            earlier = [stack.enter_context(reader) for reader in service.earlier_files()]
            for reader in (*reversed(earlier), desk.log):  # a pause that was carried over was answered before
                if rows := repeated(reader, request):
                    return answer(reader, rows[0])
        row = desk.log.get(write(desk).seq)
        service.standing.follow(desk.log, row.record)
        return answer(desk.log, row)

    def answer(reader: AuditReader, row: Row) -> Done:
        return Done(201, {"id": row.id, "seq": row.seq, "head": row.head, **told(reader, row)})

    return await service.act(request, run)


async def override(
    service: Service, principal: Principal, request: Request | None, id: str, body: OverrideBody
) -> Done:
    """A person's action in place of a decision's: only of the newest of its series, while it is valid, and only what
    the rules allow."""
    why = words(body.why)

    def write(desk: Desk) -> Entry:
        try:
            row = find_row(desk.log, id)
        except Refusal:
            if _is_earlier(service, id):
                text = "it is in an earlier file of the log, which is closed; decide the series anew"
                raise Refusal("not_newest", text) from None
            raise
        record = row.record
        newest = desk.log.newest(record["series"], record.get("plan"))
        if newest is None or newest.seq != row.seq:
            raise Refusal("not_newest", "a newer decision of this series stands")
        if body.expects != expects_of(desk.log, row):
            raise Refusal("not_newest", "something was said about this series since; look again")
        until = record.get("valid_until", "")
        if until and not desk.now < datetime.fromisoformat(until):
            raise Refusal("expired", f"it was valid until {until}")
        if any(o.record.get("entry", row.seq) == row.seq for o in desk.log.reports(row.id)):
            raise Refusal("not_newest", "an outcome of this decision is reported; it can no longer be overridden")
        task = service.task_of(record)
        try:
            judge(record, task, body.action, force=body.force)
        except NotAllowed as error:
            raise Refusal("not_allowed", said(error.problem), allowed=error.feasible[:100]) from error
        except (RecordError, InputError) as error:
            raise Refusal("not_allowed", said(error)) from error
        made = desk.log.override(
            row.seq,
            task=task,
            who=principal.name,
            why=why,
            action=body.action,
            at=desk.now,
            request=request,
            force=body.force,
        )
        service.metrics.overrides.labels(str(record.get("plan", ""))).inc()
        return made

    def told(log: AuditReader, row: Row) -> dict[str, Any]:
        record = row.record
        about = log.get(record["entry"])
        own = about.record
        effective = own["outcome"]["action"] if record["action"] is None else record["action"]
        return {
            "overrides": record["overrides"], "series": record["series"], "action": record["action"],
            "label": record["label"], "off_grid": record["off_grid"], "who": record["who"], "at": record["at"],
            "effective": effective, "order": order_of(own, effective), "certified": False,
        }  # fmt: skip

    return await _recorded(service, request, write, told)


def _is_earlier(service: Service, id: str) -> bool:
    """Whether a decision is in a file before the one that is written to."""
    with ExitStack() as stack:
        for reader in [stack.enter_context(reader) for reader in service.earlier_files()]:
            with suppress(Refusal):
                find_row(reader, id)
                return True
    return False


async def pause(service: Service, principal: Principal, request: Request | None, plan: str, body: PauseBody) -> Done:
    """No more releases of a plan until somebody resumes it, or until a time."""
    return await _control(service, principal, request, plan, "pause", body.why, body.until)


async def resume(service: Service, principal: Principal, request: Request | None, plan: str, body: ResumeBody) -> Done:
    return await _control(service, principal, request, plan, "resume", body.why, None)


async def _control(
    service: Service, principal: Principal, request: Request | None, plan: str, action: str, why: str, until: str | None
) -> Done:
    name, text = service.plan(plan).name, words(why)

    def write(desk: Desk) -> Entry:
        standing = pause_of(desk.log, name)
        paused = standing is not None and standing.holds(desk.now)
        if paused == (action == "pause"):
            raise Refusal("already", f"the plan is {'paused' if paused else 'running'} already")
        record: dict[str, Any] = {
            "schema": "ucsearch.control/1", "kind": "control", "action": action, "plan": name, "who": principal.name,
            "why": text, "at": desk.now.isoformat(),
        }  # fmt: skip
        if until is not None:
            record["until"] = later_time(until, desk.now, "until")
        if request is not None:
            record["request"] = request.content()
        return desk.log.append(record)

    def told(_: AuditReader, row: Row) -> dict[str, Any]:
        return {k: row.record[k] for k in ("action", "plan", "who", "why", "at", "until") if k in row.record}

    return await _recorded(service, request, write, told)


async def rearm(service: Service, principal: Principal, request: Request | None, plan: str, body: RearmBody) -> Done:
    """Start a tripped stream anew: after the forecasts' model was changed, or because a person accepts it."""
    found, text = service.plan(plan), words(body.why)
    if found.watching is None:
        raise Refusal("not_found", "the plan has no monitor")
    series = body.series or ""

    def write(desk: Desk) -> Entry:
        watched = service.standing.journal.plans.get(found.name)
        status = None if watched is None else watched.monitor.status(series)
        if status is None or not status.tripped:
            raise Refusal("already", "the stream has not tripped")
        if not body.accept:
            with ExitStack() as stack:
                earlier = [stack.enter_context(reader) for reader in service.earlier_files()]
                require_another_model([desk.log, *earlier], found.name, series)
        record = event_record(
            found.name, series, "rearmed", status.evidence, status.outcomes, status.about, desk.now, principal.name,
            text,
        )  # fmt: skip
        if request is not None:
            record["request"] = request.content()
        return desk.log.append(record)

    def told(_: AuditReader, row: Row) -> dict[str, Any]:
        return {k: row.record[k] for k in ("plan", "series", "event", "evidence", "by", "why", "at")}

    return await _recorded(service, request, write, told)


def event_record(
    plan: str, series: str, event: str, evidence: float, count: int, about: str, now: datetime, by: str, why: str
) -> dict[str, Any]:
    """An entry of the monitor; `by` is empty where it follows from the outcomes before it."""
    return {
        "schema": "ucsearch.monitor/1", "kind": "monitor", "plan": plan, "series": series, "event": event,
        "evidence": evidence, "count": count, "about": about, "at": now.isoformat(), "by": by, "why": why,
    }  # fmt: skip
