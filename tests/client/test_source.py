"""The package itself: one source for both clients, and an import that costs little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_client_that_waits_is_written_from_the_other() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "unasync.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_importing_it_loads_neither_numba_nor_numpy() -> None:
    code = (
        "import sys; from ucsearch.client import Client, Forecast, Item; "
        "Item('A', {'on_hand': 1.0}, Forecast(members=[[1.0]])).content(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "ucsearch.client.client" in loaded
    assert not loaded & {"numba", "llvmlite", "numpy", "pydantic", "fastapi", "narwhals", "sqlite3"}
    assert {name.split(".")[1] for name in loaded if name.startswith("ucsearch.")} <= {"client", "errors"}
