"""Ready problems: parameters a practitioner recognises, a bound, a fallback, named instances; pages in docs/tasks.

A task here is a frozen record of settings: `.task()` gives the `uc.Task`, `.state(...)` a starting state and
`.instances()` named settings. Modules are loaded when a name is first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucsearch.tasks.capacity import CapacityPlan as CapacityPlan
    from ucsearch.tasks.direction import Direction as Direction
    from ucsearch.tasks.exposure import DelayedExposure as DelayedExposure
    from ucsearch.tasks.intervention import Intervention as Intervention
    from ucsearch.tasks.inventory import LeadTimeInventory as LeadTimeInventory
    from ucsearch.tasks.storage import Storage as Storage


@dataclass(frozen=True)
class TaskInfo:
    """A row of the list of ready problems."""

    name: str  # as in settings files
    record: str  # the class here
    module: str
    summary: str

    def load(self) -> Any:
        """The class itself."""
        return getattr(import_module(f"ucsearch.tasks.{self.module}"), self.record)


TASKS: dict[str, TaskInfo] = {
    info.name: info
    for info in (
        TaskInfo("inventory", "LeadTimeInventory", "inventory", "orders that arrive some periods later"),
        TaskInfo("exposure", "DelayedExposure", "exposure", "a position whose changes execute later"),
        TaskInfo("direction", "Direction", "direction", "short, flat or long"),
        TaskInfo("capacity", "CapacityPlan", "capacity", "units that take time to start and must then run"),
        TaskInfo("intervention", "Intervention", "intervention", "a budget of treatments with cooldown and delay"),
        TaskInfo("storage", "Storage", "storage", "a battery or tank against prices"),
    )
}

__all__ = [  # noqa: RUF022 (the ready problems first)
    "CapacityPlan",
    "DelayedExposure",
    "Direction",
    "Intervention",
    "LeadTimeInventory",
    "Storage",
    "TASKS",
    "TaskInfo",
]


def __getattr__(name: str) -> Any:
    for info in TASKS.values():
        if info.record == name:
            return info.load()
    raise AttributeError(f"module 'ucsearch.tasks' has no attribute {name!r}")
