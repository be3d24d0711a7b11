"""What pages need besides `reads`: a decision told with its pictures, a file of decisions."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ucsearch.dispatch.words import explain_condition
from ucsearch.errors import UCSearchError
from ucsearch.pipeline.explain import explain_row
from ucsearch.records.blobs import decode_array
from ucsearch.records.canonical import decode_number
from ucsearch.records.reader import AuditReader
from ucsearch.report.fan import LEVELS, bars, fan, quantiles
from ucsearch.service import reads
from ucsearch.service.plans import Plan

__all__ = ["Condition", "Option", "Told", "csv_text", "expired", "history", "options", "tell"]

_PAST = 40  # decisions of a series that are drawn
_TOLD_STEPS = 40  # of a fan's table
_OPTIONS = 100  # to choose from


@dataclass(frozen=True)
class Condition:
    words: str
    passed: bool


@dataclass(frozen=True)
class Option:
    """An action that the rules allow."""

    action: Any
    label: str
    order: float | None
    score: Any
    bound: Any
    current: bool  # it counts now


@dataclass(frozen=True)
class Told:
    """A decision in words and pictures."""

    text: str
    conditions: tuple[Condition, ...]
    rivals: tuple[Mapping[str, Any], ...]  # best first
    chosen: int | None  # index of the one that was put forward
    fan: str  # SVG, "" where there is no forecast
    fan_rows: tuple[tuple[int, tuple[float, ...], float | None], ...]  # step, quantiles, what came
    plan: str  # SVG
    orders: tuple[float, ...]


def options(
    record: Mapping[str, Any], feasible: Sequence[tuple[Any, str]], orders: Sequence[float | None], effective: Any
) -> tuple[Option, ...]:
    """Feasible actions with what is known of each."""
    rivals = {r["action"]: r for r in record.get("rivals", ())}
    out = []
    for (action, label), order in zip(feasible, orders, strict=True):
        found = rivals.get(action, {})
        out.append(Option(action, label, order, found.get("score"), found.get("upper"), action == effective))
    if len(out) > _OPTIONS:  # the best of a fine grid; every other number can be written
        best = sorted(out, key=lambda o: (not o.current, -_bound(o.bound)))[:_OPTIONS]
        out = [o for o in out if o in best]
    return tuple(out)


def tell(reader: AuditReader, id: str, plan: Plan | None, came: Mapping[int, float]) -> Told:
    """Words from the record alone, and pictures of its forecast and plan."""
    row = reads.find_row(reader, id)
    record = row.record
    try:
        told = explain_row(reader, row, None if plan is None else plan.settings)
        text, members, weights = told.text, told.members, told.weights
        unit, orders = told.outcome_unit or told.units, tuple(float(x) for x in told.orders)
        action_unit, title = told.action_unit, "Plan" if told.released else "The plan that was not released"
    except UCSearchError as error:
        return Told(str(error), _conditions(record), _rivals(record), None, "", (), "", ())
    rows: tuple[tuple[float, ...], ...] = ()
    if members.shape[0] and members.shape[1]:
        rows = tuple(quantiles(members[:, h, 0].tolist(), weights.tolist()) for h in range(members.shape[1]))
    table = tuple((h + 1, row_, came.get(h + 1)) for h, row_ in enumerate(rows[:_TOLD_STEPS]))
    claim = record.get("claim", {})
    return Told(
        text, _conditions(record), _rivals(record), claim.get("action_index"),
        fan("fan", "Forecast", rows, came, unit) if rows else "", table,
        bars("plan", title, orders, action_unit) if orders else "", orders,
    )  # fmt: skip


def history(reader: AuditReader, view: reads.SeriesView, unit: str) -> str:
    """What the last decisions expected of their next step, and what came of it, oldest first; "" without forecasts."""
    first = {o.decision: o for o in reversed(view.outcomes) if o.step == 1 and not o.replaces}
    rows: list[tuple[float, ...]] = []
    came: dict[int, float] = {}
    for line in reversed(view.recent[:_PAST]):
        record = reader.get(line.seq).record
        trace = record.get("inputs", {}).get("trace")
        if record["kind"] != "decision" or trace is None:
            continue
        members, weights = (decode_array(reader.blob(trace[n]["$blob"]))[0] for n in ("members", "weights"))
        if not members.shape[0]:
            continue
        rows.append(quantiles(members[:, 0, 0].tolist(), weights.tolist()))
        found = first.get(line.id)
        if found is not None:
            value = found.value[0] if isinstance(found.value, list) else found.value
            came[len(rows)] = float(decode_number(value))
    return fan("history", "One step ahead, by decision, and what came", rows, came, unit) if len(rows) > 1 else ""


def expired(until: str, now: datetime) -> bool:
    """Whether a decision may no longer be followed, nor overridden."""
    return bool(until) and not now < datetime.fromisoformat(until)


def _conditions(record: Mapping[str, Any]) -> tuple[Condition, ...]:
    out = []
    for row in record.get("gate", {}).get("rows", ()):
        words = explain_condition(
            row["name"], _number(row["left"]), row["operator"], _number(row["right"]), row["pass"]
        )
        out.append(Condition(words.partition("  ")[2].strip() or words, bool(row["pass"])))
    return tuple(out)


def _rivals(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    index = record.get("claim", {}).get("action_index")
    return tuple(sorted(record.get("rivals", ()), key=lambda r: (r["index"] != index, -_bound(r["upper"]))))


def _bound(value: Any) -> float:
    return math.inf if value is None else float(decode_number(value))


def _number(value: Any) -> str:
    if value is None:
        return "-"
    try:
        return f"{float(decode_number(value)):.6g}"
    except (TypeError, ValueError, UCSearchError):
        return str(value)


HEAD = ("seq", "id", "plan", "series", "outcome", "reason", "action", "label", "effective", "overridden", "now",
        "valid_until", "sentence")  # fmt: skip


def csv_text(lines: Sequence[reads.DecisionLine]) -> bytes:
    """A table for a spreadsheet; texts that it would take for a formula get a mark in front."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(HEAD)
    for line in lines:
        writer.writerow([_cell(getattr(line, name)) for name in HEAD])
    return ("\ufeff" + file.getvalue()).encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value


def levels_head() -> tuple[str, ...]:
    return tuple(f"{100 * level:g} %" for level in LEVELS)
