"""Certificate, gate and outcome by the definitions of docs/certificate.md, from figures that were verified before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from ucsearch.verify.formats import Record, expect, expect_close, num
from ucsearch.verify.replay import MEMBERS, Problem

Figures = dict[int, float]
CERTIFICATE_REASONS = ("not_proved", "not_optimal", "not_robust")


def _largest(values: Figures, who: Iterable[int]) -> float:
    """Unbounded when one of them is unknown, so that nothing is proved by ignorance."""
    return max([math.inf if values[i] != values[i] else values[i] for i in who], default=-math.inf)


def _tolerance(*figures: Figures) -> float:
    return 1e-9 * (1.0 + max([abs(x) for f in figures for x in f.values() if math.isfinite(x)], default=0.0))


def certificate(r: Record, searched: Figures, first: int) -> dict[str, Any]:
    """Every member of `claim` that follows from the figures of the rivals."""
    c, rivals = r["claim"], {rival["index"]: rival for rival in r["rivals"]}
    eps_m, exact = float(c["eps_m"]), c["eps_a"] is not None

    def column(name: str) -> Figures:
        return {i: num(rival[name]) for i, rival in rivals.items()}

    lower, upper, calm = column("score"), column("upper"), column("uncertainty")
    tau = _tolerance(lower, upper)
    retained = [i for i in rivals if lower[i] == lower[i]]
    order = sorted(retained, key=lambda i: (-lower[i], calm[i], i))
    known0 = {i: x for i, x in column("reward_only_score").items() if x == x}
    first0 = min(known0, key=lambda i: (-known0[i], i), default=-1)
    baseline, margin, margins, chosen = first0, math.nan, dict.fromkeys(rivals, math.nan), order[0] if order else -1
    if r["settings"]["policy"] == "ConstrainedBeam":
        # Any reward-only optimum may serve as the baseline.
        baseline = c["baseline_index"] if known0.get(c["baseline_index"]) == known0.get(first0, 0.0) else first0
        margins, margin, chosen = _route(r, rivals, retained, baseline, chosen, tau)
    elif r["settings"]["algorithm"] not in ("beam", "exact", "mcts") and c["action_index"] in retained:
        chosen = c["action_index"]  # another planner's own choice among its paths
    for k, i in enumerate(rivals):
        expect(f"rivals[{k}].release_margin", rivals[i]["release_margin"], margins[i])

    found, sole = chosen >= 0, chosen >= 0 and len(rivals) == 1
    best = lower[chosen] if found else math.nan
    others = [i for i in rivals if i != chosen]
    gap = best - _largest(upper, others)
    optimal, robust = found and (sole or gap >= -tau), found and (sole or gap > 2.0 * eps_m + tau)
    passed = optimal if eps_m == 0.0 else robust
    top = _largest(upper, rivals)
    held = [i for i in retained if i != chosen]
    lead = best - _largest(lower, held) if found and held else math.nan
    eps_a = max([0.0, *(upper[i] - lower[i] for i in held)]) if exact else math.nan
    oracle_retained = exact and any(upper[i] >= top - tau for i in retained)

    def active(lower0: Figures, upper0: Figures) -> tuple[float, bool]:
        """Whether every action that may be optimal at risk 0 is worse here, and by how much."""
        tau0 = _tolerance(lower0, upper0)
        best0 = max([x for x in lower0.values() if x == x], default=-math.inf)
        may_be_best = [i for i in rivals if not upper0[i] < best0 - tau0]
        if not found or not may_be_best:
            return math.nan, False
        by = (top if exact else best) - _largest(upper, may_be_best)
        return by, by > tau

    risk_gap, risk_active = active(column("reward_only_score"), column("reward_only_upper"))
    _, uncertainty_active = active(column("certain_score"), column("certain_upper"))
    ahead = searched[first] - _largest(upper, [i for i in rivals if i != first]) if first in rivals else math.nan
    search_sole = first in rivals and len(rivals) == 1
    return {
        "action_index": chosen,
        "selected_index": order[0] if order else -1,
        "certificate_pass": passed,
        "optimal": optimal,
        "unique": found and (sole or gap > tau),
        "robust": robust,
        "sole_action": sole,
        "gap": math.nan if sole else gap,
        "regret_bound": 0.0 if sole else max(0.0, -gap) if found else math.inf,
        "exact_regret": top - upper[chosen] if exact and found else math.nan,
        "oracle_retained": oracle_retained,
        "margin": lead,
        "eps_a": eps_a,
        "proxy_slack": top - best if exact and found else math.nan,
        "paper_pass": oracle_retained
        and found
        and upper[chosen] >= top - tau
        and (math.inf if sole else lead) > 2.0 * (eps_a + eps_m),
        "search_pass": search_sole or (ahead >= -tau if eps_m == 0.0 else ahead > 2.0 * eps_m + tau),
        "risk_gap": risk_gap,
        "risk_active": passed and risk_active,
        "search_active": found and first0 >= 0 and first0 != chosen,
        "uncertainty_active": passed and uncertainty_active,
        "tau": tau,
        "proved": all(x == x for x in upper.values()),
        "baseline_index": baseline,
        "release_margin": margin,
    }


def _route(
    r: Record, rivals: dict[int, Record], retained: list[int], a0: int, selected: int, tau: float
) -> tuple[Figures, float, int]:
    """The planning-value route: margins against the reward-only action, the deciding one, and what is put forward."""
    s, margins, cost = r["settings"], dict.fromkeys(rivals, math.nan), {}
    if a0 not in retained:
        return margins, math.nan, selected
    base = rivals[a0]
    for i in retained:
        if i == a0:
            continue
        own = rivals[i]
        gain = own["score"] - base["score"]
        cost[i] = max(0.0, base["reward"] - own["reward"])
        slacks = [gain, s["risk"] * (base["uncertainty"] - own["uncertainty"]), num(s["utility_budget"]) - cost[i]]
        if s["mode"] != MEMBERS:
            slacks.append(gain - (own["step_score"] - base["step_score"]))
        margins[i] = float(min(slacks))
    best = max(rivals[i]["score"] for i in retained)
    fit = [i for i in cost if best - rivals[i]["score"] <= s["near_equal"] + tau and margins[i] > tau]
    if not fit:
        return margins, math.nan, selected
    top = max(margins[i] for i in fit)
    chosen = min((i for i in fit if margins[i] >= top - s["band"]), key=lambda i: (cost[i], -rivals[i]["score"], i))
    return margins, margins[chosen], chosen


# -------------------------------------------------------------------- gate and outcome


def _seconds(later: str, earlier: list[str]) -> float:
    """Between two ISO times, read as UTC where they name no offset; NaN when one is missing."""

    def moment(text: str) -> datetime:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)

    try:
        return (moment(later) - moment(earlier[0])).total_seconds() if later and earlier else math.nan
    except ValueError:
        return math.nan


def gate_and_outcome(r: Record, p: Problem, failed: bool, dead_end: bool, steps: Figures) -> None:
    """Rows of the gate, then what leaves. `steps` holds the one-step score of every feasible action."""
    c, g, gate = r["claim"], r["gate"]["settings"], r["gate"]
    index, sole, gap, tau = c["action_index"], c["sole_action"], num(c["gap"]), c["tau"]
    routed = c["release_margin"] is not None
    margin = num(c["release_margin"]) if routed else math.inf if sole else gap
    limit, regret = g["regret_limit"], num(c["regret_bound"])
    near = g["near"] and routed and limit is not None and regret <= limit
    unproved = CERTIFICATE_REASONS[0 if not c["proved"] else 2 if c["optimal"] else 1]
    age = _seconds(gate["now"], r["inputs"]["trace"]["meta"]["issued"])
    active = c["uncertainty_active"] if r["settings"]["mode"] == MEMBERS else c["risk_active"]
    spent = c["counters"]["expansions"] + c["counters"]["oracle_nodes"]
    asked = [v for k, v in g.items() if k != "near" and v is not None and v is not False]
    rows: list[tuple[str, float, str, Any, str]] = [("task", failed, "==", 0, "task_error")]
    if not asked:
        rows.append(("conditions", 0, ">=", 1, "not_proved"))
    if g["max_trace_age_s"] is not None:
        rows.append(("trace_issued_before_now", age, ">=", 0, "stale_trace"))
        rows.append(("trace_age_s", age, "<=", g["max_trace_age_s"], "stale_trace"))
    for name in ("eps_c", "undercoverage"):
        if g[f"max_{name}"] is not None:
            rows.append((name, num(gate["calibration"][name]), "<=", g[f"max_{name}"], "calibration"))
    rows.append(("completion", not dead_end, "==", 1, "dead_end"))
    rows.append(("path", index >= 0, "==", 1, "search_exhausted"))
    if g["certificate"]:
        rows.append(("certificate_pass", c["certificate_pass"] or near, "==", 1, unproved))
    if g["positive_margin"]:
        rows.append(("release_margin_above_tau", margin - tau, ">", 0, "margin_not_positive"))
    if g["risk_active"]:
        rows.append(("risk_active", active, "==", 1, "not_risk_active"))
    if limit is not None:
        rows.append(("regret_bound", regret, "<=", limit, "regret_above_limit"))
    if g["node_budget"] is not None:
        rows.append(("nodes", spent, "<=", g["node_budget"], "node_budget"))
    if g["time_budget_s"] is not None:
        rows.append(("elapsed_s", num(gate["elapsed_s"]), "<=", g["time_budget_s"], "time_budget"))
    expect("gate.rows", [row["name"] for row in gate["rows"]], [row[0] for row in rows])
    cause = "none"
    for k, (name, left, operator, right, reason) in enumerate(rows):
        left = float(left)
        holds = {"==": left == right, "<=": left <= right, ">=": left >= right, ">": left > right}[operator]
        expected = {"name": name, "left": left, "operator": operator, "right": float(right), "pass": holds}
        for key, value in expected.items():
            expect(f"gate.rows[{k}].{key}", gate["rows"][k][key], value)
        if not holds and cause == "none":
            cause = reason
    _outcome(r, p, cause, margin, steps)


def _outcome(r: Record, p: Problem, cause: str, margin: float, steps: Figures) -> None:
    c, index, released = r["claim"], r["claim"]["action_index"], cause == "none"
    fallback, feasible = math.nan, False
    try:
        fallback = float(p.task.fallback(p.state, p.params))
        if fallback in p.actions:
            feasible = bool(p.task.feasible(p.state, fallback, p.params))
        else:
            fallback = math.nan
    except Exception:  # whatever it raises, there is no fallback to rely on
        fallback, feasible = math.nan, False
    action = p.actions[index] if index >= 0 else math.nan
    place = p.actions.index(fallback) if fallback == fallback else -1
    cost = steps.get(index, math.nan) - steps.get(place, math.nan)
    outcome = "RELEASED" if released else "FALLBACK" if feasible else "HOLD"
    expected = {
        "outcome": outcome,
        "action": action if released else fallback if feasible else math.nan,
        "cause": cause,
        "reason": "fallback_infeasible" if outcome == "HOLD" else cause,
        "pass_kind": ("exact" if c["certificate_pass"] else "near") if released else "",
        "release_margin": margin,
        "regret_bound": num(c["regret_bound"]),
        "rejected_action": math.nan if released else action,
        "fallback_action": fallback,
        "fallback_feasible": feasible,
    }
    for key, value in expected.items():
        expect(f"outcome.{key}", r["outcome"][key], value)
    expect_close("outcome.fallback_cost", r["outcome"]["fallback_cost"], cost)
