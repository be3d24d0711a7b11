"""Ready-made tasks: each a frozen record of parameters with `task()`, `state(...)`, `params()` and `instances()`.

`TASKS` lists them by the name used in settings files; `describe` says in a few lines what each is.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ucsearch.errors import InputError
from ucsearch.tasks.capacity import CapacityPlan
from ucsearch.tasks.direction import Direction
from ucsearch.tasks.exposure import DelayedExposure
from ucsearch.tasks.intervention import Intervention
from ucsearch.tasks.inventory import LeadTimeInventory
from ucsearch.tasks.storage import Storage

__all__ = [
    "TASKS",
    "CapacityPlan",
    "DelayedExposure",
    "Direction",
    "Intervention",
    "LeadTimeInventory",
    "Storage",
    "TaskInfo",
    "describe",
]


@dataclass(frozen=True)
class TaskInfo:
    """One built-in task: where it is, what it decides, what its forecast is of."""

    name: str  # as in settings files
    kind: type[Any]  # the record of parameters
    summary: str  # what is decided, in half a sentence
    outcome: str  # what a trace forecasts, with its unit
    action: str  # what is decided, with its unit
    page: str  # below docs/

    @property
    def instances(self) -> tuple[str, ...]:
        return tuple(self.kind.instances())

    @property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults, in the order of the record."""
        return {f.name: f.default for f in dataclasses.fields(self.kind)}

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
            f"  page       docs/{self.page}"
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Persisted addresses: `LeadTimeInventory_7b22...` is that task (see `ucsearch.tasks.address`)."""
        from ucsearch.tasks.address import named_task

        if "_" not in name or name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return named_task(name)


def describe(name: str | None = None) -> str:
    """What the built-in tasks are; with a `name` of `TASKS` that one."""
    if name is None:
        return "\n\n".join(info.describe() for info in _ALL)
    if name not in TASKS:
        raise InputError("task", repr(name), f"one of {', '.join(TASKS)}")
    return TASKS[name].describe()
