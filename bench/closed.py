"""Closed mode: milliseconds a decision and nanoseconds a transition at lead times 1, 2 and 3; plain Python beside it.

`merged`: what arrives next is counted as stock at once, as `LeadTimeInventory.lattice` makes it; the other rows keep it
apart, so that more states are valued for the same answer.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np

import ucsearch as uc
from bench.table import Row
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


def rows() -> list[Row]:
    """Two rows for each lead time."""
    out = []
    for m in measure():
        kept = "merged" if m["merged"] else "apart"
        counted = f"{m['states']:,.0f} states, {m['ns']:.1f} ns a transition, {m['plain_us']:.1f} us in plain Python"
        promised = ("<=", 2.0 * m["target_ms"]) if m["merged"] else None
        out.append(Row("closed loop", f"lead time {m['lead_time']:.0f}, arrivals {kept}", m["ms"], "ms a decision",
                       promised, counted))  # fmt: skip
    return out
