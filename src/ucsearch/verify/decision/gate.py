"""Certificate, gate and outcome by the definitions of docs/reference/record.md, from verified figures."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ucsearch.verify.decision.problem import CLOSED, MEMBERS, RecordedProblem, fallback_now
from ucsearch.verify.verdict import Record, expect, near, num, require, tolerance

Figures = dict[int, float]
Rivals = Mapping[int, Record]
Tau = Callable[[float, float, float, float], float]  # of two figures and their sizes
TESTS = {"==": operators.eq, "<=": operators.le, ">=": operators.ge, ">": operators.gt}
# Rows of failures that only the record tells of, and that only a record which releases nothing may have.
IN_TIME, FINAL_CHECK = "search_in_time", "final_check"
SITE = "site:"  # before the names of rows of conditions that a site added to its task
TIE_ALLOWED = "tie_allowed"  # a row only where it fails, or where a gate demands `exact`
PAUSED = "released_by_operator"  # 0 while a person has stopped releases; a whole log tells whether one had
# What a gate may be set to, and why it may refuse. A question mark: records may be without it.
SWITCHES = "certificate risk_active near positive_margin pausable?"
CHOICES = "allow_ties?"  # yes, no, or null: unless terms cancel
MEASURES = (
    "regret_limit min_member_feasible? max_trace_age_s max_eps_c max_undercoverage node_budget time_budget_s "
    "max_drift? max_overdue?"
)
REASONS = (
    "none", "dead_end", "search_exhausted", "not_proved", "not_optimal", "not_robust", "tied", "margin_not_positive",
    "not_risk_active", "members_infeasible", "regret_above_limit", "stale_trace", "calibration", "paused", "site",
    "node_budget", "time_budget", "task_error",
)  # fmt: skip
CANCELLED = 1e6  # a path whose size is so many times its score


def _largest(values: Figures, who: Iterable[int]) -> float:
    """Unbounded when one of them is unknown, so that nothing is proved by ignorance."""
    return max([math.inf if values[i] != values[i] else values[i] for i in who], default=-math.inf)


def _tau(eps: float) -> Tau:
    return lambda x, y, size_x, size_y: tolerance(eps, size_x, size_y)


def _rewarding(r: Record, rivals: Rivals, lower0: Figures, order0: list[int], eps: float) -> int:
    """The first action that is best at risk 0. Of sums that differ by no more than their rounding (a path found here
    may be another one of the same value) the recorded ones say which: those were compared."""
    first = order0[0]
    scores = {x["index"]: num(x["reward_only_score"]) for x in r.get("rivals", ())}
    recorded = min(order0, key=lambda i: (-scores.get(i, lower0[i]), i))
    sizes = [abs(lower0[first]), *(num(rivals[i].get("reward_only_size")) for i in (first, recorded))]
    room = eps * max([x for x in sizes if x == x and x < math.inf], default=0.0)
    return recorded if lower0[first] - lower0[recorded] <= room else first


class _Rivals:
    """Scores and upper values of the first actions, and how the one put forward compares with them."""

    def __init__(self, rivals: Rivals, eps: float) -> None:
        self.rivals, self.tau = rivals, _tau(eps)
        self.lower, self.size = self.figures("score"), self.figures("size")
        self.upper, self.upper_size = self.figures("upper"), self.figures("upper_size")
        self.retained = sorted(
            (i for i in rivals if rivals[i]["retained"]), key=lambda i: (-self.lower[i], rivals[i]["uncertainty"], i)
        )
        self.top = _largest(self.upper, rivals)
        self.top_size = max(
            [self.upper_size[i] for i in rivals if self.upper[i] == self.top and self.upper_size[i] >= 0.0], default=0.0
        )

    def figures(self, name: str) -> Figures:
        return {i: num(rival.get(name)) for i, rival in self.rivals.items()}

    def ahead(self, x: float, size: float, who: Iterable[int]) -> list[tuple[float, float]]:
        """By how much x is above each upper value, and the tolerance of that pair."""
        values = {i: math.inf if self.upper[i] != self.upper[i] else self.upper[i] for i in who}
        return [(x - y, self.tau(x, y, size, self.upper_size[i])) for i, y in values.items()]

    def is_maximal(self, i: int) -> bool:
        """Whether its exact value is the largest."""
        return self.top - self.upper[i] <= self.tau(self.top, self.upper[i], self.top_size, self.upper_size[i])

    def activity(self, kind: str, best: float, best_size: float, exact: bool) -> tuple[float, bool]:
        """By how much every action that may be optimal by the figures of this kind (at risk 0, or under certainty) is
        worse here, and whether clearly so."""
        low, high = self.figures(f"{kind}_score"), self.figures(f"{kind}_upper")
        sizes = self.figures(f"{kind}_size")
        best0 = max([x for x in low.values() if x == x], default=-math.inf)
        size0 = max([sizes[i] for i in low if low[i] == best0 and sizes[i] > 0.0], default=0.0)
        most = {i: max([x for x in (abs(high[i]), sizes[i]) if x == x], default=math.nan) for i in low}
        may_be_best = [i for i in low if not best0 - high[i] > self.tau(best0, high[i], size0, most[i])]
        if not may_be_best:
            return math.nan, False
        figure, size = (self.top, self.top_size) if exact else (best, best_size)
        return figure - _largest(self.upper, may_be_best), _clear(self.ahead(figure, size, may_be_best), 0.0)


def _clear(pairs: Iterable[tuple[float, float]], by: float) -> bool:
    return all(t < math.inf and x > by + t for x, t in pairs)


def _not_behind(pairs: Iterable[tuple[float, float]]) -> bool:
    return all(t < math.inf and x >= -t for x, t in pairs)


def certificate(
    r: Record, rivals: Rivals, searched: Mapping[Any, tuple[float, float]], first: int | None, eps: float
) -> dict[str, Any]:
    """Every member of `claim` that follows from the figures of the rivals, and `lead`, `tau` of the route, `margins`.

    `searched` and `first` are scores (with sizes) and choice before any oracle suffix was put in; `eps` is the share of
    the sizes that counts as rounding.
    """
    c, table = r["claim"], _Rivals(rivals, eps)
    eps_m, exact = float(c["eps_m"]), c["eps_a"] is not None
    lower, upper, retained, tau = table.lower, table.upper, table.retained, table.tau
    chosen, selected, baseline, first0, route = _put_forward(r, table, eps)
    is_found, alone = chosen >= 0, len(rivals) == 1
    sole, retained_rivals, others = (
        is_found and alone,
        [i for i in retained if i != chosen],
        [i for i in rivals if i != chosen],
    )
    best, best_size = lower.get(chosen, math.nan), table.size.get(chosen, math.nan)
    pairs, strongest = table.ahead(best, best_size, others), _largest(upper, others)
    gap = best - strongest

    def passes(pairs: list[tuple[float, float]], some: bool) -> bool:
        return some and (alone or (_not_behind(pairs) if eps_m == 0.0 else _clear(pairs, 2.0 * eps_m)))

    # Of the strongest rival, and of those that are not clearly behind.
    decisive = [
        pair[1] for i, pair in zip(others, pairs, strict=True)
        if math.isfinite(upper[i]) and (upper[i] == strongest or not _clear([pair], 0.0))
    ]  # fmt: skip
    tied = [i for i, pair in zip(others, pairs, strict=True) if _not_behind([pair]) and not _clear([pair], 0.0)]
    hidden = [i for i in tied if table.upper_size[i] > CANCELLED * max(abs(best), abs(upper[i]))]
    passed = passes(pairs, is_found)
    risk_gap, risky = table.activity("reward_only", best, best_size, exact) if is_found else (math.nan, False)
    _, unsure = table.activity("certain", best, best_size, exact) if is_found else (math.nan, False)
    lead = best - _largest(lower, retained_rivals) if is_found and retained_rivals else math.nan
    eps_a = max([0.0, *(upper[i] - lower[i] for i in retained_rivals)]) if exact else math.nan
    oracle_retained = exact and any(map(table.is_maximal, retained))
    by_paper = is_found and exact and table.is_maximal(chosen) and (math.inf if sole else lead) > 2.0 * (eps_a + eps_m)
    before = table.ahead(*searched.get(first, (math.nan, math.nan)), [i for i in rivals if i != first])
    margin = route.margin - route.tau
    if margin != margin:
        margin = math.inf if sole else min([x - t for x, t in pairs], default=math.inf) if is_found else math.nan
    return {
        "tau": max(decisive) if is_found and decisive else tau(best, best, best_size, best_size) if is_found else 0.0,
        "proved": all(x == x for x in upper.values()), "selected_index": selected,
        "baseline_index": baseline, "release_margin": route.margin, "action_index": chosen, "sole_action": sole,
        "gap": math.nan if sole else gap, "optimal": is_found and (sole or _not_behind(pairs)),
        "unique": is_found and (sole or _clear(pairs, 0.0)),
        "robust": is_found and (sole or _clear(pairs, 2.0 * eps_m)),
        "certificate_pass": passed, "search_pass": passes(before, first in rivals),
        "regret_bound": 0.0 if sole else max(0.0, -gap) if is_found else math.inf,
        "exact_regret": table.top - upper[chosen] if exact and is_found else math.nan, "margin": lead, "eps_a": eps_a,
        "proxy_slack": table.top - best if exact and is_found else math.nan, "oracle_retained": oracle_retained,
        "paper_pass": oracle_retained and by_paper, "risk_gap": risk_gap, "risk_active": passed and risky,
        "search_active": is_found and first0 >= 0 and first0 != chosen, "uncertainty_active": passed and unsure,
        "cancellation": is_found and (best_size > CANCELLED * abs(best) or bool(hidden)),
        "margins": route.margins, "lead": margin,
    }  # fmt: skip


def _put_forward(r: Record, table: _Rivals, eps: float) -> tuple[int, int, int, int, _Route]:
    """The action put forward, the one of the best score, the baseline, the best at risk 0, and the route; -1: none."""
    c, s, rivals, retained = r["claim"], r["settings"], table.rivals, table.retained
    lower0 = table.figures("reward_only_score")
    order0 = sorted((i for i in rivals if lower0[i] == lower0[i]), key=lambda i: (-lower0[i], i))
    selected = retained[0] if retained else -1
    first0 = _rewarding(r, rivals, lower0, order0, eps) if order0 else -1
    chosen, baseline, route = selected, first0, _Route(math.nan, math.nan, dict.fromkeys(rivals, math.nan))
    if s["policy"] == "ConstrainedBeam":
        # Any reward-only optimum may serve as the baseline.
        if order0 and lower0.get(c["baseline_index"]) == lower0[first0]:
            baseline = c["baseline_index"]
        chosen, route = _route(s, rivals, retained, selected, baseline, table.tau)
    elif s["algorithm"] not in ("beam", "exact", "mcts", "closed") and c["action_index"] in retained:
        chosen = c["action_index"]  # another planner's own choice among its paths
    return chosen, selected, baseline, first0, route


class _Route(NamedTuple):
    """Margin of the released action if the route decided, the tolerance of its score and a0's, margins against a0."""

    margin: float
    tau: float
    margins: Figures


