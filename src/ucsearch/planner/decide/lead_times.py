"""How series with long lead times are planned where the settings ask for closed loop.

A state holds an order for every period of the lead time, so the states of a closed loop grow with a power of the order
sizes: at lead time 4 a plan of eight periods is beyond five million transitions. Then every order that could be placed
now is followed by order cycles (a batch whenever a level is reached, or none at all, the best of ten) over whole
members, to the end of the forecast; the best of these is proved by trying all.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ucsearch.planner.settings import Settings
from ucsearch.policies import Exact, Policy

__all__ = [
    "LONGEST_CLOSED", "as_planned", "is_followed", "needs_cycles", "planned_policy", "steps_needed", "steps_wanted",
    "with_cycles",
]  # fmt: skip

LONGEST_CLOSED = 2  # periods of lead time
_CYCLE_STEPS = 14  # periods after the first arrival over which order cycles are compared
_FINER = 4  # times as many order sizes as `lots`: here they cost their number, not a power of it


def as_planned(config: Any, settings: Settings) -> Any:
    """The task's parameters as they are planned with."""
    return with_cycles(config, settings.actions.lots) if _is_too_long(config, settings) else config


def with_cycles(config: Any, lots: int) -> Any:
    """Followed by order cycles, with more sizes: they are only counted here, each series has its own."""
    sizes = tuple(float(i) for i in range(_FINER * lots + 1))
    return dataclasses.replace(config, order_cycles=True, order_sizes=sizes)


def is_followed(config: Any) -> bool:
    """Whether orders are followed by order cycles."""
    return bool(getattr(config, "order_cycles", False))


def planned_policy(config: Any, settings: Settings) -> Policy:
    """The settings' policy, or the one for long lead times."""
    if not (_is_too_long(config, settings) and is_followed(config)):
        return settings.policy
    return dataclasses.replace(settings.policy, mode="members", depth=1)


def steps_needed(config: Any, settings: Settings) -> int:
    """Steps of a forecast without which an order has no use in the plan."""
    return max(settings.policy.depth, int(getattr(config, "lead_time", 0)) + 1)


def steps_wanted(config: Any, settings: Settings) -> int:
    """Steps that a forecast of ours has."""
    if _is_too_long(config, settings):
        return max(settings.policy.depth, int(config.lead_time) + _CYCLE_STEPS)
    return steps_needed(config, settings)


def needs_cycles(config: Any, policy: Policy) -> bool:
    """Whether closed loop with fitted order sizes has too many states."""
    if policy.mode != "closed" or not isinstance(policy, Exact):
        return False
    if getattr(config, "is_planned", False) or getattr(config, "base_stock_levels", ()):
        return False
    return hasattr(config, "order_cycles") and int(config.lead_time) > LONGEST_CLOSED


def _is_too_long(config: Any, settings: Settings) -> bool:
    return settings.actions.lots > 0 and needs_cycles(config, settings.policy)
