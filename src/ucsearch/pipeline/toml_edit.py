"""Change some values of a TOML text and keep the rest, comments included, as a person wrote it.

What comes out is read again and compared with what it should say; where the text is written in a way that line by line
changes do not fit (inline or dotted tables), it is written anew from its values.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from ucsearch.errors import InputError

__all__ = ["Changes", "changed", "edited"]

Changes = Mapping[str, Mapping[str, Any]]
"""Table -> key -> value; None takes the key away."""


def changed(content: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """The parsed content with the changes made."""
    out = copy.deepcopy(dict(content))
    for table, values in changes.items():
        inner = out.setdefault(table, {})
        for key, value in values.items():
            inner.pop(key, None)
            if value is not None:
                inner[key] = list(value) if isinstance(value, tuple) else value
    return {k: v for k, v in out.items() if v != {} or k in content}


def edited(text: str, changes: Changes) -> str:
    """The text with the changes made."""
    wanted = changed(tomllib.loads(text), changes)
    lines = text.splitlines()
    for table, values in changes.items():
        for key, value in values.items():
            _set(lines, table, key, value)
    made = "\n".join(lines) + "\n"
    try:
        same = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    return made if same else _written(wanted)


def _set(lines: list[str], table: str, key: str, value: Any) -> None:
    head = next((i for i, line in enumerate(lines) if re.match(rf"\s*\[{re.escape(table)}\]\s*(#.*)?$", line)), None)
    if head is None:
        if value is not None:
            lines += ["", f"[{table}]", f"{key} = {_value(value)}"]
        return
    end = next((i for i in range(head + 1, len(lines)) if re.match(r"\s*\[", lines[i])), len(lines))
    at = next((i for i in range(head + 1, end) if re.match(rf"\s*{re.escape(key)}\s*=", lines[i])), None)
    if at is None:
        if value is not None:
            lines.insert(head + 1, f"{key} = {_value(value)}")
        return
    last = at
    while last + 1 < end and not _whole("\n".join(lines[at : last + 1])):
        last += 1
    note = re.search(r"\s{2,}#[^\"']*$", lines[last]) if last == at else None
    lines[at : last + 1] = [] if value is None else [f"{key} = {_value(value)}{note.group() if note else ''}"]


def _whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _written(content: Mapping[str, Any]) -> str:
    """A TOML text of the values: top-level keys first, then tables."""
    lines = [f"{k} = {_value(v)}" for k, v in content.items() if not _is_table(v)]
    for name, table in content.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *(f"{_key(k)} = {_value(v)}" for k, v in table.items())]
        elif _is_table(table):
            for item in table:
                lines += ["", f"[[{name}]]", *(f"{_key(k)} = {_value(v)}" for k, v in item.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    raise InputError("value", repr(value), "text, a number, true or false, or a list of them")
