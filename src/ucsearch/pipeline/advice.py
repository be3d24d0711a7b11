"""Why many series fell back, and what to change, in a planner's words."""

from __future__ import annotations

from collections.abc import Mapping

from ucsearch.policies import Exact
from ucsearch.settings import Settings

__all__ = ["fallback_advice"]


def fallback_advice(reasons: Mapping[str, int], settings: Settings) -> list[str]:
    """One line for each reason code of fallbacks, the most frequent first."""
    known = sorted(((n, r) for r, n in reasons.items() if r != "none" and n > 0), key=lambda x: (-x[0], x[1]))
    return [f"{count} {reason}: {_words(reason, settings)}" for count, reason in known]


def _words(reason: str, s: Settings) -> str:
    depth, nodes = s.policy.depth, s.proof.node_budget
    effort = (
        f"give it more effort ([proof] node_budget, now {nodes:,}), plan fewer periods ([policy] depth, now {depth}), "
        "offer fewer order sizes, or allow a bounded loss ([gate] regret_limit)"
    )
    found = {
        "not_proved": f"the search ended before the best action was proved; {effort}",
        "node_budget": f"the proof used up its effort; {effort}",
        "search_exhausted": f"the search ended at its budget before it found a plan; {effort}"
        if isinstance(s.policy, Exact)
        else "the search lost every plan; make it wider ([policy] width or top_k)",
        "not_optimal": f"another action may be better than the one found; make the search wider or exact, or {effort}",
        "not_robust": "the lead over the next best action is smaller than the claimed model error ([proof] eps_m)",
        "regret_above_limit": "more could be lost than [gate] regret_limit allows; raise it, or the proof's effort",
        "margin_not_positive": "the best actions are equally good; [gate] positive_margin refuses that",
        "not_risk_active": "uncertainty does not change the action; [gate] risk_active asks that it does",
        "dead_end": "no plan keeps the rules to its end; look at capacity, ramp, order budget and open orders, or plan "
        "fewer periods",
        "stale_trace": "forecasts are older than [gate] max_trace_age_s allows; make new ones",
        "invalid_trace": "forecasts could not be used; see the problems above",
        "site": "a condition that the site added to the task does not hold; `ucsearch explain` names it",
        "paused": "a person paused the plan; resume it when the reason is gone",
        "calibration": "the forecaster's measured error is above the gate's limits; see [forecast] recalibrate",
        "time_budget": f"time ran out; {effort}",
        "task_error": "the task's own functions failed on these series; `ucsearch explain` names the place",
        "allocation_gap": "shared limits could not be shared out closely enough; raise the allowed gap",
        "budget_infeasible": "a shared limit is too small for what must be done; raise it",
        "no_information_structure": "closed-loop planning needs independent steps or a tree ([forecast] coupling)",
        "members_infeasible": "the plan breaks a rule in some of the forecast's members; plan in members or closed "
        "mode ([policy] mode)",
        "fallback_infeasible": "not even the fallback keeps the rules; a person has to decide",
    }
    return found.get(reason, "see docs/dispatch.md")
