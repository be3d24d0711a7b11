"""Finished parts of a long job, kept on disk so that a run that was stopped goes on.

A folder holds one file of arrays for each part. Its name is the hash of everything that the parts follow from, so a
changed setting, file or version finds none of them. A file that cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.records.canonical import canonical
from ucsearch.records.files import whole_file

__all__ = ["Arrays", "Kept", "file_hash"]

Arrays = dict[str, NDArray[np.float64]]


def file_hash(path: str | Path | None) -> str:
    """SHA-256 of a file; empty for none, or for one that cannot be read (whoever reads it next says so)."""
    if path is None:
        return ""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class Kept:
    """Parts by name; with no folder nothing is kept."""

    def __init__(self, folder: Path | None, job: str, follows_from: Mapping[str, Any]) -> None:
        self.folder: Path | None = None
        self.found = 0  # parts that an earlier run had finished
        if folder is None:
            return
        digest = hashlib.sha256(canonical({"version": version("ucsearch"), **follows_from})).hexdigest()
        self.folder = folder / f".ucsearch-{job}-{digest[:16]}"

    def part(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """What was kept under the name, or else is made now and kept."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.npz"
        if (known := _read(path)) is not None:
            self.found += 1
            return known
        made = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, **made)  # type: ignore[arg-type]
        with whole_file(path) as file:
            file.write(buffer.getvalue())
        return made

    def done(self) -> None:
        """The job is finished: nothing is needed any more."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _read(path: Path) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError):
        return None
