"""Interleaved medians, and figures that need a process of their own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["in_process", "interleaved", "startup"]


def interleaved(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each job; one round after another, so that a slow moment hits all alike."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def startup(repeats: int = 7) -> dict[str, float]:
    """Median seconds of whole processes, interleaved."""
    first = (
        "import ucsearch as uc; from ucsearch.tasks import LeadTimeInventory; "
        "inventory = LeadTimeInventory(lead_time=2, order_sizes=tuple(map(float, range(9))), capacity=20.0, ramp=3.0, "
        "unit_cost=0.5, holding=1.0, shortage=9.0); "
        "trace = uc.Trace.from_members([[2.0, 3.0, 1.0], [4.0, 3.0, 5.0], [0.0, 1.0, 2.0], [3.0, 3.0, 3.0]]); "
        "policy = uc.UCBeam(depth=3, risk=0.25, width=8, top_k=3, order='score'); "
        "plan = uc.search(inventory.task(), inventory.state(3.0, (2.0, 2.0), 2.0), trace, policy, engine='compiled'); "
        "print(plan.engine)"
    )
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "ucsearch --help": [sys.executable, "-c", "import sys; sys.argv = ['ucsearch', '--help']; "
                            "from ucsearch.cli import main; main()"],
        "import and first compiled decision": [sys.executable, "-c", first],
    }  # fmt: skip

    def job(command: list[str]) -> Callable[[], None]:
        def run() -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        return run

    return interleaved({name: job(command) for name, command in commands.items()}, repeats)


def in_process(code: str) -> Any:
    """Run `code` in a fresh process; its last line of output is JSON."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ)
    return json.loads(done.stdout.strip().splitlines()[-1])
