"""Shared set-up: deterministic Hypothesis, and where the real data is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
