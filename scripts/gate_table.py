"""Write the table of the gate's settings into docs/concepts/gate.md, from the comments beside them.

python scripts/gate_table.py [--check]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "ucsearch"
PAGE = ROOT / "docs" / "concepts" / "gate.md"
BEGIN, END = "<!-- gate: written by scripts/gate_table.py -->\n", "<!-- end of gate -->\n"


def gate() -> str:
    """Every field of `Gate` with the comment beside it."""
    text = (PACKAGE / "decision" / "gate.py").read_text(encoding="utf-8")
    lines = text.partition("class Gate:")[2].partition("def ")[0].splitlines()
    found = [m for line in lines if (m := re.fullmatch(r"    (\w+): [^#=]+= [^#]+  # (.+)", line))]
    rows = ["| setting | holds when |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{m[1]}` | {m[2]} |" for m in found)]) + "\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}{gate()}{END}{after}"
    if text != wanted and "--check" in sys.argv[1:]:
        raise SystemExit("docs/concepts/gate.md: run scripts/gate_table.py")
    if text != wanted:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
