"""Kernels made before they are needed: at the start with made-up numbers, written nowhere; and aside, for states of a
shape that nobody has announced (another lead time in a state), while the plain engine answers."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ucsearch.certificate.replay import prepare
from ucsearch.errors import InputError, UCSearchError, UncompilableWarning
from ucsearch.layout import Layout
from ucsearch.planner.decide.in_memory import rows_work
from ucsearch.planner.decide.inputs import Work
from ucsearch.planner.decide.job import decided
from ucsearch.planner.decide.states import Case, state_columns
from ucsearch.planner.settings import Settings
from ucsearch.service.errors import Problem
from ucsearch.task import Task

__all__ = ["Kernels", "Warmed", "is_compiling", "sample_row", "warm_rows"]

_log = logging.getLogger("ucsearch.service")
_MEMBERS = 4
_SHAPES = 32  # of a plan, beyond those it announces
_PLAINLY = 300_000  # edges that the plain engine evaluates in a second or two
_MAKING_S = 15  # about as long as a kernel takes
_THREAD = "ucsearch-kernel"


class Warmed(NamedTuple):
    """What became of a kernel."""

    engine: str  # "compiled" or "python"
    note: str


class _Shape(NamedTuple):
    """What a kernel is made for. The task is compared by identity: it is made once for each shape."""

    task: int
    layout: Layout


class Kernels:
    """Which kernels of a plan are at hand. Asked by the deciding thread; others are made in a thread of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[_Shape, tuple[Task, str]] = {}  # kept alive with its state: ready, making or failed

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
                raise Problem("not_ready", text, retry_after=_MAKING_S)
            work.engines[case.kind.number] = "python"

    def states(self) -> dict[str, int]:
        """How many kernels are ready, being made, or could not be made."""
        with self._lock:
            return dict(Counter(state for _, state in self._known.values()))

    def _state(self, case: Case) -> str:
        with self._lock:
            return self._known.get(_shape_of(case), (case.kind.task, "new"))[1]

    def _make(self, case: Case, settings: Settings, row: Mapping[str, Any]) -> str:
        with self._lock:
            if len(self._known) > _SHAPES:
                return "failed"
            self._known[_shape_of(case)] = (case.kind.task, "making")
        # A daemon: a service that is told to stop does not wait for a kernel.
        threading.Thread(target=self._make_in_background, args=(settings, row), name=_THREAD, daemon=True).start()
        return "making"

    def _make_in_background(self, settings: Settings, row: Mapping[str, Any]) -> None:
        found = self.make(settings, [row])
        _log.info("kernel", extra={"fields": {"engine": found.engine, "note": found.note}})

    def make(self, settings: Settings, rows: Sequence[Mapping[str, Any]]) -> Warmed:
        """Decide rows once, which loads or compiles their kernels."""
        started, note, failed = time.perf_counter(), "", False
        cases: list[Case] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                work = rows_work(settings, rows, datetime.now(UTC))
                cases = list(work.states.cases.values())
                for chunk in decided(work, settings, range(len(work.chunks)), datetime.now(UTC)):
                    for problem, _ in chunk.refused.values():  # nothing was searched, so nothing was compiled
                        note, failed = f"its kernel could not be tried: {problem}", True
            except UCSearchError as error:
                note, failed = f"its kernel could not be tried: {error}", True
        if bad := [w for w in caught if issubclass(w.category, UncompilableWarning)]:
            note, failed = f"its kernel could not be compiled: {bad[0].message}", True
        for case in cases if not failed else ():
            prepare(case.kind.task, case.kind.task.layout(case.state))
        with self._lock:
            for case in cases:
                self._known[_shape_of(case)] = (case.kind.task, "failed" if failed else "ready")
        if failed:
            return Warmed("python", note)
        return Warmed("compiled", f"kernel ready after {time.perf_counter() - started:.1f} s")


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
    return {
        settings.columns.series: f"warm-up {sorted(changes.items())}", **start, **changes,
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