def _route(s: Record, rivals: Rivals, retained: list[int], selected: int, a0: int, tau: Tau) -> tuple[int, _Route]:
    """The planning-value route: what is put forward, and what speaks for it."""
    margins, cost = dict.fromkeys(rivals, math.nan), {}
    for i in retained if a0 in retained else ():
        rival, base = rivals[i], rivals[a0]
        if i != a0:
            gain = rival["score"] - base["score"]
            cost[i] = max(0.0, base["reward"] - rival["reward"])
            slacks = [
                gain,
                s["risk"] * (base["uncertainty"] - rival["uncertainty"]),
                num(s["utility_budget"]) - cost[i],
            ]
            if s["mode"] != MEMBERS:
                slacks.append(gain - (rival["step_score"] - base["step_score"]))
            margins[i] = float(min(slacks))

    def pair(i: int, j: int) -> float:
        size_i, size_j = num(rivals[i].get("size")), num(rivals[j].get("size"))
        return tau(rivals[i]["score"], rivals[j]["score"], size_i, size_j)

    def near_best(i: int) -> bool:
        return bool(rivals[selected]["score"] - rivals[i]["score"] <= s["near_equal"] + pair(selected, i))

    fit = [i for i in cost if near_best(i) and margins[i] > pair(a0, i)]
    if not fit:
        return selected, _Route(math.nan, math.nan, margins)
    within = [i for i in fit if margins[i] >= max(margins[j] for j in fit) - s["band"]]
    chosen = min(within, key=lambda i: (cost[i], -rivals[i]["score"], i))
    return chosen, _Route(margins[chosen], pair(a0, chosen), margins)


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


