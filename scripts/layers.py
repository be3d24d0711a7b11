"""Write tables of documents that code knows better: CONTRIBUTING.md's layers, from what the test of layers enforces and
what each part says of itself, and docs/dispatch.md's settings of the gate, from the comments beside them.

python scripts/layers.py [--check]
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ucsearch"


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
    place = part.replace(".", "/")
    path = PACKAGE / f"{place}.py"
    path = path if path.exists() else PACKAGE / place / "__init__.py"
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    return line.split(". ")[0].rstrip(".")


def table() -> str:
    rows = ["| layer | part | what it is |", "|---|---|---|"]
    for part, number in sorted(layers().items(), key=lambda x: (x[1], x[0])):
        what = said(part).replace("|", "\\|")
        rows.append(f"| {number} | `{part}` | {what} |")
    return "\n".join(rows) + "\n"


def gate() -> str:
    """Every field of `Gate` with the comment beside it."""
    text = (PACKAGE / "decision" / "gate.py").read_text(encoding="utf-8")
    lines = text.partition("class Gate:")[2].partition("def ")[0].splitlines()
    found = [m for line in lines if (m := re.fullmatch(r"    (\w+): [^#=]+= [^#]+  # (.+)", line))]
    rows = ["| setting | holds when |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{m[1]}` | {m[2]} |" for m in found)]) + "\n"


PAGES = {"CONTRIBUTING.md": ("layers", table), "docs/dispatch.md": ("gate", gate)}


def page(text: str, name: str, rows: str) -> str:
    begin, end = f"<!-- {name}: written by scripts/layers.py -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{rows}{end}{after}"


def main() -> None:
    for place, (name, rows) in PAGES.items():
        path = ROOT / place
        text = path.read_text(encoding="utf-8")
        wanted = page(text, name, rows())
        if "--check" in sys.argv[1:] and text != wanted:
            raise SystemExit(f"{place}: run scripts/layers.py")
        if text != wanted:
            path.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
