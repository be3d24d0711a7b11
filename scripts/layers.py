"""Write CONTRIBUTING.md's table of layers from what the test of layers enforces and what each part says of itself.

python scripts/layers.py [--check]
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ucsearch"
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- layers: written by scripts/layers.py -->\n", "<!-- end of layers -->\n"


def layers() -> dict[str, int]:
    """LAYERS as the test has it."""
    tree = ast.parse((ROOT / "tests" / "unit" / "test_layers.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LAYERS":
            found: dict[str, int] = ast.literal_eval(node.value)
            return found
    raise SystemExit("tests/unit/test_layers.py has no LAYERS")


def said(part: str) -> str:
    """The first sentence of a part's docstring."""
    path = PACKAGE / f"{part}.py"
    path = path if path.exists() else PACKAGE / part / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return line.split(". ")[0].rstrip(".")


def table() -> str:
    rows = ["| layer | part | what it is |", "|---|---|---|"]
    for part, number in sorted(layers().items(), key=lambda x: (x[1], x[0])):
        what = said(part).replace("|", "\\|")
        rows.append(f"| {number} | `{part}` | {what} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    wanted = page(text)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if text == wanted else "CONTRIBUTING.md: run scripts/layers.py")
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
