"""A task of one's own: "package:object" or "file.py:object" names a `uc.Task`, or a record of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from ucsearch.errors import InputError, UCSearchError
from ucsearch.records.overrides import built_in_task
from ucsearch.task import Task
from ucsearch.tasks import TASKS
from ucsearch.tasks.base import OnSeries

__all__ = ["OwnTask", "own_task", "own_tasks", "recorded_task"]


@dataclass(frozen=True, repr=False)
class OwnTask(OnSeries):
    """A bare task as a record of parameters: its state's fields are the columns."""

    made: Task
    where: str

    def task(self) -> Task:
        return self.made

    def params(self) -> Any:
        return self.made.params

    def address(self, *, own_grid: bool = False) -> str:
        return self.where

    @property
    def state(self) -> Callable[..., Any]:
        kind = self.made.state

        def build(**named: Any) -> Any:
            for name, value in named.items():
                if isinstance(value, list):
                    named[name] = tuple(value)
            return kind(**named)

        hints = get_type_hints(kind)
        defaults = getattr(kind, "_field_defaults", {})
        build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=str(hints.get(name, float)),
                    default=defaults.get(name, inspect.Parameter.empty),
                )
                for name in kind._fields
            ]
        )  # fmt: skip
        return build

    def __repr__(self) -> str:
        """With what its functions do: a job that was cut off must not go on with other rules."""
        try:
            return f"OwnTask({self.where!r}, {self.made.source_hash!r})"
        except UCSearchError:  # such a task cannot be recorded; whoever decides with it says so
            return f"OwnTask({self.where!r})"


def recorded_task(recorded: Mapping[str, Any], settings: Any = None) -> Task | None:
    """The task that a record's member `task` names: one of this package, or the settings' own if that is the same."""
    found = built_in_task(recorded)
    if found is not None or settings is None or settings.task is None:
        return found
    try:
        task: Task = settings.task.task()
        return task if task.is_recorded_as(recorded) else None
    except (KeyError, UCSearchError):
        return None


def own_tasks(settings: Any) -> dict[str, Task]:
    """The settings' own task by the name that records have for it; nothing where it ships with the package."""
    own = None if settings is None else settings.task
    return {} if own is None or any(type(own) is info.kind for info in TASKS.values()) else {own.address(): own.task()}


def own_task(text: str, folder: Path | None = None) -> Any:
    """The record of parameters that the text names; a Python file of a relative path is looked for in `folder`."""
    from ucsearch.verify.trust import NoTask, find_object

    place, _, name = text.rpartition(":")
    if not place or not name:
        raise InputError("task", repr(text), "'package:object' or 'file.py:object'")
    wanted = str(folder / place) if folder is not None and place.endswith(".py") else place
    try:
        found = find_object(f"{wanted}:{name}")
    except NoTask as error:
        raise InputError("task", repr(text), f"an object that can be imported ({error})") from error
    if isinstance(found, Task):
        return OwnTask(found, text)
    if isinstance(found, OnSeries):
        return found
    raise InputError("task", type(found).__name__, "a uc.Task, or a record of parameters derived from OnSeries")
