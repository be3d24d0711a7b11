"""Shared set-up: deterministic Hypothesis, and where the real data is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.unjitted import plain_kernels

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("repeatable")


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
