"""How a search ends inside a task's functions: what went wrong, where, and in whose words."""

from __future__ import annotations

from typing import Any

from ucsearch.engine.status import Fault
from ucsearch.rules.answers import as_allowed

__all__ = ["OutOfTime", "TaskFault", "said", "words"]

_LONGEST = 200  # characters of a user's own message that are shown


class TaskFault(Exception):
    """A task function misbehaved at (step, action index); engines turn this into a status."""

    def __init__(self, kind: int, step: int, action: int, detail: str = "") -> None:
        super().__init__(detail or Fault.TEXT[kind])
        self.kind, self.step, self.action, self.detail = kind, step, action, detail


class OutOfTime(Exception):
    """The caller ends the search."""


def words(error: Exception) -> str:
    return f"{type(error).__name__}: {_short(error, str)}"


def _short(value: Any, read: Any = repr) -> str:
    """A few words of what a user's code gave; its own repr may fail too."""
    try:
        text = str(read(value))
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def said(answer: Any, kind: int, step: int, action: int) -> bool:
    """The answer of a rule as True or False, or a fault."""
    if answer is True or answer is False:
        return answer
    try:
        return as_allowed(answer)
    except Exception:
        text = f"{Fault.ROLE[kind]} returned {_short(answer)}, expected True or False"
        raise TaskFault(kind, step, action, text) from None
