"""Ways to plan an inventory: closed loop, order cycles for long lead times, and the ways that `ucsearch tune` tries.

A closed-loop state holds an order for every period of the lead time, so the number of states grows with a power of the
order sizes: at lead time 4 a plan of eight periods is beyond five million transitions. For longer lead times every
order that could be placed now is followed by order cycles (a batch whenever a level is reached, or none at all, the
best of ten) over whole sample paths, to the end of the forecast; the best of these is proved by trying all.
"""

from __future__ import annotations

import dataclasses
import tomllib
from typing import Any

from ucsearch.policies import Exact, Policy
from ucsearch.tasks.base import Changes

__all__ = ["CYCLE_STEPS", "needs_cycles", "refined_plans", "ways_to_plan", "with_cycles"]

_LOTS = 8  # order sizes of a closed-loop candidate
_CLOSED_NODES = 5_000_000
_CLOSED_STEPS = 6  # past the lead time that it looks at least
_FIXED_STEPS = 4  # past the lead time that a fixed plan looks at most, so that it can be proved
_FIXED_NODES = 20_000
LONGEST_CLOSED = 2  # periods of lead time
CYCLE_STEPS = 14  # periods after the first arrival over which order cycles are compared
_FINER = 4  # times as many order sizes as `lots`: here they cost their number, not a power of it


def needs_cycles(config: Any, policy: Policy) -> bool:
    """Whether closed loop with fitted order sizes has too many states."""
    if policy.mode != "closed" or not isinstance(policy, Exact) or getattr(config, "is_general", False):
        return False
    if getattr(config, "is_planned", False) or getattr(config, "base_stock_levels", ()):
        return False
    return hasattr(config, "order_cycles") and int(config.lead_time) > LONGEST_CLOSED


def with_cycles(config: Any, lots: int) -> Any:
    """Followed by order cycles, with more sizes: they are only counted here, each series has its own."""
    sizes = tuple(float(i) for i in range(_FINER * lots + 1))
    return dataclasses.replace(config, order_cycles=True, order_sizes=sizes)


def ways_to_plan(settings: Any) -> list[tuple[str, Changes]]:
    """Other ways to plan than the settings say; with a target none, because its penalties belong to one way."""
    if settings.task.target is not None:
        return []
    policy_table = tomllib.loads(settings.text)["policy"]
    lead, depth = int(settings.task.lead_time), settings.policy.depth
    nodes = max(settings.proof.node_budget, _CLOSED_NODES)
    sizes = settings.actions
    scaled = sizes.multiples is not None or sizes.lots > 0
    lots = {"lots": sizes.lots or _LOTS, "multiples": None, "periods": None, "batch": None} if scaled else {}
    no_more = dict.fromkeys(policy_table)
    exact = {**no_more, "name": "exact", "depth": max(depth, lead + _CLOSED_STEPS)}

    def planned(mode: str, **more: Any) -> Changes:
        """A fixed plan that can be proved best."""
        policy = {**no_more, "name": "exact", "mode": mode, "depth": min(depth, lead + _FIXED_STEPS)}
        return {"policy": {**policy, **more}, "proof": {"node_budget": _FIXED_NODES}}

    closed: Changes = {"policy": {**exact, "mode": "closed"}, "actions": lots, "proof": {"node_budget": nodes}}
    plans: list[tuple[str, Changes]] = [
        ("closed loop", closed),
        ("members, risk 0", planned("members", risk=0.0)),
        # Fixed plans over members take long to prove with a risk; closed loop has one for nothing.
        ("closed loop, risk 0.2", {**closed, "policy": {**closed["policy"], "risk": 0.2}}),
        ("mean, risk 0.5", planned("mean", risk=0.5)),
        ("mean, risk 1", planned("mean", risk=1.0)),
    ]
    return [(label, changes) for label, changes in plans if not _says(settings, policy_table["name"], changes)]


def _says(settings: Any, name: str, changes: Changes) -> bool:
    """Whether the settings say so already, and a try would be spent on nothing."""
    policy, in_force = changes["policy"], settings.policy
    same = (
        in_force.mode == policy["mode"]
        and in_force.risk == policy.get("risk", 0.0)
        and in_force.depth == policy["depth"]
    )
    return bool(same and in_force.spread is None and name == policy["name"])


def refined_plans(settings: Any) -> list[tuple[str, Changes]]:
    """Around the best way to plan: depth, order sizes, recalibration, risk."""
    if settings.task.target is not None:
        return []
    task, policy, sizes = settings.task, settings.policy, settings.actions
    lead, depth, seasonal = int(task.lead_time), policy.depth, settings.season > 1
    plans: list[tuple[str, Changes]] = []
    if seasonal:
        plans.append(("recalibrated", {"forecast": {"recalibrate": "rolling"}}))
    if depth > lead + 2:
        shorter = max(lead + 1, depth - 3)
        plans.append((f"depth {shorter}", {"policy": {"depth": shorter}}))
    plans.append((f"depth {depth + 2}", {"policy": {"depth": depth + 2}}))
    if sizes.lots > 0:
        # With open orders of several periods states grow with a power of the sizes; beyond that there are no states.
        followed = needs_cycles(task, policy)
        other = max(3, sizes.lots - 3) if lead > 1 and not followed else sizes.lots + 4
        plans.append((f"lots = {other}" if followed else f"{other} order sizes", {"actions": {"lots": other}}))
    elif sizes.multiples is not None and not sizes.batch:
        plans.append(("larger orders", {"actions": {"periods": [2, 4, 7], "batch": True}}))
    if seasonal:
        plans.append(("recalibrated by bias", {"forecast": {"recalibrate": "rolling", "scale": False}}))
        plans.append(("error paths", {"forecast": {"recalibrate": "paths"}}))
    if policy.mode != "members":
        risk = 0.1 if policy.risk == 0.0 else round(0.5 * policy.risk, 4)
        plans.append((f"risk {risk:g}", {"policy": {"risk": risk}}))
    return plans
