"""A plan: a settings file under a name, with its compiled kernels, ready to decide.

Decisions are made here, in no thread of their own."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.certificate.replay import prepare
from ucsearch.decision.gate import Calibration
from ucsearch.errors import DataError, InputError, UCSearchError, UncompilableWarning
from ucsearch.layout import Layout
from ucsearch.monitor import Settings as Watching
from ucsearch.planner.decide.in_memory import Known, rows_work
from ucsearch.planner.decide.inputs import Standing, Work
from ucsearch.planner.decide.job import bodies_of, decided
from ucsearch.planner.decide.room import Room
from ucsearch.planner.decide.states import Case, state_columns
from ucsearch.planner.settings import Settings, load_settings
from ucsearch.planner.settings.own import OwnTask, own_task
from ucsearch.records.entries import Request, Sealed, Under
from ucsearch.service.config import ConfigError, PlanTable
from ucsearch.service.errors import ApiProblem, sentence_of
from ucsearch.task import Task

__all__ = ["Item", "Kernels", "ServicePlan", "Warmed", "is_compiling", "load_plan", "sample_row", "warm_rows"]

_log = logging.getLogger("ucsearch.service")
_MEMBERS = 4  # of the forecast that a kernel is tried with
_SHAPES = 32  # of a plan, beyond those it announces
_PLAINLY = 300_000  # edges that the plain engine evaluates in a second or two
_MAKING_S = 15  # about as long as a kernel takes
_THREAD = "ucsearch-kernel"


class Warmed(NamedTuple):
    """What became of a kernel."""

    engine: str  # "compiled" or "python"
    note: str
    states: tuple[str, ...] = ()  # where closed loop does not fit: how many states it has, and what would


class _Shape(NamedTuple):
    """What a kernel is made for. The task is compared by identity: it is made once for each shape."""

    task: int
    layout: Layout


class Kernels:
    """Which kernels of a plan are at hand. Asked by the deciding thread; others are made in a thread of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shapes: dict[_Shape, tuple[Task, str]] = {}  # kept alive with its state: ready, making or failed

    def choose(self, work: Work, settings: Settings, rows: Sequence[Mapping[str, Any]], allow_plain: bool) -> None:
        """Set the engine of every kind of state in `work`: the compiled one only where nothing has to be compiled."""
        if settings.run.engine == "python":
            return
        names = settings.columns.series
        for row in rows:
            case = work.states.cases.get(str(row[names]))
            if case is None:
                continue
            state = self._state(case)
            if state == "new":
                state = self._make(case, settings, row)
            if state == "ready":
                continue
            if state == "failed" and not allow_plain:
                raise InputError("state", "a shape for which no kernel can be made", "one that the plan can decide")
            if _edges(case, settings, row) > _PLAINLY and not (state == "failed" and allow_plain):
                text = "a kernel for states of this shape is being made; ask again with the same key"
                raise ApiProblem("not_ready", text, retry_after=_MAKING_S)
            work.engines[case.kind.number] = "python"

    def states(self) -> dict[str, int]:
        """How many kernels are ready, being made, or could not be made."""
        with self._lock:
            return dict(Counter(state for _, state in self._shapes.values()))

    def _state(self, case: Case) -> str:
        with self._lock:
            return self._shapes.get(_shape_of(case), (case.kind.task, "new"))[1]

    def _make(self, case: Case, settings: Settings, row: Mapping[str, Any]) -> str:
        with self._lock:
            if len(self._shapes) > _SHAPES:
                return "failed"
            self._shapes[_shape_of(case)] = (case.kind.task, "making")
        # A daemon: a service that is told to stop does not wait for a kernel.
        threading.Thread(target=self._make_in_background, args=(settings, row), name=_THREAD, daemon=True).start()
        return "making"

    def _make_in_background(self, settings: Settings, row: Mapping[str, Any]) -> None:
        warmed = self.make(settings, [row])
        _log.info("kernel", extra={"fields": {"engine": warmed.engine, "note": warmed.note}})
        for line in warmed.states:
            _log.warning("states", extra={"fields": {"note": line}})

    def make(self, settings: Settings, rows: Sequence[Mapping[str, Any]]) -> Warmed:
        """Decide rows once, which loads or compiles their kernels."""
        started, note, failed = time.perf_counter(), "", False
        cases: list[Case] = []
        states: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                work = rows_work(settings, rows, datetime.now(UTC))
                cases = list(work.states.cases.values())
                work.room = Room(settings, states.append, 1)
                for chunk in decided(work, settings, range(len(work.chunks)), datetime.now(UTC)):
                    for problem, _ in chunk.refused.values():  # nothing was searched, so nothing was compiled
                        note, failed = f"its kernel could not be tried: {problem}", True
            except UCSearchError as error:
                note, failed = f"its kernel could not be tried: {error}", True
        if uncompilable := [w for w in caught if issubclass(w.category, UncompilableWarning)]:
            note, failed = f"its kernel could not be compiled: {uncompilable[0].message}", True
        for case in cases if not failed else ():
            prepare(case.kind.task, case.kind.task.layout(case.state))
        with self._lock:
            for case in cases:
                self._shapes[_shape_of(case)] = (case.kind.task, "failed" if failed else "ready")
        if failed:
            return Warmed("python", note)
        return Warmed("compiled", f"kernel ready after {time.perf_counter() - started:.1f} s", tuple(states))


