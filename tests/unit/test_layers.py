"""Lower layers never import higher ones, wherever in a module the import stands; the verifier trusts nobody."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import ucsearch

ROOT = Path(ucsearch.__file__).parent

# A part may import parts of a lower number only. What is not listed stands between the last of these and the top.
LAYERS = {
    "errors": 0,
    "rules": 5,
    "rules.answers": 0,
    "rules.source": 0,
    "rules.identity": 1,
    "instead": 0,
    "lazy": 0,
    "layout": 1,
    "packing": 1,
    "formatting": 1,
    "report": 1,
    "student": 1,
    "sources": 2,
    "spreads": 3,
    "task": 4,
    "trace": 4,
    "policies": 5,
    "options": 5,
    "engine": 6,
    "certificate": 7,
    "decision": 8,
    "records": 9,
    "allocation": 10,
    # Beside the path from task to record: nothing above uses them.
    "check": 10,
    "lab.comparators": 10,
    "lab.data": 10,
    "forecast": 10,
    "replay.classics": 10,
    "monitor": 10,
    "lab.gym": 11,
    "lab.learned": 12,
    "tasks.checks": 9,
    "tasks": 10,
    "verify": 10,
    "scale.segments": 10,
    "adapters": 10,
    "replay": 12,
    "planner.settings": 12,
    "planner": 13,
    "monitor.arming": 14,
    "lab": 14,
    "scale": 14,
    "client": 15,
    "service": 16,
    "cli": 20,
    "__main__": 21,
}
ABOVE = 16
FACADE = "ucsearch"  # `import ucsearch as uc` may load everything, so only the top may say it


def part_of(module: str) -> str:
    """`engine` for `ucsearch.engine.plan`, `lab.data` for what lies in it; the package itself is the facade."""
    inner = module.split(".")[1:]
    pair = ".".join(inner[:2])
    return pair if pair in LAYERS else inner[0] if inner else FACADE


@cache
def modules() -> tuple[tuple[str, tuple[tuple[int, str], ...]], ...]:
    """(module, its imports); trees are large and not kept."""
    return tuple(_parsed())


def _parsed() -> Iterator[tuple[str, tuple[tuple[int, str], ...]]]:
    for path in sorted(ROOT.rglob("*.py")):
        inner = path.relative_to(ROOT)
        # Templates are text for generated modules.
        if "templates" not in inner.parts and str(inner) != "__init__.py":
            found = tuple(_imports(path.read_text(encoding="utf-8")))
            yield ".".join(("ucsearch", *inner.with_suffix("").parts)), found


# An import has a line of its own, wherever it stands (ruff sees to that), and a module is mostly something else.
STATEMENT = re.compile(r"^[ \t]*((?:from [\w.]+ import (?:\([^)]*\)|[^\n]+))|import [^\n]+)", re.M)


def _imports(text: str) -> Iterator[tuple[int, str]]:
    for said in STATEMENT.finditer(text):
        if "ucsearch" in said[1] or said[1].startswith("from ."):
            above = text.count("\n", 0, said.start(1))
            yield from ((above + line, name) for line, name in imports(ast.parse(said[1])))


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, module) of every import of ours, those inside functions and under TYPE_CHECKING included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            found = [node.module or ""]
            if node.module == "ucsearch" or f"{node.module}.{node.names[0].name}".removeprefix("ucsearch.") in LAYERS:
                found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in found if name.split(".")[0] == "ucsearch")


def violations(module: str, found: Iterable[tuple[int, str]]) -> list[str]:
    own = part_of(module)
    return [
        f"{module}:{line} imports {name}"
        for line, name in found
        if part_of(name) != own and not place(part_of(name)) < place(own)
    ]


def place(part: str) -> int:
    return 19 if part == FACADE else LAYERS.get(part, ABOVE)


def test_every_place_is_taken() -> None:
    assert set(LAYERS) - {part_of(module) for module, _ in modules()} == set()


def test_imports_go_down() -> None:
    assert [line for module, found in modules() for line in violations(module, found)] == []


@pytest.mark.parametrize(
    ("module", "text", "bad"),
    [
        ("ucsearch.engine.api", "import ucsearch.certificate.api", True),
        ("ucsearch.engine.api", "from ucsearch.decision.gate import Gate", True),
        ("ucsearch.engine.api", "def f():\n    from ucsearch.records import AuditLog", True),
        ("ucsearch.engine.api", "from ucsearch import certificate", True),
        ("ucsearch.engine.api", "import ucsearch as uc", True),
        ("ucsearch.tasks.inventory.record", "from ucsearch.forecast import naive", True),
        ("ucsearch.tasks.inventory.record", "from ucsearch.suites import one", True),
        ("ucsearch.suites.one", "from ucsearch.cli import app", True),
        ("ucsearch.suites.one", "from ucsearch.tasks import LeadTimeInventory", False),
        ("ucsearch.engine.api", "from ucsearch.task import Task", False),
        ("ucsearch.cli.demo", "import ucsearch as uc", False),
        ("ucsearch.engine.api", "import numpy, ucsearchlike", False),
        ("ucsearch.engine.api", "import numpy, ucsearch.decision", True),
        ("ucsearch.engine.api", "if x:\n    from ucsearch.decision import (\n        Gate,\n    )\n", True),
    ],
)
def test_the_reading_of_imports(module: str, text: str, bad: bool) -> None:
    assert bool(violations(module, _imports(text))) is bad


def test_the_verifier_imports_nothing_of_ours_but_itself() -> None:
    seen = [module for module, _ in modules() if part_of(module) == "verify"]
    assert "ucsearch.verify.__main__" in seen
    trusted = {
        f"{module}:{line} {name}"
        for module, found in modules()
        if part_of(module) == "verify"
        for line, name in found
        if part_of(name) != "verify"
    }
    assert trusted == set()


def test_the_verifier_loads_neither_search_nor_heavy_packages() -> None:
    code = "import sys, ucsearch.verify.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {part_of(name) for name in loaded if name.startswith("ucsearch.")}
    assert ours == {"verify"}
    assert not loaded & {"numpy", "numba", "typer", "rich", "pydantic"}
