"""A person's order in place of a recorded decision's: by series, in units ordered, judged by the task's rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.formatting import action_figure, figure
from ucsearch.planner.files.numbers import Decimal, read_number
from ucsearch.planner.recorded.limits import action_words
from ucsearch.planner.recorded.problem import find_decision
from ucsearch.records.entries import Row, RowOf
from ucsearch.records.log import AuditLog
from ucsearch.records.overrides import NotAllowed, RecordedInputs, built_in_task, read_action, recorded_inputs
from ucsearch.scale.segments.files import folder_of
from ucsearch.scale.segments.reader import SegmentReader, row_proof
from ucsearch.task import Task
from ucsearch.tasks.base import config_of

__all__ = ["Overridden", "ordered_units", "override_decision", "typed_action"]


class Overridden(NamedTuple):
    """What was written."""

    seq: int
    id: str
    row: Row  # the decision
    record: dict[str, Any]  # of the override
    order: float | None  # units, where an action and what it orders are two numbers
    beyond: float | None = None  # the largest action that was offered, where this one is larger; or the smallest

    def text(self, who: str) -> str:
        """What is in force now, and what is unusual about it."""
        made, id = self.record, self.row.id[:12]
        name = self.row.record.get("series") or id
        where = f"decision {id}, entry {self.seq} of the log"
        action: Any = tuple(made["action"]) if isinstance(made["action"], list) else made["action"]
        if action is None:
            return f"{name}: {who} withdrew what replaced the decision, which is in force again ({where})"
        text = f"{name}: {made['label'] or action_figure(action)} is in force, decided by {who} ({where})"
        if self.order is not None and self.order != action and not isinstance(action, tuple):
            text += f"; that orders {figure(self.order)}"
        off = "it is not one of those offered" if made["off_grid"] else ""
        if self.beyond is not None:
            side = "more than the largest" if action > self.beyond else "less than the smallest"
            off += f"{' and ' if off else ''}{side} of them, {figure(self.beyond)}"
        forced = "it breaks the rules and was forced" if made.get("forced") else ""
        return "; ".join(filter(None, (text, off, forced)))


def override_decision(
    log: str | Path, decision: str, *, who: str, why: str, clock: Callable[[], datetime],
    action: str | None = None, quantity: str | None = None, task: Task | None = None, force: bool = False,
    decimal: Decimal | None = None,
) -> Overridden:  # fmt: skip
    """Replace what the newest decision or refusal of a series (or an id) sends: by an `action` of the task or its
    label, by a `quantity` in units ordered, or, with neither, withdraw earlier replacements. `NotAllowed` says which
    limit is in the way and what is allowed; nothing is recorded then, unless `force` is given. `decimal` is how numbers
    are written; None refuses those that can be read in two ways."""
    with SegmentReader(log) as reader:  # a reader first: it never creates a log where none was
        row = find_decision(reader, decision)
        sealed, of = reader.segment_of(row), None
    record = row.record
    if sealed is not None:
        of = RowOf(record, row_proof(folder_of(Path(log), sealed.run), sealed, record["series"]))
    found = built_in_task(record.get("task", {})) if task is None else task
    taken: Any = None
    inputs: RecordedInputs | None = None
    by_units = False
    if action is not None or quantity is not None:
        if "inputs" not in record:
            raise RecordError(
                f"entry {row.seq}: the state could not be used, so the rules cannot be checked; correct its row in the "
                "states file (the column `problem` of the decisions says what) and decide again"
            )
        if found is None:
            raise RecordError("the recorded task is not one of this package; name it with --task")
        inputs = recorded_inputs(record, found)
        text = action or quantity or ""
        given = typed_action(text, found, inputs, decimal)
        by_units = quantity is not None and config_of(found).places_orders and not isinstance(given, str | tuple)
        taken = _ordering(inputs, found, float(given)) if by_units else given
    try:
        with AuditLog(log, clock=clock) as writer:
            entry = writer.override(row.seq, task=found, who=who, why=why, action=taken, of=of, force=force)
            made = writer.get(entry.seq).record
    except NotAllowed as error:
        if inputs is None or found is None or isinstance(taken, str) or taken is None:
            raise
        raise _told(error, inputs, found, taken, by_units) from error
    order = ordered_units(inputs, found, made["action"]) if inputs is not None and found is not None else None
    offered = [] if inputs is None else [a for a in inputs.actions if a is not None]
    sent, beyond = made["action"], None
    if offered and isinstance(sent, int | float):
        nearest = min(max(sent, min(offered)), max(offered))
        beyond = None if nearest == sent else nearest
    return Overridden(entry.seq, entry.id, row, made, order, beyond)


def typed_action(text: str, task: Task, inputs: RecordedInputs, decimal: Decimal | None) -> Any:
    """A number, a tuple (24+6, or 24 6) or a label, as a person types it."""
    parts = re.split(r"[+\s]+", text.strip().strip("()").replace(", ", " "))
    if task.width and len(parts) == task.width:
        numbers = [read_number(part, "QUANTITY", decimal) for part in parts]
        if None not in numbers:
            return tuple(numbers)
    return read_action(text, inputs.labels, inputs.actions, read_number(text, "QUANTITY", decimal))


def _told(error: NotAllowed, inputs: RecordedInputs, task: Task, action: Any, by_units: bool) -> NotAllowed:
    """The refusal with the limits in the way; and what is allowed, as units where it was asked in units."""
    words = action_words(task, inputs.state, inputs.params, action)
    what, feasible = action_figure(action), error.feasible
    if by_units:
        what = f"an order of {figure(ordered_units(inputs, task, action) or 0.0)}"
        sizes = {n: ordered_units(inputs, task, a) for a, n in zip(inputs.actions, inputs.labels, strict=True)}
        feasible = tuple(dict.fromkeys(figure(sizes[n] or 0.0) for n in feasible))
    problem = f"{what} breaks the rules of {task.name!r}: {words}" if words else error.problem
    return NotAllowed(problem, feasible)


def ordered_units(inputs: RecordedInputs, task: Task, action: Any) -> float | None:
    """Units that an action orders in the recorded state; None for tasks whose action is what leaves."""
    if not config_of(task).places_orders or action is None or isinstance(action, str):
        return None
    taken = tuple(action) if isinstance(action, list | tuple) else float(action)
    return config_of(task).quantity(inputs.state, taken, inputs.params)


def _ordering(inputs: RecordedInputs, task: Task, quantity: float) -> Any:
    """The action that orders so many units: one of the grid where there is one. With two suppliers a regular order."""
    for a in inputs.actions:
        if a is not None and not task.width and ordered_units(inputs, task, a) == quantity:
            return float(a)
    return config_of(task).action_for(inputs.state, quantity, inputs.params)
