"""Suites for tests: whole runs made once for all tests and workers, and smaller ones where only the form matters."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ucsearch.certificate import members_bound
from ucsearch.engine import api
from ucsearch.evaluation.run import Run, evaluate
from ucsearch.evaluation.suite import Suite, load_suite, parse_suite
from ucsearch.records.canonical import loads

__all__ = ["plain_engine", "run_of", "shared_run", "smaller"]


@contextmanager
def plain_engine() -> Iterator[None]:
    """Within, every search is the plain engine's: the same bytes, and a third faster than kernel text without numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "choose_kernel", lambda *args: None)
        patch.setattr(members_bound, "choose_kernel", lambda *args: None)
        yield


def smaller(name: str, *changes: tuple[str, str]) -> Suite:
    """A suite of ours with some settings replaced, under its own name."""
    text = load_suite(name).text
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{name} has {old!r} {text.count(old)} times")
        text = text.replace(old, new)
    return parse_suite(text)


def shared_run(suite: Suite | str, factory: pytest.TempPathFactory) -> Run:
    """The finished run of a suite, made by the first who asks in this test run. Copy its folder before changing it."""
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers' own folders lie beside each other in that of the run
    place = base / "suites" / hashlib.sha256(suite.text.encode()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "out" / suite.name / "manifest.json").exists():
            with plain_engine():
                return evaluate(suite, place / "out", threads=1)
    return run_of(place / "out" / suite.name)


def run_of(folder: Path) -> Run:
    """A run as its folder has it."""
    return Run(folder, loads((folder / "manifest.json").read_bytes()))
