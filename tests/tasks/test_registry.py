"""The list of built-in tasks, and the golden decisions of all of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import ucsearch as uc
from scripts.regen_golden import decisions, text_of
from ucsearch.tasks import TASKS, describe

ROOT = Path(__file__).resolve().parents[2]


def test_every_task_is_listed_with_its_page() -> None:
    assert sorted(TASKS) == [
        "capacity_plan", "delayed_exposure", "direction", "intervention", "lead_time_inventory", "storage",
    ]  # fmt: skip
    for name, info in TASKS.items():
        made = info.kind()
        assert made.task().name == name
        page = (ROOT / "docs" / info.page).read_text(encoding="utf-8")
        for parameter in info.parameters:
            assert f"`{parameter}`" in page, f"{info.page} does not name {parameter}"
        for instance in info.instances:
            assert instance in page or instance.startswith("zipkin"), f"{info.page} does not name {instance}"


def test_parameters_have_defaults_and_comments_with_units() -> None:
    for info in TASKS.values():
        assert all(f.default is not dataclasses.MISSING for f in dataclasses.fields(info.kind))


def test_describe_names_one_or_all() -> None:
    assert describe("storage").startswith("storage: ")
    assert all(name in describe() for name in TASKS)
    assert "and 14 more" in describe("lead_time_inventory")
    with pytest.raises(uc.InputError, match="lead_time_inventory"):
        describe("nothing")


def test_every_task_has_a_bound_a_fallback_and_an_invariant() -> None:
    for info in TASKS.values():
        for made in info.kind.instances().values():
            task = made.task()
            assert task.bound is not None
            assert task.invariant is not None
            assert task.risk_aware_bound


def test_golden_decisions() -> None:
    """Regenerate with scripts/regen_golden.py after a deliberate change."""
    stored = (ROOT / "tests" / "golden" / "tasks.json").read_text(encoding="utf-8")
    now = decisions()
    kept = json.loads(stored)
    for name in kept:
        for instance in kept[name]:
            assert now[name][instance] == kept[name][instance], (name, instance)
    assert text_of(now) == stored
