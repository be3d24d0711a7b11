"""Read queries of endpoints and console: frozen records out of the log, no logic anywhere else.

Every function takes an `AuditReader` first and is run by `Service.read`. Numbers are as in records (None: not known,
"inf": unbounded).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import WithJsonSchema

from ucsearch.dispatch.gate import Reason
from ucsearch.errors import RecordError
from ucsearch.records.chain import Row
from ucsearch.records.entries import effective_of
from ucsearch.records.reader import AuditReader
from ucsearch.service.answers import answer, label_of, order_of
from ucsearch.service.plans import Plan
from ucsearch.service.problems import Refusal
from ucsearch.service.standing import pause_of
from ucsearch.service.tally import KINDS, Tally

__all__ = [
    "DecisionLine",
    "DecisionPage",
    "DecisionView",
    "Figure",
    "LogView",
    "OutcomeView",
    "OverrideView",
    "PlanView",
    "SeriesView",
    "decision",
    "decisions",
    "find_row",
    "log_view",
    "plain",
    "plans",
    "plans_of",
    "series",
]

# A number as records have it.
Figure = Annotated[Any, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]})]


def plain(value: Any) -> Any:
    """A record of this module as JSON-able content."""
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value


Reported = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}}]})
]


@dataclass(frozen=True)
class OverrideView:
    """A person's replacement."""

    id: str
    seq: int
    who: str
    why: str
    at: str
    action: Figure  # None: withdrawn
    label: str
    off_grid: bool
    order: float | None  # units, where they differ from the action


@dataclass(frozen=True)
class DecisionLine:
    """A row of a table of decisions."""

    id: str
    seq: int
    kind: str  # decision or refusal
    plan: str
    series: str
    outcome: str
    reason: str
    action: Figure
    label: str
    effective: Figure  # what counts: the action, or the last override's
    overridden: bool
    sentence: str
    now: str  # when it was decided
    valid_until: str


@dataclass(frozen=True)
class DecisionPage:
    items: tuple[DecisionLine, ...]
    next: int | None  # `before` of the next page


@dataclass(frozen=True)
class OutcomeView:
    """What was reported of a decision."""

    id: str
    seq: int
    decision: str
    step: int
    value: Reported
    observed_at: str
    reported_by: str
    taken: Figure
    followed: bool | None  # None: nobody said
    replaces: str  # id of the first report; "" where it is the first, which counts


@dataclass(frozen=True)
class DecisionView:
    """One decision with all that belongs to it."""

    line: DecisionLine
    answer: dict[str, Any]
    record: dict[str, Any]
    digest: str
    head: str
    written_at: str | None
    overrides: tuple[OverrideView, ...]
    outcomes: tuple[OutcomeView, ...]
    newest: bool  # of its series
    effective_label: str
    expects: str  # what an override must expect
    effective_order: float | None


@dataclass(frozen=True)
class SeriesView:
    """A series as it stands."""

    series: str
    newest: DecisionLine
    expects: str  # what an override must expect
    effective: Figure
    effective_label: str
    effective_order: float | None
    certified: bool  # the action that counts is the released one
    valid_until: str
    expired: bool
    overrides: tuple[OverrideView, ...]
    outcomes: tuple[OutcomeView, ...]  # of its last decisions
    recent: tuple[DecisionLine, ...]  # newest first


@dataclass(frozen=True)
class PlanView:
    name: str
    settings_digest: str
    task: str
    policy: str
    engine: str
    valid_for_s: float
    paused: bool
    pause: dict[str, str] | None
    monitored: bool
    today: dict[str, int]  # decisions by outcome since midnight UTC
    reasons: dict[str, int]  # the same by reason, of those that were not released
    whole: bool  # they are all; False: there were more than could be counted after a start


@dataclass(frozen=True)
class FileView:
    """One file of a log that was rotated, or the only one."""

    name: str
    count: int  # entries
    head: str
    bytes: int | None  # None: in a database


@dataclass(frozen=True)
class LogView:
    count: int  # entries of the file that is written to
    head: str
    format: int
    checkpoint_count: int | None
    checkpoint_age_s: float | None
    files: tuple[FileView, ...] = ()  # from the oldest that is still there to the one that is written to


def find_row(reader: AuditReader, id: str) -> Row:
    """A decision or refusal by its id."""
    try:
        row = reader.get(id)
    except RecordError:
        raise Refusal("not_found", "there is no such decision") from None
    if row.record.get("kind") not in KINDS:
        raise Refusal("not_found", "there is no such decision")
    return row


def expects_of(reader: AuditReader, row: Row) -> str:
    """What an override must expect: the id of the newest thing said about a decision."""
    standing = reader.overrides(row.seq)
    return standing[-1].id if standing else row.id


def _line(row: Row, effective: Any, record: Mapping[str, Any] | None = None) -> DecisionLine:
    r = row.record if record is None else record
    o = r.get("outcome", {})
    return DecisionLine(
        row.id, row.seq, r["kind"], r.get("plan", ""), r.get("series", ""), o.get("outcome", ""), o.get("reason", ""),
        o.get("action"), label_of(r, o.get("action")), effective.action, effective.override is not None,
        o.get("sentence", ""), r.get("gate", {}).get("now", ""), r.get("valid_until", ""),
    )  # fmt: skip


