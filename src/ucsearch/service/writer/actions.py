"""What people and agents do besides deciding: override, outcomes, pause, resume, re-arm, tokens.

Every function checks, writes and answers; endpoints and console only call them. Answers are made from what was
recorded, so that a repeated key gets the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError
from ucsearch.records.entries import Entry, Request, Row, effective_of
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import NotAllowed, allowed_actions, judge
from ucsearch.service.auth import check_series, check_whole
from ucsearch.service.errors import ApiProblem, excerpt, sentence_of
from ucsearch.service.monitoring import trips_of
from ucsearch.service.queries import expects_of, find_row
from ucsearch.service.schemas import (
    Controlled,
    Overridden,
    OverrideBody,
    PauseBody,
    RearmBody,
    Rearmed,
    RearmedStreams,
    ResumeBody,
)
from ucsearch.service.service import Service
from ucsearch.service.tokens import Principal
from ucsearch.service.writer.answers import order_of
from ucsearch.service.writer.plan_state import pause_of
from ucsearch.service.writer.writer import Turn

__all__ = [
    "Done",
    "feasible_actions",
    "find_repeat",
    "moment_of",
    "override",
    "pause",
    "rearm",
    "record_once",
    "require_another_model",
    "resume",
]


def moment_of(text: str) -> datetime | None:
    """A time with its offset from UTC; None where it has none, or is none. Near both ends of the calendar there are
    times that no other zone has, and nothing can be counted from them."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.utcoffset() is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


_LATEST = 500  # decisions since the trip in which a series is looked for that was there before


def require_another_model(log: AuditReader, plan: str, series: str) -> None:
    """Refuse where the newest forecast names the model that its series had when the stream (all together: "")
    tripped."""
    trip = trips_of(log, plan, (series,)).get(series)
    if trip is None:
        # A monitor that was carried over, and the file before is not there.
        raise ApiProblem("not_allowed", "when it tripped is not in the files that are here; accept: true is needed")
    compared: set[str] = set()
    for row in log.list(plan=plan, kind="decision", series=series or None, newest_first=True, limit=_LATEST):
        name = str(row.record["series"])
        if row.seq < trip.seq or name in compared:
            continue
        compared.add(name)
        # Series may have models of their own: only forecasts of the same one can be compared.
        before = log.list(plan=plan, kind="decision", series=name, newest_first=True, limit=1, before=trip.seq)
        if before:
            if _model(row) != _model(before[0]):
                return
            break
    of = f" of {excerpt(series)}" if series else ""
    raise ApiProblem(
        "not_allowed", f"the forecasts' model{of} is the one that tripped; another one, or accept: true, is needed"
    )


def _model(row: Row) -> str:
    return str(row.record["inputs"]["trace"]["meta"]["model"])


class Done(NamedTuple):
    """Recorded, and what is answered."""

    status: int
    content: Any  # one of the answers in `schemas`


def reason_of(text: str, field: str = "why") -> str:
    """A person's words: kept as they are, without control characters and spaces around them."""
    clean = text.strip()
    if not 3 <= len(clean) <= 500 or not all(c.isprintable() or c == "\n" for c in clean):
        raise ApiProblem("invalid", f"{field} has 3 to 500 printable characters", where=(field,))
    return clean


def later_time(text: str, now: datetime, field: str) -> str:
    moment = moment_of(text)
    if moment is None or not now < moment:
        raise ApiProblem("invalid", f"{field} is a time to come, with its offset from UTC", where=(field,))
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


def find_repeat(log: AuditReader, request: Request) -> tuple[Row, ...]:
    """What was recorded under a request already."""
    rows = log.find_request(request.key)
    if rows and rows[0].record["request"].get("body") != request.body:
        raise ApiProblem("key_reused", "the key was used with another body")
    return rows


async def record_once(
    service: Service, request: Request, write: Callable[[Turn], Sequence[Entry]],
    answer: Callable[[AuditReader, Sequence[Row]], Any],
) -> Done:  # fmt: skip
    """Write records in one commit, or find that they were written; answer from them."""

    def run(turn: Turn) -> Done:
        if rows := find_repeat(turn.log, request):
            return Done(201, answer(turn.log, rows))
        rows = tuple(turn.log.get(entry.seq) for entry in write(turn))
        for row in rows:
            service.plan_states.follow(turn.log, row.record)
            _notify(service, row.record)
        return Done(201, answer(turn.log, rows))

    return await service.act(request, run)


def _notify(service: Service, record: Mapping[str, Any]) -> None:
    """Tell those who want to know what a person did."""
    action = str(record.get("action", record.get("event", "")))
    event = {"pause": "paused", "resume": "resumed", "rearmed": "rearmed"}.get(action)
    if event is not None:
        by = str(record.get("who", record.get("by", "")))
        series = [record["series"]] if record.get("series") else []
        service.notifier.tell(event, str(record["plan"]), series, by=by, why=str(record["why"]))


