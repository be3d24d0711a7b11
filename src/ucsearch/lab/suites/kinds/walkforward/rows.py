"""Rows of a walk-forward suite: metrics of a walk by window, certificates, calibration, and records of decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import DecisionPanel
from ucsearch.engine.arrays import Col
from ucsearch.lab.suites.evidence.sample import Drawn, entry
from ucsearch.replay.metrics import cvar20, max_drawdown, utility
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.walk import Walk

__all__ = ["Figures", "Samples", "add_calibration", "add_leads", "calibration", "certificates_of", "credits_of",
           "figures_of", "mean_figures", "of_windows", "spread"]  # fmt: skip

Floats = NDArray[np.float64]
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


def mean_figures(walks: Sequence[Walk], best: Walk, weights: dict[str, float], form: str) -> Figures:
    """Figures of several seeds, averaged window by window."""
    by_seed = [figures_of(w, best, weights, form) for w in walks]
    return [
        {name: math.fsum(f[i][name] for f in by_seed) / len(by_seed) for name in by_seed[0][i]}
        for i in range(len(by_seed[0]))
    ]


def certificates_of(w: Walk) -> list[dict[str, Any]]:
    """The certificate tuple of every window: counts of decisions, means where a figure is defined, the worst bound."""
    out = []
    for i in range(len(w.rewards)):
        counts: dict[str, Any] = {"decisions": w.rewards.shape[1]}
        counts |= {name: int(w.certificate[name][i].sum()) for name in _COUNTS}
        for name in _MEANS:
            finite_values = w.certificate[name][i][np.isfinite(w.certificate[name][i])]
            counts[name] = float(finite_values.mean()) if finite_values.size else None
        worst = float(w.certificate["regret_bound"][i].max())
        counts["regret_bound"] = worst if math.isfinite(worst) else None
        out.append(counts)
    return out


# -------------------------------------------------------------------- descriptions beside the gates


def calibration(panel: Panel, n: int, depth: int, levels: Sequence[float]) -> dict[str, Any]:
    """Outcomes of a window within central intervals, counted over 1 to `depth` steps ahead; of those below the median
    (half, if forecasts are centred); and the mean CRPS, in units of the outcomes."""
    members, actual = panel.members[n, :, :, :depth], panel.future[n, :, :depth]
    counts: dict[str, Any] = {"outcomes": int(actual.size)}
    for level in levels:
        # Weibull's quantiles: with the outcome as one more draw, honest members cover at the nominal level.
        low, high = np.quantile(members, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=1, method="weibull")
        counts[f"inside_{level:g}"] = int(((low <= actual) & (actual <= high)).sum())
    counts["below"] = int((actual < np.median(members, axis=1)).sum())
    ordered = np.sort(members, axis=1)  # (T, J, depth)
    count = ordered.shape[1]
    weights = (2.0 * np.arange(1, count + 1) - count - 1.0)[None, :, None]
    spread = (weights * ordered).sum(axis=1) / count**2  # half the mean distance of two members
    counts["crps"] = float((np.abs(members - actual[:, None]).mean(axis=1) - spread).mean())
    return counts


def add_calibration(figures: Sequence[dict[str, Any]], panel: Panel, depth: int, levels: Sequence[float]) -> None:
    """The judged policy's figures get those of the forecasts it saw; everybody saw the same."""
    for n, one in enumerate(figures):
        one |= calibration(panel, n, depth, levels)


def add_leads(rows: Sequence[dict[str, Any]]) -> None:
    """Every policy of a test row gets `lead`: the chosen policy's utility less its own."""
    for row in rows:
        own = row["policies"]["uc"]["utility"]
        for name, figures in row["policies"].items():
            if name != "uc":
                figures["lead"] = own - figures["utility"]


# -------------------------------------------------------------------- single decisions


class Samples:
    """The drawn decisions of a walk through `stretches`, each window once, as entries of an exported log."""

    def __init__(self, stretches: Sequence[Stretch], where: str, drawn: Sequence[Drawn]) -> None:
        self.where, self.drawn = where, drawn
        self.places = {(s.family, s.series, s.window): n for n, s in enumerate(stretches)}
        self.found: dict[Drawn, dict[str, Any]] = {}

    def keep(self, t: int, decided: DecisionPanel) -> None:
        for one in self.drawn:
            place = self.places.get((one.family, one.series, one.window))
            if one.step == t and place is not None:
                self.found[one] = entry(one.name, decided[place], self.where)

    def entries(self) -> list[dict[str, Any]]:
        """In the order in which they were drawn."""
        return [self.found[one] for one in self.drawn if one in self.found]


def of_windows(stretches: Sequence[Stretch], drawn: Sequence[Drawn]) -> list[Stretch]:
    """The windows that decisions were drawn from."""
    wanted = {(one.family, one.series, one.window) for one in drawn}
    return [s for s in stretches if (s.family, s.series, s.window) in wanted]


def credits_of(decided: DecisionPanel) -> dict[str, Floats]:
    """(N,) best delayed credit and best risk reduction of any first action over the reward-only one, both counted only
    where the action also gains in score; 0 where there is none."""
    certified = decided.certified
    evidence, plan = certified.evidence, certified.plan
    table = plan.outputs.table
    risk = plan.settings.risk
    rows = np.arange(len(plan))
    first = np.nan_to_num(np.where(evidence.actions, evidence.reward_lower, -np.inf), nan=-np.inf).argmax(axis=1)
    steps = table[:, :, Col.STEP_REWARD] - risk * table[:, :, Col.STEP_UNCERTAINTY]

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
