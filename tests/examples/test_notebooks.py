"""Notebooks run from top to bottom without Jupyter, and print what they show."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NAMES = sorted(p.name for p in FOLDER.glob("*.ipynb"))
LARGEST = 40_000  # bytes: outputs are kept small


def test_there_are_notebooks_and_they_are_small() -> None:
    assert len(NAMES) >= 3
    for name in NAMES:
        assert (FOLDER / name).stat().st_size <= LARGEST


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_prints_what_it_shows(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    book = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (book["nbformat"], book["metadata"]["language_info"]["name"]) == (4, "python")
    space: dict[str, Any] = {"__name__": "notebook"}
    for i, cell in enumerate(c for c in book["cells"] if c["cell_type"] == "code"):
        code, file = "".join(cell["source"]) + "\n", f"<{name} {i}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        capsys.readouterr()
        exec(compile(code, file, "exec"), space)
        shown = "".join(text for output in cell["outputs"] for text in output["text"])
        assert capsys.readouterr().out == shown, f"cell {i}"
