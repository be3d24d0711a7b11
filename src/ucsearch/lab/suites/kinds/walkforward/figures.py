"""What a walk comes to, window by window: its metrics, and the certificate tuple of its decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ucsearch.replay.metrics import cvar20, max_drawdown, utility
from ucsearch.replay.walk import Walk

__all__ = ["Figures", "certificates_of", "figures_of", "spread"]

Figures = list[dict[str, Any]]  # one per window
_COUNTS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "released", "search_active",
    "uncertainty_active", "optimal", "unique", "robust",
)  # fmt: skip
_MEANS = ("margin", "gap", "eps_a", "proxy_slack")


def spread(figures: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """Figures at their places among `count` windows; None elsewhere."""
    out: list[Any] = [None] * count
    for place, one in zip(places, figures, strict=True):
        out[place] = one
    return out


def figures_of(w: Walk, best: Walk, weights: dict[str, float], form: str) -> Figures:
    """The metrics of every window."""
    out = []
    for i in range(len(w.rewards)):
        reward = math.fsum(w.rewards[i])
        figures: dict[str, Any] = {
            "reward": reward, "regret": math.fsum(best.rewards[i]) - reward, "drawdown": max_drawdown(w.rewards[i]),
            "cvar20": cvar20(w.rewards[i]), "violations": int(w.violations[i]), "expansions": int(w.expansions[i]),
            "oracle_nodes": int(w.oracle_nodes[i]), "activity_nodes": int(w.activity_nodes[i]),
        }  # fmt: skip
        if form == "cost":
            figures["cost"] = -reward
        figures |= {name: float(values[i]) for name, values in w.figures.items()}
        figures["utility"] = utility(figures, weights)
        out.append(figures)
    return out


def certificates_of(w: Walk) -> list[dict[str, Any]]:
    """The certificate tuple of every window: counts of decisions, means where a figure is defined, the worst bound."""
    out = []
    for i in range(len(w.rewards)):
        one: dict[str, Any] = {"decisions": w.rewards.shape[1]}
        one |= {name: int(w.certificate[name][i].sum()) for name in _COUNTS}
        for name in _MEANS:
            known = w.certificate[name][i][np.isfinite(w.certificate[name][i])]
            one[name] = float(known.mean()) if known.size else None
        worst = float(w.certificate["regret_bound"][i].max())
        one["regret_bound"] = worst if math.isfinite(worst) else None
        out.append(one)
    return out
