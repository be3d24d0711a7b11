"""State, parameters and actions of a recorded decision or refusal, as the task's own types."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ucsearch.errors import RecordError, UCSearchError
from ucsearch.layout import Layout
from ucsearch.records.canonical import decode_number
from ucsearch.task import Task

__all__ = ["RecordedInputs", "build_recorded", "built_in_task", "recorded_inputs"]


class RecordedInputs(NamedTuple):
    """What the rules are asked about."""

    state: Any
    params: Any
    actions: tuple[float | None, ...]  # (m,) None where unavailable; empty when the grid was not known
    labels: tuple[str, ...]  # (m,)


def recorded_inputs(record: Mapping[str, Any], task: Task) -> RecordedInputs:
    """They are read with the task's types; a task other than the recorded one is refused."""
    if record.get("kind") not in ("decision", "refusal"):
        raise RecordError(f"the entry is of kind {record.get('kind')!r}, expected a decision or a refusal")
    try:
        recorded = record["task"]
        if not task.is_recorded_as(recorded):
            raise RecordError(
                f"the task given is not the recorded task {recorded['name']!r}: its source_hash is "
                f"{task.source_hash!r}, recorded is {recorded['source_hash']!r}"
            )
        for name in ("name", "version"):
            if recorded[name] != (own := getattr(task, name)):
                raise RecordError(
                    f"the task given is not the recorded task {recorded['name']!r}: "
                    f"its {name} is {own!r}, recorded is {recorded[name]!r}"
                )
        inputs = record["inputs"]
        state = build_recorded(task.state, inputs, "state")
        params = None if task.params is None else build_recorded(type(task.params), inputs, "params")
        actions = tuple(None if a is None else float(decode_number(a)) for a in recorded["actions"])
        labels = tuple(str(text) for text in recorded["labels"])
    except KeyError as error:
        raise RecordError(f"the {record['kind']} keeps no {error.args[0]}, so the rules cannot be asked") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"the {record['kind']} keeps inputs that do not fit the task ({error})") from error
    if len(labels) != len(actions):
        raise RecordError(f"the {record['kind']} names {len(labels)} labels for {len(actions)} actions")
    return RecordedInputs(state, params, actions, labels)


def built_in_task(recorded: Mapping[str, Any]) -> Task | None:
    """The task that a record's member `task` names, when it is one of this package and still the same; a log must not
    make us import anything else."""
    module, _, name = str(recorded.get("object", "")).partition(":")
    if not module.startswith("ucsearch.") or not name:
        return None
    try:
        task = getattr(import_module(module), name)
        same = isinstance(task, Task) and task.is_recorded_as(recorded)
    except (ImportError, AttributeError, KeyError, UCSearchError):
        return None
    return task if same else None


def build_recorded(kind: type[Any], inputs: Mapping[str, Any], name: str) -> Any:
    """A state, or parameters, of a record's inputs."""
    layout = Layout(kind, tuple(inputs[f"{name}_lengths"]))
    values = [float(decode_number(x)) for x in inputs[name]]
    if len(layout.lengths) != len(kind._fields) or len(values) != layout.size:
        raise ValueError(f"{len(values)} numbers for {name}, expected {layout.size}")
    return layout.build(values)