def is_compiling() -> bool:
    """Whether a kernel is being made aside just now."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


def _shape_of(case: Case) -> _Shape:
    return _Shape(id(case.kind.task), case.kind.task.layout(case.state))


def _edges(case: Case, settings: Settings, row: Mapping[str, Any]) -> int:
    """Edge evaluations of one decision, roughly."""
    actions, forecast = len(case.kind.task.actions), row["forecast"]
    members = forecast.get("members")
    count = settings.forecast.points if members is None else len(members)
    return int(settings.policy.work(actions, case.kind.task.bound is not None) * actions * (count + 1))


def sample_row(settings: Settings, shape: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A series that the plan can decide: its task's own starting state, and a forecast that is long enough. `shape`
    are parameters that the state names itself."""
    changes = dict(shape or {})
    config = dataclasses.replace(settings.task, **changes) if changes else settings.task
    columns = state_columns(config)
    fit = config.fit()
    start = {k: list(v) if isinstance(v, tuple) else v for k, v in fit.start.items()}
    for name in columns.required:
        start.setdefault(name, [0.0] if name in columns.several else 0.0)
    steps = max(settings.policy.depth, int(getattr(config, "lead_time", 0)) + 1, settings.forecast.steps or 1)
    members = [[fit.unit * (1.0 + 0.1 * j + 0.01 * h) for h in range(steps)] for j in range(_MEMBERS)]
    now = datetime.now(UTC).isoformat()
    name = f"a sample series with {sorted(changes.items())}" if changes else "a sample series"
    return {
        settings.columns.series: name, **start, **changes,
        "forecast": {"members": members, "issued": now},
    }  # fmt: skip


