"""Whether a person's action may stand in for a recorded one: the task's own rules are asked, nobody is believed.

Library, command line and service judge here. The verifier has the same rules in its own words (`verify/inputs.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError, UCSearchError
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout
from ucsearch.records.canonical import decode_number
from ucsearch.rules.answers import as_allowed, guarded
from ucsearch.task import Task

__all__ = [
    "Judged",
    "NotAllowed",
    "RecordedInputs",
    "allowed_actions",
    "allowed_numbers",
    "build_recorded",
    "built_in_task",
    "judge",
    "read_action",
    "recorded_action",
    "recorded_inputs",
]


_SHOWN = 20  # feasible actions named in a refusal
_TIMES = 10.0  # as large as anything recorded: more is a slip of the decimal mark or of the unit
_NO_LIMIT = 1e18  # of a state: no number of its size
_CLOSE = 1e-9  # relative


class NotAllowed(RecordError):
    """The rules do not allow the action in the recorded state; `feasible` are labels of actions that they do."""

    def __init__(self, problem: str, feasible: tuple[str, ...]) -> None:
        self.problem = problem
        self.feasible = feasible
        shown = ", ".join(feasible[:_SHOWN]) + (f" and {len(feasible) - _SHOWN} more" if len(feasible) > _SHOWN else "")
        super().__init__(f"{problem}; allowed are: {shown or 'none of the recorded actions'}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.feasible)


class Judged(NamedTuple):
    """An action that the rules allow, or that a person forces."""

    action: Any  # a number or a tuple of them; None withdraws
    label: str  # "" off the grid, or withdrawn
    off_grid: bool
    forced: str = ""  # what it breaks; "" where it breaks nothing


def judge(record: Mapping[str, Any], task: Task | None, action: Any, *, force: bool = False) -> Judged:
    """What may be recorded as replacement of `record`'s action: any action the rules allow in its state, by value or by
    label; None withdraws an earlier replacement and needs no rules. One that breaks them, or is off the unit of the
    actions offered, is taken only with `force`."""
    if action is None:
        return Judged(None, "", False)
    if not isinstance(task, Task):
        raise InputError("override.task", type(task).__name__, "the uc.Task whose rules must allow the action")
    inputs = recorded_inputs(record, task)
    value, label = _by_label(inputs, task, action) if isinstance(action, str) else (_given(task, action), "")
    problem = _problem(inputs, task, value) or _off_unit(inputs, task, value)
    if problem and not force:
        raise NotAllowed(problem, _feasible(inputs, task))
    if not label:
        label = next((n for a, n in zip(inputs.actions, inputs.labels, strict=True) if a == value), "")
    return Judged(value, label, value not in inputs.actions, problem)


def allowed_actions(record: Mapping[str, Any], task: Task) -> list[int]:
    """Places of the recorded actions that the rules allow in `record`'s state."""
    return _allowed(recorded_inputs(record, task), task)


def allowed_numbers(record: Mapping[str, Any], task: Task, numbers: Sequence[float]) -> list[bool]:
    """Which of these numbers the rules allow in `record`'s state, on the grid or off it."""
    inputs = recorded_inputs(record, task)
    return [_problem(inputs, task, number) is None for number in numbers]


def read_action(
    text: str, labels: tuple[str, ...], actions: tuple[float | None, ...], number: float | None
) -> float | str:
    """An action as a person types it: the `number` that the text was read as, or else a label. A text that is both,
    for different actions, is refused."""
    if number is None:
        return text
    if text in labels and actions[labels.index(text)] != number:
        raise InputError("override.action", repr(text), "a text that is not at once a number and another one's label")
    return number


def _by_label(inputs: RecordedInputs, task: Task, text: str) -> tuple[Any, str]:
    places = [i for i, label in enumerate(inputs.labels) if label == text]
    if len(places) != 1:
        problem = "names several of the recorded actions" if places else "is no label of the recorded actions"
        raise NotAllowed(f"{text!r} {problem}", _feasible(inputs, task))
    value = inputs.actions[places[0]]
    if value is None:
        raise NotAllowed(f"{text!r} was not available", _feasible(inputs, task))
    return value, text


def _parts(action: Any) -> tuple[float, ...]:
    """The numbers of an action."""
    return action if isinstance(action, tuple) else (action,)


def _given(task: Task, action: Any) -> Any:
    """A number, or a tuple of as many as the task's actions have."""
    if not task.width:
        return _finite(action)
    if not isinstance(action, tuple) or len(action) != task.width:
        raise InputError("override.action", repr(action), f"a tuple of {task.width} numbers, a label, or None")
    return tuple(map(_finite, action))


def _finite(action: Any) -> float:
    """A number as it is: truth values, also NumPy's, texts in bytes and arrays of one number are none."""
    try:
        is_number = isinstance(action, Real | Decimal) and not isinstance(action, bool)
        number = float(action) if is_number else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError("override.action", repr(action), "a finite number, a label, or None to withdraw")
    return number + 0.0


