"""What costs what: the steps from a forecast to a verified record, processor time of one thread.

An ordering problem with six sizes, lead time 1, 20 members and five days ahead. Processor time does not count what
other programs do on the machine; the best of several rounds is printed.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from bench.table import Row
from ucsearch.decision import Filing
from ucsearch.tasks import LeadTimeInventory

DEPTH, MEMBERS = 5, 20
WINDOWS = 2000  # of a panel
FEW = 20  # of what is slow
ROUNDS = 5


def best(job: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Least processor seconds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        job()
        least = min(least, time.process_time() - start)
    return least


def measure() -> list[tuple[str, str, float]]:
    """(what, how, microseconds a decision)."""
    from ucsearch.verify.__main__ import main as verify

    shop = LeadTimeInventory(
        lead_time=1, order_sizes=tuple(5.0 * k for k in range(6)), holding=1.0, shortage=9.0, fixed_cost=5.0
    )
    rng = np.random.default_rng(1)
    trace = uc.Trace.from_members(rng.poisson(7.0, (WINDOWS, MEMBERS, DEPTH)))
    states = [shop.state(on_hand=float(x), open_orders=(5.0,)) for x in rng.integers(0, 20, WINDOWS)]
    task, rows = shop.task(), []
    lattice = trace.on_lattice(5.0, 4)
    one, few = trace.window(0), uc.Trace.from_members(trace.members[:FEW, :, :, 0])
    policies = {
        "beam of 8, mean": uc.UCBeam(depth=DEPTH, width=8),
        "exact, mean": uc.Exact(depth=DEPTH),
        "exact, members": uc.Exact(depth=DEPTH, mode="members"),
        "exact, closed loop": uc.Exact(depth=DEPTH, mode="closed"),
    }
    run = uc.Run(engine="compiled", threads=1)
    for name, policy in policies.items():
        given = lattice if policy.mode == "closed" else trace

        def search(policy: Any = policy, given: uc.Trace = given) -> Any:
            return uc.search_panel(task, states, given, policy, engine="compiled", threads=1)

        begin = time.process_time()
        search()
        first = time.process_time() - begin
        rows.append(("first search", f"{name}, kernel included where none is on disk", first))
        rows.append(("search", f"{name}, panel of {WINDOWS:,}", best(search) / WINDOWS))
    exact = policies["exact, mean"]
    uc.decide_panel(task, states, trace, exact, run=run)
    whole = best(lambda: uc.decide_panel(task, states, trace, exact, run=run)) / WINDOWS
    rows.append(("decide", f"exact, mean, panel of {WINDOWS:,}: search, proof, gate, final check", whole))
    rows.append(("decide", "the same, one call for each decision",
                 best(lambda: [uc.decide(task, states[0], one, exact, run=run) for _ in range(FEW)]) / FEW,
    ))  # fmt: skip
    plain = uc.Run(engine="python")
    rows.append(("decide", "the same in plain Python",
                 best(lambda: uc.decide_panel(task, states[:FEW], few, exact, run=plain), 3) / FEW))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "costs.db"

        def kept() -> None:
            path.unlink(missing_ok=True)
            with uc.AuditLog(path) as log:
                uc.decide_panel(
                    task, states, trace, exact, run=run,
                    log=Filing(log, series=[str(i) for i in range(WINDOWS)], where=shop.address()),
                )  # fmt: skip

        together = best(kept, 3) / WINDOWS
        rows.append(("record", "on disk, chained, in one transaction", together - whole))
        path.unlink()
        with uc.AuditLog(path) as log:
            uc.decide_panel(
                task, states[:FEW], few, exact, run=run,
                log=Filing(log, series=[str(i) for i in range(FEW)], where=shop.address()),
            )  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            again = best(lambda: verify([str(path)]), 3) / FEW
        rows.append(("verify", "every claim again, in plain Python", again))
    return [(what, how, seconds * 1e6) for what, how, seconds in rows]


def rows() -> list[Row]:
    """A row for each step."""
    return [Row("one decision", f"{what}: {how}", us, "us of processor time") for what, how, us in measure()]
