"""`ucsearch tasks`: the built-in tasks, their parameters and the columns of their states file, read off the classes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ucsearch.errors import InputError
from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.settings import field_notes
from ucsearch.planner.settings.tables import OWN
from ucsearch.tasks import TASKS
from ucsearch.tasks.base import fields_of

__all__ = ["describe_task", "list_tasks"]


def list_tasks() -> str:
    """One line per task, as names for `[task] name`."""
    width = max(map(len, TASKS))
    lines = [f"{name:{width}}  {info.summary}" for name, info in TASKS.items()]
    lines.append(f"{OWN:{width}}  a task of your own: object = 'file.py:object' or 'package.module:object'")
    return "\n".join([*lines, "", "`ucsearch tasks NAME` lists a task's parameters."])


def describe_task(name: str) -> str:
    """Parameters with defaults and units, columns of the states file, named instances."""
    if name not in TASKS:
        raise InputError("task", repr(name), f"one of {', '.join(map(repr, TASKS))}")
    info = TASKS[name]
    cls = info.kind
    notes = field_notes(cls)
    lines = [f"{name}: {info.summary}", f"  decides: {info.action}", f"  forecast: {info.outcome}"]
    lines += ["", "[task]", f'name = "{name}"']
    for item in fields_of(cls):
        text = _toml(item.default)
        entry = f"{item.name} = {text}" if text else f"# {item.name}"
        lines.append(f"{entry:34}  # {notes.get(item.name, '')}".rstrip(" #"))
    columns = state_columns(cls())
    lines += ["", "States file:"]
    lines.append(f"  required: {', '.join(['series', *columns.required])}")
    optional = [n for n in columns.single if n not in columns.required] + [f"{n}_1, ..." for n in columns.several]
    if optional:
        lines.append(f"  optional: {', '.join(optional)}")
    lines.append(f"  instead of the settings: {', '.join([*columns.numbers, *columns.words])}")
    return "\n".join([*lines, "", f"Named instances in Python: {', '.join(info.instances)}"])


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