def _site(condition: Any, p: RecordedProblem, index: int) -> float:
    """The figure of a condition that the site added to its task; NaN, which fails, where it is no finite number."""
    if index < 0:
        return math.nan
    try:
        value = condition.figure(p.state, p.actions[index], p.params)
        if isinstance(value, str | bytes | bytearray) or type(value).__name__ == "ndarray":
            return math.nan
        return float(value) if math.isfinite(value) else math.nan
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException:  # whatever it raises, an exit included
        return math.nan


def _rows(
    r: Record, p: RecordedProblem, c: Record, failed: bool, dead_end: bool
) -> list[tuple[str, float, str, Any, str]]:
    """Name, left side, operator, right side and cause of every row that the gate asks for, by the claims `c`."""
    gate, g, counted = r["gate"], r["gate"]["settings"], r["claim"]["counters"]
    routed, regret, limit = c["release_margin"] == c["release_margin"], c["regret_bound"], num(g["regret_limit"])
    passed = c["certificate_pass"] or (g["near"] and routed and regret + c["tau"] <= limit)
    ties, may_tie = g.get("allow_ties"), True
    if ties is not True:
        may_tie = c["unique"] if ties is False else not (c["optimal"] and not c["unique"] and c["cancellation"])
    unproved = "not_proved" if not c["proved"] else "not_robust" if c["optimal"] else "not_optimal"
    age = _age(gate["now"], r["inputs"]["trace"]["meta"]["issued"])
    active = c["uncertainty_active" if p.is_members else "risk_active"]
    spent = counted["expansions"] + counted["oracle_nodes"]
    silent = ("near", "pausable", "allow_ties")  # they ask for nothing by themselves
    asks = any(value is not None and value is not False for name, value in g.items() if name not in silent)
    recorded_rows = [row["name"] for row in gate["rows"]]  # failures that only the record tells of
    eps_c, under = num(gate["calibration"]["eps_c"]), num(gate["calibration"]["undercoverage"])
    drift, overdue = num(gate["calibration"].get("drift")), num(gate["calibration"].get("overdue"))
    running = not any(row["name"] == PAUSED and row["left"] == 0 for row in gate["rows"])
    table: list[tuple[Any, str, float, str, Any, str]] = [
        (True, "task", failed, "==", 0, "task_error"),
        (IN_TIME in recorded_rows, IN_TIME, 0, "==", 1, "time_budget"),
        (not asks, "conditions", 0, ">=", 1, "not_proved"),
        (g["max_trace_age_s"], "trace_issued_before_now", age, ">=", 0, "stale_trace"),
        (g["max_trace_age_s"], "trace_age_s", age, "<=", g["max_trace_age_s"], "stale_trace"),
        (g["max_eps_c"], "eps_c", eps_c, "<=", g["max_eps_c"], "calibration"),
        (g["max_undercoverage"], "undercoverage", under, "<=", g["max_undercoverage"], "calibration"),
        (g.get("max_drift"), "drift", drift, "<=", g.get("max_drift"), "calibration"),
        (g.get("max_overdue"), "overdue", overdue, "<=", g.get("max_overdue"), "calibration"),
        (g.get("pausable"), PAUSED, running, "==", 1, "paused"),
        (p.mode == CLOSED, "law", c.get("structured", False), "==", 1, "no_information_structure"),
        (p.mode == CLOSED, "transitions_within_budget", c.get("within", False), "==", 1, "node_budget"),
        (True, "completion", not dead_end, "==", 1, "dead_end"),
        (True, "path", c["action_index"] >= 0, "==", 1, "search_exhausted"),
        (g["certificate"], "certificate_pass", passed, "==", 1, unproved),
        (ties is False or not may_tie, TIE_ALLOWED, may_tie, "==", 1, "tied"),
        (g["positive_margin"], "release_margin_above_tau", c["lead"], ">", 0, "margin_not_positive"),
        (g["risk_active"], "risk_active", active, "==", 1, "not_risk_active"),
        (g["regret_limit"], "regret_bound", regret, "<=", g["regret_limit"], "regret_above_limit"),
        (g.get("min_member_feasible"), "member_feasible", c["member_feasible"], ">=", g.get("min_member_feasible"),
         "members_infeasible"),
        (g["node_budget"], "nodes", spent, "<=", g["node_budget"], "node_budget"),
        (g["time_budget_s"], "elapsed_s", num(gate["elapsed_s"]), "<=", g["time_budget_s"], "time_budget"),
        *((True, SITE + x.name, _site(x, p, c["action_index"]), x.operator, x.limit, "site")
          for x in getattr(p.task, "conditions", ())),
        (FINAL_CHECK in recorded_rows, FINAL_CHECK, 0, "==", 1, "task_error"),
    ]  # fmt: skip
    return [row[1:] for row in table if row[0] is not None and row[0] is not False]


