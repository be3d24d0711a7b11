"""One exception tree. `str(error)` is a sentence a person can act on."""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

__all__ = [
    "LARGEST",
    "BudgetError",
    "DataError",
    "InputError",
    "RecordError",
    "TaskError",
    "UCSearchError",
    "UCSearchWarning",
    "UncompilableWarning",
    "warn_user",
]


LARGEST = sys.float_info.max  # what is not above it, a whole number of any length too, is a finite float


class UCSearchError(Exception):
    """Base class of every error that this package raises. All can be sent between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException's own would call the class with the finished sentence as its only argument.
        attributes = {name: value if _travels(value) else str(value) for name, value in vars(self).items()}
        return _rebuild, (type(self), tuple(str(a) for a in self.args), attributes)


class InputError(UCSearchError, ValueError):
    """Refused input: which `field`, where in it (`index`), what was `seen`, what was `expected`, and a `hint`."""

    def __init__(self, field: str, seen: object, expected: str, *, index: object = None, hint: str = "") -> None:
        self.field = field
        self.index = index
        self.seen = seen
        self.expected = expected
        place = field if index is None else f"{field}[{_index_text(index)}]"
        text = f"{place}: saw {seen}, expected {expected}"
        super().__init__(f"{text}. {hint}" if hint else text)


class TaskError(UCSearchError):
    """A task's own function returned something unusable, or raised: the `reason`, and where known the task's name, the
    window and `step` (from 0) and the `action` that it was asked about."""

    def __init__(
        self,
        reason: str,
        *,
        task: str = "",
        window: int | None = None,
        step: int | None = None,
        action: float | None = None,
    ) -> None:
        self.reason = reason
        self.task = task
        self.window = window
        self.step = step
        self.action = action
        where = [
            f"{name} {value}"
            for name, value in (("window", window), ("step", step), ("action", action))
            if value is not None
        ]
        head = f"task {task!r}" if task else "task"
        super().__init__(f"{head}: {reason}" + (f" ({', '.join(where)})" if where else ""))


class BudgetError(InputError):
    """A depth, width, node or time budget that cannot be honoured."""


class RecordError(UCSearchError):
    """A record, blob or log that is malformed, altered or cannot be written."""


class DataError(UCSearchError):
    """A data file that is missing, truncated or not the file it claims to be."""


class UCSearchWarning(UserWarning):
    """Root of our warnings."""


class UncompilableWarning(UCSearchWarning):
    """A task's function does not compile; the plain Python engine is used instead."""


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package: the user's own."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ucsearch":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def _rebuild(kind: type[UCSearchError], args: tuple[str, ...], values: dict[str, Any]) -> UCSearchError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(values)
    return error


def _travels(value: object) -> bool:
    """Whether the value can be pickled; what was seen in a refused input may be anything."""
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever the object's own code raises
        return False
    return True


def _index_text(index: object) -> str:
    if isinstance(index, tuple):
        return ", ".join(str(i) for i in index)
    return str(index)
