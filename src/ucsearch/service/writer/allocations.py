"""Limits that the series of a plan share: decisions that were made one by one get what is left of a truck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ucsearch.allocation.api import Allocation, Terms, allocate_cases
from ucsearch.allocation.problem import Shared
from ucsearch.allocation.record import recorded_case, write_allocation
from ucsearch.allocation.show import TODAY
from ucsearch.errors import InputError, RecordError
from ucsearch.planner.recorded.shared import allocation_again
from ucsearch.planner.settings import Settings
from ucsearch.records.entries import Entry, Request, Row
from ucsearch.records.log import AuditReader
from ucsearch.service.auth import check_series
from ucsearch.service.errors import ApiProblem, excerpt, sentence_of
from ucsearch.service.queries import find_row
from ucsearch.service.schemas import AllocateBody, Allocated, SharedLimitView, ShareView
from ucsearch.service.service import Service
from ucsearch.service.tokens import Principal, Scope
from ucsearch.service.writer.actions import Done, record_once
from ucsearch.service.writer.answers import order_of
from ucsearch.service.writer.plans import ServicePlan
from ucsearch.service.writer.writer import Turn

__all__ = ["allocate", "allocation", "newest_allocations", "view_of"]

_NEXT = 5  # in line for more of a limit
_LISTED = 50
_WHOLE = Scope()


async def allocate(service: Service, principal: Principal, request: Request, plan: str, body: AllocateBody) -> Done:
    """Share the plan's limits among decisions that stand: each the newest of its series, valid, and not overridden."""
    named = service.plan(plan)
    if not named.settings.shared:
        raise ApiProblem("invalid", "the plan's settings have no [shared]", where=("plan",))
    amounts = _amounts(named.settings, body)

    def write(turn: Turn) -> Sequence[Entry]:
        rows: dict[str, Row] = {}
        columns: dict[str, Mapping[str, Any]] = {}
        for i, item in enumerate(body.items):
            row = _valid_decision(turn, item.decision, principal, named.name, f"items[{i}].decision")
            series = str(row.record["series"])
            check_series(principal, named.name, series)
            if series in rows:
                raise ApiProblem("invalid", f"{excerpt(series)} occurs twice", where=(f"items[{i}].decision",))
            rows[series], columns[series] = row, item.columns
        try:
            shared = _shared(named.settings, amounts, columns)
            cases = [recorded_case(row, turn.log, service.task_of(row.record)) for row in rows.values()]
            terms = Terms(gap_share=named.settings.shared_gap, serve=named.settings.shared_serve)
            allocation = write_allocation(allocate_cases(cases, shared, terms), turn.log, rows, request)
        except (InputError, RecordError) as error:
            raise ApiProblem("invalid", sentence_of(error)) from error
        entry = turn.log.get(allocation.record_id)
        return [Entry(entry.seq, entry.id, entry.digest, entry.head)]

    def answer(log: AuditReader, rows: Sequence[Row]) -> Allocated:
        return view_of(log, rows[0], named)[0]

    return await record_once(service, request, write, answer)


def _valid_decision(turn: Turn, id: str, principal: Principal, plan: str, where: str) -> Row:
    row = find_row(turn.log, id, principal.scope)
    record = row.record
    if record.get("plan") != plan or record["kind"] != "decision":
        raise ApiProblem("not_found", "there is no such decision of this plan", where=(where,))
    newest = turn.log.newest(record["series"], plan)
    if newest is None or newest.seq != row.seq:
        raise ApiProblem("not_newest", "there is a newer decision of this series", where=(where,))
    until = record.get("valid_until", "")
    if until and not turn.now < datetime.fromisoformat(until):
        raise ApiProblem("expired", f"it was valid until {until}", where=(where,))
    if turn.log.overrides(row.seq):
        raise ApiProblem("not_newest", "a person has decided otherwise; leave it out", where=(where,))
    return row


