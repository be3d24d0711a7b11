"""A seal and a copy killed with -9 at twenty drawn points each: nothing half-done passes for done."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.logged import decide, new_log
from tests.scale.kit import write_files
from ucsearch.records import AuditReader
from ucsearch.records.backup import backup
from ucsearch.scale.parts import Folder, plan_job, run_part, seal_job
from ucsearch.scale.segments.audit import segments_of, verify_segments

pytestmark = pytest.mark.slow
KILLS = 20
# Calls of functions, ours, Python's and those in C, are counted from the beginning of the work on; one of them is the
# last. Without a number the count is printed.
CHILD = """
import os, signal, sys
from ucsearch.records.backup import backup
from ucsearch.scale.parts import seal_job
work, last = sys.argv[1], int(sys.argv[2])
seen = 0
def count(frame, event, argument):
    global seen
    seen += 1
    if seen == last:
        os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(count)
if work == "seal":
    seal_job(sys.argv[3])
else:
    backup(sys.argv[3], sys.argv[4])
sys.setprofile(None)
print(seen)
"""


def run(work: str, last: int, *given: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CHILD, work, str(last), *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def drawn(work: str, *given: Path) -> list[int]:
    """Points over the whole work, and close to its end, where files get their names."""
    done = run(work, 0, *given)
    assert done.returncode == 0, done.stderr
    total, rng = int(done.stdout), random.Random(work)
    return [rng.randint(1, total) if k % 2 else total - rng.randint(1, 400) for k in range(KILLS)]


def killed(work: str, last: int, *given: Path) -> None:
    # Some calls come and go with what is cached: then it got through.
    assert run(work, last, *given).returncode in (-signal.SIGKILL, 0)


def test_a_seal(tmp_path: Path) -> None:
    files = write_files(tmp_path / "files", count=8)
    patterns = str(files / "f-*.parquet"), str(files / "states.parquet")
    made = plan_job(files / "job.toml", *patterns, tmp_path / "job", parts=2)
    for part in range(len(made.items)):
        run_part(made.path, part)
    shutil.copytree(made.path, tmp_path / "fresh")

    def again() -> Folder:
        shutil.rmtree(made.path)
        shutil.copytree(tmp_path / "fresh", made.path)
        return Folder.read(made.path)

    points = drawn("seal", made.path)
    right = seal_job(made.path)  # the same entry again
    deaths = 0
    for last in points:
        job = again()
        killed("seal", last, job.path)
        entries = _sealed(job.log)
        assert entries in ([], [right])
        deaths += not entries
        assert seal_job(job.path) == right
        assert _sealed(job.log) == [right]
        with AuditReader(job.log) as reader:
            assert reader.verify().ok
            assert [(one.fault, one.rows) for one in verify_segments(reader)] == [("", 8)]
    assert deaths > KILLS // 4


def _sealed(log: Path) -> list[object]:
    if not log.exists():
        return []
    with AuditReader(log) as reader:
        return [sealed for _, sealed in segments_of(reader)]


def test_a_copy(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        for n in range(30):
            decide(log, level=float(n % 10), series=f"S{n}")
        right = log.checkpoint()
        source, target = tmp_path / "log.db", tmp_path / "copy" / "log.db"
        target.parent.mkdir()
        whole = 0
        for last in drawn("backup", source, target):
            shutil.rmtree(target.parent)
            target.parent.mkdir()
            killed("backup", last, source, target)
            if target.exists():  # what has the name is whole
                whole += 1
                with AuditReader(target) as reader:
                    assert reader.verify(right).ok
                    assert reader.count() == 30
                assert target.stat().st_mode & 0o077 == 0
                target.unlink()
            backup(source, target)  # what a killed one left is in nobody's way
            with AuditReader(target) as reader:
                assert reader.verify(right).ok
        assert log.verify(right).ok
        assert whole < KILLS
