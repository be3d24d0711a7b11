"""The list of built-in tasks, and the golden decisions of all of them."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module
from pathlib import Path

import pytest

import ucsearch as uc
from tests.golden.regenerate import decisions, text_of
from ucsearch.tasks import TASKS, describe

ROOT = Path(__file__).resolve().parents[2]


def test_every_task_is_listed_with_its_page() -> None:
    assert {info.page for info in TASKS.values()} == {
        f"tasks/{p.name}" for p in (ROOT / "docs" / "reference" / "tasks").glob("*.md")
    }
    assert len(TASKS) >= 6
    for name, info in TASKS.items():
        made = info.kind()
        assert made.task().name == name
        page = (ROOT / "docs" / "reference" / info.page).read_text(encoding="utf-8")
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
    """Regenerate with tests/golden/regenerate.py after a deliberate change."""
    stored = (ROOT / "tests" / "golden" / "tasks.json").read_text(encoding="utf-8")
    now = decisions()
    kept = json.loads(stored)
    for name in kept:
        for instance in kept[name]:
            assert now[name][instance] == kept[name][instance], (name, instance)
    assert text_of(now) == stored


def test_addresses_are_found_in_tasks() -> None:
    for info in TASKS.values():
        for config in (info.kind(), *list(info.kind.instances().values())[:3]):
            where = config.address()
            module, _, name = where.partition(":")
            assert module == "ucsearch.tasks"
            found = getattr(import_module(module), name)
            assert found.source_hash == config.task().source_hash
            assert found.actions == config.task().actions


@pytest.mark.parametrize("name", ["LeadTimeInventory_zz", "Nothing_7b7d", "nothing", "Direction_7b2261223a317d"])
def test_a_wrong_address_is_a_missing_name(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(import_module("ucsearch.tasks"), name)


def test_every_task_says_how_it_meets_a_series() -> None:
    for info in TASKS.values():
        config = info.kind()
        fit = config.fit()
        assert fit.outcome in ("values", "relative", "changes")
        assert fit.unit > 0.0
        state = config.state(**fit.start)
        assert config.task().layout(state).size > 0
        assert config.effect_delay >= 0
