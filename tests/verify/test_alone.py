"""The verifier stands alone: what it is run with is itself and Python (`make lint` reads its imports)."""

from __future__ import annotations

import subprocess
import sys


def test_the_verifier_loads_neither_search_nor_heavy_packages() -> None:
    code = "import sys, ucsearch.verify.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {name.split(".")[1] for name in loaded if name.startswith("ucsearch.")} == {"verify"}
    assert not loaded & {"numpy", "numba", "typer", "rich", "pydantic"}
