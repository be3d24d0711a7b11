"""What a package index shows: whole addresses, or none."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOME = "https://example.org/someone/ucsearch"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("index_readme", ROOT / "scripts" / "index_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def targets(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M))


def test_every_link_is_whole(hook: ModuleType) -> None:
    text = hook.for_the_index(README, HOME, "v1.2.3")
    relative = [t for t in targets(README) if "://" not in t and not t.startswith("#")]
    assert len(relative) >= 20
    assert [t for t in targets(text) if not t.startswith(("https://", "#"))] == []
    assert f"]({HOME}/raw/v1.2.3/docs/pictures/console.png)" in text
    assert f"]({HOME}/tree/v1.2.3/examples)" in text
    assert f"]({HOME}/blob/v1.2.3/docs/tutorials/planner.md)" in text


def test_without_a_home_nothing_leads_nowhere(hook: ModuleType) -> None:
    text = hook.for_the_index(README, "", "v1")
    assert [t for t in targets(text) if not t.startswith(("https://", "#"))] == []
    assert "From sales to orders" in text
    assert "![" not in text


def test_code_is_shown_as_it_is(hook: ModuleType) -> None:
    code = "```python\nx = [f](y)\n```"
    assert hook.for_the_index(f"a\n{code}\n", "", "v1") == f"a\n{code}\n"
    for block in re.findall(r"^```.*?^```$", README, re.S | re.M):
        assert block in hook.for_the_index(README, HOME, "v1")


@pytest.mark.parametrize("home", ["http://x/y", "https://", "ftp://a/b", "https://a/b c", "javascript:1"])
def test_a_home_that_is_no_address_is_refused(hook: ModuleType, home: str) -> None:
    with pytest.raises(ValueError, match="UCSEARCH_HOME"):
        hook.for_the_index("x", home, "v1")
