"""Inventories in words: what is in stock and when orders arrive, and notes about an order that leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.formatting import figure
from ucsearch.policies import Policy
from ucsearch.tasks.base import Purchase, Sent
from ucsearch.tasks.inventory import rules, supplier_rules
from ucsearch.tasks.inventory.calendar import Calendar
from ucsearch.tasks.inventory.lead_times import Shares, arrivals

__all__ = ["advice_on", "general_situation", "notes_of", "purchases"]

OUTLASTS = "a larger depth might order less or more"  # how the note of an order ends whose later use was not counted
COARSE = "sizes are offered in steps far wider than demand varies"
_WIDE = 4.0  # standard deviations of demand over the lead time and a period


def general_situation(s: Any, p: Any, units: str, suppliers: Sequence[str], shares: Shares) -> str:
    """Stock by age, open orders and when an order of today arrives, in words; `shares` are those of an uncertain lead
    time."""
    text = f"In stock: {figure(s.on_hand)} {units}"
    if p.life > 1.0 and any(s.ages):
        ages = ", ".join(f"{figure(x)} with {i + 1} to go" for i, x in enumerate(s.ages) if x)
        text += f" (periods left to sell: {ages})"
    place = int(s.clock)
    calendar = Calendar(p.open, p.due, p.slot, p.span)
    if shares:
        orders = ", ".join(_ordered_words(shares, p, place, k + 1, x) for k, x in enumerate(s.pipeline) if x)
    else:
        due = [(calendar.delivery(place, k), x) for k, x in enumerate(s.pipeline) if x]
        orders = ", ".join(f"{figure(x)} {_when(periods)}" for periods, x in due)
    text += f"; on order: {orders}" if orders else "; nothing on order"
    if not p.open[place]:
        ahead = next(k for k in range(1, 400) if p.open[(place + k) % len(p.open)])
        return f"{text}. No order day; the next is {_when(ahead)}"
    if shares:
        orders = ", ".join(f"{_when(k)} ({100 * share:.3g} %)" for k, share in arrivals(shares, p.due, place))
        return f"{text}. An order arrives {orders}"
    if not suppliers:
        return f"{text}. An order arrives {_when(calendar.arrival(place))}"
    slow, fast = _when(calendar.arrival(place)), _when(calendar.delivery(place, int(p.fast_slot[place])))
    return f"{text}. An order from {suppliers[0]} arrives {slow}, one from {suppliers[1]} {fast}"


def _ordered_words(shares: Shares, p: Any, place: int, age: int, units: float) -> str:
    """An open order whose lead time is uncertain."""
    ahead = [k for k, _ in arrivals(shares, p.due, place, age)]
    since = "one period ago" if age == 1 else f"{age} periods ago"
    until = _when(ahead[0]) if len(ahead) == 1 else f"in {ahead[0]} to {ahead[-1]} periods"
    return f"{figure(units)} ordered {since} (arrives {until})"


def purchases(s: Any, a: Any, p: Any, suppliers: Sequence[str], shares: Shares) -> tuple[Purchase, ...]:
    """What is ordered from each supplier, and when it arrives by the calendar."""
    place = int(s.clock)
    calendar = Calendar(p.open, p.due, p.slot, p.span)
    if shares:
        ahead = [k for k, _ in arrivals(shares, p.due, place)]
        return (Purchase("", float(rules.ordered(s, a, p)), ahead[0], ahead[-1]),)
    if not suppliers:
        return (Purchase("", float(rules.ordered(s, a, p)), calendar.arrival(place)),)
    slow, fast = supplier_rules.regular_of(a, p), supplier_rules.expedited_of(a, p)
    when = calendar.arrival(place), calendar.delivery(place, int(p.fast_slot[place]))
    return tuple(Purchase(*one) for one in zip(suppliers, (slow, fast), when, strict=True))


def _when(periods: int) -> str:
    return "at once" if periods == 0 else "in the next period" if periods == 1 else f"in {periods} periods"


def notes_of(sent: Sent, bought: Sequence[Purchase], terminal: Any, units: str) -> list[str]:
    """Units that a level or a rounded size orders (`bought`); the largest size offered, or an order that lasts past the
    periods planned; sizes too far apart. `terminal` is what values stock at the end."""
    order = sum(purchase.units for purchase in bought)
    notes = [f"orders {order:g} {units}"] if len(bought) == 1 and order != sent.action else []
    offered = np.array(sent.offered).reshape(len(sent.offered), -1)  # (m, suppliers)
    if sent.released and order > 0.0:
        largest = (np.array(sent.action) == offered.max(axis=0)).ravel() & (offered.max(axis=0) > 0.0)
        names = [
            f" from {purchase.supplier}" if purchase.supplier else ""
            for purchase, top in zip(bought, largest, strict=True)
            if top
        ]
        if len(offered) > 1:
            notes += [f"the largest size offered{name}: larger ones were not tried" for name in names]
        if rules.position_of(sent.state) + order > sent.expected:
            notes.append(_outlasts(sent.planned, terminal))
    if coarse := _coarse(sent, np.unique(offered[:, 0])):
        notes.append(coarse)
    return notes


def advice_on(policy: Policy) -> dict[str, str]:
    """What could be changed where decisions have one of these notes."""
    return {
        OUTLASTS: f"{{count}} orders last past the {policy.depth} periods planned; a larger [policy] depth, or "
        "[task] end_stock = 'cycle', might save money",
        COARSE: f"{{count}} series: {COARSE}; settings of their own with [task] orders = 'level', [actions] multiples "
        "= [-1, 0, 1, 2, 3] for lots, and [policy] mode = 'members', depth = 3 would fit them",
    }


def _outlasts(planned: int, terminal: Any) -> str:
    text = f"lasts past the {planned} periods planned"
    if terminal is rules.terminal_cycle:
        return f"{text}; stock left then is valued by the order that it postpones"
    return f"{text}: {OUTLASTS}"


def _coarse(sent: Sent, offered: NDArray[np.float64]) -> str:
    """Of closed-loop sizes (ascending) that cannot fit; nothing where packs make the steps."""
    if sent.members is None or offered.size < 3:
        return ""
    step, lead = float(np.diff(offered[1:]).min()), int(sent.params.lead_time)
    spread = float(np.maximum(sent.members[:, : lead + 1], 0.0).sum(axis=1).std())
    if not step > _WIDE * spread > 0.0 or sent.params.case_pack >= step or step <= 1.0:
        return ""
    return f"{COARSE} ({step:g} against {spread:.3g})"
