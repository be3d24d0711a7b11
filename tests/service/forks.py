"""Services as processes that can be killed: one process has everything imported and forks a service for each order.

Run as `python -m tests.service.forks FOLDER`; a line on stdin names the folder of a service to start, a line on stdout
says `PID PORT`. The first folder's plans are what is imported and warmed for all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Forks", "Running"]

ROOT = Path(__file__).resolve().parents[2]


class Running(NamedTuple):
    pid: int
    port: int


class Forks:
    """The process that forks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.service.forks", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1, cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def start(self, folder: Path | None = None) -> Running:
        """A new service on the folder; the one before it must be gone from there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{folder or self.folder}\n")
        pid, port = self.process.stdout.readline().split()
        return Running(int(pid), int(port))

    def close(self) -> None:
        self.process.communicate(timeout=30)


def main() -> None:
    import gc
    import signal
    from datetime import UTC, datetime

    import uvicorn.lifespan.on
    import uvicorn.loops.auto
    import uvicorn.protocols.http.h11_impl  # noqa: F401 - what a service would import when it starts

    from ucsearch.records.entries import Request
    from ucsearch.service.app import make_app
    from ucsearch.service.config import load_config
    from ucsearch.service.observability import set_up_logging
    from ucsearch.service.run import run
    from ucsearch.service.service import Service
    from ucsearch.service.writer.plans import Item

    config, place = load_config(sys.argv[1])
    warm = Service.open(config, place)
    make_app(warm)
    item = Item({"series": "A", "on_hand": 3.0, "forecast": {"members": [[4.0, 5.0, 6.0]]}}, Request.named("warm"))
    for plan in warm.plans.values():
        plan.decide([item], datetime.now(UTC), {}, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the killed
    set_up_logging(level=50)
    gc.collect()
    gc.freeze()  # else every service looks through all that was imported, and copies it
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

            def ready(address: str) -> None:
                print(os.getpid(), address.rpartition(":")[2], flush=True)

            try:
                run(line.rstrip("\n"), bind="127.0.0.1:0", admin_bind="127.0.0.1:0", ready=ready)
            finally:
                os._exit(0)


if __name__ == "__main__":
    main()
