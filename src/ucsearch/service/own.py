"""A task of one's own in a plan: `task = "package:object"` names a `uc.Task`, or a record of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints

from ucsearch.errors import InputError
from ucsearch.task import Task
from ucsearch.tasks.binding import OnSeries

__all__ = ["OwnTask", "own_task"]


@dataclass(frozen=True)
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


def own_task(text: str) -> Any:
    """The record of parameters that the text names."""
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError("task", repr(text), "'package:object'")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError("task", repr(text), f"an object that can be imported ({error})") from error
    if isinstance(found, Task):
        return OwnTask(found, text)
    if isinstance(found, OnSeries):
        return found
    raise InputError("task", type(found).__name__, "a uc.Task, or a record of parameters derived from OnSeries")
