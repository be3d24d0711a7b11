"""Decisions of a walk that are exported for the verifier, and the credits a no-go audit looks at."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.dispatch.decision import DecisionPanel
from ucsearch.evaluation.walk import Panel
from ucsearch.records.canonical import canonical
from ucsearch.records.chain import GENESIS, entry_digest, next_head
from ucsearch.records.decisions import decision_record

__all__ = ["Samples", "chained", "credits_of"]

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
            record, blobs = decision_record(decided[n], series=f"{one.family}/{one.series}", where=self.where)
            self.entries.append(
                {"record": record, "blobs": {k: b64encode(v).decode("ascii") for k, v in blobs.items()}}
            )

    def lines(self) -> list[dict[str, Any]]:
        return chained(self.entries)


def chained(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries as lines of an exported log, chained from its beginning; no clock."""
    lines, head = [], GENESIS
    for seq, one in enumerate(entries, start=1):
        digest = entry_digest(canonical(one["record"]))
        head = next_head(head, seq, digest, None)
        lines.append({**one, "digest": digest, "head": head, "seq": seq, "written_at": None})
    return lines


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
