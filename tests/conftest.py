"""Shared set-up: deterministic Hypothesis, and where the real data is."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings

from tests.kit.unjitted import plain_kernels
from tests.kit.unsynced import do_not_sync

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("repeatable")
do_not_sync()
gc.disable()  # until all is collected: what is imported stays

# Typer makes all commands of an app anew for every call, which takes longer than most calls do.
typer.testing._get_command = typer.main.get_command = cache(typer.main.get_command)


# The longest files, longest first: begun last, one of them would keep one worker busy while the other has nothing left.
FIRST = (
    "test_golden_runs.py", "test_verify_corpus.py", "test_compiled_cache.py", "test_scale.py", "test_inventory.py",
    "test_paper_rows.py", "test_verify_hostile.py", "test_verify.py", "test_comparators.py", "test_pages.py",
    "test_results_table.py", "test_recheck.py", "test_examples.py", "test_kills.py", "test_walkforward_suite.py",
    "test_planner_cli.py", "test_search.py", "test_engines.py",
)  # fmt: skip


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and thousands of tests stay to the end: nobody need look through them again and again."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: n for n, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(FIRST)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; tests that need it are skipped, with the reason, when it is not there."""
    folder = os.environ.get("UCSEARCH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("UCSEARCH_DATA does not name a data folder")
    return Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Kernels are run as the text they are, with the test's fixtures too, unless it is marked `compiled` or `slow`.

    What has much to compute has time to compile; as text some of the slow tests would not end in an hour."""
    if item.get_closest_marker("compiled") or item.get_closest_marker("slow"):
        return (yield)
    with plain_kernels():
        return (yield)
