"""Ready-made tasks: each a frozen record of parameters with `task()`, `state(...)`, `params()` and `instances()`.

`TASKS` lists them by the name used in settings files; `describe` says in a few lines what each is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ucsearch.tasks.capacity import CapacityPlan
from ucsearch.tasks.direction import Direction
from ucsearch.tasks.exposure import DelayedExposure
from ucsearch.tasks.intervention import Intervention
from ucsearch.tasks.inventory.record import LeadTimeInventory
from ucsearch.tasks.registry import TASKS, TaskInfo, describe
from ucsearch.tasks.storage.record import Storage

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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Persisted addresses: `LeadTimeInventory_7b22...` is that task (see `ucsearch.tasks.registry`)."""
        from ucsearch.tasks.registry import named_task

        if "_" not in name or name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return named_task(name)