def _amounts(settings: Settings, body: AllocateBody) -> dict[str, Any]:
    """Today's limits: those of the request, else the settings'."""
    limits = settings.shared
    if unknown := sorted(set(body.limits) - set(limits)):
        raise ApiProblem("invalid", f"one of {', '.join(limits)}", where=(f"limits.{excerpt(unknown[0])}",))
    amounts = {name: body.limits.get(name, limit.limit) for name, limit in limits.items()}
    for name, amount in amounts.items():
        if amount is None:
            raise ApiProblem(
                "invalid", "today's amount is needed: the plan's limits differ by date", where=(f"limits.{name}",)
            )
        if isinstance(amount, dict) != bool(limits[name].per):
            raise ApiProblem("invalid", "one number, or one for each group", where=(f"limits.{name}",))
    return amounts


def _shared(settings: Settings, amounts: Mapping[str, Any], columns: Mapping[str, Mapping[str, Any]]) -> list[Shared]:
    uses, out = list(settings.task.task().uses), []
    for name, limit in settings.shared.items():
        times: Any = 1.0
        if limit.column:
            times = {series: _cell(cells, limit.column, series, float) for series, cells in columns.items()}
        per = {s: _cell(cells, limit.per, s, str) for s, cells in columns.items()} if limit.per else None
        out.append(Shared(name=name, limit=amounts[name], use=limit.use or uses[0], times=times, per=per))
    return out


def _cell(cells: Mapping[str, Any], column: str, series: str, kind: type) -> Any:
    value = cells.get(column)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else str):
        expected = "a number" if kind is float else "a text"
        raise ApiProblem("invalid", f"{expected} for {excerpt(series)}", where=(f"columns.{column}",))
    return kind(value)


def view_of(log: AuditReader, row: Row, plan: ServicePlan | None) -> tuple[Allocated, Allocation]:
    """An allocation as it is shown, and put together again from its record."""
    settings = None if plan is None else plan.settings
    allocation = allocation_again(log, row, settings)
    record, result = row.record, allocation.result
    limits = () if result is None else tuple(
        SharedLimitView(
            p.resource, p.limit, p.used, p.shadow_price,
            tuple(name for name, *_ in result.next_in_line(p.resource, _NEXT)) if p.binds else (),
        )
        for p in result.table()
    )  # fmt: skip
    binding = {share.series: share for share in allocation.shares}
    items = []
    for member in record["members"]:
        decision = log.get(member["entry"]).record
        share = binding[member["series"]]
        less = share.binding if member["action"] != decision["outcome"]["action"] else ""
        items.append(ShareView(
            member["series"], member["decision"], member["outcome"], member["action"],
            None if member["action"] is None else order_of(decision, member["action"]),
            decision["outcome"]["action"], less,
        ))  # fmt: skip
    first = log.get(record["members"][0]["entry"]).record
    claim = record["claim"]
    view = Allocated(
        row.id, row.seq, row.head, str(first.get("plan", "")), row.written_at, claim["served"], claim["reason"], limits,
        tuple(items), TODAY if claim["served"] else "",
    )  # fmt: skip
    return view, allocation


def newest_allocations(reader: AuditReader, scope: Scope = _WHOLE) -> list[tuple[Row, str]]:
    """The newest allocations with their plans, newest first."""
    out = []
    for row in reader.list(kind="allocation", newest_first=True, limit=_LISTED):
        plan = _visible_plan(reader, row, scope)
        if plan is not None:
            out.append((row, plan))
    return out


def allocation(reader: AuditReader, id: str, scope: Scope = _WHOLE) -> tuple[Row, str]:
    """An allocation by its id, with its plan."""
    try:
        row = reader.get(id)
    except RecordError:
        raise ApiProblem("not_found", "there is no such allocation") from None
    plan = _visible_plan(reader, row, scope) if row.record.get("kind") == "allocation" else None
    if plan is None:
        raise ApiProblem("not_found", "there is no such allocation")
    return row, plan


def _visible_plan(reader: AuditReader, row: Row, scope: Scope) -> str | None:
    """The plan of an allocation; None where somebody may not see all of its series."""
    members = row.record.get("members", ())
    if not members:
        return None
    plan = str(reader.get(members[0]["entry"]).record.get("plan", ""))
    return plan if scope.is_whole or all(scope.has(plan, m["series"]) for m in members) else None
