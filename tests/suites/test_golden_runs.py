"""Whole runs against stored figures: code that moves must not move a number or a decision.

After a change that is meant to move one: `python -m tests.golden.regenerate`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import regenerate as golden
from tests.kit.suites import shared_run

STORED: dict[str, Any] = json.loads((golden.GOLDEN / "runs.json").read_text(encoding="utf-8"))


def test_decide_and_backtest_come_to_what_is_stored() -> None:
    found = golden.jobs()
    for name in ("decide", "backtest"):
        assert found[name] == STORED[name], name


@pytest.mark.parametrize("name", golden.SUITES)
def test_a_suite_comes_to_what_is_stored(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert golden.summary(shared_run(name, tmp_path_factory)) == STORED["suites"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", golden.SUITES)
def test_kernels_come_to_what_is_stored(name: str, tmp_path: Path) -> None:
    assert golden.suite_run(name, tmp_path) == STORED["suites"][name]


def test_a_hash_sees_a_figure_and_not_its_last_digits() -> None:
    assert golden.digest([1.0, {"a": 2.0}]) == golden.digest([1.0 + 1e-14, {"a": 2.0}])
    assert golden.digest([1.0, {"a": 2.0}]) != golden.digest([1.0, {"a": 2.0001}])
    assert golden.digest([1]) != golden.digest([2])
