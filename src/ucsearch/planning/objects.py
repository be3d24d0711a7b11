"""Built-in tasks by name, so that a record can say where its task is found and a verifier can import it from there.

`ucsearch.planning.objects:LeadTimeInventory` is that task with its default parameters; a record holds its own. Where
parameters shape the rules or the labels, they follow in hex: `LeadTimeInventory_7b22...`.
"""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from typing import Any

from ucsearch.errors import InputError
from ucsearch.task import Task

__all__ = ["address"]


def address(config: Any, *, own_grid: bool = False) -> str:
    """The shortest name under which a task with the same rules and labels is found here. With `own_grid` every series
    has its own actions, so that only their number and the way they are called count."""
    cls, task = type(config), config.task()
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(cls)}
    changed = {k: v for k, v in values.items() if v != getattr(cls, k, dataclasses.MISSING)}
    for name in sorted(changed):
        fewer = {k: v for k, v in changed.items() if k != name}
        try:
            other = cls(**fewer).task()
            calls = tuple(other.label(i, a) for i, a in enumerate(task.actions[: len(other.actions)]))
            same_grid = own_grid or other.actions == task.actions
            if (
                same_grid
                and len(other.actions) == len(task.actions)
                and calls == task.labels
                and _same_rules(other, task)
            ):
                changed = fewer
        except (InputError, TypeError):
            continue  # it is needed by another
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"), default=list) if changed else ""
    name = cls.__name__ + (f"_{text.encode().hex()}" if text else "")
    return f"{__name__}:{name}"


def _same_rules(a: Task, b: Task) -> bool:
    """Whether two tasks have the same source hash, without computing it."""
    same = a.functions() == b.functions() and a.state is b.state and a.outcome is b.outcome
    grids = [[getattr(c, "grid", ()) for c in task.continuations] for task in (a, b)]
    return same and grids[0] == grids[1] and (a.name, a.version) == (b.name, b.version)


def __getattr__(name: str) -> Task:
    return _task(name)


@lru_cache(maxsize=64)
def _task(name: str) -> Task:
    from ucsearch.settings import task_classes

    base, _, code = name.partition("_")
    classes = {cls.__name__: cls for cls in task_classes().values()}
    if base not in classes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        values = json.loads(bytes.fromhex(code)) if code else {}
        task: Task = classes[base](**values).task()
    except (ValueError, TypeError, InputError) as error:
        raise AttributeError(f"{__name__}:{name} names no task ({error})") from error
    return task
