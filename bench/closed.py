"""Closed mode: milliseconds a decision and nanoseconds a transition at lead times 1, 2 and 3; plain Python beside it;
and milliseconds a decision with a calendar, a shelf life, two suppliers, an uncertain lead time.

`merged`: what arrives next is counted as stock at once, as `LeadTimeInventory.lattice` makes it; the other rows keep it
apart, so that more states are valued for the same answer.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
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


def switched() -> dict[str, tuple[LeadTimeInventory, int]]:
    """Inventories with a switch on, and the periods that they are planned ahead; the first is what they are compared
    with."""
    sizes = tuple(2.0 * k for k in range(9))
    days: dict[str, Any] = {"order_days": ("tue", "fri"), "delivery_days": ("tue", "fri"), "calendar_period": "day"}
    limits: dict[str, Any] = {"fixed_cost": 4.0, "capacity": 40.0}
    pair: dict[str, Any] = {"order_sizes": sizes[:5], "expedited_sizes": sizes[:5]}
    costs: dict[str, Any] = {"unit_cost": 2.0, "expedited_unit_cost": 3.0}
    return {
        "lead time 2, 9 sizes": (LeadTimeInventory(lead_time=2, order_sizes=sizes, merge_arrivals=True, **limits), 8),
        "the same, order and delivery days": (
            LeadTimeInventory(lead_time=2, order_sizes=sizes, first_day="2024-05-21", **days, **limits), 12
        ),
        "shelf life 3, lead time 1, 12 levels": (
            LeadTimeInventory(lead_time=1, shelf_life=3, order_sizes=range(12), fixed_cost=4.0), 8
        ),
        "two suppliers, lead times 3 and 1, 5 sizes each": (
            LeadTimeInventory(lead_time=3, expedited_lead_time=1, **pair, **costs), 8
        ),
        "uncertain lead time of 2 or 3, 9 sizes": (
            LeadTimeInventory(lead_times={2: 0.7, 3: 0.3}, order_sizes=sizes, **limits), 8
        ),
    }  # fmt: skip


def measure_switched(repeats: int = 5) -> Iterator[tuple[str, float, uc.Plan]]:
    """Milliseconds a decision with each switch, 9 points of demand a period."""
    demand = np.random.default_rng(1).poisson(2.0, (40, 14)).astype(float)
    for name, (inventory, steps) in switched().items():
        trace = inventory.with_draws(uc.Trace.from_members(demand[:, :steps]).on_lattice(1.0, 9))
        state = inventory.state(3.0, ages=[1.0, 2.0]) if inventory.ages else inventory.state(3.0)
        policy = uc.Exact(depth=steps, mode="closed", node_budget=50_000_000)
        plan = uc.search(inventory.task(), state, trace, policy, engine="compiled")
        best = np.inf
        for _ in range(repeats):
            begin = time.perf_counter()
            uc.search(inventory.task(), state, trace, policy, engine="compiled")
            best = min(best, time.perf_counter() - begin)
        yield name, best * 1e3, plan


def rows() -> list[Row]:
    """Two rows for each lead time, and one for each switch."""
    out = []
    for m in measure():
        kept = "merged" if m["merged"] else "apart"
        counted = f"{m['states']:,.0f} states, {m['ns']:.1f} ns a transition, {m['plain_us']:.1f} us in plain Python"
        promised = ("<=", 2.0 * m["target_ms"]) if m["merged"] else None
        out.append(Row("closed loop", f"lead time {m['lead_time']:.0f}, arrivals {kept}", m["ms"], "ms a decision",
                       promised, counted))  # fmt: skip
    for name, ms, plan in measure_switched():
        counted = f"{plan.reached:,} states, {plan.expansions:,} transitions"
        out.append(Row("closed loop", name, ms, "ms a decision", ("<=", 200.0), counted))
    return out
