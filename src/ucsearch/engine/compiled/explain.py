"""Say which line of a user's function does not compile and what to write instead."""

from __future__ import annotations

import re

from ucsearch.engine.compiled.alike import Unalike
from ucsearch.layout import Layout
from ucsearch.lint import lint_task
from ucsearch.task import Task

__all__ = ["explain_failure"]


def explain_failure(task: Task, layout: Layout, error: Exception) -> str:
    """A message for a person: the place in their code when we can find it, numba's own words when we cannot."""
    blocking = [f for f in lint_task(task.functions()) if not f.compiles]
    head = f"task {task.name!r} does not compile, so the plain Python engine is used (same results, slower). "
    if blocking and not isinstance(error, Unalike):
        return head + "Cause: " + "; ".join(str(f) for f in blocking[:3])
    return head + "Cause: " + _short(error)


def _short(error: Exception) -> str:
    """The informative lines of a numba error: what it could not type, and where."""
    text = str(error)
    where = re.findall(r'File "([^"]+)", line (\d+)', text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [
        line
        for line in lines
        if not line.startswith(("Failed in", "During", "File ", "<source", "Overload", "There are", "***"))
    ]
    place = f" (near {where[-1][0]}:{where[-1][1]})" if where else ""
    return f"{type(error).__name__}: {' '.join(useful[:3])[:400]}{place}"
