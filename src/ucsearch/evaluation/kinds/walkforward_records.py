"""Decisions of a walk that are exported for the verifier, and the credits a no-go audit looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.panel import Panel
from ucsearch.dispatch.decision import DecisionPanel
from ucsearch.evaluation.samples import chained, entry

__all__ = ["Samples", "credits_of"]

Floats = NDArray[np.float64]


class Samples:
    """A few decisions, spread over windows and time, as lines of an exported log."""

    def __init__(self, panel: Panel, where: str, count: int) -> None:
        self.panel, self.where = panel, where
        picked = np.linspace(0, len(panel) - 1, min(count, len(panel))).astype(int)
        steps = np.linspace(0, panel.decisions - 1, max(1, len(picked))).astype(int)
        self.wanted: dict[int, list[int]] = {}
        for n, t in zip(picked.tolist(), steps.tolist(), strict=False):
            self.wanted.setdefault(t, []).append(n)
        self.entries: list[dict[str, Any]] = []

    def keep(self, t: int, decided: DecisionPanel) -> None:
        for n in self.wanted.get(t, []):
            one = self.panel.stretches[n]
            self.entries.append(entry(f"{one.family}/{one.series}", decided[n], self.where))

    def lines(self) -> list[dict[str, Any]]:
        return chained(self.entries)


def credits_of(decided: DecisionPanel) -> dict[str, Floats]:
    """(N,) best delayed credit and best risk reduction of any first action over the reward-only one, both counted only
    where the action also gains in score; 0 where there is none."""
    certified = decided.certified
    evidence, plan = certified.evidence, certified.plan
    table = plan.outputs.table
    risk = plan.settings.risk
    rows = np.arange(len(plan))
    first = np.nan_to_num(np.where(evidence.actions, evidence.reward_lower, -np.inf), nan=-np.inf).argmax(axis=1)
    steps = table[:, :, 4] - risk * table[:, :, 5]

    def over(values: Floats) -> Floats:
        return np.asarray(values - values[rows, first][:, None])

    gain = over(evidence.lower)
    credit = gain - over(steps)
    relief = -risk * over(evidence.lower_uncertainty)
    tau = certified.claims.tau[:, None]
    usable = evidence.actions & (gain > tau)
    best = {}
    for name, values in (("delayed_credit", credit), ("risk_reduction", relief)):
        good = np.where(usable & (values > tau), values, 0.0)
        best[name] = np.nan_to_num(good).max(axis=1)
    return best
