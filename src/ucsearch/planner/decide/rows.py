"""One line of decisions.csv for each series: what leaves, when it arrives, what it is expected to cost, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ucsearch.decision.decision import Decision, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.decision.view import label_of, score_of
from ucsearch.decision.words import explain_fallback, explain_release
from ucsearch.layout import own_row
from ucsearch.planner.decide.states import ORDERING_TASK, Case, StateFile
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import Problem
from ucsearch.planner.recorded.limits import asked_of, blocked_words, is_blocked
from ucsearch.planner.settings import Settings
from ucsearch.policies import MODES, Exact
from ucsearch.task import Task
from ucsearch.tasks.inventory import rules

__all__ = [
    "COARSE",
    "COLUMNS",
    "NOT_PLANNED",
    "OUTLASTS",
    "PLACE",
    "REFUSED",
    "Rows",
    "coarse_note",
    "expected_loss",
    "fallback_advice",
    "judged_steps",
    "next_orders",
    "order_size",
    "ordered_by",
    "outlasts",
    "plan_orders",
    "row_note",
    "sentence_in",
    "shown_columns",
]


REFUSED = "REFUSED"  # its rows in the files cannot be used and nothing is sent: a HOLD in the log
COLUMNS: dict[str, type] = {
    "series": str,
    "date": str,  # of the period that is decided, where the forecasts have dates
    "outcome": str,
    "action": float,
    "order": float,  # units
    "arrival": str,  # date on which the order can first be sold
    "stock": float,  # units, before anything arrives
    "reason": str,
    "margin": float,  # units of reward, as the next three; empty where nothing bounds it
    "regret_bound": float,
    "expected_cost": float,
    "fallback_cost": float,
    "next_orders": str,  # units, or actions, of the periods after this one, as the plan stands
    "certificate": str,
    "sentence": str,
    "note": str,
    "problem": str,
}
REFUSED_ROW, NOTHING_SENT = "The series could not be used", "Nothing is sent: a person has to decide."
PLACE = {name: i for i, name in enumerate(COLUMNS)}
_OF_ORDERS = ("order", "arrival", "stock")
_OTHERWISE = {"next_orders": "next_actions"}
# Fallbacks whose words hold amounts, and nothing that only the gate knew.
_WITH_AMOUNTS = frozenset({
    Reason.NOT_PROVED, Reason.NOT_OPTIMAL, Reason.NOT_ROBUST, Reason.MARGIN_NOT_POSITIVE, Reason.REGRET_ABOVE_LIMIT,
})  # fmt: skip
_EXPLAINED = 20  # rows of a chunk whose binding limit is looked for; each takes a small search


def shown_columns(has_orders: bool) -> dict[str, int]:
    """Columns of a file, with their places in a row."""
    if has_orders:
        return dict(PLACE)
    return {_OTHERWISE.get(k, k): i for k, i in PLACE.items() if k not in _OF_ORDERS}


def sentence_in(d: Decision, money: str) -> str:
    """The decision's sentence with its scores in `money`: a record knows no currency, the settings do."""
    if not money or d.certificate is None:
        return d.sentence
    if d.released:
        return explain_release(d.certificate, label_of(d), d.pass_kind, money)
    if d.cause not in _WITH_AMOUNTS:
        return d.sentence
    return explain_fallback(d.cause, d.certificate, "", label_of(d) if d.action is not None else None, money)


class _Files(Protocol):
    settings: Settings
    forecasts: SeriesFile
    states: StateFile


