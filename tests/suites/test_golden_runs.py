"""Whole runs against stored figures: code that moves must not move a number or a decision.

After a change that is meant to move one: `python scripts/regen_golden.py` (with `--all` for the suites).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import golden_runs as runs
from tests.kit.suites import shared_run

# Suites of the same protocol as m4-balanced200-mini, with other numbers.
ALIKE = ("m4-expanded40-mini", "m4-standard48-mini", "ett-inventory-mini")
SLOW = (*ALIKE, *runs.SMALLER)
STORED: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "runs.json").read_text(encoding="utf-8")
)


def test_decide_and_backtest_come_to_what_is_stored() -> None:
    found = runs.jobs()
    for name in ("decide", "backtest"):
        assert found[name] == STORED[name], name


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in runs.SUITES
])  # fmt: skip
def test_a_suite_comes_to_what_is_stored(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert runs.summary(shared_run(name, tmp_path_factory)) == STORED["suites"][name]


@pytest.mark.parametrize("name", runs.SMALLER)
def test_a_smaller_suite_comes_to_what_is_stored(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert runs.summary(shared_run(runs.smaller(name), tmp_path_factory)) == STORED["smaller"][name]


@pytest.mark.slow
@pytest.mark.parametrize("name", runs.SUITES)
def test_kernel_text_comes_to_what_is_stored(name: str, tmp_path: Path) -> None:
    assert runs.suite_run(name, tmp_path) == STORED["suites"][name]


def test_a_hash_sees_a_figure_and_not_its_last_digits() -> None:
    assert runs.digest([1.0, {"a": 2.0}]) == runs.digest([1.0 + 1e-14, {"a": 2.0}])
    assert runs.digest([1.0, {"a": 2.0}]) != runs.digest([1.0, {"a": 2.0001}])
    assert runs.digest([1]) != runs.digest([2])
