"""Notes about an order that leaves: what it orders, and what was at the edge of what was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.policies import Policy
from ucsearch.tasks.base import Purchase, Sent
from ucsearch.tasks.inventory import rules

__all__ = ["advice_on", "notes_of"]

OUTLASTS = "a larger depth might order less or more"  # how the note of an order ends whose later use was not counted
COARSE = "sizes are offered in steps far wider than demand varies"
_WIDE = 4.0  # standard deviations of demand over the lead time and a period


def notes_of(sent: Sent, bought: Sequence[Purchase], terminal: Any, units: str) -> list[str]:
    """Units that a level or a rounded size orders (`bought`); the largest size offered, or an order that lasts past the
    periods planned; sizes too far apart. `terminal` is what values stock at the end."""
    order = sum(one.units for one in bought)
    notes = [f"orders {order:g} {units}"] if len(bought) == 1 and order != sent.action else []
    offered = np.array(sent.offered).reshape(len(sent.offered), -1)  # (m, suppliers)
    if sent.released and order > 0.0:
        largest = (np.array(sent.action) == offered.max(axis=0)).ravel() & (offered.max(axis=0) > 0.0)
        names = [
            f" from {one.supplier}" if one.supplier else "" for one, top in zip(bought, largest, strict=True) if top
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