class Rows:
    """Makes the rows of one chunk."""

    def __init__(self, files: _Files) -> None:
        self.files = files
        self.explained = 0

    def decided(self, series: str, d: Decision, id: str) -> list[Any]:
        case, score = self.files.states.cases[series], score_of(d)
        order = order_size(d)
        given = {
            "action": d.action,
            "order": order,
            "reason": d.reason.value,
            "margin": d.release_margin,
            "regret_bound": d.regret_bound,
            "expected_cost": None if score is None or d.action is None else -score,
            "fallback_cost": expected_loss(d),
            "next_orders": next_orders(plan_orders(d), judged_steps(d)) if d.action is not None else "",
            "sentence": sentence_in(d, self.files.settings.currency),
            "note": "; ".join(
                filter(None, (row_note(d, order, self.files.settings.units), coarse_note(d), self._binds(d)))
            ),
        }
        return self._row(series, case, d.outcome.value, id, given)

    def told(self, series: str, outcome: str, id: str, given: dict[str, Any]) -> list[Any]:
        """The row of a decision whose cells are known."""
        return self._row(series, self.files.states.cases[series], outcome, id, given)

    def refused(self, series: str, problem: Problem, d: Decision, id: str) -> list[Any]:
        """A series whose rows cannot be used: nothing is sent. With a usable state the
        settings may call it a HOLD."""
        case = self.files.states.cases.get(series)
        held = case is not None and self.files.settings.without_forecast == "hold"
        given = {
            "reason": d.reason.value if held else "invalid_input",
            "sentence": d.sentence if case is not None else f"{REFUSED_ROW}: {problem}. {NOTHING_SENT}",
            "problem": str(problem),
        }
        return self._row(series, case, "HOLD" if held else REFUSED, id, given)

    def _row(self, series: str, case: Case | None, outcome: str, id: str, given: dict[str, Any]) -> list[Any]:
        date = self._date(series)
        row: list[Any] = ["" if kind is str else None for kind in COLUMNS.values()]
        stock = case.state.on_hand if case is not None and case.kind.task.name == ORDERING_TASK else None
        given |= {"series": series, "date": self._told(date), "outcome": outcome}
        given |= {"certificate": id, "stock": stock}
        if given.get("order"):
            given["arrival"] = self._arrival(date, case)
        for name, value in given.items():
            # What is not bounded, or not known, is an empty cell: a spreadsheet reads "inf" as a word.
            row[PLACE[name]] = None if isinstance(value, float) and not math.isfinite(value) else value
        return row

    def _date(self, series: str) -> Any:
        forecasts = self.files.forecasts
        if forecasts.layout.dated and series in forecasts.spans:
            return forecasts.spans[series][0]
        return self.files.states.dates.get(series)

    def _arrival(self, date: Any, case: Case | None) -> str:
        period = self.files.settings.period
        if date is None or str(date) == "NaT" or case is None or period == "any":  # nobody knows how long a period is
            return ""
        return self._told(later(date, case.kind.lead_time, period))

    def _told(self, moment: Any) -> str:
        return day_text(moment, self.files.settings.period, self.files.forecasts.offset)

    def _binds(self, d: Decision) -> str:
        if not is_blocked(d):
            return ""
        self.explained += 1
        return blocked_words(asked_of(d)) if self.explained <= _EXPLAINED else "ucsearch explain says which limit binds"


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
        "not_proved": f"the search ended before an action was proved best of those offered; {effort}",
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


NOT_PLANNED = "not planned yet"


def plan_orders(decision: Decision) -> tuple[float, ...]:
    """Actions of the best plan known that begins with what leaves (or was put forward), the first included; of an
    inventory the units they order, levels along the mean forecast."""
    c = decision.certificate
    if c is None:
        return ()
    wanted = c.action if decision.action is None else decision.action
    path = next((r.path for r in c.rivals if r.action == wanted), ())
    plan, w = c.plan, c.plan.window
    actions = tuple(float(plan.actions[i]) for i in path)
    layout = plan.task.params_layout
    if plan.task.name != ORDERING_TASK or layout is None or not actions:
        return actions
    params = layout.build(own_row(plan.inputs.params, w).tolist())
    if params.by_level == 0.0 and params.minimum_order == 0.0 and params.case_pack == 0.0:
        return actions
    state = plan.layout.build(plan.inputs.states[w].tolist())
    sizes = []
    for h, action in enumerate(actions):
        sizes.append(float(rules.ordered(state, action, params)))
        if params.by_level != 0.0:
            state = plan.task.step_at(state, action, float(plan.trace.mean[0, h, 0]), h, params)
    return tuple(sizes)


def judged_steps(decision: Decision) -> int:
    """How many actions of the plan its horizon can judge; later ones are not planned yet."""
    c = decision.certificate
    return 0 if c is None else c.plan.task.judged(c.plan.settings.reach)


def next_orders(orders: Sequence[float], judged: int) -> str:
    """What the plan goes on with after its first action: quantities as far as the horizon judges them."""
    words = [f"{x:.12g}" for x in orders[1:judged]]
    return " ".join([*words, f"({NOT_PLANNED})"] if len(orders) > max(judged, 1) else words)


