"""Orders offered in steps that are far wider than demand varies: then rounding, not safety, decides what is held.

Sizes on a lattice (`lots`) let closed loop see few states, some five steps to a period's demand. Where demand is known
to a percent, a step costs more than all the uncertainty that is planned for.
"""

from __future__ import annotations

import numpy as np

from ucsearch.dispatch.decision import Decision
from ucsearch.pipeline.grids import ORDERING_TASK
from ucsearch.policies import MODES

__all__ = ["COARSE", "coarse_note"]

COARSE = "sizes are offered in steps far wider than demand varies"
_WIDE = 4.0  # standard deviations of demand over the lead time and a period


def coarse_note(decision: Decision) -> str:
    """What a planner should know of sizes that cannot fit; nothing where packs make the steps."""
    c = decision.certificate
    if c is None or c.plan.task.name != ORDERING_TASK or c.plan.settings.mode != MODES["closed"]:
        return ""
    plan = c.plan
    offered = np.sort([a for a in plan.actions if a == a])
    layout = plan.task.params_layout
    if offered.size < 3 or layout is None:
        return ""
    p = layout.build(plan.inputs.params[plan.window if len(plan.inputs.params) > 1 else 0].tolist())
    step = float(np.diff(offered[1:]).min())
    lead = int(getattr(p, "lead_time", 0.0))
    members = np.maximum(plan.trace.members[0, :, : lead + 1, 0], 0.0)
    spread = float(members.sum(axis=1).std())
    if not step > _WIDE * spread > 0.0 or p.case_pack >= step or step <= 1.0:
        return ""
    return f"{COARSE} ({step:g} against {spread:.3g})"
