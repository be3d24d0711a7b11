"""Suites for tests: whole runs made once for all tests and workers, and suites with changed settings."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ucsearch.certificate.members import bound
from ucsearch.engine import api
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.run import SuiteRun, evaluate
from ucsearch.lab.suites.suite import Suite, load_suite, parse_suite
from ucsearch.records.canonical import loads

__all__ = ["begun", "changed", "plain_engine", "run_of", "shared_run"]


@contextmanager
def plain_engine() -> Iterator[None]:
    """Within, every search is the plain engine's: the same bytes, and a third faster than kernels without numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "choose_kernel", lambda *args, **named: None)
        patch.setattr(bound, "choose_kernel", lambda *args, **named: None)
        yield


def shared_run(suite: Suite | str, factory: pytest.TempPathFactory) -> SuiteRun:
    """The finished run of a suite, made by the first who asks in this test run. Copy its folder before changing it."""
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    place = _place(suite, factory)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "out" / suite.name / "manifest.json").exists():
            finish = SuiteJob.finish

            def kept(job: SuiteJob) -> None:
                shutil.copytree(job.work, place / "parts")
                finish(job)

            patch.setattr(SuiteJob, "finish", kept)
            with plain_engine():
                return evaluate(suite, place / "out", threads=1, underpowered=True)
    return run_of(place / "out" / suite.name)


def changed(name: str, *changes: tuple[str, str]) -> Suite:
    """A suite with some settings replaced, under its own name."""
    text = load_suite(name).text
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{name} has {old!r} {text.count(old)} times")
        text = text.replace(old, new)
    return parse_suite(text)


def begun(job: SuiteJob, suite: Suite | str, factory: pytest.TempPathFactory) -> SuiteJob:
    """A job that goes on with all parts of the shared run, as if killed when only its findings had to be put together.

    What the parts hold is computed once, and checked against another run of the suite where that is the point."""
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    shared_run(suite, factory)
    for path in (_place(suite, factory) / "parts").iterdir():
        if path.name not in ("identity.json", "look.json"):
            shutil.copy(path, job.work)
    return job


def _place(suite: Suite, factory: pytest.TempPathFactory) -> Path:
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers' own folders lie beside each other in that of the run
    return base / "suites" / hashlib.sha256(suite.text.encode()).hexdigest()[:12]


def run_of(folder: Path) -> SuiteRun:
    """A run as its folder has it."""
    return SuiteRun(folder, loads((folder / "manifest.json").read_bytes()))
