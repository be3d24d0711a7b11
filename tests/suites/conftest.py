"""Suites are run by the plain engine; that kernels come to the same bytes is shown in tests/conformance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.suites import plain_engine

HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # This hook is called for every test of the run, whatever its folder. Slow tests run whole suites as kernel text.
    elsewhere = HERE not in item.path.parents
    if elsewhere or item.get_closest_marker("compiled") or item.get_closest_marker("slow"):
        return (yield)
    with plain_engine():
        return (yield)
