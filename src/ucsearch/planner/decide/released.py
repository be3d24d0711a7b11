"""What decisions.csv says of released decisions, from a panel's arrays: no decision, certificate or rival is made.

`Rows.decided` says what a row is. Here the same is put together for the plain case (released with a certificate, no
planning-value route, not closed); everything else takes the long way, and so does a panel whose first such row differs
from it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ucsearch.decision.decision import DecisionPanel, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.decision.words import STRONGEST, at_most, best_words, scores, sole_words
from ucsearch.engine.arrays import First
from ucsearch.layout import own_row
from ucsearch.planner.decide.rows import Rows, next_orders
from ucsearch.tasks.base import Sent, config_of, quantities

__all__ = ["panel_rows"]


def panel_rows(make: Rows, panel: DecisionPanel, names: list[str], ids: list[str]) -> list[list[Any]]:
    """One row for each window."""
    quick = _Released(panel, make.files.settings.units, make.files.settings.currency)
    out: list[list[Any]] = []
    compared = False
    for w, (name, id) in enumerate(zip(names, ids, strict=True)):
        if not quick.plain[w]:
            out.append(make.decided(name, panel[w], id))
            continue
        row = make.told(name, Outcome.RELEASED.value, id, quick.given(w))
        if not compared:
            compared = True
            if row != make.decided(name, panel[w], id):
                return [*out, *(make.decided(n, panel[i], ids[i]) for i, n in enumerate(names) if i >= w)]
        out.append(row)
    return out


class _Released:
    """Arrays as lists, once for a panel."""

    def __init__(self, panel: DecisionPanel, units: str, money: str) -> None:
        certified = panel.certified
        plan, e, claims = certified.plan, certified.evidence, certified.claims
        self.task, self.units, self.layout, self.steps = plan.task, units, plan.layout, plan.settings.reach
        self.money, self.risk = money, plan.settings.risk
        count = len(panel)
        index = np.maximum(certified.released, 0)
        rows = np.arange(count)
        rivals = e.actions.copy()
        rivals[rows, index] = False
        upper = np.where(rivals, np.where(np.isnan(e.upper), np.inf, e.upper), -np.inf)
        strongest = np.argmax(upper, axis=1)
        known = rivals[rows, strongest]
        simple = certified.route is None and plan.policy.mode != "closed"
        plain = (panel.outcome == Outcome.RELEASED.value) & claims.passed & simple & e.actions[rows, index]
        plain &= not plan.task.width
        self.plain = (plain & (claims.sole | known) & np.isfinite(e.lower[rows, index])).tolist()
        self.index, self.rival = index.tolist(), strongest.tolist()
        self.score = e.lower[rows, index].tolist()
        self.upper = e.upper[rows, strongest].tolist()
        self.sole, self.risky = claims.sole.tolist(), claims.risk_active.tolist()
        self.margin = np.where(claims.sole, np.inf, claims.gap).tolist()
        self.regret = claims.regret_bound.tolist()
        self.blocked = ((plan.outputs.flags & First.FEASIBLE) == 0).sum(axis=1).tolist()
        grid = np.broadcast_to(plan.inputs.actions, (count, plan.inputs.actions.shape[1]))
        self.actions = grid.tolist()
        self.packs, self.mode = _packs(plan, count), plan.policy.mode
        self.paths = certified.paths[rows, index].tolist()
        self.planned = min(self.steps, plan.trace.horizon)
        self.expected = np.maximum(plan.trace.mean[:, : self.planned, 0], 0.0).sum(axis=1).tolist()
        self.scores = plan.trace.is_scores
        self.config = config_of(self.task)
        self.states, self.mean = plan.inputs.states.tolist(), plan.trace.mean.tolist()
        layout, rows = self.task.params_layout, plan.inputs.params.tolist()
        self.params = [None if layout is None else layout.build(row) for row in rows]

    def given(self, w: int) -> dict[str, Any]:
        action, score = self.actions[w][self.index[w]], self.score[w]
        state, p = self.layout.build(self.states[w]), own_row(self.params, w)
        plan = self._along(w, state, p)
        return {
            "action": action,
            "purchases": self.config.purchases(state, action, p),
            "reason": Reason.NONE.value,
            "margin": self.margin[w],
            "regret_bound": self.regret[w],
            "expected_cost": -score,
            "fallback_cost": None,
            "next_orders": next_orders(plan, self.task.judged(self.steps)),
            "sentence": self._sentence(w, action, score),
            "note": "; ".join(self.config.notes(self._sent(w, action, state, p), self.units)),
        }

    def _along(self, w: int, state: Any, p: Any) -> tuple[float, ...]:
        """Units that the actions of the plan stand for."""
        plan, kind = [self.actions[w][i] for i in self.paths[w]], self.task.outcome
        if self.scores:
            return tuple(plan)
        outcomes = [y[0] if kind is None else kind(*y) for y in self.mean[w][: len(plan)]]
        return quantities(self.task, state, plan, outcomes, p)

    def _sent(self, w: int, action: float, state: Any, p: Any) -> Sent:
        offered = [a for a in self.actions[w] if a == a]
        return Sent(action, state, p, offered, math.nan if self.scores else self.expected[w], self.planned, True)

    def _sentence(self, w: int, action: float, score: float) -> str:
        label = self.task.label
        text = f"{label(self.index[w], action)} is released: it {scores(score, self.money, self.risk)} over "
        text += f"{self.steps} steps"
        offered = self.task.offered(self.actions[w], self.packs[w])
        if self.sole[w]:
            return f"{text}, and {sole_words(offered)}."
        other = self.rival[w]
        text += f"; {label(other, self.actions[w][other])}, {STRONGEST}, {at_most(self.upper[w], self.money)}"
        text += f". It is {best_words(offered, self.mode)}"
        if self.risky[w]:
            text += ". Uncertainty decided it: every reward-only choice is worse at this risk setting"
        empty = sum(a != a for a in self.actions[w])  # places of the grid that hold no action
        if self.blocked[w] > empty:
            text += f". {self.blocked[w] - empty} of {len(self.actions[w]) - empty} actions are not allowed now"
        return text + "."


def _packs(plan: Any, count: int) -> list[float]:
    """Units of a whole pack for each window; 0 where there are none."""
    task, layout = plan.task, plan.task.params_layout
    if layout is None or not task.pack:
        return [0.0] * count
    own = getattr(layout.columns(plan.inputs.params), task.pack)
    return [float(x) for x in np.broadcast_to(own, (count,))]
