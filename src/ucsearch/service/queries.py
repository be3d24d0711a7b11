"""Read queries of endpoints and console: what is shown of decisions, series, plans and the log.

Every function takes an `AuditReader` first and is run by `Service.read`. What is outside of the scope of whoever asks
is not found. `Tally` keeps counts of the day and the newest decision of every series in memory."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ucsearch.decision.gate import Reason
from ucsearch.errors import RecordError
from ucsearch.planner.recorded.explain import explain_row
from ucsearch.records.entries import GENESIS, AlteredEntry, NoEntry, Row, effective_of
from ucsearch.records.export import jsonl_line
from ucsearch.records.log import AuditReader
from ucsearch.report.charts import fan, quantiles
from ucsearch.service.errors import ApiProblem
from ucsearch.service.schemas import (
    DecisionLine,
    DecisionPage,
    DecisionView,
    Explained,
    FileView,
    LogView,
    OutcomeView,
    OverrideView,
    PlanView,
    SeriesView,
)
from ucsearch.service.tokens import Scope
from ucsearch.service.writer.answers import answer, label_of, order_of
from ucsearch.service.writer.plan_state import pause_of
from ucsearch.service.writer.plans import ServicePlan

if TYPE_CHECKING:
    from ucsearch.service.service import Service

__all__ = [
    "KINDS",
    "LogVerified",
    "Newest",
    "Tally",
    "decision",
    "decisions",
    "expects_of",
    "explain",
    "export_part",
    "find_row",
    "log_view",
    "outcomes_of",
    "plans",
    "series",
    "verify_log",
]

KINDS = ("decision", "refusal")
_MOST_SERIES = 20_000  # of a plan whose newest decision is kept
_HELD = 1_000  # on hold, of which overrides are looked up
_LONG_AGO = timedelta(days=2)  # what ended before is nobody's concern any more


class Newest(NamedTuple):
    """The newest decision of a series, as far as a list needs it."""

    seq: int
    series: str
    id: str
    outcome: str
    sends: bool  # it has an action of its own; overrides come on top
    sentence: str  # "" where it sends something: nobody asks then
    now: str  # when it was decided
    valid_until: str

    def is_over(self, now: datetime) -> bool:
        """Whether it may no longer be followed."""
        return bool(self.valid_until) and not now < datetime.fromisoformat(self.valid_until)


class Tally:
    """Decisions of a day by plan, outcome and reason, and who stands where. Every look reads only what is new, so that
    a page costs the same at noon and at midnight; the first look of a process goes back so far and no further."""

    def __init__(self, most: int = 2_000) -> None:
        self._most, self._lock = most, threading.Lock()
        self._day = ""
        self._counted_to: dict[str, int] = {}  # newest entry that was counted, by plan
        self._counts: dict[str, Counter[tuple[str, str]]] = {}
        self._whole: dict[str, bool] = {}  # nothing of the day was left out
        self._newest_to: dict[str, int] = {}  # newest entry that `newest` has taken in, by plan
        self._newest: dict[str, dict[str, Newest]] = {}

    def look(self, reader: AuditReader, plan: str, now: datetime) -> tuple[dict[tuple[str, str], int], bool]:
        """Counts by outcome and reason since midnight UTC, and whether they are all."""
        with self._lock:
            day = now.date().isoformat()
            if day != self._day:
                self._day, self._counted_to, self._counts, self._whole = day, {}, {}, {}
            self._take_in(reader, plan, day)
            return dict(sorted(self._counts[plan].items())), self._whole[plan]

    def newest(self, plan: str, now: datetime) -> tuple[Newest, ...]:
        """The newest decision of every series of a plan, newest first, as of the last look."""
        with self._lock:
            by_series = self._newest.get(plan, {})
            if len(by_series) > _MOST_SERIES:
                end = (now - _LONG_AGO).isoformat()
                still_valid = sorted((n for n in by_series.values() if n.valid_until >= end), key=_age)[-_MOST_SERIES:]
                by_series = self._newest[plan] = {n.series: n for n in still_valid}
            return tuple(sorted(by_series.values(), key=_age, reverse=True))

    def held(self, reader: AuditReader, plan: str, now: datetime, most: int) -> tuple[list[Newest], int]:
        """Newest decisions of a plan that send nothing, are still valid, and for which no person has decided; of the
        newest `most` of them, and how many more send nothing."""
        self.look(reader, plan, now)
        silent = [n for n in self.newest(plan, now) if not n.sends and not n.is_over(now)]
        rows, on_hold = [], set[str]()
        for n in silent[:most]:
            try:
                rows.append(reader.get(n.id))
            except NoEntry:  # of a file that was moved away
                on_hold.add(n.id)
        effective = reader.effective(rows)
        on_hold |= {row.id for row in rows if effective[row.seq].action is None}
        return [n for n in silent[:most] if n.id in on_hold], max(0, len(silent) - most)

    def on_hold(self, reader: AuditReader, plan: str, now: datetime) -> int:
        """How many series of a plan wait for a person."""
        on_hold, more = self.held(reader, plan, now, _HELD)
        return len(on_hold) + more

    def _take_in(self, reader: AuditReader, plan: str, day: str) -> None:
        self._whole.setdefault(plan, True)
        counts, newest_by_series = self._counts.setdefault(plan, Counter()), self._newest.setdefault(plan, {})
        names: set[str] = set()
        last, newest_known = self._counted_to.get(plan, 0), self._newest_to.get(plan, 0)
        newest, fresh, before, at_end, is_whole = max(last, newest_known), 0, None, False, False
        while not at_end and fresh < self._most:
            rows = reader.list(
                plan=plan, kind=KINDS, newest_first=True, before=before, limit=16 if before is None else 256
            )
            at_end = not rows
            for row in rows:
                record = row.record if row.seq > min(last, newest_known) else {}
                today = bool(record) and record["gate"]["now"] >= day
                if not record or not (row.seq > newest_known or (today and row.seq > last)):
                    at_end = True
                    break
                name = record.get("series", "")
                if row.seq > newest_known and name not in names:
                    names.add(name)
                    newest_by_series[name] = _newest(row, record)
                is_whole = is_whole or not today
                if today and row.seq > last:
                    counts[record["outcome"]["outcome"], record["outcome"]["reason"]] += 1
                fresh, newest = fresh + 1, max(newest, row.seq)
            before = rows[-1].seq if rows else None
        self._counted_to[plan] = self._newest_to[plan] = newest
        self._whole[plan] = self._whole[plan] and (at_end or is_whole)


def _age(n: Newest) -> tuple[str, int]:
    return n.now, n.seq


def _newest(row: Row, record: Mapping[str, Any]) -> Newest:
    outcome = record["outcome"]
    sends = outcome.get("action") is not None
    return Newest(
        row.seq, record.get("series", ""), row.id, outcome["outcome"], sends,
        "" if sends else outcome.get("sentence", ""), record["gate"]["now"], record.get("valid_until", ""),
    )  # fmt: skip


_WHOLE = Scope()
_PAGES = 20  # of a list that are looked through for what somebody may see
_EXPORTED = 200  # lines at a time


def find_row(reader: AuditReader, id: str, scope: Scope = _WHOLE) -> Row:
    """A decision or refusal by its id."""
    try:
        row = reader.get(id)
    except NoEntry:
        raise ApiProblem("not_found", "there is no such decision") from None
    record = row.record
    if record.get("kind") not in KINDS or not _is_in(record, scope):
        raise ApiProblem("not_found", "there is no such decision")
    return row


def expects_of(reader: AuditReader, row: Row) -> str:
    """What an override must expect: the id of the newest thing said about a decision."""
    overrides = reader.overrides(row.seq)
    return overrides[-1].id if overrides else row.id


def _line(row: Row, effective: Any, record: Mapping[str, Any] | None = None) -> DecisionLine:
    r = row.record if record is None else record
    o = r.get("outcome", {})
    return DecisionLine(
        row.id, row.seq, r["kind"], r.get("plan", ""), r.get("series", ""), o.get("outcome", ""), o.get("reason", ""),
        o.get("action"), label_of(r, o.get("action")), effective.action, effective.override is not None,
        o.get("sentence", ""), r.get("gate", {}).get("now", ""), r.get("valid_until", ""),
    )  # fmt: skip


def decisions(
    reader: AuditReader, scope: Scope = _WHOLE, *, plan: str | None = None, series: str | None = None,
    outcome: str | None = None, reason: str | None = None, kind: str | None = None, before: int | None = None,
    limit: int = 50,
) -> DecisionPage:  # fmt: skip
    """Newest first; `before` is the number at which the page before ended."""
    # Refusals are found by what they are refused as: one by one all of a long log would be looked through for a few.
    if reason is None and series is None and kind == "refusal":
        reason = Reason.INVALID_TRACE.value
    kinds = KINDS if kind is None else (kind,)
    if plan is None and len(scope.plans) == 1:
        plan = scope.plans[0]
    rows: list[Row] = []
    more = True
    for _ in range(1 if scope.is_whole else _PAGES):
        page = reader.list(
            plan=plan, series=series, outcome=outcome, reason=reason, kind=kinds, before=before, limit=limit + 1,
            newest_first=True,
        )  # fmt: skip
        more, page = len(page) > limit, page[:limit]
        rows += [row for row in page if _is_in(row.record, scope)]
        before = page[-1].seq if page else None
        if not more or len(rows) >= limit:
            break
    if len(rows) > limit:
        more, rows = True, rows[:limit]
        before = rows[-1].seq
    effective = reader.effective(rows)
    items = tuple(_line(row, effective[row.seq]) for row in rows if row.seq in effective)
    return DecisionPage(items, before if more else None)


def _is_in(record: Mapping[str, Any], scope: Scope) -> bool:
    return scope.is_whole or scope.has(str(record.get("plan", "")), str(record.get("series", "")))


def _override_views(record: Mapping[str, Any], rows: Sequence[Row]) -> tuple[OverrideView, ...]:
    return tuple(
        OverrideView(
            row.id, row.seq, o["who"], o["why"], o["at"], o["action"], o.get("label", ""), o.get("off_grid", False),
            o.get("forced", False), order_of(record, o["action"]),
        )
        for row, o in ((row, row.record) for row in rows)
    )  # fmt: skip


def outcomes_of(reader: AuditReader, row: Row) -> tuple[OutcomeView, ...]:
    """Reports about a decision, in order; the first of a step counts."""
    return _reports(reader, row.id, row.seq, effective_of(row, (), reader.shares([row]).get(row.seq)).action)


def _reports(reader: AuditReader, id: str, seq: int, action: Any) -> tuple[OutcomeView, ...]:
    """`action` is the decided one, or what an allocation left of it."""
    first: dict[int, str] = {}
    out = []
    reports = reader.reports(id)
    overrides = reader.overrides(seq) if reports else ()
    for report in reports:
        o = report.record
        if o.get("entry", seq) != seq:
            continue
        step = int(o["step"])
        taken = o.get("taken")
        # What counted when it was said, as its answer has it: nobody can follow what came later.
        said_before = [override.record["action"] for override in overrides if override.seq < report.seq]
        effective = said_before[-1] if said_before and said_before[-1] is not None else action
        out.append(
            OutcomeView(
                report.id,
                report.seq,
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
        first.setdefault(step, report.id)
    return tuple(out)


def decision(reader: AuditReader, id: str, scope: Scope = _WHOLE) -> DecisionView:
    row = find_row(reader, id, scope)
    record = row.record
    effective = reader.effective([row])[row.seq]
    newest = reader.newest(record.get("series", ""), record.get("plan"))
    return DecisionView(
        _line(row, effective, record), answer(row, record), record, row.digest, row.head, row.written_at,
        _override_views(record, reader.overrides(row.seq)), outcomes_of(reader, row),
        newest is not None and newest.seq == row.seq, _label(record, effective), expects_of(reader, row),
        order_of(record, effective.action),
    )  # fmt: skip


def _label(record: Mapping[str, Any], effective: Any) -> str:
    """What the task calls the action that counts."""
    if effective.override is None:
        return label_of(record, effective.action)
    return str(effective.override.record.get("label", ""))


def series(
    reader: AuditReader, name: str, scope: Scope, now: datetime, plan: str | None = None, limit: int = 50
) -> SeriesView:
    if plan is None and len(scope.plans) == 1:
        plan = scope.plans[0]
    row = reader.newest(name, plan)
    if row is None or not _is_in(record := row.record, scope):
        raise ApiProblem("not_found", "there is no decision of this series")
    effective = reader.effective([row])[row.seq]
    recent = decisions(reader, scope, plan=plan, series=name, limit=limit).items
    until = record.get("valid_until", "")
    outcomes: list[OutcomeView] = []
    shares = reader.shares(recent)
    for line in recent:
        share = shares.get(line.seq)
        outcomes += _reports(reader, line.id, line.seq, line.action if share is None else share.action)
    overridden = effective.override is not None
    outcome = record["outcome"]["outcome"] if effective.share is None else effective.share.outcome
    return SeriesView(
        name, _line(row, effective, record), expects_of(reader, row), effective.action,
        _label(record, effective),
        order_of(record, effective.action), not overridden and outcome == "RELEASED", until,
        bool(until) and not now < datetime.fromisoformat(until), _override_views(record, reader.overrides(row.seq)),
        tuple(outcomes), recent,
    )  # fmt: skip


def plans(
    reader: AuditReader, named_plans: Mapping[str, ServicePlan], now: datetime, tally: Tally
) -> tuple[PlanView, ...]:
    out = []
    for plan in named_plans.values():
        pause = pause_of(reader, plan.name)
        is_paused = pause is not None and pause.holds(now)
        counts, is_whole = tally.look(reader, plan.name, now)
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
                is_paused, None if pause is None or not is_paused else {k: str(v) for k, v in pause._asdict().items()},
                plan.watching is not None, dict(sorted(today.items())), dict(reasons.most_common()), is_whole,
            )
        )  # fmt: skip
    return tuple(out)


def log_view(reader: AuditReader, service: Service) -> LogView:
    """As the service knows it, with the files that are still there, from the oldest to the newest."""
    end = reader.checkpoint(max_marks=0)
    if service.config.store.is_postgres:
        files = [FileView("PostgreSQL", end.count, end.head, None)]
    else:
        files = [_file_view(path) for path in reader.files]
    return LogView(end.count, end.head, reader.format, *service.upkeep.checkpoint_state(), tuple(files))


def _file_view(path: Path) -> FileView:
    with AuditReader(path, single=True) as file:
        end = file.checkpoint(max_marks=0)
    return FileView(path.name, end.count, end.head, path.stat().st_size)


@dataclass(frozen=True)
class LogVerified:
    """What was found; `where` is the file it was found in."""

    ok: bool
    count: int  # entries, of all files
    files: int
    where: str = ""
    message: str = ""


def verify_log(reader: AuditReader) -> LogVerified:
    """Every entry of every file, and that each file follows the one before."""
    try:
        report, files = reader.verify(), reader.files
        if report.ok:
            return LogVerified(True, report.count, len(files))
        bad_file = next((path for path in reversed(files) if _begins(path) <= report.count + 1), files[0])
    except AlteredEntry as error:  # a first entry, which says what the file follows
        return LogVerified(False, 0, 0, "the log", str(error))
    return LogVerified(False, report.count, len(files), bad_file.name, report.message)


def _begins(path: Path) -> int:
    with AuditReader(path, single=True) as file:
        return file.first()


def explain(reader: AuditReader, id: str, scope: Scope, named_plans: Mapping[str, ServicePlan]) -> Explained:
    row = find_row(reader, id, scope)
    plan = named_plans.get(str(row.record.get("plan", "")))
    explained = explain_row(reader, row, None if plan is None else plan.settings)
    svg = ""
    if explained.members.size:
        weights = explained.weights.tolist()
        rows = [quantiles(step, weights) for step in explained.members[:, :, 0].T.tolist()]
        outcomes = {
            o.step: float(o.value) for o in outcomes_of(reader, row) if not o.replaces and not _several(o.value)
        }
        svg = fan(
            "forecast", f"forecast of {explained.series}", rows, outcomes, explained.outcome_unit or explained.units
        )
    return Explained(explained.title, explained.text, svg)


def _several(value: Any) -> bool:
    return isinstance(value, list)


def export_part(reader: AuditReader, first: int, last: int | None, previous: str) -> tuple[list[bytes], str]:
    """Some lines of an export, from entry `first` on, and the head after them. `previous` is the head before them,
    where some were exported already: a log that was rotated since has other entries under these numbers."""
    if previous and reader.get(first - 1).head != previous:
        raise RecordError("the log continues in another file")
    rows = list(islice(reader.rows(first, last), _EXPORTED))
    before = previous or (GENESIS if first == 1 else reader.get(first - 1).head if rows else "")
    out = []
    for row in rows:
        out.append(jsonl_line(row, before, reader.blobs_of(row)))
        before = row.head
    return out, before
