"""Certificate, gate and outcome by the definitions of docs/certificate.md, from figures that were verified before."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ucsearch.verify.formats import Record, expect, expect_close, num, require
from ucsearch.verify.replay import MEMBERS, Problem

Figures = dict[int, float]
TESTS = {"==": operators.eq, "<=": operators.le, ">=": operators.ge, ">": operators.gt}


def _largest(values: Figures, who: Iterable[int]) -> float:
    """Unbounded when one of them is unknown, so that nothing is proved by ignorance."""
    return max([math.inf if values[i] != values[i] else values[i] for i in who], default=-math.inf)


def _tolerance(*figures: Figures) -> float:
    return 1e-9 * (1.0 + max([abs(x) for f in figures for x in f.values() if math.isfinite(x)], default=0.0))


def certificate(r: Record, searched: Mapping[Any, float], first: int | None) -> dict[str, Any]:
    """Every member of `claim` that follows from the figures of the rivals.

    `searched` and `first` are scores and choice before any oracle suffix was put in.
    """
    c, s, rivals = r["claim"], r["settings"], {rival["index"]: rival for rival in r["rivals"]}
    eps_m, exact = float(c["eps_m"]), c["eps_a"] is not None
    names = ("score", "upper", "reward_only_score", "reward_only_upper", "certain_score", "certain_upper")
    lower, upper, lower0, upper0, lower_c, upper_c = ({i: num(rivals[i][n]) for i in rivals} for n in names)
    tau = _tolerance(lower, upper)
    calm = {i: rivals[i]["uncertainty"] for i in rivals}
    retained = sorted((i for i in rivals if rivals[i]["retained"]), key=lambda i: (-lower[i], calm[i], i))
    selected = retained[0] if retained else -1
    order0 = sorted((i for i in rivals if lower0[i] == lower0[i]), key=lambda i: (-lower0[i], i))
    first0 = order0[0] if order0 else -1
    chosen, baseline, margin, margins = selected, first0, math.nan, dict.fromkeys(rivals, math.nan)
    if s["policy"] == "ConstrainedBeam":
        # Any reward-only optimum may serve as the baseline.
        if order0 and lower0.get(c["baseline_index"]) == lower0[first0]:
            baseline = c["baseline_index"]
        chosen, margin, margins = _route(s, rivals, retained, selected, baseline, tau)
    elif s["algorithm"] not in ("beam", "exact", "mcts") and c["action_index"] in retained:
        chosen = c["action_index"]  # another planner's own choice among its paths
    for k, i in enumerate(rivals):
        expect(f"rivals[{k}].release_margin", rivals[i]["release_margin"], margins[i])

    found, alone = chosen >= 0, len(rivals) == 1
    best, top, held = lower.get(chosen, math.nan), _largest(upper, rivals), [i for i in retained if i != chosen]
    gap = best - _largest(upper, [i for i in rivals if i != chosen])
    ahead = searched.get(first, math.nan) - _largest(upper, [i for i in rivals if i != first])

    def holds(gap: float, some: bool) -> bool:
        """`certificate_pass` by this gap."""
        return some and (alone or (gap >= -tau if eps_m == 0.0 else gap > 2.0 * eps_m + tau))

    def activity(low: Figures, high: Figures) -> float:
        """By how much every action that may be optimal at risk 0 is worse here."""
        least = max([x for x in low.values() if x == x], default=-math.inf) - _tolerance(low, high)
        may_be_best = [i for i in rivals if not high[i] < least]
        return (top if exact else best) - _largest(upper, may_be_best) if found and may_be_best else math.nan

    sole, passed, risk_gap = found and alone, holds(gap, found), activity(lower0, upper0)
    lead = best - _largest(lower, held) if found and held else math.nan
    eps_a = max([0.0, *(upper[i] - lower[i] for i in held)]) if exact else math.nan
    oracle_retained = exact and any(upper[i] >= top - tau for i in retained)
    by_paper = (math.inf if sole else lead) > 2.0 * (eps_a + eps_m)
    return {
        "tau": tau, "proved": all(x == x for x in upper.values()), "selected_index": selected,
        "baseline_index": baseline, "release_margin": margin, "action_index": chosen, "sole_action": sole,
        "gap": math.nan if sole else gap, "optimal": found and (sole or gap >= -tau),
        "unique": found and (sole or gap > tau), "robust": found and (sole or gap > 2.0 * eps_m + tau),
        "certificate_pass": passed, "search_pass": holds(ahead, first in rivals),
        "regret_bound": 0.0 if sole else max(0.0, -gap) if found else math.inf,
        "exact_regret": top - upper[chosen] if exact and found else math.nan, "margin": lead, "eps_a": eps_a,
        "proxy_slack": top - best if exact and found else math.nan, "oracle_retained": oracle_retained,
        "paper_pass": oracle_retained and found and upper[chosen] >= top - tau and by_paper,
        "risk_gap": risk_gap, "risk_active": passed and risk_gap > tau,
        "search_active": found and first0 >= 0 and first0 != chosen,
        "uncertainty_active": passed and activity(lower_c, upper_c) > tau,
    }  # fmt: skip


def _route(
    s: Record, rivals: dict[int, Record], retained: list[int], selected: int, a0: int, tau: float
) -> tuple[int, float, Figures]:
    """The planning-value route: what is put forward, its margin if the route decided, and all margins against a0."""
    margins, cost = dict.fromkeys(rivals, math.nan), {}
    for i in retained if a0 in retained else ():
        own, base = rivals[i], rivals[a0]
        if i != a0:
            gain = own["score"] - base["score"]
            cost[i] = max(0.0, base["reward"] - own["reward"])
            slacks = [gain, s["risk"] * (base["uncertainty"] - own["uncertainty"]), num(s["utility_budget"]) - cost[i]]
            if s["mode"] != MEMBERS:
                slacks.append(gain - (own["step_score"] - base["step_score"]))
            margins[i] = float(min(slacks))
    near = [i for i in cost if rivals[selected]["score"] - rivals[i]["score"] <= s["near_equal"] + tau]
    fit = [i for i in near if margins[i] > tau]
    if not fit:
        return selected, math.nan, margins
    within = [i for i in fit if margins[i] >= max(margins[j] for j in fit) - s["band"]]
    chosen = min(within, key=lambda i: (cost[i], -rivals[i]["score"], i))
    return chosen, margins[chosen], margins


# -------------------------------------------------------------------- gate and outcome


def _age(now: str, issued: list[str]) -> float:
    """Seconds from the one ISO time to the other, UTC where it names no offset; NaN when one is missing."""

    def moment(text: str) -> datetime:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)

    try:
        return (moment(now) - moment(issued[0])).total_seconds() if now and issued else math.nan
    except (ValueError, OverflowError):  # a time at the edge of the calendar has no UTC
        return math.nan


def gate_and_outcome(r: Record, p: Problem, failed: bool, dead_end: bool, steps: Figures) -> None:
    """Rows of the gate, then what leaves. `steps` holds the one-step score of every feasible action."""
    c, gate, g = r["claim"], r["gate"], r["gate"]["settings"]
    routed, regret, limit = c["release_margin"] is not None, num(c["regret_bound"]), num(g["regret_limit"])
    require("gate.settings.near", limit == limit or not g["near"], g["near"], "nothing without a regret limit")
    margin = num(c["release_margin"]) if routed else math.inf if c["sole_action"] else num(c["gap"])
    passed = c["certificate_pass"] or (g["near"] and routed and regret <= limit)
    unproved = "not_proved" if not c["proved"] else "not_robust" if c["optimal"] else "not_optimal"
    age = _age(gate["now"], r["inputs"]["trace"]["meta"]["issued"])
    active = c["uncertainty_active" if p.is_members else "risk_active"]
    spent = c["counters"]["expansions"] + c["counters"]["oracle_nodes"]
    asks = any(value is not None and value is not False for name, value in g.items() if name != "near")
    eps_c, under = num(gate["calibration"]["eps_c"]), num(gate["calibration"]["undercoverage"])
    table: list[tuple[Any, str, float, str, Any, str]] = [
        (True, "task", failed, "==", 0, "task_error"),
        (not asks, "conditions", 0, ">=", 1, "not_proved"),
        (g["max_trace_age_s"], "trace_issued_before_now", age, ">=", 0, "stale_trace"),
        (g["max_trace_age_s"], "trace_age_s", age, "<=", g["max_trace_age_s"], "stale_trace"),
        (g["max_eps_c"], "eps_c", eps_c, "<=", g["max_eps_c"], "calibration"),
        (g["max_undercoverage"], "undercoverage", under, "<=", g["max_undercoverage"], "calibration"),
        (True, "completion", not dead_end, "==", 1, "dead_end"),
        (True, "path", c["action_index"] >= 0, "==", 1, "search_exhausted"),
        (g["certificate"], "certificate_pass", passed, "==", 1, unproved),
        (g["positive_margin"], "release_margin_above_tau", margin - c["tau"], ">", 0, "margin_not_positive"),
        (g["risk_active"], "risk_active", active, "==", 1, "not_risk_active"),
        (g["regret_limit"], "regret_bound", regret, "<=", g["regret_limit"], "regret_above_limit"),
        (g["node_budget"], "nodes", spent, "<=", g["node_budget"], "node_budget"),
        (g["time_budget_s"], "elapsed_s", num(gate["elapsed_s"]), "<=", g["time_budget_s"], "time_budget"),
    ]  # fmt: skip
    rows = [row[1:] for row in table if row[0] is not None and row[0] is not False]
    expect("gate.rows", [row["name"] for row in gate["rows"]], [row[0] for row in rows])
    cause = "none"
    for k, (_, left, operator, right, reason) in enumerate(rows):
        x = float(left)
        holds = TESTS[operator](x, right)
        for key, value in (("left", x), ("operator", operator), ("right", right), ("pass", holds)):
            expect(f"gate.rows[{k}].{key}", gate["rows"][k][key], value)
        cause = reason if not holds and cause == "none" else cause
    _outcome(r, p, cause, margin, steps)


def _outcome(r: Record, p: Problem, cause: str, margin: float, steps: Figures) -> None:
    c, index, released = r["claim"], r["claim"]["action_index"], cause == "none"
    try:
        fallback = float(p.task.fallback(p.state, p.params))
        feasible = fallback in p.actions and bool(p.task.feasible(p.state, fallback, p.params))
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException:  # whatever it raises, an exit included, there is no fallback to rely on
        fallback, feasible = math.nan, False
    place = p.actions.index(fallback) if fallback in p.actions else None
    fallback = math.nan if place is None else fallback
    action = p.actions[index] if index >= 0 else math.nan
    outcome = "RELEASED" if released else "FALLBACK" if feasible else "HOLD"
    expected = {
        "outcome": outcome, "action": action if released else fallback if feasible else math.nan, "cause": cause,
        "reason": "fallback_infeasible" if outcome == "HOLD" else cause,
        "pass_kind": ("exact" if c["certificate_pass"] else "near") if released else "",
        "release_margin": margin, "regret_bound": num(c["regret_bound"]),
        "rejected_action": math.nan if released else action, "fallback_action": fallback, "fallback_feasible": feasible,
    }  # fmt: skip
    for key, value in expected.items():
        expect(f"outcome.{key}", r["outcome"][key], value)
    cost = steps.get(index, math.nan) - (math.nan if place is None else steps.get(place, math.nan))
    expect_close("outcome.fallback_cost", r["outcome"]["fallback_cost"], cost)
