"""The work folder of a decide job: what is finished is kept there, so that a run that was cut off goes on."""

from __future__ import annotations

import hashlib
import math
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucsearch.errors import DataError
from ucsearch.planner.decide.rows import COLUMNS, PLACE
from ucsearch.planner.decide.segments import Segment
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import OwnTask
from ucsearch.records.canonical import canonical, digest, encode_number, loads
from ucsearch.records.files import whole_file
from ucsearch.records.log import AuditLog

if TYPE_CHECKING:
    from ucsearch.planner.decide.job import Chunk

__all__ = ["JobRun", "SameRun", "fingerprint_of", "keep", "kept", "read_part", "work_folder"]


class SameRun(DataError):
    """Two runs at once would have the same name."""


class JobRun(NamedTuple):
    """A run that may be cut off and started again."""

    folder: Path  # of its finished chunks, ours alone
    now: datetime | None  # the moment it began with
    name: str  # of its request
    again: bool  # it was begun before: some of it may be in the log already


@contextmanager
def work_folder(out: Path, fingerprint: str, now: datetime | None, fresh: bool, book: AuditLog) -> Iterator[JobRun]:
    """The run that was cut off here, or a new one."""
    folder = out.with_name(out.name + ".partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
    with lock:
        _lock(lock, folder)
        job = folder / "job.json"
        parts = list(folder.glob("part-*.json"))
        before = loads(job.read_bytes()) if job.exists() and not fresh else None
        if before is not None and parts and before["fingerprint"] != fingerprint:
            raise DataError(
                f"{folder}: holds a run that was cut off, on other files or settings; finish that one or use --fresh"
            )
        again = before is not None and before["fingerprint"] == fingerprint and "run" in before
        if before is None or not again:
            for part in parts:
                part.unlink()
            before = {"fingerprint": fingerprint, "now": "" if now is None else now.isoformat()}
            # The log's head, which every run moves, makes it a name that no earlier run has.
            head = book.checkpoint(max_marks=0).head
            before["run"] = digest({**before, "head": head}, "decide-run/1")
            with whole_file(job) as file:
                file.write(canonical(before))
        moment = datetime.fromisoformat(before["now"]) if before["now"] else None
        try:
            yield JobRun(folder, moment, before["run"], again)
        except SameRun:
            job.unlink()  # started again it is another run
            raise
    shutil.rmtree(folder)  # not reached when the work was cut off


def _lock(file: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on this system; two runs at once are then the user's to avoid
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataError(f"{folder}: another run is at work on the same output") from error


def fingerprint_of(settings: Settings, *files: str | Path) -> str:
    """Everything that decisions and their records depend on."""
    versions = f"{version('ucsearch')}\0{platform.python_version()}\0{np.__version__}\0{','.join(COLUMNS)}"
    sha = hashlib.sha256(f"{versions}\0{settings.digest}".encode())
    if isinstance(settings.task, OwnTask):
        sha.update(repr(settings.task).encode())  # its rules stand in another file
    for name in files:
        with open(name, "rb") as file:
            sha.update(hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:06d}.json"


def keep(folder: Path, chunk: Chunk, rows: list[list[Any]]) -> None:
    plain = [[_plain(x) for x in row] for row in rows]
    with whole_file(_part(folder, chunk.number)) as file:
        file.write(canonical({"rows": plain, "problems": [asdict(p) for p in chunk.problems]}))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else encode_number(value)
    return value


def read_part(folder: Path, number: int) -> dict[str, Any]:
    content: dict[str, Any] = loads(_part(folder, number).read_bytes())
    numbers = [i for i, kind in enumerate(COLUMNS.values()) if kind is float]
    for row in content["rows"]:
        for i in numbers:
            row[i] = row[i] if row[i] is None or isinstance(row[i], str) else float(row[i])  # tuples are texts
    return content


def kept(folder: Path, number: int, book: AuditLog, segment: Segment | None) -> bool:
    """Whether a chunk's rows are there and all its decisions are in this log."""
    if not _part(folder, number).exists():
        return False
    if segment is not None:
        return segment.has(number)
    return book.has_all([row[PLACE["certificate"]] for row in read_part(folder, number)["rows"]])
