"""The job behind `ucsearch decide`: forecasts and states in, one row per series out, every decision in the log.

Series are worked off in chunks. A chunk's decisions are in the log before its rows are kept, and its rows are a file of
their own in `<out>.partial` until all are there. A killed run that is started again goes on after the last chunk; a
chunk that was cut off is decided again, gives the same records under the same request, and the log does not write them
twice. Another run is another request: what it decides is recorded again, even if nothing changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.allocation.api import Allocation
from ucsearch.decision.api import decide_panel
from ucsearch.decision.decision import Decision, DecisionPanel
from ucsearch.errors import DataError, InputError
from ucsearch.planner.decide.dates import Age
from ucsearch.planner.decide.inputs import (
    Group,
    Work,
    ahead,
    correction_for,
    engine_after_a_try,
    gathered,
    recalibrated_trace,
    recorded_changes,
)
from ucsearch.planner.decide.page import DecidePage, last_run
from ucsearch.planner.decide.resume import JobRun, SameRun, fingerprint_of, keep, kept, read_part, work_folder
from ucsearch.planner.decide.room import Room
from ucsearch.planner.decide.rows import PLACE, REFUSED, Rows, column_kinds, shown_columns
from ucsearch.planner.decide.segments import Segment, is_segmented, resolve_reach
from ucsearch.planner.decide.shared import Portions, Sharing, limit_files
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Kind, StateFile
from ucsearch.planner.files.archive import extend_archive
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import Problem, Style, check_writable, open_table, refuse_overwriting, write_table
from ucsearch.planner.settings import Settings
from ucsearch.policies import Run
from ucsearch.records.entries import Request, Sealed, Under
from ucsearch.records.log import AuditLog
from ucsearch.records.record import Recalibrated, decision_body, panel_bodies
from ucsearch.scale.segments.encode import kept_steps, shortened
from ucsearch.scale.segments.rebuild import recalibration_text
from ucsearch.scale.segments.shared import Keep

__all__ = ["DecideReport", "StrictError", "bodies_of", "decided", "logged", "run_decide"]

_SHOWN = 10_000  # problems kept in a report

Progress = Callable[[int, int], None]


class StrictError(DataError):
    """With `strict`, anything wrong with the files; `problems` lists it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class DecideReport:
    """What was done."""

    outcomes: dict[str, int]
    reasons: dict[str, int]
    problems: tuple[Problem, ...]
    more_problems: int  # beyond those kept
    resumed: int  # series taken over from a run that was cut off
    fallback_cost: float  # expected cost of falling back, all series for which it is known
    fallback_unknown: int  # series that fell back without a valued plan, so that nobody knows
    advice: tuple[str, ...]  # what the task says could be changed, for notes of its decisions
    settings: Settings
    out: Path
    log: Path
    allocation: Allocation | None = None  # of the limits of [shared]

    @property
    def fallback_share(self) -> float:
        return self.outcomes.get("FALLBACK", 0) / max(1, sum(self.outcomes.values()))

    @property
    def fallback_words(self) -> str:
        """What falling back is expected to cost, as far as it is known; "" where nothing fell back."""
        known, money = self.outcomes.get("FALLBACK", 0) - self.fallback_unknown, self.settings.currency
        told = []
        if known > 0:
            cost = f"{self.fallback_cost:,.2f} {money or 'units of reward'}"
            told.append(f"falling back is expected to cost {cost} ({known} series)")
        if self.fallback_unknown > 0:
            count = self.fallback_unknown
            told.append(f"what falling back costs is not known for {count} series: no plan was valued")
        return "; ".join(told)

    @property
    def falls_back_too_often(self) -> bool:
        return self.fallback_share > self.settings.run.max_fallback_share

    @property
    def needs_a_person(self) -> bool:
        unshared = self.allocation is not None and not self.allocation.served
        return unshared or any(self.outcomes.get(x, 0) for x in (REFUSED, "HOLD"))


