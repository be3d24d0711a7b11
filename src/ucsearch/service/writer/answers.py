"""What is answered about a recorded decision: a pure function of its entry, so that a repeated request gets the same
bytes for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from ucsearch.errors import UCSearchError
from ucsearch.records.canonical import canonical, decode_number
from ucsearch.records.entries import Row
from ucsearch.records.overrides import build_recorded, recorded_action
from ucsearch.service.schemas import Answer, MonitorState, plain
from ucsearch.task import Task
from ucsearch.tasks.base import config_of

__all__ = ["answer", "answers", "label_of", "order_of"]


def answers(rows: Iterable[Row], read: Callable[[Row], Mapping[str, Any]] = lambda row: row.record) -> bytes:
    """The answer to a request, one item per entry. Records are read by `read` one after another: all of a large request
    at once would be tens of megabytes."""
    return canonical({"items": [plain(answer(row, read(row))) for row in rows]})


def answer(row: Row, record: Mapping[str, Any] | None = None) -> Answer:
    """One item."""
    r: Mapping[str, Any] = row.record if record is None else record
    o = r["outcome"]
    return Answer(
        id=row.id, seq=row.seq, head=row.head, series=r["series"], outcome=o["outcome"], action=o["action"],
        label=label_of(r, o["action"]), order=order_of(r, o["action"]), reason=o["reason"], cause=o["cause"],
        sentence=o["sentence"], margin=o["release_margin"], regret_bound=o["regret_bound"], pass_kind=o["pass_kind"],
        plan=r.get("plan", ""), valid_until=r.get("valid_until", ""), monitor=monitor_of(r),
    )  # fmt: skip


def label_of(record: Mapping[str, Any], action: Any) -> str:
    """What the task calls an action; "" off the grid, or for none."""
    task = record.get("task", {})
    actions = task.get("actions", [])
    return str(task["labels"][actions.index(action)]) if action is not None and action in actions else ""


def order_of(record: Mapping[str, Any], action: Any) -> float | None:
    """Units that an action orders, where that is another number than the action; of several suppliers together."""
    recorded = record.get("task", {})
    if action is None or "inputs" not in record:
        return None
    task = _task_named(str(recorded.get("object", "")))
    if task is None or task.params is None or not config_of(task).places_orders:
        return None
    inputs, kind = record["inputs"], cast(Hashable, type(task.params))
    try:
        state = build_recorded(task.state, inputs, "state")
        params = _params(kind, tuple(inputs["params"]), tuple(inputs["params_lengths"]))
        chosen = action if isinstance(action, tuple) else recorded_action(action)
        return config_of(task).quantity(state, chosen, params)
    except (UCSearchError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
        return None


@lru_cache(maxsize=1024)
def _params(kind: Any, values: tuple[Any, ...], lengths: tuple[int, ...]) -> Any:
    """Parameters as they were recorded; most decisions of a plan have the same."""
    return build_recorded(kind, {"params": values, "params_lengths": lengths}, "params")


@lru_cache(maxsize=256)
def _task_named(where: str) -> Task | None:
    """A task of this package, for the types of its state and parameters; whether its rules are those of the record is
    the verifier's to say."""
    module, _, name = where.partition(":")
    if not module.startswith("ucsearch.") or not name:
        return None
    try:
        task = getattr(import_module(module), name)
    except (ImportError, AttributeError, UCSearchError):
        return None
    return task if isinstance(task, Task) else None


def monitor_of(record: Mapping[str, Any]) -> MonitorState:
    """How the calibration monitor stood when it was decided."""
    gate = record.get("gate", {})
    limit = gate.get("settings", {}).get("max_drift")
    if limit is None:
        return MonitorState("off", None)
    evidence = None if record.get("kind") == "refusal" else gate["calibration"].get("drift")
    if evidence is None:
        return MonitorState("unknown", None)
    return MonitorState("armed" if float(decode_number(evidence)) <= limit else "tripped", evidence)