async def override(service: Service, principal: Principal, request: Request, id: str, body: OverrideBody) -> Done:
    """A person's action in place of a decision's: only of the newest of its series, while it is valid, and only what
    the rules allow."""
    why = reason_of(body.why)

    def write(turn: Turn) -> Sequence[Entry]:
        row = find_row(turn.log, id, principal.scope)
        record = row.record
        newest = turn.log.newest(record["series"], record.get("plan"))
        if newest is None or newest.seq != row.seq:
            raise ApiProblem("not_newest", "there is a newer decision of this series")
        if body.expects != expects_of(turn.log, row):
            raise ApiProblem("not_newest", "something was said about this series since; look again")
        until = record.get("valid_until", "")
        if until and not turn.now < datetime.fromisoformat(until):
            raise ApiProblem("expired", f"it was valid until {until}")
        if any(o.record.get("entry", row.seq) == row.seq for o in turn.log.reports(row.id)):
            raise ApiProblem("not_newest", "an outcome of this decision is reported; it can no longer be overridden")
        task = service.task_of(record)
        action = tuple(body.action) if isinstance(body.action, list) else body.action
        try:
            judge(record, task, action, force=body.force)
        except NotAllowed as error:
            raise ApiProblem("not_allowed", sentence_of(error.problem), allowed=error.feasible[:100]) from error
        except (RecordError, InputError) as error:
            raise ApiProblem("not_allowed", sentence_of(error)) from error
        entry = turn.log.override(
            row.seq, task=task, who=principal.name, why=why, action=action, at=turn.now, request=request,
            force=body.force,
        )  # fmt: skip
        service.metrics.overrides.labels(str(record.get("plan", ""))).inc()
        return [entry]

    return await record_once(service, request, write, _override_answer)


def _override_answer(log: AuditReader, rows: Sequence[Row]) -> Overridden:
    row, record = rows[0], rows[0].record
    decided = log.get(record["entry"])
    decision, effective = decided.record, record["action"]
    if effective is None:
        effective = effective_of(decided, (), log.shares([decided]).get(decided.seq)).action
    return Overridden(
        row.id, row.seq, row.head, record["overrides"], record["series"], record["action"], record["label"],
        record["off_grid"], record.get("forced", False), record["who"], record["at"], effective,
        order_of(decision, effective),
    )  # fmt: skip


async def pause(service: Service, principal: Principal, request: Request, plan: str, body: PauseBody) -> Done:
    """No more releases of a plan until somebody resumes it, or until a time."""
    return await _control(service, principal, request, plan, "pause", body.why, body.until)


async def resume(service: Service, principal: Principal, request: Request, plan: str, body: ResumeBody) -> Done:
    return await _control(service, principal, request, plan, "resume", body.why, None)


async def _control(
    service: Service, principal: Principal, request: Request, plan: str, action: str, why: str, until: str | None
) -> Done:
    check_whole(principal, plan)
    name, text = service.plan(plan).name, reason_of(why)

    def write(turn: Turn) -> Sequence[Entry]:
        current = pause_of(turn.log, name)
        paused = current is not None and current.holds(turn.now)
        if paused == (action == "pause"):
            raise ApiProblem("already", f"the plan is {'paused' if paused else 'running'} already")
        record: dict[str, Any] = {
            "schema": "ucsearch.control/1", "kind": "control", "action": action, "plan": name, "who": principal.name,
            "why": text, "at": turn.now.isoformat(), "request": request.content(),
        }  # fmt: skip
        if until is not None:
            record["until"] = later_time(until, turn.now, "until")
        return [turn.log.append(record)]

    return await record_once(service, request, write, _control_answer)


def _control_answer(_: AuditReader, rows: Sequence[Row]) -> Controlled:
    row, r = rows[0], rows[0].record
    return Controlled(
        row.id, row.seq, row.head, r["action"], r["plan"], r["who"], r["why"], r["at"], r.get("until", "")
    )


async def rearm(service: Service, principal: Principal, request: Request, plan: str, body: RearmBody) -> Done:
    """Re-arm tripped streams, in one commit: after the forecasts' model was changed, or because a person accepts
    it."""
    named, text = service.plan(plan), reason_of(body.why)
    if named.watching is None:
        raise ApiProblem("not_found", "the plan has no monitor")
    for name in body.streams or ():
        check_series(principal, plan, name) if name else check_whole(principal, plan)

    def write(turn: Turn) -> Sequence[Entry]:
        watched = service.plan_states.journal.plans.get(named.name)
        tripped_streams = () if watched is None else watched.monitor.tripped()
        tripped = [name for name in tripped_streams if principal.scope.has(named.name, name)]
        chosen = tripped if body.streams is None else list(dict.fromkeys(body.streams))
        if watched is None or not chosen or not set(chosen) <= set(tripped):
            untripped = next((name for name in chosen if name not in tripped), "")
            raise ApiProblem("already", f"{excerpt(untripped) or 'the plan'} has not tripped")
        if not body.accept:
            for name in chosen:
                require_another_model(turn.log, named.name, name)
        records = []
        for i, name in enumerate(chosen):
            status = watched.monitor.status(name)
            record = event_record(
                named.name, name, "rearmed", status.evidence, status.outcomes, status.about, turn.now, principal.name,
                text,
            )  # fmt: skip
            records.append({**record, "request": request.at(i).content()})
        return turn.log.append_batch(records)

    return await record_once(service, request, write, _rearm_answer)


def _rearm_answer(_: AuditReader, rows: Sequence[Row]) -> RearmedStreams:
    names = ("plan", "series", "event", "evidence", "by", "why", "at")
    pairs = [(row, row.record) for row in rows]
    return RearmedStreams(tuple(Rearmed(row.id, row.seq, row.head, *(r[k] for k in names)) for row, r in pairs))


def event_record(
    plan: str, series: str, event: str, evidence: float, count: int, about: str, now: datetime, by: str, why: str
) -> dict[str, Any]:
    """An entry of the monitor; `by` is empty where it follows from the outcomes before it."""
    return {
        "schema": "ucsearch.monitor/1", "kind": "monitor", "plan": plan, "series": series, "event": event,
        "evidence": evidence, "count": count, "about": about, "at": now.isoformat(), "by": by, "why": why,
    }  # fmt: skip
