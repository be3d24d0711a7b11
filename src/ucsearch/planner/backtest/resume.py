"""The parts of a long job over many series: some side by side, progress told, finished ones kept on disk so that a run
that was stopped goes on.

A folder holds one file of arrays for each part. Its name is the hash of everything that the parts follow from, so a
changed setting, file or version finds none of them. A file that cannot be read is made again.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import thread_count
from ucsearch.records.canonical import canonical
from ucsearch.records.files import whole_file

__all__ = ["Arrays", "Kept", "Parts", "Progress", "file_hash"]

Arrays = dict[str, NDArray[np.float64]]
Progress = Callable[[int, int], None]
Made = TypeVar("Made")
Series = TypeVar("Series")  # of anything with `case.kind.number`
_BESIDE = 4  # walks side by side, at most: what one does in plain Python leaves cores free for another's search
_AT_ONCE = 64  # series whose forecasts are held at a time, and that are kept when a run is stopped
_COUNTED = ("reason ", "unknown ")  # keys of counts over a part; everything else is by series


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
        if (stored := _read(path)) is not None:
            self.found += 1
            return stored
        arrays = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        with whole_file(path) as file:
            file.write(buffer.getvalue())
        return arrays

    def done(self) -> None:
        """The job is finished: nothing is needed any more."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Parts:
    """Runs work over parts of many series and remembers what is done."""

    def __init__(self, kept: Kept, progress: Progress | None) -> None:
        self.kept, self.progress = kept, progress
        self.total = self.done = self._inside = 0  # decisions, each counted by what it takes
        self._told = threading.Lock()
        self._stopped = False

    def expect(self, effort: int) -> None:
        self.total += effort

    def finish(self) -> None:
        """All is done: nothing that was kept is needed any more."""
        self.kept.done()
        self._tell(self.total)

    def tick(self, count: int) -> None:
        """So much more is done; raises KeyboardInterrupt where another job beside has failed."""
        with self._told:
            if self._stopped:
                raise KeyboardInterrupt
            self._inside += count
            self._tell(self.done + self._inside)

    def _tell(self, done: int) -> None:
        if self.progress is not None and self.total > 0:
            self.progress(min(done, self.total), self.total)

    def side_by_side(self, jobs: Sequence[Callable[[], Made]], threads: int | None) -> list[Made]:
        """What the jobs make, in their order, some of them at a time; none of them may depend on another."""
        workers = min(_BESIDE, thread_count(threads), len(jobs))
        if workers <= 1:
            return [job() for job in jobs]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            running = [pool.submit(job) for job in jobs]
            try:
                return [job.result() for job in running]
            except BaseException:
                self._stopped = True  # the others end at their next decision
                pool.shutdown(wait=True, cancel_futures=True)
                self._stopped = False
                raise

    def by_part(
        self, stage: str, histories: Sequence[Series], work: Callable[[list[Series]], Arrays], effort: int
    ) -> Arrays:
        """What `work` makes of parts of the series, put together in their order. `effort`: what it takes for each."""
        by_kind: dict[tuple[int, str], list[int]] = {}
        for i, history in enumerate(histories):
            truck = history.place.truck  # type: ignore[attr-defined]
            by_kind.setdefault((history.case.kind.number, truck), []).append(i)  # type: ignore[attr-defined]
        whole: Arrays = {}
        for part_number, ((kind, truck), places) in enumerate(by_kind.items()):
            number = f"{kind}-{part_number}" if truck else f"{kind}"
            for low in range(0, len(places), len(places) if truck else _AT_ONCE):  # a truck's items stay together
                at = places[low : low + (len(places) if truck else _AT_ONCE)]
                part = self.kept.part(f"{stage}-{number}-{low}", lambda at=at: work([histories[i] for i in at]))  # type: ignore[misc]
                for name, values in part.items():
                    if name.startswith(_COUNTED):
                        whole[name] = whole.get(name, np.zeros(1)) + values
                        continue
                    if name not in whole:
                        whole[name] = np.zeros((len(histories), *values.shape[1:]))
                    whole[name][at] = values
                self.done, self._inside = self.done + len(at) * effort, 0
                self._tell(self.done)
        return whole


def _read(path: Path) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError):
        return None
