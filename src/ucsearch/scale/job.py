"""What all workers of a run share: the settings file, its digest, the time, and what a worker must be like."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ucsearch.errors import InputError
from ucsearch.pipeline.segmented import can_be_rows, shared_of
from ucsearch.segments.shared import Shared, worker
from ucsearch.settings import Settings, parse_settings

__all__ = ["Job"]


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
        if not can_be_rows(settings):
            raise InputError(
                f"{name}: policy.mode",
                repr(settings.policy.mode),
                "mode 'mean', 'members' or 'closed': rows of a segment",
            )
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

    def checked(self, name: str = "this worker") -> Shared:
        """shared.json as this worker would write it; a worker whose settings, packages or platform differ from those
        where the run began is refused by its `name`."""
        own = shared_of(self.settings(), self.moment)
        if own.sha.hex() != self.shared:
            raise InputError(
                f"worker {name}", ", ".join(f"{k} {v}" for k, v in sorted(worker().items())),
                "the settings, package versions and platform that the run began with",
            )  # fmt: skip
        return own


@lru_cache(maxsize=8)
def _settings(toml: bytes, digest: str) -> Settings:
    found = parse_settings(toml)
    if found.digest != digest:
        raise InputError("settings digest", found.digest[:12], f"{digest[:12]}, which the run began with")
    return replace(found, run=replace(found.run, engine=found.run.simulator, threads=1))
