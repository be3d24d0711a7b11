"""Changes to a settings file: `--set key=value` as typed, and a TOML text with some values changed, comments kept."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Comment, Table, Whitespace

from ucsearch.errors import InputError

__all__ = ["Changes", "edited", "merged", "parse_changes"]

Changes = Mapping[str, Any]
"""Key -> value, tables nested; None takes a key away."""


def parse_changes(texts: Sequence[str]) -> dict[str, Any]:
    """The changes that `texts`, such as `policy.depth=10`, name; each key may stand once.

    A value is TOML; what is no TOML is a text, so that `files.sales=new.csv` needs no quotes. `none` removes a key."""
    found: dict[str, Any] = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not key or not value:
            raise InputError("--set", repr(text), "KEY=VALUE, such as policy.depth=10")
        found = merged(found, _change(text, key, value))
    return found


def _change(text: str, key: str, value: str) -> dict[str, Any]:
    if value == "none":
        made: Any = None
        for part in reversed(key.split(".")):
            made = {part.strip(): made}
        return dict(made)
    for said in (value, json.dumps(value, ensure_ascii=False)):
        try:
            return tomllib.loads(f"{key} = {said}")
        except tomllib.TOMLDecodeError:
            continue
    raise InputError("--set", repr(text), "KEY=VALUE, such as policy.depth=10")


def merged(one: Changes, other: Changes, where: str = "") -> dict[str, Any]:
    """Both together; a key in both is refused."""
    out = dict(one)
    for key, value in other.items():
        name = f"{where}{key}"
        if key in out and isinstance(out[key], dict) and isinstance(value, dict):
            out[key] = merged(out[key], value, f"{name}.")
        elif key in out:
            raise InputError("--set", f"{name} twice", "each key once")
        else:
            out[key] = value
    return out


def edited(text: str, changes: Changes) -> str:
    """The `text` of a settings file with `changes` made; everything else stays as it was written."""
    document = tomlkit.parse(text)
    _edit(document, changes)
    return tomlkit.dumps(document)


def _edit(table: Any, changes: Changes) -> None:
    for key, value in changes.items():
        if value is None:
            if key in table:
                del table[key]
        elif isinstance(value, Mapping) and isinstance(table.get(key), Mapping):
            _edit(table[key], value)
        elif isinstance(value, Mapping):
            fresh = tomlkit.table()
            _edit(fresh, value)
            if fresh:  # a table of keys that were only to be taken away
                table[key] = fresh
        elif key in table:
            table[key] = _plain(value)
        else:
            _append(table, key, _plain(value))


def _append(table: Any, key: str, value: Any) -> None:
    """Below the last key: comments and blank lines after it belong to what follows."""
    trailing: list[Comment | Whitespace] = []
    if isinstance(table, Table):
        body = table.value.body
        while body and body[-1][0] is None:
            item = body.pop()[1]
            if isinstance(item, Comment | Whitespace):  # not the place of a key that was taken away
                trailing.append(item)
    table[key] = value
    for item in reversed(trailing):
        table.add(item)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