def decisions(
    reader: AuditReader, *, plan: str | None = None, series: str | None = None, outcome: str | None = None,
    reason: str | None = None, kind: str | None = None, before: int | None = None, limit: int = 50,
) -> DecisionPage:  # fmt: skip
    """Newest first; `before` is the number at which the page before ended."""
    kinds = KINDS if kind is None else (kind,)
    # Refusals are found by what they are refused as: one by one all of a long log would be looked through for a few.
    if reason is None and series is None and kind == "refusal":
        reason = Reason.INVALID_TRACE.value
    found = reader.list(
        plan=plan, series=series, outcome=outcome, reason=reason, kind=kinds, before=before, limit=limit + 1,
        newest_first=True,
    )  # fmt: skip
    more, rows = len(found) > limit, found[:limit]
    standing = reader.effective(rows)
    items = tuple(_line(row, standing[row.seq]) for row in rows if row.seq in standing)
    return DecisionPage(items, rows[-1].seq if more and rows else None)


def _override_views(record: Mapping[str, Any], rows: Sequence[Row]) -> tuple[OverrideView, ...]:
    return tuple(
        OverrideView(
            row.id, row.seq, o["who"], o["why"], o["at"], o["action"], o.get("label", ""), o.get("off_grid", False),
            order_of(record, o["action"]),
        )
        for row, o in ((row, row.record) for row in rows)
    )  # fmt: skip


def outcomes_of(reader: AuditReader, row: Row) -> tuple[OutcomeView, ...]:
    """Reports about a decision, in order; the first of a step counts."""
    return _reports(reader, row.id, row.seq, effective_of(row, ()).action)


def _reports(reader: AuditReader, id: str, seq: int, action: Any) -> tuple[OutcomeView, ...]:
    """`action` is the decided one."""
    first: dict[int, str] = {}
    out = []
    reports = reader.reports(id)
    overrides = reader.overrides(seq) if reports else ()
    for found in reports:
        o = found.record
        if o.get("entry", seq) != seq:
            continue
        step = int(o["step"])
        taken = o.get("taken")
        # What counted when it was said, as its answer has it: nobody can follow what came later.
        said = [other.record["action"] for other in overrides if other.seq < found.seq]
        effective = said[-1] if said and said[-1] is not None else action
        out.append(
            OutcomeView(
                found.id,
                found.seq,
                id,
                step,
                o["value"],
                o["observed_at"],
                o["reported_by"],
                taken,
                None if taken is None else taken == effective,
                first.get(step, ""),
            )
        )
        first.setdefault(step, found.id)
    return tuple(out)


def decision(reader: AuditReader, id: str) -> DecisionView:
    row = find_row(reader, id)
    record = row.record
    standing = reader.effective([row])[row.seq]
    newest = reader.newest(record.get("series", ""), record.get("plan"))
    return DecisionView(
        _line(row, standing, record), answer(row, record), record, row.digest, row.head, row.written_at,
        _override_views(record, reader.overrides(row.seq)), outcomes_of(reader, row),
        newest is not None and newest.seq == row.seq, _label(record, standing), expects_of(reader, row),
        order_of(record, standing.action),
    )  # fmt: skip


def _label(record: Mapping[str, Any], standing: Any) -> str:
    """What the task calls the action that counts."""
    if standing.override is None:
        return label_of(record, standing.action)
    return str(standing.override.record.get("label", ""))


@dataclass(frozen=True)
class Verified:
    """What the verifier says."""

    status: str
    where: str
    message: str


def series(reader: AuditReader, name: str, now: datetime, plan: str | None = None, limit: int = 50) -> SeriesView:
    row = reader.newest(name, plan)
    if row is None:
        raise Refusal("not_found", "there is no decision of this series")
    record = row.record
    standing = reader.effective([row])[row.seq]
    recent = decisions(reader, plan=plan, series=name, limit=limit).items
    until = record.get("valid_until", "")
    seen: list[OutcomeView] = []
    for line in recent:
        seen += _reports(reader, line.id, line.seq, line.action)
    overridden = standing.override is not None
    return SeriesView(
        name, _line(row, standing, record), expects_of(reader, row), standing.action,
        _label(record, standing),
        order_of(record, standing.action), not overridden and record["outcome"]["outcome"] == "RELEASED", until,
        bool(until) and not now < datetime.fromisoformat(until), _override_views(record, reader.overrides(row.seq)),
        tuple(seen), recent,
    )  # fmt: skip


def plans_of(reader: AuditReader, series: str, known: Sequence[str]) -> tuple[str, ...]:
    """Those of some plans that have decided a series of this name."""
    return tuple(plan for plan in known if reader.newest(series, plan) is not None)


def plans(reader: AuditReader, known: Mapping[str, Plan], now: datetime, tally: Tally) -> tuple[PlanView, ...]:
    out = []
    for plan in known.values():
        pause = pause_of(reader, plan.name)
        held = pause is not None and pause.holds(now)
        counts, whole = tally.look(reader, plan.name, now)
        today: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for (outcome, reason), count in counts.items():
            today[outcome] += count
            reasons[reason] += count
        reasons.pop("none", None)
        s = plan.settings
        out.append(
            PlanView(
                plan.name, s.digest, s.task.task().name, type(s.policy).__name__, s.run.engine, plan.table.valid_for_s,
                held, None if pause is None or not held else {k: str(v) for k, v in pause._asdict().items()},
                plan.watching is not None, dict(sorted(today.items())), dict(reasons.most_common()), whole,
            )
        )  # fmt: skip
    return tuple(out)


def log_view(reader: AuditReader, checkpoint_count: int | None, checkpoint_age_s: float | None) -> LogView:
    found = reader.checkpoint(max_marks=0)
    return LogView(found.count, found.head, reader.format, checkpoint_count, checkpoint_age_s)
