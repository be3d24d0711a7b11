"""Policies on disk: the file, and beside it a JSON of how it came about, with the file's SHA-256.

A file whose bytes are not those the evidence names is refused. Both are written whole or not at all, the evidence last.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.records.files import whole_file

__all__ = ["Evidence", "read_arrays", "read_policy", "versions_of", "write_arrays", "write_policy"]


@dataclass(frozen=True)
class Evidence:
    """How a policy came about; saved beside it."""

    method: str  # such as "fitted Q iteration"
    settings: dict[str, Any]  # of the training, by name
    seed: int  # of everything that was drawn
    data: str  # digest of what it was trained on; "" where an environment made it
    steps: int  # training steps done so far
    loss: float  # last training loss, NaN when there is none
    notes: tuple[str, ...] = field(default=())  # what else is to be known, such as its exact cost
    env: dict[str, Any] = field(default_factory=dict)  # the environment it was trained in
    returns: tuple[float, ...] = field(default=())  # mean return of an episode, from early to late training
    versions: dict[str, str] = field(default_factory=dict)  # of Python and packages, by name

    def as_json(self) -> dict[str, Any]:
        """As the file beside the policy holds it."""
        body = asdict(self)
        body["loss"] = None if math.isnan(self.loss) else self.loss
        return body

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Evidence:
        """What `as_json` wrote; keys of later versions are left out."""
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in body.items() if k in known}
        values["loss"] = math.nan if values.get("loss") is None else float(values["loss"])
        values["notes"], values["returns"] = tuple(values.get("notes", ())), tuple(values.get("returns", ()))
        return cls(**values)


def versions_of(*packages: str) -> dict[str, str]:
    """Versions of Python, NumPy and us, and of the packages named."""
    from importlib.metadata import version

    found = {name: version(name) for name in ("ucsearch", "numpy", *packages)}
    return {"python": platform.python_version(), **found}


def write_policy(path: str | os.PathLike[str], evidence: Evidence, content: bytes) -> str:
    """Write `path` and `path` with suffix .json; returns the SHA-256 of the content."""
    target = Path(path)
    digest = hashlib.sha256(content).hexdigest()
    body = {"file": target.name, "sha256": digest, "bytes": len(content), **evidence.as_json()}
    text = json.dumps(body, indent=1, sort_keys=True) + "\n"
    for place, data in ((target, content), (target.with_suffix(".json"), text.encode())):
        with whole_file(place) as file:
            file.write(data)
    return digest


def read_policy(path: str | os.PathLike[str]) -> tuple[Evidence, bytes]:
    """The evidence and the bytes of a saved policy; bytes that the evidence does not name are refused."""
    target = Path(path)
    beside = target.with_suffix(".json")
    if not target.is_file():
        raise FileNotFoundError(f"no policy file {target}")
    try:
        body = json.loads(beside.read_text("utf-8"))
        evidence, expected = Evidence.from_json(body), str(body["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            "policy file", f"{target} without readable evidence in {beside.name} ({error})",
            "a policy saved by ucsearch.lab.learned",
        ) from None  # fmt: skip
    content = target.read_bytes()
    seen = hashlib.sha256(content).hexdigest()
    if seen != expected:
        raise DataError(f"{target}: SHA-256 is {seen}, but its evidence says {expected}; it is not the policy trained")
    return evidence, content


def write_arrays(path: str | os.PathLike[str], evidence: Evidence, **arrays: NDArray[Any]) -> str:
    """A policy that is a set of arrays, as .npz."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return write_policy(path, evidence, stream.getvalue())


def read_arrays(path: str | os.PathLike[str]) -> tuple[Evidence, dict[str, NDArray[Any]]]:
    evidence, content = read_policy(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return evidence, {name: file[name] for name in file.files}
    except Exception as error:
        raise InputError("policy file", f"{path} ({error})", "a policy saved by ucsearch.lab.learned") from None