def require_coherent(c: Record, rivals: Rivals, eps: float) -> None:
    """No claim is stronger than the figures beside it: an optimum loses no more than tau, a clear lead is above tau, no
    path scores more than what bounds it, and neither spreads nor slacks are negative."""
    bound, gap = c["regret_bound"], c["gap"]
    require("claim.optimal", not c["optimal"] or bound <= c["tau"], c["optimal"], f"a regret of up to {bound}")
    require("claim.unique", not c["unique"] or c["sole_action"] or gap > c["tau"], c["unique"], f"a gap of {gap}")
    require("claim.proxy_slack", not c["proxy_slack"] < 0.0, c["proxy_slack"], "at least 0")
    for k, i in enumerate(sorted(rivals)):
        x = rivals[i]
        require(f"rivals[{k}].uncertainty", not num(x["uncertainty"]) < 0.0, x["uncertainty"], "at least 0")
        room = tolerance(eps, num(x["size"]), num(x["upper_size"]))
        above = num(x["score"]) > num(x["upper"]) + room
        require(f"rivals[{k}].upper", not above, x["upper"], f"at least the score {x['score']}")


def gate_and_outcome(
    r: Record, p: RecordedProblem, failed: bool, dead_end: bool, steps: Figures | None, claimed: Record, derived: Record
) -> None:
    """Rows of the gate, then what leaves. `steps` holds the one-step score of every feasible action, if these are
    known. The rows' figures follow from the claims as recorded; whether they hold, from those that were derived."""
    gate, g = r["gate"], r["gate"]["settings"]
    least = num(g.get("min_member_feasible"))
    require("gate.settings.min_member_feasible", not least > 1.0, least, "a share from 0 to 1")
    require("gate.settings.near", g["regret_limit"] is not None or not g["near"], g["near"], "nothing without a limit")
    rows, derived_rows = (_rows(r, p, c, failed, dead_end) for c in (claimed, derived))
    expect("gate.rows", [row["name"] for row in gate["rows"]], [row[0] for row in rows])
    cause = "none"
    for k, (name, left, operator, right, _) in enumerate(rows):
        require(f"gate.rows[{k}]", name != FINAL_CHECK or cause == "none", name, f"none, after {cause}")
        holds = TESTS[operator](float(derived_rows[k][1]), right)
        for key, value in (("left", float(left)), ("operator", operator), ("right", right), ("pass", holds)):
            expect(f"gate.rows[{k}].{key}", gate["rows"][k][key], value)
        cause = derived_rows[k][4] if not holds and cause == "none" else cause
    margin = claimed["release_margin"]
    if margin != margin:
        margin = math.inf if claimed["sole_action"] else claimed["gap"]
    _outcome(r, p, cause, margin, steps, derived)


