"""Older records say `ucsearch.planning.objects:LeadTimeInventory_7b22...`; the tasks are in `ucsearch.tasks` now."""

from __future__ import annotations

from ucsearch.task import Task
from ucsearch.tasks.registry import named_task


def __getattr__(name: str) -> Task:
    return named_task(name, __name__)
