"""What is proved about the decisions of a walk, and a few of them as exported records for the verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.api import decide_panel
from ucsearch.decision.decision import DecisionPanel
from ucsearch.policies import Policy, Proof, Run
from ucsearch.tasks.direction import Direction
from ucsearch.trace import Trace

__all__ = ["TASK", "WHERE", "certificate", "certified_walk"]

Floats = NDArray[np.float64]

TASK = Direction().task()
"""Older records name their task by this module; costs travel in the records."""

WHERE = Direction().address()

_COUNTS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "search_active", "uncertainty_active",
    "optimal", "unique",
)  # fmt: skip
_MEANS = ("margin", "gap", "eps_a", "proxy_slack")


def certified_walk(
    config: Direction, members: Floats, taken: Floats, policy: Policy, *, model: str, threads: int | None = None
) -> DecisionPanel:
    """The decisions of a walk that took the actions `taken` (T,), with their certificates. Members: (T, J, H)."""
    held = np.concatenate([[0.0], taken[:-1]]) if config.charge == "change" else np.zeros(len(taken))
    states = [config.state(float(x)) for x in held]
    return decide_panel(
        config.task(),
        states,
        Trace.from_members(members, model=model),
        policy,
        proof=Proof(kind="oracle"),
        run=Run(threads=threads),
    )


def certificate(panel: DecisionPanel) -> dict[str, Any]:
    """The certificate tuple of a window's row: counts of decisions, and means over those where a figure is defined."""
    claims = panel.certified.claims
    out: dict[str, Any] = {"decisions": len(panel)}
    out |= {name: int(getattr(claims, name).sum()) for name in _COUNTS}
    out["released"] = int((panel.outcome == "RELEASED").sum())
    for name in _MEANS:
        values = getattr(claims, name)
        known = values[np.isfinite(values)]
        out[name] = float(known.mean()) if known.size else None
    worst = claims.regret_bound.max()
    out["regret_bound"] = float(worst) if np.isfinite(worst) else None
    return out