def _pass_kind(c: Record) -> str:
    """What a release rests on, by claims that were derived."""
    if not c["certificate_pass"]:
        return "near"
    return "exact" if c["unique"] else "tied"


def _outcome(r: Record, p: RecordedProblem, cause: str, margin: float, steps: Figures | None, derived: Record) -> None:
    c, index, released = r["claim"], r["claim"]["action_index"], cause == "none"
    fallback, feasible = fallback_now(p.task, p.state, p.params, p.actions)
    place = p.actions.index(fallback) if fallback in p.actions else None
    action = p.actions[index] if index >= 0 else math.nan
    outcome = "RELEASED" if released else "FALLBACK" if feasible else "HOLD"
    expected = {
        "outcome": outcome, "action": action if released else fallback if feasible else math.nan, "cause": cause,
        "reason": "fallback_infeasible" if outcome == "HOLD" else cause,
        "pass_kind": _pass_kind(derived) if released else "",
        "release_margin": margin, "regret_bound": num(c["regret_bound"]),
        "rejected_action": math.nan if released else action, "fallback_action": fallback, "fallback_feasible": feasible,
    }  # fmt: skip
    for key, value in expected.items():
        expect(f"outcome.{key}", r["outcome"][key], value)
    if steps is None:
        return
    step_score, other = steps.get(index, math.nan), math.nan if place is None else steps.get(place, math.nan)
    near(
        "outcome.fallback_cost", r["outcome"]["fallback_cost"], step_score - other, abs(step_score) + abs(other), p.eps
    )


