"""Built-in tasks by name: what each is, and where a record says that its task is found.

`TASKS` lists them by the name used in settings files; `describe` says in a few lines what each is.

A decision's record names the task's address, so that a verifier can import it. An address is
`ucsearch.tasks:LeadTimeInventory_<hex>`: the record of parameters and, in hex, the JSON of those that shape the rules
or the labels (`7b7d` is `{}`: none). A decision's record holds its own parameters. Addresses are
persisted: what was written once is found for ever.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ucsearch.errors import InputError
from ucsearch.task import Task
from ucsearch.tasks.base import fields_of
from ucsearch.tasks.capacity import CapacityPlan
from ucsearch.tasks.direction import Direction
from ucsearch.tasks.exposure import DelayedExposure
from ucsearch.tasks.intervention import Intervention
from ucsearch.tasks.inventory.record import LeadTimeInventory
from ucsearch.tasks.storage.record import Storage

__all__ = ["TASKS", "TaskInfo", "address", "describe", "named_config", "named_task"]


@dataclass(frozen=True)
class TaskInfo:
    """One built-in task: where it is, what it decides, what its forecast is of."""

    name: str  # as in settings files
    kind: type[Any]  # the record of parameters
    summary: str  # what is decided, in half a sentence
    outcome: str  # what a trace forecasts, with its unit
    action: str  # what is decided, with its unit
    page: str  # below docs/reference/

    @property
    def instances(self) -> tuple[str, ...]:
        return tuple(self.kind.instances())

    @property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults, in the order of the record."""
        return {f.name: f.default for f in fields_of(self.kind)}

    def describe(self) -> str:
        """A short text for people."""
        names = self.instances
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        return (
            f"{self.name}: {self.summary}\n"
            f"  decides    {self.action}\n"
            f"  forecast   {self.outcome}\n"
            f"  parameters {', '.join(self.parameters)}\n"
            f"  instances  {shown}\n"
            f"  page       docs/reference/{self.page}"
        )


_ALL = (
    TaskInfo(
        "lead_time_inventory",
        LeadTimeInventory,
        "periodic review of one item whose orders arrive some periods later",
        "demand per period, units",
        "the order, units (or the level to order up to)",
        "tasks/lead-time-inventory.md",
    ),
    TaskInfo(
        "delayed_exposure",
        DelayedExposure,
        "a position whose submitted change executes some steps later",
        "return per unit and step, currency",
        "the change to submit, units",
        "tasks/delayed-exposure.md",
    ),
    TaskInfo(
        "direction",
        Direction,
        "short, flat or long, with the cost on exposure or on change",
        "return of one unit held long for one step, currency",
        "-1, 0 or 1",
        "tasks/direction.md",
    ),
    TaskInfo(
        "capacity_plan",
        CapacityPlan,
        "units in service with start-up delay, ramp and minimum up-time",
        "demand per step, in units of output",
        "units to start (above 0) or to stop (below 0)",
        "tasks/capacity-plan.md",
    ),
    TaskInfo(
        "intervention",
        Intervention,
        "alarms or treatments with a budget, a cooldown and a delayed effect",
        "harm of a step if nothing is done, currency",
        "the dose; 0 is none",
        "tasks/intervention.md",
    ),
    TaskInfo(
        "storage",
        Storage,
        "a battery or tank that buys, keeps and sells at given prices",
        "price per unit of energy, currency",
        "power: above 0 charges, below 0 discharges",
        "tasks/storage.md",
    ),
)

TASKS: dict[str, TaskInfo] = {info.name: info for info in _ALL}


def describe(name: str | None = None) -> str:
    """What the built-in tasks are; with a `name` of `TASKS` that one."""
    if name is None:
        return "\n\n".join(info.describe() for info in _ALL)
    if name not in TASKS:
        raise InputError("task", repr(name), f"one of {', '.join(TASKS)}")
    return TASKS[name].describe()


# -------------------------------------------------------------------- addresses


HOME = "ucsearch.tasks"


def address(config: Any, *, own_grid: bool = False) -> str:
    """The shortest name under which a task with the same rules and labels is found. With `own_grid` every series has
    its own actions, so that only their number and the way they are called count."""
    cls, task = type(config), config.task()
    if not any(cls is info.kind for info in _ALL):
        raise InputError(
            "task.object", cls.__name__, "a method address() that returns 'package:object', where its task is found"
        )
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
