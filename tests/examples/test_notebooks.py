"""Notebooks run from top to bottom without Jupyter, and print what they show."""

from __future__ import annotations

import ast
import json
import linecache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NAMES = sorted(p.name for p in FOLDER.glob("*.ipynb"))
NEEDS = {  # packages that only the environments of `make test-slow` and `make test-torch` have
    "against_ortools.ipynb": ("ortools",),
    "against_sb3.ipynb": ("stable_baselines3", "torch"),
    "retail_statsforecast.ipynb": ("statsforecast",),
}
LARGEST = 40_000  # bytes: outputs are kept small


def test_there_are_notebooks_and_they_are_small() -> None:
    assert len(NAMES) >= 5
    assert set(NEEDS) <= set(NAMES)
    for name in NAMES:
        assert (FOLDER / name).stat().st_size <= LARGEST


def test_a_notebook_of_the_core_has_a_picture() -> None:
    for name in NAMES:
        if name not in NEEDS:
            assert '"image/svg+xml"' in (FOLDER / name).read_text(encoding="utf-8"), name


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in NEEDS else name


@pytest.mark.parametrize("name", [marked(name) for name in NAMES])
def test_a_notebook_prints_what_it_shows(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "sb3"))  # it would leave a folder among the temporary files
    book = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (book["nbformat"], book["metadata"]["language_info"]["name"]) == (4, "python")
    space: dict[str, Any] = {"__name__": "notebook"}
    for i, cell in enumerate(c for c in book["cells"] if c["cell_type"] == "code"):
        code, file = "".join(cell["source"]) + "\n", f"<{name} {i}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        capsys.readouterr()
        tree = ast.parse(code, file)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), space)
        value = None if last is None else eval(compile(ast.Expression(last.value), file, "eval"), space)
        shown = "".join(text for output in cell["outputs"] for text in output.get("text", []))
        assert capsys.readouterr().out == shown, f"cell {i}"
        pictures = ["".join(output["data"]["image/svg+xml"]) for output in cell["outputs"] if "data" in output]
        assert pictures == ([value._repr_svg_()] if hasattr(value, "_repr_svg_") else []), f"cell {i}"