OUTLASTS = "a larger depth might order less or more"  # how the note of an order ends whose later use was not counted


def order_size(decision: Decision) -> float | None:
    """Units that a decision's action orders; None when it orders nothing known."""
    c = decision.certificate
    if c is None or decision.action is None or c.plan.task.name != ORDERING_TASK:
        return None
    plan, w = c.plan, c.plan.window
    layout = plan.task.params_layout
    if layout is None:
        return None
    state = plan.layout.build(plan.inputs.states[w].tolist())
    params = layout.build(own_row(plan.inputs.params, w).tolist())
    return float(rules.ordered(state, decision.action, params))


def expected_loss(decision: Decision) -> float | None:
    """What falling back is expected to cost: score of the plan that was put forward minus that of the best plan known
    that begins with the fallback; where none is known, of their first steps. None when nothing fell back."""
    c = decision.certificate
    if c is None or decision.outcome is not Outcome.FALLBACK:
        return None
    scores = {r.action: r.score for r in c.rivals if r.retained and math.isfinite(r.score)}
    if decision.rejected_action in scores and decision.fallback_action in scores:
        return float(scores[decision.rejected_action] - scores[decision.fallback_action])
    return None if math.isnan(decision.fallback_cost) else float(decision.fallback_cost)


def ordered_by(case: Case, action: float | None) -> float | None:
    """Units that an action orders in a series' own state; None when it orders nothing known."""
    if action is None or case.kind.task.name != ORDERING_TASK:
        return None
    return float(rules.ordered(case.state, action, case.params))


def outlasts(task: Task, planned: int) -> str:
    """What is said of an order that lasts longer than the periods planned."""
    text = f"lasts past the {planned} periods planned"
    if task.terminal is rules.terminal_cycle:
        return f"{text}; what is left then counts by the order that it puts off"
    return f"{text}: {OUTLASTS}"


def row_note(decision: Decision, order: float | None, units: str) -> str:
    """What a planner should know besides: units that a level or a rounded size orders (`order`), and a release at the
    edge of what was looked at: the largest size offered, or an order that outlasts the periods planned."""
    c = decision.certificate
    if c is None or order is None or decision.action is None:
        return ""
    notes = [f"orders {order:g} {units}"] if order != decision.action else []
    offered = [a for a in c.plan.actions if a == a]
    edge = len(offered) > 1 and decision.action == max(offered) and order > 0.0
    if edge and decision.outcome is Outcome.RELEASED:
        notes.append("the largest size offered: larger ones were not tried")
    if order > 0.0 and decision.outcome is Outcome.RELEASED and not c.plan.trace.is_scores:
        plan, w = c.plan, c.plan.window
        planned = min(plan.settings.reach, plan.trace.horizon)
        expected = float(np.maximum(plan.trace.mean[0, :planned, 0], 0.0).sum())
        held = rules.position_of(plan.layout.build(plan.inputs.states[w].tolist()))
        if held + order > expected:
            notes.append(outlasts(plan.task, planned))
    return "; ".join(notes)


COARSE = "sizes are offered in steps far wider than demand varies"
_WIDE = 4.0  # standard deviations of demand over the lead time and a period


def coarse_note(decision: Decision) -> str:
    """What a planner should know of sizes that cannot fit; nothing where packs make the steps."""
    c = decision.certificate
    if c is None or c.plan.task.name != ORDERING_TASK or c.plan.settings.mode != MODES["closed"]:
        return ""
    plan = c.plan
    offered = np.sort([a for a in plan.actions if a == a])
    layout = plan.task.params_layout
    if offered.size < 3 or layout is None:
        return ""
    p = layout.build(own_row(plan.inputs.params, plan.window).tolist())
    step = float(np.diff(offered[1:]).min())
    lead = int(getattr(p, "lead_time", 0.0))
    members = np.maximum(plan.trace.members[0, :, : lead + 1, 0], 0.0)
    spread = float(members.sum(axis=1).std())
    if not step > _WIDE * spread > 0.0 or p.case_pack >= step or step <= 1.0:
        return ""
    return f"{COARSE} ({step:g} against {spread:.3g})"