def run_decide(
    settings: Settings,
    forecasts: str | Path,
    states: str | Path,
    out: str | Path,
    log: str | Path,
    *,
    archive: str | Path | None = None,
    keep: str | Path | None = None,
    sales: str | Path | None = None,
    html: str | Path | None = None,
    strict: bool = False,
    fresh: bool = False,
    now: datetime | None = None,
    clock: Callable[[], datetime] | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> DecideReport:
    """Decide every series of both files. `archive` holds past forecasts and outcomes, for recalibration; `keep` is
    where it is written with today's forecasts and the outcomes in `sales` (it may be the archive itself). `now` is what
    forecasts' ages are measured against (and recorded), `clock` dates the log's entries; where one of them is given,
    forecasts that begin more than `forecast.max_age` periods before (2 where it is left out) are refused. `html` is a
    page of all decisions. `strict` refuses all if anything is wrong; `fresh` forgets a run that was cut off. Limits of
    [shared] are kept among the decisions in the same run; `DecideReport.allocation` says how. `tell` is called before
    series are decided whose states in closed loop take long or do not fit, with what would fit."""
    out, log = Path(out), Path(log)
    inputs = {
        "the settings": settings.file or None, "the forecasts": forecasts, "the states": states, "the archive": archive,
        **{f"the limits {path.name}": path for path in limit_files(settings)},
    }  # fmt: skip
    others = {**inputs, "the sales": sales, "what is kept": keep}
    refuse_overwriting({"the decisions": out}, others, logs={"the log": log})
    refuse_overwriting({"what is kept": keep}, {**inputs, "the archive": None, "the sales": sales})
    refuse_overwriting({"the page": html}, {**others, "the log": log, "the decisions": out})
    check_writable(out)
    if keep is not None:
        check_writable(keep)
        if archive is not None and not Path(archive).exists():
            archive = None  # the first day
    if settings.gate.max_trace_age_s is not None and now is None:
        raise InputError("now", "nothing", "a time, because gate.max_trace_age_s is set")
    if keep is not None and settings.fields:
        raise InputError("keep", "an archive", f"none: outcomes have the fields {', '.join(settings.fields)}")
    decimal = settings.columns.decimal
    moment = clock() if now is None and clock is not None else now
    dated = SeriesFile.open(open_table(forecasts, decimal), settings)
    stood = StateFile(open_table(states, decimal), settings, first=dated.first_days)
    stood.leave_out_totals(frozenset(dated.order))
    portions = None
    if settings.shared:
        portions = Portions(settings, stood, lambda name: dated.first_days.get(name, stood.dates.get(name)))
    plan = Work(
        settings, dated, stood, Age.at(moment, settings), archive, begins=keep is not None,
        more=() if portions is None else portions.problems,
    )  # fmt: skip
    if tell is not None:
        plan.room = Room(settings, tell, len(plan.series))
    if strict and (found := plan.all_problems()):
        raise StrictError(found)
    files = [forecasts, states, *([] if archive is None else [archive]), *limit_files(settings)]
    if (targets := settings.path("targets")) is not None and targets.exists():
        files.append(targets)
    fingerprint = fingerprint_of(settings, *files)
    with AuditLog(log, clock=clock) as book, work_folder(out, fingerprint, now, fresh, book) as run:
        request = Request(run.name, body=fingerprint, by="ucsearch decide")
        segment = Segment.begin(plan, log, run.now, files) if is_segmented(plan) else None
        sharing = None if portions is None else Sharing(portions)
        resumed = _decide_all(plan, settings, run, book, request, progress, segment, sharing)
        if segment is not None:
            segment.close(book, request, len(plan.chunks))
        if sharing is not None:
            sharing.share(book, plan.series, request.at(len(plan.series)))
        report = _finish(plan, run.folder, out, log, resumed, None if html is None else Path(html), sharing)
        if keep is not None:
            extend_archive(keep, settings, plan.forecasts, old=archive, sales=sales)
        return report


class _Panel(NamedTuple):
    """Series decided in one call."""

    panel: DecisionPanel
    series: list[str]
    kind: Kind
    recalibrated: list[Recalibrated] | None
    horizon: int  # steps of the whole forecasts
    sources: list[str] | None = None  # where they are, if they are not kept; or how they were recalibrated


class Chunk(NamedTuple):
    """Some consecutive series, decided but not yet logged."""

    number: int
    series: list[str]
    panels: list[_Panel]
    refused: dict[str, tuple[Problem, Decision]]
    problems: list[Problem]  # found only now


def _decide_all(
    plan: Work,
    settings: Settings,
    run: JobRun,
    book: AuditLog,
    request: Request,
    progress: Progress | None,
    segment: Segment | None,
    sharing: Sharing | None,
) -> int:
    """Decide what is not yet kept; returns how many series were kept already."""
    done = [n for n in range(len(plan.chunks)) if kept(run.folder, n, book, segment)]
    for number in done:
        if sharing is None:
            break
        sharing.recall(book, [row[PLACE["certificate"]] for row in read_part(run.folder, number)["rows"]])
    todo = [n for n in range(len(plan.chunks)) if n not in set(done)]
    resumed = sum(plan.chunks[n][1] - plan.chunks[n][0] for n in done)
    count, total = resumed, len(plan.series)
    if progress is not None:
        progress(count, total)
    for chunk in ahead(decided(plan, settings, todo, run.now, None if segment is None else segment.shared.keep)):
        if segment is None:
            keep(run.folder, chunk, logged(plan, chunk, book, request, alone=not run.again, sharing=sharing))
        else:
            keep(run.folder, chunk, segment.write(plan, chunk))
        count += len(chunk.series)
        if progress is not None:
            progress(count, total)
    return resumed


def decided(
    plan: Work, settings: Settings, todo: Sequence[int], now: datetime | None, keep: Keep | None = None
) -> Iterator[Chunk]:
    """Chunks in order; what lies between them in the forecasts file is skipped, not decided. With `keep`, for a
    segment that keeps so much of each forecast."""
    held = len(plan.forecasts.order)
    chunks = gathered(plan, settings, todo)
    # One chunk has nothing to be read ahead of, and a thread costs as much as the search of a small one.
    for number, groups, refused, fresh in ahead(chunks) if len(todo) > 1 else chunks:
        lo, hi = plan.chunks[number]
        refused.update({series: plan.by_series[series] for series in plan.series[max(lo, held) : hi]})
        panels = [_decide_group(plan, settings, group, now, keep) for group in groups]
        told = {series: (problem, plan.refuse(series, problem, now)) for series, problem in refused.items()}
        yield Chunk(number, plan.series[lo:hi], panels, told, fresh)


def _decide_group(plan: Work, settings: Settings, group: Group, now: datetime | None, keep: Keep | None) -> _Panel:
    """Series of one kind and shape in one call."""
    values, cases, trace = group
    kind = cases[0].kind
    raw = trace
    fixes = [] if plan.fixes is None else [correction_for(plan.fixes, v.series, trace.horizon) for v in values]
    if fixes:
        trace = recalibrated_trace(raw, fixes, settings.recalibration)
    changed = trace is not raw
    if plan.room is not None:
        plan.room.look([v.series for v in values], cases, trace, plan.engines[kind.number])
    states, params, actions = panel_inputs(cases, trace, settings)
    trace = kind.config.planned_trace(trace, params, settings.policy, settings.actions)
    known = plan.standing
    calibration: Any = settings.calibration
    if known is not None:
        calibration = [known.calibrations.get(v.series, settings.calibration) for v in values]
    horizon = trace.horizon
    if keep is not None:
        trace = shortened(trace, kept_steps(trace, resolve_reach(kind.task, kind.policy, trace.horizon), keep))
    engine = plan.engines[kind.number]
    if engine == "python" and settings.run.engine == "auto":
        engine = engine_after_a_try(kind.task, states, trace, kind.policy, params, actions)
    panel = decide_panel(
        kind.task, states, trace, kind.policy, gate=settings.gate, now=now, calibration=calibration,
        paused=known is not None and known.paused, proof=settings.proof, params=params, actions=actions,
        run=Run(engine=engine, threads=settings.run.threads),
    )  # fmt: skip
    names = [v.series for v in values]
    sources = [plan.forecasts.source(name) for name in names] if keep == "reference" else None
    recalibrated = None
    if changed:
        recalibrated = recorded_changes(raw, fixes, settings.recalibration, trace.horizon)
        sources = sources if keep is None else [recalibration_text(one) for one in recalibrated]
    return _Panel(panel, names, kind, recalibrated, horizon, sources)


def logged(
    plan: Work, chunk: Chunk, book: AuditLog | None, request: Request | None, *, alone: bool = False,
    sharing: Sharing | None = None,
) -> list[list[Any]]:  # fmt: skip
    """Write the chunk's decisions to the log, if there is one, then make its rows; both in the order of its series.
    What they share is told to `sharing`."""
    make = Rows(plan)
    first = plan.chunks[chunk.number][0]
    asked = {n: None if request is None else request.at(first + i) for i, n in enumerate(chunk.series)}
    made = bodies_of(plan, chunk, asked)
    rows = {n: make.decided(n, made[n].decision, made[n].id) for panel in chunk.panels for n in panel.series}
    rows |= {n: make.refused(n, problem, d, made[n].id) for n, (problem, d) in chunk.refused.items()}
    if book is not None:
        entries = book.append_sealed([made[name] for name in chunk.series])
        if alone and any(entry.repeated for entry in entries):
            # Both began at the same head of the log; one of them would leave no entry for what it releases.
            raise SameRun(f"{book.path}: another run on the same files writes to this log; start again when it is done")
        by_name = dict(zip(chunk.series, entries, strict=True))
        for panel in chunk.panels:
            if sharing is not None:
                sharing.add(panel.panel, panel.series, by_name)
    return [rows[name] for name in chunk.series]


def bodies_of(
    plan: Work, chunk: Chunk, asked: Mapping[str, Request | None], under: Under | None = None
) -> dict[str, Sealed]:
    """The records of a chunk by series; `asked` names the request of each."""
    made: dict[str, Sealed] = {}
    for panel, names, kind, changes, *_ in chunk.panels:
        bodies = panel_bodies(
            panel, names, kind.where, requests=[asked[name] for name in names], recalibrated=changes, under=under
        )
        made.update(zip(names, bodies, strict=True))
    for name, (_, d) in chunk.refused.items():
        case = plan.states.cases.get(name)
        made[name] = decision_body(d, name, "" if case is None else case.kind.where, asked[name], under=under)
    return made


def _finish(
    plan: Work, folder: Path, out: Path, log: Path, resumed: int, html: Path | None, sharing: Sharing | None
) -> DecideReport:
    """Put the parts together."""
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    losses: list[float] = []
    unknown = 0
    found = list(plan.problems)
    task = plan.settings.task
    advice: dict[str, str] = task.advice(plan.settings.policy)
    noted: Counter[str] = Counter()
    shown = shown_columns(plan.has_orders, sharing is not None, getattr(task, "has_two_suppliers", False))
    places, page = tuple(shown.values()), DecidePage()
    before = {} if html is None else last_run(out, orders=plan.has_orders)
    allocation = None if sharing is None else sharing.allocation
    shares = {} if allocation is None else {share.series: share for share in allocation.shares}
    make = Rows(plan)

    def rows() -> Iterator[Sequence[Any]]:
        nonlocal unknown
        for number in range(len(plan.chunks)):
            part = read_part(folder, number)
            found.extend(Problem(**p) for p in part["problems"])
            for row in part["rows"]:
                share = shares.get(row[PLACE["series"]])
                if sharing is not None and share is not None:
                    row = sharing.row(make, row, share)
                outcomes[row[PLACE["outcome"]]] += 1
                reasons[row[PLACE["reason"]]] += 1
                if row[PLACE["fallback_cost"]] is not None:
                    losses.append(row[PLACE["fallback_cost"]])
                noted.update(phrase for phrase in advice if phrase in row[PLACE["note"]])
                unknown += row[PLACE["outcome"]] == "FALLBACK" and row[PLACE["fallback_cost"]] is None
                if html is not None:
                    page.add(row)
                yield [row[i] for i in places]

    kinds = list(column_kinds(task).values())
    style = Style.of(plan.states.table.path, plan.settings.columns.decimal)
    write_table(out, {name: kinds[i] for name, i in shown.items()}, rows, for_people=True, style=style)
    said = tuple(words.format(count=noted[phrase]) for phrase, words in advice.items() if noted[phrase])
    report = DecideReport(
        dict(sorted(outcomes.items())), dict(sorted(reasons.items())), tuple(found[:_SHOWN]),
        max(0, len(found) - _SHOWN), resumed, math.fsum(losses), unknown, said, plan.settings, out, log,
        allocation,
    )  # fmt: skip
    if html is not None:
        cost = (report.fallback_cost, report.fallback_unknown)
        page.write(html, report.outcomes, cost, plan.settings, out, log, orders=plan.has_orders,
                   allocation=allocation, before=before)  # fmt: skip
    return report
