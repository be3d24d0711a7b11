"""`ucsearch tasks`: the built-in tasks, their parameters and the columns of their states file, read off the classes."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from ucsearch.errors import InputError
from ucsearch.planning.cases import state_columns
from ucsearch.settings import field_notes, task_classes

__all__ = ["describe_task", "list_tasks"]


def list_tasks() -> str:
    """One line per task, as names for `[task] name`."""
    found = task_classes()
    width = max(map(len, found))
    lines = [f"{name:{width}}  {_first_sentence(cls)}" for name, cls in found.items()]
    return "\n".join([*lines, "", "`ucsearch tasks NAME` lists a task's parameters."])


def describe_task(name: str) -> str:
    """Parameters with defaults and units, columns of the states file, named instances."""
    found = task_classes()
    if name not in found:
        raise InputError("task", repr(name), f"one of {', '.join(map(repr, found))}")
    cls = found[name]
    notes = field_notes(cls)
    lines = [f"{name}: {_first_sentence(cls)}", "", "[task]", f'name = "{name}"']
    for item in dataclasses.fields(cls):
        text = _toml(item.default)
        entry = f"{item.name} = {text}" if text else f"# {item.name}"
        lines.append(f"{entry:34}  # {notes.get(item.name, '')}".rstrip(" #"))
    try:
        columns = state_columns(cls())
    except (TypeError, InputError):
        return "\n".join(lines)  # a task without defaults shows its columns only with its settings
    lines += ["", "States file:"]
    lines.append(f"  required: series, {', '.join(columns.required)}")
    optional = [n for n in columns.single if n not in columns.required] + [f"{n}_1, ..." for n in columns.several]
    lines.append(f"  optional: {', '.join(optional)}")
    lines.append(f"  instead of the settings: {', '.join([*columns.numbers, *columns.words])}")
    if hasattr(cls, "instances"):
        lines += ["", f"Named instances in Python: {', '.join(cls.instances())}"]
    return "\n".join(lines)


def _first_sentence(cls: type[Any]) -> str:
    text = " ".join(inspect.cleandoc(cls.__doc__ or "").split())
    return text.split(". ")[0].rstrip(".") + "."


def _toml(value: Any) -> str:
    """A default as TOML writes it; "" for none."""
    if value is dataclasses.MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(v) for v in value)}]"
    return repr(value)
