"""The file of decisions as it stands: a person's order replaces what was decided, in its row and on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import UCSearchError
from ucsearch.formatting import action_figure, figure
from ucsearch.planner.decide.page import DecidePage
from ucsearch.planner.decide.rows import (
    COLUMNS,
    OF_TWO,
    PLACE,
    REFUSED,
    action_cell,
    column_kinds,
    decided_cells,
    order_cells,
    shown_columns,
)
from ucsearch.planner.files.calendar import day_text, later
from ucsearch.planner.files.numbers import offset_of, parse_dates
from ucsearch.planner.files.table import Style, Table, open_table, write_table
from ucsearch.planner.recorded.limits import asked_of, blocked_words, is_blocked
from ucsearch.planner.recorded.problem import asked_again
from ucsearch.planner.recorded.shared import allocation_again, share_words
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import own_tasks, recorded_task
from ucsearch.records.entries import Row, Share, effective_of
from ucsearch.records.overrides import RecordedInputs, recorded_action, recorded_inputs
from ucsearch.scale.segments.reader import SegmentReader
from ucsearch.task import Task
from ucsearch.tasks.base import config_of

__all__ = ["OVERRIDDEN", "Standing", "standing", "update_decisions"]

OVERRIDDEN = "OVERRIDDEN"  # the outcome where a person's order counts
Cells = dict[str, Any]
_NO_ORDER: Cells = {"order": None, "arrival": "", "expedited": None, "expedited_arrival": ""}


class Standing(NamedTuple):
    """A decision's row as it stands."""

    cells: Cells
    override: dict[str, Any] | None  # the record in force


def update_decisions(settings: Settings, decisions: Path, log: Path, row: Row, page: Path | None = None) -> bool:
    """Bring the row of a decision in the file that `decide` wrote to what the log says now, and the page made of it.
    False, with nothing written, where the file has no such row, or other columns than `decide` writes."""
    if not decisions.exists():
        return False
    table = open_table(decisions, settings.columns.decimal)
    orders = "order" in table.columns
    shown = shown_columns(orders, "alone" in table.columns, OF_TWO[0] in table.columns)
    kinds = column_kinds(settings.task)
    if list(table.columns) != list(shown):
        return False
    rows = list(_rows(table, shown, list(kinds.values())))
    at = next((i for i, cells in enumerate(rows) if cells["certificate"] == row.id), None)
    if at is None:
        return False
    with SegmentReader(log).knowing(own_tasks(settings)) as reader:
        rows[at] = standing(settings, reader, row, rows[at]).cells
        share = reader.shares([row]).get(row.seq)
        allocation = None if share is None else allocation_again(reader, share.allocation, settings)
    write_table(
        decisions, {name: list(kinds.values())[i] for name, i in shown.items()},
        lambda: ([cells[name] for name, i in PLACE.items() if i in shown.values()] for cells in rows),
        for_people=True, style=Style.of(decisions, settings.columns.decimal),
    )  # fmt: skip
    if page is not None:
        made = DecidePage()
        for cells in rows:
            made.add([cells[name] for name in COLUMNS])
        fallbacks = [cells["fallback_cost"] for cells in rows if cells["outcome"] == "FALLBACK"]
        known = [x for x in fallbacks if x is not None]
        outcomes, cost = Counter(cells["outcome"] for cells in rows), (sum(known), len(fallbacks) - len(known))
        made.write(page, outcomes, cost, settings, decisions, log, orders=orders, allocation=allocation)
    return True


def _rows(table: Table, shown: dict[str, int], kinds: Sequence[type]) -> Iterator[Cells]:
    """Every row by the names that rows have in memory."""
    names = list(COLUMNS)
    for block in table.blocks(list(shown)):
        columns = {
            names[i]: block.texts(name) if kinds[i] is str else block.numbers(name)[0].tolist()
            for name, i in shown.items()
        }
        for n in range(len(block)):
            cells = {name: values[n] for name, values in columns.items()}
            empty = dict.fromkeys(name for name in names if name not in cells)
            yield {k: None if isinstance(v, float) and v != v else v for k, v in (cells | empty).items()}


def standing(settings: Settings, reader: SegmentReader, row: Row, cells: Cells) -> Standing:
    """A row of the file, by the decision and the overrides that the log holds."""
    share = reader.shares([row]).get(row.seq)
    effective = effective_of(row, reader.overrides_of(row), share)
    task = recorded_task(row.record.get("task", {}), settings)
    if effective.override is None or effective.action is None:
        return Standing(
            cells if cells["outcome"] != OVERRIDDEN else _withdrawn(settings, reader, row, share, cells), None
        )
    said = effective.override.record
    action = recorded_action(effective.action)
    inputs = None if task is None else recorded_inputs(row.record, task)
    ordered = _ordered(settings, task, inputs, action, cells.get("date") or "")
    units = ordered.get("order")
    quantity = str(said.get("label") or action_figure(action)) if units is None else _quantity(ordered)
    return Standing({
        **cells, **_NO_ORDER, **ordered, "outcome": OVERRIDDEN, "action": action_cell(action), "margin": None,
        "regret_bound": None, "expected_cost": None, "fallback_cost": None, "next_orders": "", "note": "",
        "sentence": f"{said.get('who', '')} decided otherwise: {quantity}, because {said.get('why', '')}.",
    }, said)  # fmt: skip


def _withdrawn(settings: Settings, reader: SegmentReader, row: Row, share: Share | None, cells: Cells) -> Cells:
    """As it was decided, and shared out, from the records."""
    record, outcome = row.record, row.record["outcome"]
    empty = {**_NO_ORDER, "action": None, "note": "", "sentence": outcome["sentence"]}
    if record["kind"] == "refusal":
        return cells | empty | {"outcome": REFUSED if cells["reason"] == "invalid_input" else outcome["outcome"]}
    task, own = recorded_task(record["task"], settings), outcome["action"]
    action = own if share is None else share.action
    shared = action != own
    action = recorded_action(action)
    said = outcome["outcome"] if share is None else share.outcome
    found = cells | empty | {"outcome": said, "action": action_cell(action)}
    if task is None:
        return found
    inputs = recorded_inputs(record, task)
    found |= _ordered(settings, task, inputs, action, cells.get("date") or "")
    if shared:
        return found | {"sentence": " ".join(share_words(reader, row, settings))}
    try:
        again = asked_again(reader, row, task).decide()
    except UCSearchError:  # what cannot be decided again keeps what its record says
        return found
    binds = blocked_words(asked_of(again)) if is_blocked(again) else ""
    made = decided_cells(again, settings)
    made.pop("purchases")
    return found | made | {"note": "; ".join(filter(None, (made["note"], binds)))}


def _ordered(settings: Settings, task: Task | None, inputs: RecordedInputs | None, action: Any, date: str) -> Cells:
    """What a row says of an action's orders: units, and when they can first be sold where the date is known."""
    if task is None or inputs is None or action is None:
        return {}
    bought = config_of(task).purchases(inputs.state, action, inputs.params)

    def arrival(periods: int) -> str:
        if not date or settings.period == "any":
            return ""
        moment = parse_dates([date], "auto", wall_clock=False)[0]
        return day_text(later(moment, periods, settings.period), settings.period, offset_of(date))

    return order_cells(bought, arrival)


def _quantity(cells: Cells) -> str:
    """Orders in a sentence."""
    return " + ".join(figure(cells[name]) for name in ("order", "expedited") if name in cells)
