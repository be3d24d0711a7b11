"""The walks of docs/architecture.md name files and functions that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ucsearch"
BARE = re.compile(r"`(\w+(?:\.(?!py\b|jsonl\b)\w+)?)`")
STATION = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)(?::(\w+(?:\.\w+)?))?`")


def names(path: Path) -> set[str]:
    """Functions and classes of a module, and methods as Class.method."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{n.name}" for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def test_what_a_row_names_beside_its_files_is_in_them() -> None:
    """`Kinds.kind`, without a file, is of the file before it in the row, or of any of the row's."""
    missing, seen = [], 0
    for row in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines():
        where = row.split("|")[2] if row.count("|") == 4 and row[2:3].isdigit() else ""
        there = {name for file, _ in STATION.findall(where) for found in PACKAGE.rglob(file) for name in names(found)}
        methods = {name.rpartition(".")[2] for name in there}
        for name in BARE.findall(where):
            seen += 1
            if name not in there | methods:
                missing.append(name)
    assert missing == []
    assert seen > 3


def test_every_station_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    missing, seen, folder = [], 0, PACKAGE
    for file, name in STATION.findall(text):
        path = PACKAGE / file if (PACKAGE / file).exists() else folder / file
        seen += 1
        if not path.exists():
            missing.append(file)
            continue
        folder = path.parent
        if name and name not in names(path):
            missing.append(f"{file}:{name}")
    assert missing == []
    assert seen > 30
    assert (ROOT / "docs" / "architecture.svg").exists()
