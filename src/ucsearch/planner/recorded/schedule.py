"""`ucsearch explain --plan`: the whole plans of recorded decisions as a table, a row for each period, with times.

A released decision's plan is followed through the mean forecast, by the task's own rules. Only its first action is
decided; the rest is what the planner meant to do next. A fallback is its one action, and so is what a person ordered
instead; what is on hold has no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import RecordError
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout
from ucsearch.planner.decide.rows import NOT_PLANNED, action_cell
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.numbers import offset_of, parse_dates
from ucsearch.planner.files.table import Style, check_writable, refuse_overwriting, write_table
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import own_tasks, recorded_task
from ucsearch.records.canonical import decode_array
from ucsearch.records.entries import Effective, Row, effective_of
from ucsearch.records.overrides import RecordedInputs, recorded_action, recorded_inputs
from ucsearch.scale.segments.reader import SegmentReader
from ucsearch.tasks.base import config_of
from ucsearch.tasks.checks import NO_LIMIT

__all__ = ["COLUMNS", "write_schedule"]

Floats = NDArray[np.float64]
_DECIDED = ("decision", "refusal")
COLUMNS: dict[str, type] = {
    "series": str,
    "period": int,  # 1 is decided now
    "start": str,  # of the period; empty where the forecast does not say when it begins
    "outcome": str,  # OVERRIDDEN where a person's action counts
    "action": float,
    "label": str,
    "forecast": float,  # mean outcome
    "state": str,  # what the state's number is, such as charge [MWh]
    "before": float,
    "after": float,
    "certificate": str,
}


def write_schedule(
    log: str | Path, out: str | Path, *, settings: Settings | None = None, series: Sequence[str] = ()
) -> tuple[int, int]:
    """The newest decision of every series (or of these): how many rows and series were written."""
    refuse_overwriting(
        {"the schedule": out}, {"the log": log, "the settings": None if settings is None else settings.file or None}
    )
    check_writable(out)
    with SegmentReader(log).knowing(own_tasks(settings)) as reader:
        names = list(dict.fromkeys(series)) or sorted(
            {str(row.record.get("series", "")) for row in reader.list(kind=_DECIDED, limit=2**31)} - {""}
        )
        if not names:
            raise RecordError(f"{log}: no series has a plan; `ucsearch log list --log {log}` shows what is in it")
        found: list[list[list[Any]]] = []
        for name in names:
            row = reader.newest(name)
            if row is None:
                raise RecordError(f"{log}: no decision of a series {name!r}")
            blobs = {n: decode_array(data) for n, data in reader.blobs_of(row).items()}
            share = reader.shares([row]).get(row.seq)
            counts = effective_of(row, reader.overrides_of(row), share)
            found.append(_plan_rows(row, counts, blobs, settings))

    def rows() -> Iterator[Sequence[Any]]:
        for one in found:
            yield from one

    own = [] if settings is None else [settings.path("states"), settings.path("sales")]
    style = Style.like(own, "auto" if settings is None else settings.columns.decimal)
    pairs = any(isinstance(row[4], str) for one in found for row in one)
    columns = COLUMNS | {"action": str} if pairs else COLUMNS
    return write_table(out, columns, rows, for_people=True, style=style), sum(map(bool, found))


def _plan_rows(row: Row, counts: Effective, blobs: dict[str, Floats], settings: Settings | None) -> list[list[Any]]:
    record, name = row.record, row.id
    outcome = record.get("outcome", {})
    task = recorded_task(record.get("task", {}), settings)
    own = outcome.get("action") if isinstance(outcome, dict) else None
    shared = counts.share is not None and counts.action != own
    replaced = (counts.override is not None or shared) and counts.action is not None
    if task is None or "inputs" not in record:
        return []
    if counts.override is None and shared and counts.action is None:
        return []
    if not replaced and (record.get("kind") != "decision" or outcome.get("outcome") == "HOLD"):
        return []
    given = recorded_inputs(record, task)
    layout = Layout(task.state, tuple(record["inputs"]["state_lengths"]))
    trace = record["inputs"].get("trace")
    path = [recorded_action(counts.action)] if replaced else [a for a in _path(record, outcome) if a is not None]
    said = "OVERRIDDEN" if counts.override is not None and replaced else outcome["outcome"]
    if counts.override is None and counts.share is not None:
        said = counts.share.outcome
    words = config_of(task).words(settings.units if settings else "", settings.currency if settings else "")
    told, unit = words.fields.get(layout.names[0], (layout.names[0], ""))
    told = f"{told} [{unit}]" if unit else told
    if trace is None:  # refused for its forecast: a person's action alone
        label = _label(given, path[0])
        return [
            [
                record["series"],
                1,
                "",
                said,
                action_cell(path[0]),
                label,
                None,
                told,
                _first(layout, given.state),
                None,
                name,
            ]
        ]
    mean = _mean(blobs[trace["members"]["$blob"]][0], blobs[trace["weights"]["$blob"]][0])
    times = _times(trace["meta"], settings, len(path))
    judged = task.judged(int(record["settings"].get("reach", len(path))))
    state, out = given.state, []
    for h, action in enumerate(path):
        value = mean[h].tolist()
        y = value[0] if task.outcome is None else task.outcome(*value)
        after = task.step_at(state, action, y, h, given.params)
        figures = [_first(layout, s) for s in (state, after)]
        label = _label(given, action)
        start = [record["series"], h + 1, times[h], said]
        if h < judged:
            out.append([*start, action_cell(action), label, value[0], told, *figures, name])
        else:
            out.append([*start, None, NOT_PLANNED, value[0], told, None, None, name])
        state = after
    return out


def _label(given: RecordedInputs, action: Any) -> str:
    labels = [label for a, label in zip(given.actions, given.labels, strict=True) if a == action]
    return labels[0] if labels else action_figure(action)


def _path(record: dict[str, Any], outcome: dict[str, Any]) -> list[Any]:
    """The released plan's actions; of a fallback only that."""
    if outcome["outcome"] != "RELEASED":
        action = outcome.get("action")
        return [recorded_action(action)]
    index = record["claim"]["action_index"]
    path: list[int] = next((r["path"] for r in record["rivals"] if r["index"] == index), [])
    actions = record["task"]["actions"]
    return [recorded_action(actions[i]) for i in path]


def _mean(members: Floats, weights: Floats) -> Floats:
    """(H, F)"""
    found: Floats = np.einsum("j,jhf->hf", weights, members)
    return found


def _first(layout: Layout, state: Any) -> float:
    value = layout.flatten(state, "state")[0]
    return math.nan if value >= NO_LIMIT else value


def _times(meta: dict[str, Any], settings: Settings | None, count: int) -> list[str]:
    """When each period begins: one period after the forecast's cutoff and on."""
    if settings is None or settings.period == "any" or not meta.get("cutoff"):
        return [""] * count
    last = parse_dates([meta["cutoff"][0]], settings.columns.dates, wall_clock=False)[0]
    if np.isnat(last):
        return [""] * count
    offset = offset_of(meta["cutoff"][0])
    return [day_text(later(last, h + 1, settings.period), settings.period, offset) for h in range(count)]