def warm_rows(settings: Settings, shapes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings' own shape and those announced."""
    rows = [sample_row(settings)]
    for shape in shapes:
        try:
            rows.append(sample_row(settings, shape))
        except (TypeError, InputError) as error:
            raise InputError("plan.shapes", repr(dict(shape)), f"parameters of the task ({error})") from error
    return rows


_WATCHED_MEMBERS = 50  # ranks of fewer are too coarse for the monitor


class Item(NamedTuple):
    """One series to be decided, and whose item of which request it is."""

    row: Mapping[str, Any]  # as `decide_cases` takes it
    request: Request

    @property
    def series(self) -> str:
        return str(self.row["series"])


@dataclasses.dataclass(frozen=True)
class ServicePlan:
    """Settings that were read and checked, with what the service adds to them."""

    name: str
    table: PlanTable
    settings: Settings  # one thread, the compiled engine unless the file says otherwise
    watching: Watching | None
    text: str = ""  # of the settings file, as it was read
    targets: str = ""  # of the file of targets, likewise
    kernels: Kernels = dataclasses.field(default_factory=Kernels, compare=False)

    @cached_property
    def known(self) -> Known:
        """What its batches have in common; the deciding thread's alone."""
        return Known(self.settings)

    @property
    def own_task(self) -> Task | None:
        """The task, where it does not ship with the package."""
        is_own = self.table.task is not None or isinstance(self.settings.task, OwnTask)
        return self.settings.task.task() if is_own else None

    @property
    def period_s(self) -> float:
        """Seconds of a period; NaN where nobody knows."""
        seconds = {
            "15min": 900.0,
            "30min": 1800.0,
            "hour": 3600.0,
            "day": 86400.0,
            "weekday": 86400.0,
            "week": 604800.0,
        }
        return seconds.get(self.settings.period, 2678400.0 if self.settings.period == "month" else math.nan)

    def is_changed(self, folder: Path) -> bool:
        """Whether the settings, or their file of targets, are others by now: what is followed is what was read at the
        start."""
        now = _text(folder / self.table.settings), _text(self.settings.path("targets"))
        return now != (self.text, self.targets)

    def under(self, now: datetime) -> Under:
        return Under(self.name, (now + timedelta(seconds=self.table.valid_for_s)).isoformat())

    def warm(self) -> Warmed:
        """Load or compile the kernels of all shapes that the plan announces, before the first request."""
        if self.settings.run.engine == "python":
            return Warmed("python", "decides without kernels, as its settings say")
        return self.kernels.make(self.settings, warm_rows(self.settings, self.table.shapes))

    def decide(
        self, items: Sequence[Item], now: datetime, calibrations: Mapping[str, Calibration], paused: bool
    ) -> list[Sealed]:
        """Records of these items, in order; every series once. What is wrong with all of them is a `Problem`."""
        try:
            return self._decide_rows(items, now, calibrations, paused)
        except (InputError, DataError) as error:
            where = re.sub(r"^rows\[", "items[", sentence_of(error))  # as whoever asked knows them
            raise ApiProblem("invalid", "the items cannot be decided", where=(where,)) from error

    def _decide_rows(
        self, items: Sequence[Item], now: datetime, calibrations: Mapping[str, Calibration], paused: bool
    ) -> list[Sealed]:
        names = self.settings.columns
        rows: list[Mapping[str, Any]] = [item.row for item in items]
        if names.series != "series":  # the settings' own name for it; beside ours it would be there twice
            rows = [{names.series: i.series, **{k: v for k, v in i.row.items() if k != "series"}} for i in items]
        work = rows_work(self.settings, rows, now, Standing(calibrations, paused), self.known)
        self.kernels.choose(work, self.settings, rows, self.table.allow_plain)
        requests = {item.series: item.request for item in items}
        bodies: dict[str, Sealed] = {}
        for chunk in decided(work, self.settings, range(len(work.chunks)), now):
            bodies |= bodies_of(work, chunk, {s: requests[s] for s in chunk.series}, self.under(now))
        return [bodies[item.series] for item in items]


def load_plan(table: PlanTable, folder: Path) -> ServicePlan:
    """Read a plan's settings file; whatever the service cannot do with it is refused here."""
    text = _text(folder / table.settings)
    settings = load_settings(folder / table.settings)
    lines = []
    if settings.recalibration.active:
        lines.append(f"plan {table.name!r}: forecast.recalibrate needs an archive, which the service does not keep")
    if any(shared.looks_ahead for shared in settings.shared.values()):
        lines.append(f"plan {table.name!r}: [shared] with steps, or a limit for each step: a service shares today's")
    targets = settings.path("targets")
    if getattr(settings.task, "target", None) is not None and (targets is None or not targets.is_file()):
        lines.append(f"plan {table.name!r}: {targets}: saw no file, expected what reaches the target: `ucsearch tune`")
    if lines:
        raise ConfigError(lines)
    if table.task is not None:
        try:
            settings = dataclasses.replace(settings, task=own_task(table.task))
        except UCSearchError as error:
            raise ConfigError([f"plan {table.name!r}: {error}"]) from error
    if settings.fields:
        text = f"outcomes of several fields ({', '.join(settings.fields)}) are for files and decide_cases"
        raise ConfigError([f"plan {table.name!r}: {text}"])
    watching = None if table.monitor is None else table.monitor.watching(settings.gate)
    gate = dataclasses.replace(settings.gate, pausable=True)
    if watching is not None and table.monitor is not None:
        limit = settings.gate.max_drift
        if limit is not None and not limit <= watching.limit:
            raise ConfigError(
                [f"plan {table.name!r}: gate.max_drift: saw {limit:g}, expected at most {watching.limit:g}"]
            )
        overdue = settings.gate.max_overdue if table.monitor.max_overdue is None else table.monitor.max_overdue
        # Just below the limit at which a stream trips: there it is latched, and must fail.
        top = math.nextafter(watching.limit, 0.0)
        gate = dataclasses.replace(gate, max_drift=top if limit is None else min(top, limit), max_overdue=overdue)
    run = dataclasses.replace(settings.run, engine=settings.run.simulator, threads=1, chunk=100_000)
    settings = dataclasses.replace(settings, gate=gate, run=run)
    plan = ServicePlan(table.name, table, settings, watching, text, _text(targets))
    try:
        plan.known.kinds().penalties  # noqa: B018 - read once, now: what is followed is what was there at the start
    except UCSearchError as error:
        raise ConfigError([f"plan {table.name!r}: {error}"]) from error
    return plan


def _text(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def coarse_forecasts(plan: ServicePlan) -> str:
    """Why a monitored plan's forecasts are too coarse to be watched; empty when nothing says so."""
    how = plan.settings.forecast
    if plan.watching is not None and how.points < _WATCHED_MEMBERS:
        return (
            f"plan {plan.name!r}: forecast.points = {how.points}: members made of mean and std or of quantiles are too "
            f"coarse for the monitor, which needs {_WATCHED_MEMBERS}"
        )
    return ""
