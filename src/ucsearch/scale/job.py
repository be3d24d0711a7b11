"""What all workers of a run share: the settings file, its digest, the time, and what a worker must be like."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ucsearch.certificate.api import warm
from ucsearch.errors import InputError
from ucsearch.planner.decide.dates import Age
from ucsearch.planner.decide.segments import shared_of, why_no_rows
from ucsearch.planner.decide.states import Kinds, StateFile, state_columns
from ucsearch.planner.files.table import open_table
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.scale.segments.shared import Shared, worker

__all__ = [
    "Job",
    "warm_kernels",
]


@dataclass(frozen=True)
class Job:
    """Plain data, to be sent to workers. Made by `Job.read` where the run begins, and checked by every worker."""

    toml: bytes  # the settings file
    digest: str  # its SHA-256
    now: str  # ISO time that forecasts' ages are measured against; "" when nobody asks
    shared: str  # SHA-256 of shared.json, hex: settings, time, versions and platform of where the run began

    @classmethod
    def read(cls, path: str | Path, now: datetime | None = None) -> Job:
        """From a settings file, checked. `now` is needed where the gate asks for the age of forecasts."""
        try:
            return cls.of(Path(path).read_bytes(), now, str(path))
        except OSError as error:
            raise InputError(str(path), error.strerror, "a settings file") from error

    @classmethod
    def of(cls, toml: bytes, now: datetime | None = None, name: str = "settings") -> Job:
        """As `read`, from the bytes of a settings file; `name` is what messages call it."""
        settings = parse_settings(toml, name)
        if wrong := why_no_rows(settings):
            raise InputError(f"{name}: {wrong[0]}", *wrong[1:])
        if settings.recalibration.active:
            raise InputError(f"{name}: forecast.recalibrate", "recalibration", "'off': recalibrate before the job")
        if settings.gate.max_trace_age_s is not None and now is None:
            raise InputError("now", "nothing", "a time, because gate.max_trace_age_s is set")
        shared = shared_of(settings, now)
        return cls(toml, settings.digest, shared.now, shared.sha.hex())

    def settings(self) -> Settings:
        """Compiled engine, one thread: a scheduler gives a core to each worker."""
        return _settings(self.toml, self.digest)

    @property
    def moment(self) -> datetime | None:
        try:
            return datetime.fromisoformat(self.now) if self.now else None
        except (TypeError, ValueError):
            raise InputError("job now", repr(self.now), "an ISO time, or nothing") from None

    @property
    def age(self) -> Age | None:
        """How old its forecasts may be."""
        return None if self.moment is None else Age(self.moment)

    def checked(self, name: str = "this worker") -> Shared:
        """shared.json as this worker would write it; a worker whose settings, packages or platform differ from those
        where the run began is refused by its `name`."""
        shared = shared_of(self.settings(), self.moment)
        if shared.sha.hex() != self.shared:
            raise InputError(
                f"worker {name}", ", ".join(f"{k} {v}" for k, v in sorted(worker().items())),
                "the settings, package versions and platform that the run began with",
            )  # fmt: skip
        return shared


@lru_cache(maxsize=8)
def _settings(toml: bytes, digest: str) -> Settings:
    settings = parse_settings(toml)
    if settings.digest != digest:
        raise InputError("settings digest", settings.digest[:12], f"{digest[:12]}, which the run began with")
    return replace(settings, run=replace(settings.run, engine=settings.run.simulator, threads=1))


def warm_kernels(settings: Settings, states: str | Path | None = None) -> tuple[str, ...]:
    """Compile what `decide` with these settings needs: for every kind of series in `states`, or for the settings' own
    task. Returns the names of what is ready."""
    if states is not None:
        cases = StateFile(open_table(states, settings.columns.decimal), settings).cases.values()
        tasks = {case.kind.number: (case.kind.task, case.state) for case in cases}
    else:
        kind = Kinds(settings).kind(settings.task, {})
        tasks = {0: (kind.task, _a_state(settings.task))}
    ready = []
    for number, (task, state) in sorted(tasks.items()):
        ready += [f"{task.name} {number}: {name}" for name in warm(task, settings.policy, state=state)]
    return tuple(ready)


def _a_state(config: Any) -> Any:
    """Any state of the task: kernels depend on its form alone."""
    names = state_columns(config).required
    return config.state(**{n: 0.0 for n in inspect.signature(config.state).parameters if n in names})
