"""Built-in tasks by name, so that a record can say where its task is found and a verifier can import it from there.

An address is `ucsearch.tasks:LeadTimeInventory_<hex>`: the record of parameters and, in hex, the JSON of those that
shape the rules or the labels (`7b7d` is `{}`: none). A decision's record holds its own parameters. Addresses are
persisted, so they are a promise: what was written once is found for ever.
"""

from __future__ import annotations

import dataclasses
import json
from functools import lru_cache
from typing import Any

from ucsearch.errors import InputError
from ucsearch.task import Task

__all__ = ["address", "named_config", "named_task"]

HOME = "ucsearch.tasks"


def address(config: Any, *, own_grid: bool = False) -> str:
    """The shortest name under which a task with the same rules and labels is found. With `own_grid` every series has
    its own actions, so that only their number and the way they are called count."""
    cls, task = type(config), config.task()
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(cls)}
    changed = {k: v for k, v in values.items() if v != getattr(cls, k, dataclasses.MISSING)}
    for name in sorted(changed):
        fewer = {k: v for k, v in changed.items() if k != name}
        try:
            other = cls(**fewer).task()
        except (InputError, TypeError):
            continue  # it is needed by another
        calls = tuple(other.label(i, a) for i, a in enumerate(task.actions[: len(other.actions)]))
        same_grid = len(other.actions) == len(task.actions) and (own_grid or other.actions == task.actions)
        if same_grid and calls == task.labels and _same_rules(other, task):
            changed = fewer
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"), default=list)
    return f"{HOME}:{cls.__name__}_{text.encode().hex()}"


def _same_rules(a: Task, b: Task) -> bool:
    """Whether two tasks have the same source hash, without computing it, and parameters of the same shape."""
    same = a.functions() == b.functions() and a.state is b.state and a.outcome is b.outcome
    lengths = [None if task.params_layout is None else task.params_layout.lengths for task in (a, b)]
    grids = [[c.grid for c in task.followed] for task in (a, b)]
    same = same and lengths[0] == lengths[1]  # not in the hash, but what a record's parameters are read by
    return same and grids[0] == grids[1] and (a.name, a.version) == (b.name, b.version)


@lru_cache(maxsize=64)
def named_task(name: str, module: str = HOME) -> Task:
    """The task that an address names; AttributeError, as for any missing name, when it names none."""
    task: Task = named_config(name, module).task()
    return task


@lru_cache(maxsize=64)
def named_config(name: str, module: str = HOME) -> Any:
    """The record of parameters that an address names, as far as they shape the rules."""
    from ucsearch.tasks import TASKS

    base, _, code = name.partition("_")
    classes = {info.kind.__name__: info.kind for info in TASKS.values()}
    if base not in classes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    try:
        values = json.loads(bytes.fromhex(code)) if code else {}
        config: Any = classes[base](**values)
        config.task()
    except (ValueError, TypeError, InputError) as error:
        raise AttributeError(f"{module}:{name} names no task ({error})") from error
    return config