# -------------------------------------------------------------------- searches that cannot be derived again

# By their own word: the final check refused what was found, or the time budget ended the search. Such a word is
# believed only because nothing is released under it. What is checked is the rest: task, inputs and law, claims that
# follow from the recorded figures, the gate's rows, and the fallback, asked again.
NOTES = {
    FINAL_CHECK: "not released by the final check: the figures of its search are the record's own",
    IN_TIME: "the time budget ended the search: there is nothing to derive again",
}
_PATH = ("score", "reward", "uncertainty", "size")  # of a retained path


def excuse_of(r: Record) -> str:
    """The row by which a record says so; "" for all others."""
    return next((row["name"] for row in r["gate"]["rows"] if row["name"] in NOTES), "")


def verify_excused(r: Record, p: RecordedProblem) -> list[str]:
    """Raises at the first false claim."""
    c = r["claim"]
    if excuse_of(r) == IN_TIME:
        _nothing_found(r)
    _rivals(r, p)
    recorded = {rival["index"]: rival for rival in r["rivals"]}
    searched = {i: (num(rival["score"]), num(rival["size"])) for i, rival in recorded.items()}
    claimed = certificate(r, recorded, searched, c["action_index"], p.eps)
    for name, value in claimed.items():
        if name in c and (name != "search_pass" or not recorded):  # before protection other paths were retained
            expect(f"claim.{name}", c[name], value)
    for k, i in enumerate(recorded):
        expect(f"rivals[{k}].release_margin", recorded[i]["release_margin"], claimed["margins"][i])
    facts = {"member_feasible": num(c["member_feasible"]), "structured": True, "within": True}
    gate_and_outcome(r, p, False, False, None, {**claimed, **facts}, {**claimed, **facts})
    return []


def _nothing_found(r: Record) -> None:
    """A search that was ended says nothing, and took longer than it might."""
    c, limit = r["claim"], num(r["gate"]["settings"]["time_budget_s"])
    elapsed = num(r["gate"]["elapsed_s"])
    require("gate.elapsed_s", limit == limit and not elapsed <= limit, elapsed, f"more than the time budget of {limit}")
    expect("rivals", r["rivals"], [])
    expect("claim.member_feasible", c["member_feasible"], math.nan)
    for name, count in c["counters"].items():
        expect(f"claim.counters.{name}", count, 0)
    for name in ("states", "transitions"):
        expect(f"claim.{name}", c.get(name, 0), 0)
    for name in ("open_value", "flexibility"):
        expect(f"claim.{name}", c.get(name), math.nan)


def _rivals(r: Record, p: RecordedProblem) -> None:
    """Their form: places, labels, and a whole path with its figures where one was retained."""
    last = -1
    for k, rival in enumerate(r["rivals"]):
        where, i = f"rivals[{k}]", rival["index"]
        require(f"{where}.index", last < i < len(p.actions), i, "a place among the actions, in ascending order")
        last = i
        expect(f"{where}.action", rival["action"], p.actions[i])
        expect(f"{where}.label", rival["label"], r["task"]["labels"][i])
        is_retained, path = rival["retained"], rival["path"]
        require(f"{where}.path", not is_retained or _is_path(path, i, p), path, f"{p.depth} places that begin with {i}")
        for name in _PATH:
            require(f"{where}.{name}", (rival[name] is not None) == is_retained, rival[name], "a number iff retained")


def _is_path(path: list[int], first: int, p: RecordedProblem) -> bool:
    inside: list[Any] = [i for i in path if i < len(p.actions)]
    return path[:1] == [first] and len(inside) == len(path) == p.depth
