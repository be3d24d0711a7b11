"""What the settings of all kinds of suites share: tables that refuse unknown keys, and what is said of a wrong one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ucsearch.errors import InputError

__all__ = ["SettingsTable", "TaskTable", "refusal"]


class SettingsTable(BaseModel):
    """A table of a suite file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _known_task(task: dict[str, Any]) -> dict[str, Any]:
    """The table of a task, if there is such a task and it has such keys; values are checked where the task is made."""
    from ucsearch.tasks import TASKS

    name = task.get("name")
    if name not in TASKS:
        raise InputError("task", f"name = {name!r}", f"one of {', '.join(TASKS)}")
    keys = [field.name for field in dataclasses.fields(TASKS[name].kind)]
    strange = next((key for key in task if key != "name" and key not in keys), None)
    if strange is not None:
        likeliest = "".join(f"{key}, or " for key in difflib.get_close_matches(strange, keys, n=1))
        raise InputError("task", f"an unknown key {strange}", f"{likeliest}a key that `ucsearch tasks {name}` lists")
    return task


TaskTable = Annotated[dict[str, Any], AfterValidator(_known_task)]
"""A built-in task by name, with its settings."""


def refusal(error: ValidationError, model: type[BaseModel], where: str, table: Sequence[str] = ()) -> InputError:
    """The first thing that is wrong with a table, as what to write instead. `where` is the file, `table` the path of
    the table in it."""
    first = error.errors()[0]
    place, kind, text = first["loc"], first["type"], first["msg"]
    key = f"{where}: {'.'.join((*table, *map(str, place)))}"
    if kind == "missing":
        described = _fields_at(model, place[:-1]).get(str(place[-1]))
        return InputError(key, "nothing", (described and described.description) or "a value")
    if kind == "extra_forbidden":
        keys = list(_fields_at(model, place[:-1]))
        return InputError(key, "an unknown key", f"one of {_likeliest(str(place[-1]), keys)}")
    cause, seen = first.get("ctx", {}).get("error"), first["input"]
    if isinstance(cause, InputError):
        return InputError(key, cause.seen, cause.expected)
    shown = "this table" if isinstance(seen, Mapping | BaseModel) else repr(seen)[:80]
    for head in ("Value error, ", "Input should be ", "Input should have "):
        text = text.removeprefix(head)
    return InputError(key, shown, f"{text[:1].lower()}{text[1:]}")


def _likeliest(wrong: str, keys: Sequence[str]) -> str:
    """All keys, the one that is most like the wrong one first."""
    close = difflib.get_close_matches(wrong, keys, n=1)
    return ", ".join([*close, *(key for key in keys if key not in close)])


def _fields_at(model: type[BaseModel], place: Sequence[Any]) -> Mapping[str, Any]:
    """The keys of the table at a place below a model."""
    for name in place:
        if name not in model.model_fields:
            continue  # the name of a table among several of one kind, or a number in a list of tables
        inner = next(_models(model.model_fields[name].annotation), None)
        if inner is not None:
            model = inner
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
