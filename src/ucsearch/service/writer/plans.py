"""A plan: a settings file under a name, ready to decide. Decisions are made here, in no thread of their own."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.decision.gate import Calibration
from ucsearch.errors import DataError, InputError, UCSearchError
from ucsearch.monitor import Settings as Watching
from ucsearch.planner.decide.in_memory import Known, rows_work
from ucsearch.planner.decide.inputs import Standing
from ucsearch.planner.decide.job import bodies_of, decided
from ucsearch.planner.settings import Settings, load_settings
from ucsearch.planner.settings.own import OwnTask, own_task
from ucsearch.records.entries import Request, Sealed, Under
from ucsearch.service.config import ConfigError, PlanTable
from ucsearch.service.errors import Problem, sentence_of
from ucsearch.service.writer.kernels import Kernels, Warmed, warm_rows
from ucsearch.task import Task

__all__ = ["Item", "Plan", "load_plan"]

_MEMBERS = 50  # ranks of fewer are too coarse for the monitor


class Item(NamedTuple):
    """One series to be decided, and whose item of which request it is."""

    row: Mapping[str, Any]  # as `decide_cases` takes it
    request: Request

    @property
    def series(self) -> str:
        return str(self.row["series"])


@dataclasses.dataclass(frozen=True)
class Plan:
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
        own = self.table.task is not None or isinstance(self.settings.task, OwnTask)
        return self.settings.task.task() if own else None

    @property
    def period_s(self) -> float:
        """Seconds of a period; NaN where nobody knows."""
        known = {"15min": 900.0, "30min": 1800.0, "hour": 3600.0, "day": 86400.0, "weekday": 86400.0, "week": 604800.0}
        return known.get(self.settings.period, 2678400.0 if self.settings.period == "month" else math.nan)

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
            raise Problem("invalid", "the items cannot be decided", where=(where,)) from error

    def _decide_rows(
        self, items: Sequence[Item], now: datetime, calibrations: Mapping[str, Calibration], paused: bool
    ) -> list[Sealed]:
        names = self.settings.columns
        rows: list[Mapping[str, Any]] = [item.row for item in items]
        if names.series != "series":  # the settings' own name for it; beside ours it would be there twice
            rows = [{names.series: i.series, **{k: v for k, v in i.row.items() if k != "series"}} for i in items]
        work = rows_work(self.settings, rows, now, Standing(calibrations, paused), self.known)
        self.kernels.choose(work, self.settings, rows, self.table.allow_plain)
        asked = {item.series: item.request for item in items}
        made: dict[str, Sealed] = {}
        for chunk in decided(work, self.settings, range(len(work.chunks)), now):
            made |= bodies_of(work, chunk, {s: asked[s] for s in chunk.series}, self.under(now))
        return [made[item.series] for item in items]


def load_plan(table: PlanTable, folder: Path) -> Plan:
    """Read a plan's settings file; whatever the service cannot do with it is refused here."""
    text = _text(folder / table.settings)
    settings = load_settings(folder / table.settings)
    lines = []
    if settings.recalibration.active:
        lines.append(f"plan {table.name!r}: forecast.recalibrate needs an archive, which the service does not keep")
    if any(one.looks_ahead for one in settings.shared.values()):
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
    made = Plan(table.name, table, settings, watching, text, _text(targets))
    try:
        made.known.kinds().penalties  # noqa: B018 - read once, now: what is followed is what was there at the start
    except UCSearchError as error:
        raise ConfigError([f"plan {table.name!r}: {error}"]) from error
    return made


def _text(path: Path | None) -> str:
    try:
        return "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def coarse_forecasts(plan: Plan) -> str:
    """Why a monitored plan's forecasts are too coarse to be watched; empty when nothing says so."""
    how = plan.settings.forecast
    if plan.watching is not None and how.points < _MEMBERS:
        return (
            f"plan {plan.name!r}: forecast.points = {how.points}: members made of mean and std or of quantiles are too "
            f"coarse for the monitor, which needs {_MEMBERS}"
        )
    return ""
