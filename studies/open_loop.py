"""When open loop is enough: how often the first action of the best fixed plan is also a best policy's first action.

A store on real hourly prices: members are the same hours of the 90 days before, and the price of an hour tells of the
next one (a chain of 3 bins), so that waiting for news is worth something. Prices do not depend on what is done, so the
best fixed plan is the one for mean prices. Every decision is a new plan.

    python -m studies.open_loop [DECISIONS]    needs UCSEARCH_DATA
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import ucsearch as uc
from studies.storage_bench import prices
from ucsearch.tasks import Storage

__all__ = ["run"]

DAYS, HOURS, BINS = 90, 24, 3
CASES = {"4 hours": 4.0, "8 hours": 8.0}  # capacity in MWh at 1 MW


def run(decisions: int = 400) -> dict[str, Any]:
    y = prices()
    rng = np.random.default_rng(2)
    at = np.sort(rng.choice(np.arange(24 * (DAYS + 1), len(y) - HOURS), decisions, replace=False))
    hours = np.arange(HOURS)
    members = np.stack([[y[t - 24 * d + hours] for d in range(1, DAYS + 1)] for t in at])
    trace = uc.Trace.from_members(members).declare("markov", bins=BINS)
    found = {}
    for name, capacity in CASES.items():
        store = Storage(power=1.0, capacity=capacity, level_step=0.5, wear=2.0, end_value=float(np.mean(y)))
        levels = rng.integers(0, int(2 * capacity) + 1, decisions) * 0.5
        states = [store.state(float(x)) for x in levels]
        closed = uc.search_panel(
            store.task(), states, trace, uc.Exact(depth=HOURS, mode="closed", node_budget=10**7), engine="compiled"
        )
        fixed = uc.search_panel(store.task(), states, trace, uc.Exact(depth=HOURS, mode="mean"), engine="compiled")
        q = closed.outputs.table[:, :, 0]
        rows = np.arange(decisions)
        # Actions that stand for one another have one value.
        own = q[rows, fixed.outputs.out_i[:, 1]]
        best = np.nanmax(q, axis=1)
        found[name] = {
            "optimal": float((own >= best - 1e-9 * np.abs(best)).mean()),
            "lost": float(np.nanmean(best - own)),
            "value": float(best.mean()),
        }
    return found


def main() -> None:
    decisions = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    for name, row in run(decisions).items():
        print(
            f"{name} of storage, {decisions} decisions: the first action of the best fixed plan is optimal in "
            f"{row['optimal']:.1%}; it gives up {row['lost']:.3f} of {row['value']:.1f} on average"
        )


if __name__ == "__main__":
    main()
