"""One line of decisions.csv for each series: what leaves, when it arrives, what it is expected to cost, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ucsearch.decision.decision import Decision, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.decision.view import label_of, score_of
from ucsearch.decision.words import explain_fallback, explain_release
from ucsearch.formatting import figure
from ucsearch.layout import own_row
from ucsearch.planner.decide.states import Case, StateFile
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import Problem
from ucsearch.planner.recorded.limits import asked_of, blocked_words, is_blocked
from ucsearch.planner.settings import Settings
from ucsearch.policies import MODES, Exact
from ucsearch.tasks.base import Purchase, Sent, config_of, quantities

__all__ = [
    "COLUMNS",
    "NOT_PLANNED",
    "OF_TWO",
    "PLACE",
    "REFUSED",
    "Rows",
    "action_cell",
    "column_kinds",
    "decided_cells",
    "expected_loss",
    "fallback_advice",
    "judged_steps",
    "next_orders",
    "order_cells",
    "order_size",
    "plan_orders",
    "purchases_of",
    "row_notes",
    "sentence_in",
    "shown_columns",
]


REFUSED = "REFUSED"  # its rows in the files cannot be used and nothing is sent: a HOLD in the log
COLUMNS: dict[str, type] = {
    "series": str,
    "date": str,  # of the period that is decided, where the forecasts have dates
    "outcome": str,
    "action": float,  # of tuples a text of their numbers
    "order": float,  # units; with two suppliers from the regular one
    "arrival": str,  # date on which the order can first be sold; of an uncertain lead time the first and the last
    "expedited": float,  # units, with two suppliers from the faster one
    "expedited_arrival": str,
    "stock": float,  # units, before anything arrives
    "reason": str,
    "margin": float,  # units of reward, as the next three; empty where nothing bounds it
    "regret_bound": float,
    "expected_cost": float,
    "fallback_cost": float,
    "alone": float,  # units, or the action, that it would have got without the limits of [shared]
    "limit": str,  # of [shared] that made it less
    "next_orders": str,  # units, or actions, of the periods after this one, as the plan stands
    "certificate": str,
    "sentence": str,
    "note": str,
    "problem": str,
}
REFUSED_ROW, NOTHING_SENT = "The series could not be used", "Nothing is sent: a person has to decide."
PLACE = {name: i for i, name in enumerate(COLUMNS)}
_OF_ORDERS = ("order", "arrival", "stock")
OF_TWO = ("expedited", "expedited_arrival")
_OF_LIMITS = ("alone", "limit")
_OTHERWISE = {"next_orders": "next_actions"}
# Fallbacks whose words hold amounts, and nothing that only the gate knew.
_WITH_AMOUNTS = frozenset({
    Reason.NOT_PROVED, Reason.NOT_OPTIMAL, Reason.NOT_ROBUST, Reason.MARGIN_NOT_POSITIVE, Reason.REGRET_ABOVE_LIMIT,
})  # fmt: skip
_EXPLAINED = 20  # rows of a chunk whose binding limit is looked for; each takes a small search


def shown_columns(has_orders: bool, shares: bool = False, two_suppliers: bool = False) -> dict[str, int]:
    """Columns of a file, with their places in a row."""
    hidden = {*(() if has_orders else _OF_ORDERS), *(() if shares else _OF_LIMITS)}
    hidden |= set() if two_suppliers else set(OF_TWO)
    names = {} if has_orders else _OTHERWISE
    return {names.get(k, k): i for k, i in PLACE.items() if k not in hidden}


def column_kinds(task: Any) -> dict[str, type]:
    """What the columns hold for a record of parameters: its actions may be tuples."""
    return COLUMNS | {"action": str} if task is not None and task.task().width else dict(COLUMNS)


def action_cell(action: Any) -> Any:
    """An action in a table: tuples as a text of their numbers."""
    return " ".join(map(figure, action)) if isinstance(action, tuple) else action


def sentence_in(d: Decision, money: str) -> str:
    """The decision's sentence with its scores in `money`: a record knows no currency, the settings do."""
    if not money or d.certificate is None:
        return d.sentence
    if d.released:
        return explain_release(d.certificate, label_of(d), d.pass_kind, money)
    if d.cause not in _WITH_AMOUNTS:
        return d.sentence
    return explain_fallback(d.cause, d.certificate, "", label_of(d) if d.action is not None else None, money)


