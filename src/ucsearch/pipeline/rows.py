"""One line of decisions.csv for each series: what leaves, when it arrives, what it is expected to cost, and why."""

from __future__ import annotations

import math
from typing import Any, Protocol

from ucsearch.dispatch.decision import Decision
from ucsearch.dispatch.gate import Reason
from ucsearch.dispatch.view import label_of, score_of
from ucsearch.dispatch.words import explain_fallback, explain_release
from ucsearch.pipeline.cases import ORDERING_TASK, Case, StateFile
from ucsearch.pipeline.coarse import coarse_note
from ucsearch.pipeline.forecasts import ForecastFile
from ucsearch.pipeline.limits import asked_of, blocked_words, is_blocked
from ucsearch.pipeline.order_words import expected_loss, order_size, row_note
from ucsearch.pipeline.periods import day_text, later
from ucsearch.pipeline.plans import judged_steps, next_orders, plan_orders
from ucsearch.pipeline.tables import Problem
from ucsearch.settings import Settings

__all__ = ["COLUMNS", "PLACE", "REFUSED", "Rows", "sentence_in", "shown_columns"]

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
    forecasts: ForecastFile
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