def _problem(inputs: RecordedInputs, task: Task, action: Any) -> str | None:
    low, high = task.limits
    shown = action_figure(action)
    if action not in inputs.actions and not all(low <= x <= high for x in _parts(action)):
        return f"{shown} is beyond what {task.name!r} can do ({low:g} to {high:g})"
    try:
        allowed = as_allowed(guarded(task.feasible_at, inputs.state, action, 0, inputs.params))
    except Exception as error:  # whatever user code raises here means the same: the rules do not allow it
        return f"the rules of {task.name!r} cannot judge {shown} in {inputs.state!r} ({error!r})"
    return None if allowed else f"{shown} breaks the rules of {task.name!r} in {inputs.state!r}"


def _off_unit(inputs: RecordedInputs, task: Task, action: Any) -> str:
    """What is odd about an action beside those offered: not of their unit, or far larger; "" where nothing is."""
    if action in inputs.actions:
        return ""
    shown, numbers_taken = action_figure(action), _parts(action)
    offered = [x for a in inputs.actions if a is not None for x in _parts(a)]
    numbers = [x for item in inputs.state for x in (item if isinstance(item, tuple) else (item,))]
    pack = float(getattr(inputs.params, task.pack)) if task.pack else 0.0
    if pack > 0.0 and _whole(offered, pack):
        if not _whole(numbers_taken, pack):
            return f"{shown} is not in whole packs of {pack:g}"
    elif task.counted and _whole([*offered, *numbers], 1.0) and not _whole(numbers_taken, 1.0):
        return f"{shown} is not in whole units, as the {task.called} offered are"
    largest = max((abs(x) for x in [*offered, *numbers] if abs(x) < _NO_LIMIT), default=0.0)
    if largest > 0.0 and max(map(abs, numbers_taken)) > _TIMES * largest:
        return f"{shown} is more than {_TIMES:g} times {largest:g}, the largest number offered or in the state"
    return ""


def _whole(numbers: Sequence[float], unit: float) -> bool:
    """Whether all are multiples of `unit`, but for rounding."""
    parts = [x / unit for x in numbers]
    return all(abs(x - round(x)) <= _CLOSE * max(1.0, abs(x)) for x in parts if math.isfinite(x))


def _feasible(inputs: RecordedInputs, task: Task) -> tuple[str, ...]:
    return tuple(inputs.labels[i] for i in _allowed(inputs, task))


def _allowed(inputs: RecordedInputs, task: Task) -> list[int]:
    return [i for i, a in enumerate(inputs.actions) if a is not None and _problem(inputs, task, a) is None]


class RecordedInputs(NamedTuple):
    """What the rules are asked about."""

    state: Any
    params: Any
    actions: tuple[Any, ...]  # (m,) numbers or tuples, None where unavailable; empty when the grid was not known
    labels: tuple[str, ...]  # (m,)


def recorded_inputs(record: Mapping[str, Any], task: Task) -> RecordedInputs:
    """They are read with the task's types; a task other than the recorded one is refused."""
    if record.get("kind") not in ("decision", "refusal"):
        raise RecordError(f"the entry is of kind {record.get('kind')!r}, expected a decision or a refusal")
    try:
        recorded = record["task"]
        if not task.is_recorded_as(recorded):
            raise RecordError(
                f"the task given is not the recorded task {recorded['name']!r}: its rules are "
                f"{task.source_hash!r}, recorded is {recorded['rules']!r}"
            )
        for name in ("name", "version"):
            if recorded[name] != (task_value := getattr(task, name)):
                raise RecordError(
                    f"the task given is not the recorded task {recorded['name']!r}: "
                    f"its {name} is {task_value!r}, recorded is {recorded[name]!r}"
                )
        inputs = record["inputs"]
        state = build_recorded(task.state, inputs, "state")
        layout = task.params_layout
        params = None if layout is None else build_recorded(layout.kind, inputs, "params", layout.whole)
        actions = tuple(map(recorded_action, recorded["actions"]))
        labels = tuple(str(text) for text in recorded["labels"])
    except KeyError as error:
        raise RecordError(f"the {record['kind']} keeps no {error.args[0]}, so the rules cannot be checked") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"the {record['kind']} keeps inputs that do not fit the task ({error})") from error
    if len(labels) != len(actions):
        raise RecordError(f"the {record['kind']} names {len(labels)} labels for {len(actions)} actions")
    return RecordedInputs(state, params, actions, labels)


def recorded_action(action: Any) -> Any:
    """A number, a tuple of them, or None."""
    if isinstance(action, list):
        return tuple(float(decode_number(x)) for x in action)
    return None if action is None else float(decode_number(action))


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


def build_recorded(
    kind: type[Any], inputs: Mapping[str, Any], name: str, whole: frozenset[int] = frozenset()
) -> Any:  # fmt: skip
    """A state, or parameters (some of them `whole` numbers), of a record's inputs."""
    layout = Layout(kind, tuple(inputs[f"{name}_lengths"]), whole)
    values = [float(decode_number(x)) for x in inputs[name]]
    if len(layout.lengths) != len(kind._fields) or len(values) != layout.size:
        raise ValueError(f"{len(values)} numbers for {name}, expected {layout.size}")
    return layout.build(values)