def decided_cells(d: Decision, settings: Settings) -> dict[str, Any]:
    """What a row says of a decision itself."""
    score = score_of(d)
    cells = {
        "action": action_cell(d.action),
        "purchases": purchases_of(d),
        "reason": d.reason.value,
        "margin": d.release_margin,
        "regret_bound": d.regret_bound,
        "expected_cost": None if score is None or d.action is None else -score,
        "fallback_cost": expected_loss(d),
        "next_orders": next_orders(plan_orders(d), judged_steps(d)) if d.action is not None else "",
        "sentence": sentence_in(d, settings.currency),
        "note": "; ".join(row_notes(d, settings.units)),
    }
    return {name: _cell(value) for name, value in cells.items()}


def _cell(value: Any) -> Any:
    """What is not bounded, or not known, is an empty cell: a spreadsheet reads "inf" as a word."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Files(Protocol):
    settings: Settings
    forecasts: SeriesFile
    states: StateFile

    @property
    def has_orders(self) -> bool: ...


class Rows:
    """Makes the rows of one chunk."""

    def __init__(self, files: _Files) -> None:
        self.files = files
        self.explained = 0

    def decided(self, series: str, d: Decision, id: str) -> list[Any]:
        given = decided_cells(d, self.files.settings)
        given["note"] = "; ".join(filter(None, (given["note"], self._binds(d))))
        return self._row(series, self.files.states.cases[series], d.outcome.value, id, given)

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
        stock = getattr(case.state, "on_hand", None) if case is not None and case.kind.config.places_orders else None
        given |= {"series": series, "date": self._told(date), "outcome": outcome}
        given |= {"certificate": id, "stock": stock}
        given |= order_cells(given.pop("purchases", ()), lambda periods: self._arrival(date, periods))
        for name, value in given.items():
            row[PLACE[name]] = _cell(value)
        return row

    def _date(self, series: str) -> Any:
        forecasts = self.files.forecasts
        if forecasts.layout.dated and series in forecasts.spans:
            return forecasts.spans[series][0]
        return self.files.states.dates.get(series)

    def _arrival(self, date: Any, periods: int) -> str:
        period = self.files.settings.period
        if date is None or str(date) == "NaT" or period == "any":  # nobody knows how long a period is
            return ""
        return self._told(later(date, periods, period))

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
    if isinstance(s.policy, Exact) and s.policy.mode == "closed":  # the search is its own proof
        nodes = s.policy.node_budget
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
        "margin_not_positive": "the best of the actions offered are equally good; [gate] positive_margin refuses that",
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
        "allocation_gap": "shared limits could not be shared out closely enough; raise [gate] shared_gap, or say "
        "[gate] shared_serve = 'best'",
        "budget_infeasible": "a shared limit is too small for what must be done; raise it",
        "no_information_structure": "closed-loop planning needs independent steps or a tree ([forecast] coupling)",
        "members_infeasible": "the plan breaks a rule in some of the forecast's members; plan in members or closed "
        "mode ([policy] mode)",
        "fallback_infeasible": "not even the fallback keeps the rules; a person has to decide",
    }
    return found.get(reason, "see docs/concepts/gate.md")


NOT_PLANNED = "not planned yet"


def plan_orders(decision: Decision) -> tuple[Any, ...]:
    """Actions of the best plan known that begins with what leaves (or was put forward), the first included, as
    the units that they stand for along the mean forecast."""
    c = decision.certificate
    if c is None:
        return ()
    wanted = c.action if decision.action is None else decision.action
    path = next((r.path for r in c.rivals if r.action == wanted), ())
    plan, w = c.plan, c.plan.window
    actions = tuple(plan.actions[i] for i in path)
    if plan.trace.is_scores:
        return actions
    state, params = plan.layout.build(plan.inputs.states[w].tolist()), _params_of(plan)
    return quantities(plan.task, state, actions, _mean_outcomes(plan, len(actions)), params)


def _params_of(plan: Any) -> Any:
    layout = plan.task.params_layout
    return None if layout is None else layout.build(own_row(plan.inputs.params, plan.window).tolist())


def _mean_outcomes(plan: Any, count: int) -> list[Any]:
    """The mean forecast as outcomes of the task."""
    mean, kind = plan.trace.mean[0, :count].tolist(), plan.task.outcome
    return [y[0] if kind is None else kind(*y) for y in mean]


def judged_steps(decision: Decision) -> int:
    """How many actions of the plan its horizon can judge; later ones are not planned yet."""
    c = decision.certificate
    return 0 if c is None else c.plan.task.judged(c.plan.settings.reach)


def next_orders(orders: Sequence[Any], judged: int) -> str:
    """What the plan goes on with after its first action: quantities as far as the horizon judges them."""
    words = ["+".join(f"{x:.12g}" for x in (order if isinstance(order, tuple) else (order,))) for order in orders]
    words = words[1:judged]
    return " ".join([*words, f"({NOT_PLANNED})"] if len(orders) > max(judged, 1) else words)


def order_size(decision: Decision) -> float | None:
    """Units that a decision's action orders; None when it orders nothing."""
    c = decision.certificate
    if c is None or decision.action is None or not config_of(c.plan.task).places_orders:
        return None
    plan = c.plan
    state = plan.layout.build(plan.inputs.states[plan.window].tolist())
    return config_of(plan.task).quantity(state, decision.action, _params_of(plan))


