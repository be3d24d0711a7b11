"""Suites are run by the plain engine; that kernels come to the same bytes is shown in tests/conformance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.suites import plain_engine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    # Slow tests run whole suites as kernel text.
    if item.get_closest_marker("compiled") or item.get_closest_marker("slow"):
        return (yield)
    with plain_engine():
        return (yield)
