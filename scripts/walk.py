"""Print which modules and functions of ours one `uc.decide` runs, from the call to the record on disk.

python scripts/walk.py [--engine python|compiled] [--mode mean|members|closed]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import ucsearch as uc
from ucsearch.decision import Filing
from ucsearch.tasks import LeadTimeInventory

PACKAGE = Path(uc.__file__).parent


def walk(engine: Any, mode: Any) -> dict[str, set[str]]:
    """Functions by module; those of a task's rules are among them, because this task is one of the package."""
    shop = LeadTimeInventory(lead_time=1, holding=0.10, shortage=2.00, fixed_cost=4.00, order_sizes=(0, 24, 48, 72))
    demand = uc.Trace.from_members([[12, 9, 15], [30, 22, 18], [5, 8, 6], [16, 40, 11]])
    demand = demand.declare("independent") if mode == "closed" else demand
    task, stock = shop.task(), shop.state(on_hand=20, open_orders=(10,))
    policy, run, decide = uc.Exact(depth=3, mode=mode), uc.Run(engine=engine), uc.decide
    if engine == "compiled":
        uc.warm(task, policy, state=stock, trace=demand)
        decide(task, stock, demand, policy, run=run)  # compares a new kernel with plain Python, once
    functions: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE) and frame.f_code.co_name != "<module>":
            functions[str(path.relative_to(PACKAGE))].add(frame.f_code.co_name)

    with tempfile.TemporaryDirectory() as folder, uc.AuditLog(Path(folder) / "orders.db") as log:
        filing = Filing(log, series="SKU-017", where=shop.address())
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            decide(task, stock, demand, policy, log=filing, run=run)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return functions


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="python", choices=("python", "compiled"))
    parser.add_argument("--mode", default="members", choices=("mean", "members", "closed"))
    options = parser.parse_args()
    functions = walk(options.engine, options.mode)
    for module in sorted(functions):
        print(f"{module}: {', '.join(sorted(functions[module]))}")
    print(f"{len(functions)} modules")