def purchases_of(decision: Decision) -> tuple[Purchase, ...]:
    """What a decision's action orders, by supplier; nothing when it orders nothing."""
    c = decision.certificate
    if c is None or decision.action is None:
        return ()
    plan = c.plan
    state = plan.layout.build(plan.inputs.states[plan.window].tolist())
    return config_of(plan.task).purchases(state, decision.action, _params_of(plan))


def order_cells(purchases: Sequence[Purchase], arrival: Callable[[int], str]) -> dict[str, Any]:
    """What a row says of orders; `arrival` dates what comes so many periods from now. Nothing ordered never arrives."""
    cells: dict[str, Any] = {}
    for name, dated, one in zip(("order", "expedited"), ("arrival", "expedited_arrival"), purchases, strict=False):
        days = [arrival(one.periods)] if one.units else []
        if days and one.latest is not None and one.latest > one.periods:
            days.append(arrival(one.latest))
        cells |= {name: one.units, dated: " to ".join(filter(None, days))}
    return cells


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


def row_notes(decision: Decision, units: str) -> list[str]:
    """What a planner should know besides of an action that leaves, as the task says it."""
    c = decision.certificate
    if c is None or decision.action is None:
        return []
    plan = c.plan
    planned = min(plan.settings.reach, plan.trace.horizon)
    scores = plan.trace.is_scores
    closed = plan.settings.mode == MODES["closed"]
    return config_of(plan.task).notes(Sent(
        decision.action, plan.layout.build(plan.inputs.states[plan.window].tolist()), _params_of(plan),
        [a for a in plan.actions if a == a],
        math.nan if scores else float(np.maximum(plan.trace.mean[0, :planned, 0], 0.0).sum()),
        planned, decision.outcome is Outcome.RELEASED, plan.trace.members[0, :, :, 0] if closed else None,
    ), units)  # fmt: skip
