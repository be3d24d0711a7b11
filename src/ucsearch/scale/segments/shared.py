"""shared.json: everything that all rows of a segment have in common, as canonical JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import platform
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from ucsearch import policies
from ucsearch.decision.gate import Calibration, Gate
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.policies import Policy
from ucsearch.records.canonical import canonical, decode_number, encode_number, loads
from ucsearch.records.files import read_whole
from ucsearch.scale.segments.rows import COLUMNS

__all__ = ["SCHEMA", "Keep", "Shared", "worker"]

SCHEMA = "ucsearch.segment/1"
Keep = Literal["used", "all", "reference"]
KEEPS = ("used", "all", "reference")
_VERSIONED = ("ucsearch", "numpy", "numba", "pyarrow")
_POLICIES = {c.__name__: c for c in vars(policies).values() if isinstance(c, type) and issubclass(c, Policy)}


def worker() -> dict[str, str]:
    """What a machine must have in common with the others of a run."""
    versions = {"python": platform.python_version(), "platform": f"{platform.system()}-{platform.machine()}"}
    for name in _VERSIONED:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions


@dataclass(frozen=True)
class Shared:
    """Settings of a segment. `now` is ISO text, or "" where no clock was passed in."""

    policy: Policy
    gate: Gate
    calibration: Calibration
    kind: str  # of proof, as asked for
    eps_m: float
    node_budget: int
    now: str
    keep: Keep
    job: str  # SHA-256 of the settings file
    worker: dict[str, str]

    @property
    def moment(self) -> datetime | None:
        return datetime.fromisoformat(self.now) if self.now else None

    @cached_property
    def body(self) -> bytes:
        """The file's bytes."""
        content = {
            "schema": SCHEMA,
            "columns": [[name, kind] for name, kind in COLUMNS.items()],
            "policy": {"name": type(self.policy).__name__, **_fields(self.policy)},
            "gate": _fields(self.gate),
            "calibration": _fields(self.calibration),
            "proof": {"kind": self.kind, "eps_m": encode_number(self.eps_m), "node_budget": self.node_budget},
            "now": self.now,
            "keep": self.keep,
            "job": self.job,
            "worker": self.worker,
        }
        return canonical(content)

    @cached_property
    def sha(self) -> bytes:
        return hashlib.sha256(self.body).digest()

    @property
    def hex(self) -> str:
        return self.sha.hex()

    @classmethod
    def read(cls, path: Path) -> Shared:
        """What was written; a file of another schema or form is refused."""
        try:
            data = read_whole(path)
            content = loads(data)
        except OSError as error:
            raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: Any, name: str = "shared.json") -> Shared:
        try:
            if content["schema"] != SCHEMA or [tuple(c) for c in content["columns"]] != list(COLUMNS.items()):
                raise RecordError(f"{name}: saw another schema, expected {SCHEMA} with today's columns")
            fields = dict(content["policy"])
            policy = _POLICIES[fields.pop("name")](**{k: _read(v) for k, v in fields.items()})
            marks = {k: math.nan if v is None else _read(v) for k, v in content["calibration"].items()}
            proof = content["proof"]
            shared = cls(
                policy, Gate(**{k: _read(v) for k, v in content["gate"].items()}), Calibration(**marks),
                str(proof["kind"]), float(decode_number(proof["eps_m"])), int(proof["node_budget"]),
                str(content["now"]), content["keep"], str(content["job"]), dict(content["worker"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError, UCSearchError) as error:
            raise RecordError(f"{name}: not the settings of a segment ({error})") from error
        if shared.keep not in KEEPS or shared.body != canonical(content):
            raise RecordError(f"{name}: not the settings of a segment of this version")
        return shared


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else encode_number(value + 0.0)
    return encode_number(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read(value: Any) -> Any:
    return decode_number(value) if value in ("inf", "-inf") else value
