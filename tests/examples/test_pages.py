"""Pages are read by somebody who types what they say, in an empty folder; what appears is what they show."""

from __future__ import annotations

import re
import socket
import tempfile
from pathlib import Path

import pytest

from tests.examples.pages import Reader, alike, blocks_of, commands_of

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
LONGER = ("concepts/evaluation.md", "how-to/plan-from-files.md", "how-to/shared-budgets.md")  # pages with slow blocks
ELSEWHERE = {"how-to/adapters.md"}  # needs the libraries: tests/adapters_real
# outputs that are compared without slow ones
COMPARED = {
    "bakery": 7, "deliveries": 7, "engineer": 6, "operator": 8, "planner": 2, "researcher": 6, "spares": 1, "truck": 6,
}  # fmt: skip


def read(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, slow: bool = False) -> int:
    monkeypatch.chdir(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    reader = Reader(folder, page.name, {"8411": port}, environment={"UCSEARCH_URL": f"http://127.0.0.1:{port}"})
    # How-to, concept and reference pages also show commands on files of the reader's own.
    reader.types_all = page in TUTORIALS or ROOT / "docs" not in page.parents
    try:
        return reader.read(page.read_text(encoding="utf-8"), slow)
    finally:
        reader.leave()


def test_there_is_a_tutorial_for_every_role() -> None:
    assert [p.stem for p in TUTORIALS] == sorted(COMPARED)


def test_no_slow_page_is_forgotten() -> None:
    pages = [p for p in (ROOT / "docs").rglob("*.md") if p not in TUTORIALS]
    slow = [p for p in pages if "<!-- slow -->" in p.read_text(encoding="utf-8")]
    assert sorted(p.relative_to(ROOT / "docs").as_posix() for p in slow) == sorted(LONGER)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_shows_what_appears(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(page, tmp_path, monkeypatch) >= COMPARED[page.stem]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_also_what_takes_longer(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "<!-- slow -->" not in page.read_text(encoding="utf-8"):
        pytest.skip("nothing on this page takes longer")
    assert read(page, tmp_path, monkeypatch, slow=True) > COMPARED[page.stem]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", LONGER)
def test_a_page_shows_what_appears(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(ROOT / "docs" / name, tmp_path, monkeypatch, slow=True) >= 2


def with_code() -> list[str]:
    """Every other page with Python on it, by its path below docs."""
    pages = [p for p in sorted((ROOT / "docs").rglob("*.md")) if "```python" in p.read_text(encoding="utf-8")]
    names = [p.relative_to(ROOT / "docs").as_posix() for p in pages if p not in TUTORIALS]
    return [n for n in names if n not in ELSEWHERE]


@pytest.mark.parametrize("name", with_code())
def test_the_python_of_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace; a block of text right after one is what it prints."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    read(ROOT / "docs" / name, tmp_path, monkeypatch)


def test_links_of_tutorials_lead_somewhere() -> None:
    for page in TUTORIALS:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_reader_notices() -> None:
    """What is compared is compared: another figure, a missing line, an unknown exit code."""
    assert alike("a 1\n...\nb\n", "a 1\nx\ny\nb  \n")
    assert not alike("a 1\nb\n", "a 2\nb\n")
    assert not alike("a 1\n", "a 1\nb\n")
    assert alike("id 0123456789ab\n", "id ba9876543210\n")
    assert not alike("id 0123456789ab\n", "id 12\n")
    assert commands_of("$ one \\\n  two\nout\n$ three\n") == [("one two", "out\n"), ("three", "")]
    first, second = blocks_of('<!-- slow -->\n```toml title="a.toml"\nx = 1\n```\n\n```text\n1\n```\n')
    assert (first.title, first.text, first.slow, first.follows) == ("a.toml", "x = 1\n", True, False)
    assert (second.title, second.slow, second.follows) == ("", False, True)


def test_a_page_that_shows_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    for text in (
        "```console\n$ echo 1\n2\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ ucsearch version --nothing\n...\n```\n",
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
    ):
        page.write_text(text)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            read(page, tmp_path, monkeypatch)
