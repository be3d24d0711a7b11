"""How a search ends inside a task's functions: what went wrong, where, and in whose words."""

from __future__ import annotations

from typing import Any

from ucsearch.engine.status import Fault

__all__ = ["OutOfTime", "TaskFault", "short", "words"]

_LONGEST = 200  # characters of a user's own message that are shown


class TaskFault(Exception):
    """A task function misbehaved at (step, action index); engines turn this into a status."""

    def __init__(self, kind: int, step: int, action: int, detail: str = "") -> None:
        super().__init__(detail or Fault.TEXT[kind])
        self.kind, self.step, self.action, self.detail = kind, step, action, detail


class OutOfTime(Exception):
    """The caller ends the search."""


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {short(error, str)}"


def short(value: Any, read: Any = repr) -> str:
    """A few words of what a user's code gave; its own repr may fail too."""
    try:
        text = str(read(value))
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
