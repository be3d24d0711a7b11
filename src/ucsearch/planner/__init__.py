"""From rows to cases to decisions to the log and back to rows, with files or without; backtests on the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucsearch.planner.decide.in_memory import decide_cases
    from ucsearch.planner.decide.job import run_decide

__all__ = ["decide_cases", "run_decide"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a command that reads no file should not wait for it."""
    if name == "decide_cases":
        from ucsearch.planner.decide.in_memory import decide_cases

        return decide_cases
    if name == "run_decide":
        from ucsearch.planner.decide.job import run_decide

        return run_decide
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
