"""The site: few pages in its tabs, all of them there, and references that are generated from what they describe."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_PAGES = 35


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ucsearch_site", ROOT / "scripts" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def stage(site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(site, "STAGE", tmp_path / "site" / "source")
    site.stage()
    return tmp_path / "site" / "source"


def in_tabs() -> list[str]:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    return [page for tab in nav for pages in tab.values() for item in pages for page in item.values()]


def test_tabs_hold_few_pages_and_each_is_there(stage: Path) -> None:
    pages = in_tabs()
    assert len(pages) == len(set(pages)) <= MOST_PAGES
    assert [page for page in pages if not (stage / page).is_file()] == []


def test_no_generated_page_takes_the_place_of_a_written_one(stage: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        first = page.read_text(encoding="utf-8").split("\n", 1)[0]
        assert (stage / page.relative_to(ROOT / "docs")).read_text(encoding="utf-8").startswith(first), page


def keys(value: dict[str, Any], parts: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of the schema below `value`."""
    if "$ref" in value:
        value = parts[value["$ref"].rpartition("/")[2]]
    for key, inner in value.get("properties", {}).items():
        yield key, inner
        yield from keys(inner, parts)
    for inner in (*value.get("oneOf", ()), *value.get("anyOf", ())):
        yield from keys(inner, parts)
    for key in ("items", "additionalProperties"):
        if isinstance(value.get(key), dict):
            yield from keys(value[key], parts)


def test_every_settings_key_is_in_the_reference_with_its_meaning(site: ModuleType) -> None:
    from ucsearch.planner.settings import json_schema

    schema = json_schema()
    text = site.settings()
    assert set(site.TABLES) == {key for key, v in schema["properties"].items() if site._records(v, schema["$defs"])}
    found = [(key, value) for key, value in keys(schema, schema["$defs"]) if "const" not in value]
    assert len(found) > 200
    for key, _ in found:
        assert f"`{key}`" in text or f"[{key}]" in text, key
    assert re.findall(r"^\| `(\w+)` .*\|\s*\|$", text, re.M) == []


def described(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its whole name."""
    if not hasattr(command, "commands"):
        yield name, command
    for child, inner in getattr(command, "commands", {}).items():
        yield from described(inner, f"{name} {child}")


def test_every_command_is_in_the_reference_with_its_options(stage: Path) -> None:
    import typer.main

    from ucsearch.cli.main import app

    text = (stage / "reference" / "commands.md").read_text(encoding="utf-8")
    found = dict(described(typer.main.get_command(app), "ucsearch"))
    assert len(found) > 30
    for name, command in found.items():
        section = re.search(rf"^##+ {re.escape(name)}\n(.*?)(?=^## |^### |\Z)", text, re.M | re.S)
        assert section, name
        assert re.sub(r"\s+", " ", command.help).split(".")[0] in section[1], name
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                assert [x for x in option.opts if f"`{x}`" not in section[1] and f"`{x} " not in section[1]] == [], name


def test_fields_come_before_properties_and_methods(site: ModuleType) -> None:
    import ucsearch as uc

    lines = "\n".join(site._entry(uc.Gate))
    assert lines.index("| field |") < len(lines)
    task = "\n".join(site._entry(uc.Task))
    assert task.index("| field |") < task.index("Task.label")
