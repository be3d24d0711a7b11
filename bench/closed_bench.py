"""Closed mode: milliseconds a decision and nanoseconds a transition at lead times 1, 2 and 3; plain Python beside it.

`merged`: what arrives next is counted as stock at once, as `LeadTimeInventory.lattice` makes it; the other rows keep it
apart, so that more states are valued for the same answer.

    python -m bench.closed_bench
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

STEPS = 12
TARGETS_MS = {1: 0.3, 2: 1.2, 3: 19.0}  # trial figures; to come within twice of
ORDERS = 6  # order sizes


def instance(lead_time: int, merged: bool) -> tuple[uc.Task, Any, uc.Trace]:
    """An item that sells about 2 packs a day, orders in packs up to three days of demand."""
    rng = np.random.default_rng(lead_time)
    demand = rng.poisson(2.0, (40, STEPS)).astype(float)
    inventory = LeadTimeInventory(
        lead_time=lead_time, order_sizes=tuple(2.0 * k for k in range(ORDERS)), fixed_cost=4.0, capacity=20.0,
        merge_arrivals=merged,
    )  # fmt: skip
    trace = uc.Trace.from_members(demand).on_lattice(1.0, 5)
    return inventory.task(), inventory.state(3.0, (2.0,) * lead_time), trace


def measure(repeats: int = 30) -> list[dict[str, float]]:
    rows = []
    for lead_time, merged in itertools.product(TARGETS_MS, (True, False)):
        task, state, trace = instance(lead_time, merged)
        policy = uc.Exact(depth=STEPS, mode="closed", node_budget=50_000_000)
        plan = uc.search(task, state, trace, policy, engine="compiled")
        best = np.inf
        for _ in range(repeats):
            begin = time.perf_counter()
            uc.search(task, state, trace, policy, engine="compiled")
            best = min(best, time.perf_counter() - begin)
        begin = time.perf_counter()
        plain = uc.search(task, state, trace, policy, engine="python")
        slow = time.perf_counter() - begin
        if plain.outputs.table.tobytes() != plan.outputs.table.tobytes():
            raise SystemExit(f"lead time {lead_time}: the engines differ")
        rows.append({
            "lead_time": lead_time, "merged": merged, "states": plan.reached, "transitions": plan.expansions,
            "ms": best * 1e3, "ns": best * 1e9 / plan.expansions, "target_ms": TARGETS_MS[lead_time],
            "plain_us": slow * 1e6 / plan.expansions,
        })  # fmt: skip
    return rows


def main() -> None:
    print("lead time  merged   states  transitions  ms/decision  (trial)  ns/transition  plain us/transition")
    for row in measure():
        print(
            f"{row['lead_time']:9.0f} {'yes' if row['merged'] else 'no':>7} {row['states']:8.0f} "
            f"{row['transitions']:12.0f} {row['ms']:12.2f} "
            f"{row['target_ms']:8.1f} {row['ns']:14.1f} {row['plain_us']:20.1f}"
        )


if __name__ == "__main__":
    main()
