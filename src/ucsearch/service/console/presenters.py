"""What pages need besides the queries: a decision told with its pictures, a file of decisions."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ucsearch.decision.words import explain_condition
from ucsearch.errors import UCSearchError
from ucsearch.planner.recorded.explain import explain_row
from ucsearch.records.canonical import decode_array, decode_number
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import allowed_numbers
from ucsearch.report.charts import LEVELS, bars, fan, quantiles
from ucsearch.service import queries
from ucsearch.service.schemas import DecisionLine, SeriesView
from ucsearch.service.writer.plans import ServicePlan
from ucsearch.task import Task

__all__ = [
    "ActionOption",
    "GateCondition",
    "ToldDecision",
    "action_unit",
    "csv_text",
    "expired",
    "history",
    "options",
    "ranges",
    "tell",
]

_PAST = 40  # decisions of a series that are drawn
_TOLD_STEPS = 40  # of a fan's table
_OPTIONS = 100  # to choose from
_RANGES = 5  # of numbers that are named
_FAR = 1e9  # numbers of a state beyond are no amounts


@dataclass(frozen=True)
class GateCondition:
    """A row of the gate."""

    words: str
    passed: bool
    seen: tuple[Any, ...]  # left, operator, right; () where it asks yes or no


@dataclass(frozen=True)
class ActionOption:
    """An action that the rules allow."""

    action: Any  # as recorded
    choice: str  # in a form
    label: str
    order: float | None
    score: Any
    bound: Any
    current: bool  # it counts now


@dataclass(frozen=True)
class ToldDecision:
    """A decision in words and pictures."""

    text: str
    conditions: tuple[GateCondition, ...]
    rivals: tuple[Mapping[str, Any], ...]  # best first
    chosen: int | None  # index of the proposed one
    fan: str  # SVG, "" where there is no forecast
    fan_rows: tuple[tuple[int, tuple[float, ...], float | None], ...]  # step, quantiles, what came
    plan: str  # SVG
    orders: tuple[Any, ...]  # numbers; of several suppliers a tuple
    action_unit: str


def options(
    record: Mapping[str, Any], feasible: Sequence[tuple[Any, str]], orders: Sequence[float | None], effective: Any
) -> tuple[ActionOption, ...]:
    """Feasible actions with what is known of each."""
    rivals = {choice_of(r["action"]): r for r in record.get("rivals", ())}
    out = []
    for (action, label), order in zip(feasible, orders, strict=True):
        rival = rivals.get(choice := choice_of(action), {})
        out.append(
            ActionOption(action, choice, label, order, rival.get("score"), rival.get("upper"), action == effective)
        )
    if len(out) > _OPTIONS:  # the best of a fine grid; every other number can be written
        best = sorted(out, key=lambda o: (not o.current, -_bound(o.bound)))[:_OPTIONS]
        out = [o for o in out if o in best]
    return tuple(out)


def choice_of(action: Any) -> str:
    """A recorded action as a form sends it: a number, or as many with + between them."""
    return "+".join(map(str, action)) if isinstance(action, list) else str(action)


def tell(reader: AuditReader, id: str, plan: ServicePlan | None, outcomes: Mapping[int, float]) -> ToldDecision:
    """Words from the record alone, and pictures of its forecast and plan."""
    row = queries.find_row(reader, id)
    record = row.record
    try:
        explained = explain_row(reader, row, None if plan is None else plan.settings)
        text, members, weights = explained.text, explained.members, explained.weights
        unit, orders = explained.outcome_unit or explained.units, explained.orders
        title = "Plan" if explained.released else "The plan that was not released"
    except UCSearchError as error:
        return ToldDecision(
            str(error), _conditions(record), _rivals(record), None, "", (), "", (), action_unit(record, plan)
        )
    rows: tuple[tuple[float, ...], ...] = ()
    if members.shape[0] and members.shape[1]:
        rows = tuple(quantiles(members[:, h, 0].tolist(), weights.tolist()) for h in range(members.shape[1]))
    table = tuple((h + 1, row_, outcomes.get(h + 1)) for h, row_ in enumerate(rows[:_TOLD_STEPS]))
    claim = record.get("claim", {})
    return ToldDecision(
        text, _conditions(record), _rivals(record), claim.get("action_index"),
        fan("fan", "Forecast", rows, outcomes, unit) if rows else "", table,
        bars("plan", title, [sum(x) if isinstance(x, tuple) else float(x) for x in orders], explained.action_unit)
        if orders else "", orders, action_unit(record, plan),
    )  # fmt: skip


def history(reader: AuditReader, view: SeriesView, unit: str) -> str:
    """What the last decisions expected of their next step, and what came of it, oldest first; "" without forecasts."""
    first = {o.decision: o for o in reversed(view.outcomes) if o.step == 1 and not o.replaces}
    rows: list[tuple[float, ...]] = []
    outcomes: dict[int, float] = {}
    for line in reversed(view.recent[:_PAST]):
        record = reader.get(line.seq).record
        trace = record.get("inputs", {}).get("trace")
        if record["kind"] != "decision" or trace is None:
            continue
        members, weights = (decode_array(reader.blob(trace[n]["$blob"]))[0] for n in ("members", "weights"))
        if not members.shape[0]:
            continue
        rows.append(quantiles(members[:, 0, 0].tolist(), weights.tolist()))
        outcome = first.get(line.id)
        if outcome is not None:
            value = outcome.value[0] if isinstance(outcome.value, list) else outcome.value
            outcomes[len(rows)] = float(decode_number(value))
    return (
        fan("history", "One step ahead, by decision, with the outcomes", rows, outcomes, unit, "decision")
        if len(rows) > 1
        else ""
    )


def action_unit(record: Mapping[str, Any], plan: ServicePlan | None) -> str:
    """What an action of a record is counted in; "" where nobody says."""
    if plan is None:
        return ""
    s = plan.settings
    return str(s.task.words(s.units, s.currency or "").action_unit)


def ranges(record: Mapping[str, Any], task: Task | None) -> tuple[tuple[float, float], ...]:
    """Where none of the recorded actions is allowed: ranges of numbers that are, as far as they were tried. Whoever
    must decide would have to guess them."""
    if task is None or task.width or "inputs" not in record:
        return ()
    numbers = [
        float(decode_number(x)) for x in (*record["task"]["actions"], *record["inputs"]["state"]) if x is not None
    ]
    numbers = [x for x in numbers if math.isfinite(x) and abs(x) < _FAR]
    reach = max([1.0, *map(abs, numbers)]) * 1.5
    step = 10.0 ** math.floor(math.log10(reach / 100.0))
    tried = sorted({*numbers, *(i * step for i in range(-int(reach / step), int(reach / step) + 1))})
    try:
        allowed = allowed_numbers(record, task, tried)
    except UCSearchError:
        return ()
    out: list[tuple[float, float]] = []
    for i, number in enumerate(tried):
        if allowed[i] and i and allowed[i - 1]:
            out[-1] = (out[-1][0], number)
        elif allowed[i]:
            out.append((number, number))
    return tuple(out[:_RANGES])


def expired(until: str, now: datetime) -> bool:
    """Whether a decision may no longer be followed, nor overridden."""
    return bool(until) and not now < datetime.fromisoformat(until)


def _conditions(record: Mapping[str, Any]) -> tuple[GateCondition, ...]:
    out = []
    for row in record.get("gate", {}).get("rows", ()):
        words = explain_condition(row["name"], "", row["operator"], "", row["pass"]).partition("  ")[2]
        figures = () if row["operator"] == "==" else (row["left"], row["operator"], row["right"])
        out.append(GateCondition(words.rpartition(" (")[0], bool(row["pass"]), figures))
    return tuple(out)


def _rivals(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    index = record.get("claim", {}).get("action_index")
    return tuple(sorted(record.get("rivals", ()), key=lambda r: (r["index"] != index, -_bound(r["upper"]))))


def _bound(value: Any) -> float:
    return math.inf if value is None else float(decode_number(value))


HEAD = ("seq", "id", "plan", "series", "outcome", "reason", "action", "label", "effective", "overridden", "now",
        "valid_until", "sentence")  # fmt: skip


def changeable(reader: AuditReader, lines: Sequence[DecisionLine], now: datetime) -> frozenset[str]:
    """Ids of decisions that a person may override: the newest of their series, and still valid."""
    newest: dict[tuple[str, str], int] = {}
    for line in lines:
        if (line.plan, line.series) not in newest and not expired(line.valid_until, now):
            row = reader.newest(line.series, line.plan or None)
            newest[line.plan, line.series] = 0 if row is None else row.seq
    return frozenset(line.id for line in lines if newest.get((line.plan, line.series)) == line.seq)


def csv_text(lines: Sequence[DecisionLine]) -> bytes:
    """A table for a spreadsheet; texts that it would take for a formula get a mark in front."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(HEAD)
    for line in lines:
        writer.writerow([_cell(getattr(line, name)) for name in HEAD])
    return ("\ufeff" + file.getvalue()).encode("utf-8", "replace")


# Of a spreadsheet, also where it splits at semicolons (as a German one does, whatever is quoted), and in full width.
_FORMULA = re.compile("(^|[;\t\r\n])( *[=+@\t\r\uff1d\uff0b\uff20\uff0d-])")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return _FORMULA.sub(r"\1'\2", value)
    return "" if value is None else choice_of(value) if isinstance(value, list) else value


def levels_head() -> tuple[str, ...]:
    return tuple(f"{100 * level:g} %" for level in LEVELS)
