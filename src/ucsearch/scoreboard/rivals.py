"""Who is on the board: the roster of `ucsearch.backtest`, and risk-greedy matched to the beam's exposure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.choosers import Searched
from ucsearch.backtest.panel import Panel
from ucsearch.backtest.roster import NODES, Budget, Entry, roster
from ucsearch.backtest.walk import walk
from ucsearch.comparators import ExposureMatch, RiskGreedy, match_exposure
from ucsearch.effort import Run
from ucsearch.engine.api import search_panel
from ucsearch.policies import Exact, Policy, UCBeam
from ucsearch.trace import Trace

__all__ = ["MATCHED", "hindsight", "matched_risk", "rivals"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MATCHED = "exposure-matched risk-greedy"


def rivals(
    panel: Panel, budget: Budget, *, seeds: int, rng: np.random.Generator, matched: ExposureMatch, how: Run
) -> list[Entry]:
    """All of them, in the order of the table."""
    found = list(roster(panel, budget, seeds=seeds, rng=rng, how=how).values())
    policy = RiskGreedy(depth=budget.depth, risk=matched.risk, mode=budget.mode)
    text = f"risk {matched.risk:g}: exposure {matched.exposure:.3g} for {matched.target:.3g} on earlier windows"
    place = [entry.name for entry in found].index("risk-greedy") + 1
    found.insert(place, Entry(MATCHED, "comparator", lambda: Searched(panel.task, policy, how), text))
    return found


def matched_risk(panel: Panel, budget: Budget, how: Run) -> ExposureMatch:
    """The risk at which risk-greedy is exposed as much as the beam, on windows before those compared."""

    def exposure(policy: Policy) -> float:
        done = walk(panel, Searched(panel.task, policy, how), engine=how.simulator, stuck="keep")
        return float(np.abs(np.nan_to_num(done.actions)).mean())

    common: dict[str, Any] = dict(depth=budget.depth, mode=budget.mode)
    target = exposure(UCBeam(**common, risk=budget.risk, width=budget.width, top_k=budget.top_k))
    highest = 1.0 if budget.mode == "members" else 16.0
    return match_exposure(
        lambda risk: exposure(RiskGreedy(**common, risk=risk)), target, highest=highest, bisections=12
    )


def hindsight(panel: Panel, how: Run) -> tuple[Floats, Bools]:
    """(N,) the best total that any feasible actions could have reached, and whether it is proved to be the best; where
    it is not, the figure is a proved upper bound."""
    trace = Trace.from_members(panel.realised[:, None], model="hindsight")
    policy = Exact(depth=panel.decisions, risk=0.0, node_budget=20 * NODES)
    states = panel.layout.columns(panel.starts)
    plan = search_panel(panel.task, states, trace, policy, threads=how.threads, engine=how.engine)
    plan.raise_for_errors()
    upper = np.where(np.isfinite(plan.upper), np.maximum(plan.upper, plan.score), plan.score)
    proved = ~(upper > plan.score + 1e-9 * (1.0 + np.abs(plan.score)))
    return np.where(proved, plan.score, upper), proved
