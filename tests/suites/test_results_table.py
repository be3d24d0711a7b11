"""The table of docs/results.md comes from the committed evidence, which agrees with its rows."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from ucsearch.lab.suites.evidence import manifest
from ucsearch.lab.suites.evidence.manifest import Evidence, find_evidence, read_evidence
from ucsearch.lab.suites.recheck import verify as recheck
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.suite import suite_names

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "evidence"
FOLDERS = find_evidence(EVIDENCE) if EVIDENCE.is_dir() else []


# The largest folders take seconds each: their rows are read and followed with the slow tests.
LARGE = (
    "capacity", "m4-balanced200", "m4-expanded40", "mechanism", "retail-lots",
)  # fmt: skip


@cache
def read(folder: Path) -> Evidence:
    """Once for all tests here: some megabytes of rows."""
    return read_evidence(folder)


@cache
def claimed(folder: Path) -> Evidence:
    """What a folder says, under its seal and the digests of its files; what stands in the rows of a large one is not
    looked at."""
    if folder.name not in LARGE:
        return read(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "_lines", lambda body, name: [])
        return read_evidence(folder)


@cache
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("evidence_script", ROOT / "scripts" / "evidence.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["read_evidence"] = claimed
    return module


def test_evidence_is_of_suites_that_there_are_and_the_table_names_those_without() -> None:
    held = {folder.name for folder in FOLDERS}
    assert held <= set(suite_names(mini=False))
    table = script().results_table(EVIDENCE)
    for name in suite_names(mini=False):
        assert (f"| `{name}` | not run |" in table) is (name not in held)


def test_the_page_shows_the_evidence_and_nothing_else() -> None:
    made = script()
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert made.with_table(text, made.results_table(EVIDENCE)) == text, "run: python scripts/evidence.py --table"


def test_every_suite_is_run_once_and_the_papers_rows_last() -> None:
    order = script().in_order()
    assert sorted(order) == suite_names(mini=False)
    assert order.index("multi-domain") < order.index("compute-matched")  # it opened the windows first
    assert order.index("synthetic") < order.index("ltsf-inventory")


def test_a_readme_without_its_place_is_refused() -> None:
    with pytest.raises(SystemExit, match="to write between"):
        script().with_table("no markers", "table")


@pytest.mark.parametrize(
    ("folder", "decisions"),
    [
        *(pytest.param(f, 1, marks=pytest.mark.slow if f.name in LARGE else ()) for f in FOLDERS),
        *(pytest.param(f, 4, marks=pytest.mark.slow) for f in FOLDERS),
    ],
    ids=lambda x: x.name if isinstance(x, Path) else None,
)
def test_committed_evidence_agrees_with_its_rows(folder: Path, decisions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recheck, "read_evidence", read)
    found = verify_evidence(folder, decisions=decisions)
    assert found.code == 0, (found.problems[:3], found.malformed)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_committed_evidence_was_made_with_the_suite_and_card_of_today(folder: Path) -> None:
    from ucsearch.lab.suites.run import card_text
    from ucsearch.lab.suites.suite import load_suite

    suite = load_suite(folder.name)
    assert (folder / "suite.toml").read_text("utf-8") == suite.text
    assert (folder / "card.md").read_text("utf-8") == card_text(suite)
