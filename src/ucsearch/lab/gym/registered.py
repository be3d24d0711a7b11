"""The built-in tasks under Gymnasium's names, on embedded demand: `gymnasium.make("ucsearch/Storage-v0", length=24)`.

Gymnasium finds them by itself through the entry point `gymnasium.envs`; importing `ucsearch.lab.gym` does the same.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.gym.env import TaskEnv, TaskVectorEnv
from ucsearch.tasks import TASKS
from ucsearch.tasks.base import as_outcomes

__all__ = ["IDS", "make_env", "make_vector_env", "register_plugin", "register_tasks"]

IDS = {info.kind.__name__: name for name, info in TASKS.items()}  # "LeadTimeInventory" -> "lead_time_inventory"
LENGTH = 50  # steps of an episode
SEASON = 7  # days in which the embedded series repeat


def make_env(name: str, *, instance: str | None = None, length: int = LENGTH, **options: Any) -> TaskEnv:
    """A built-in task on embedded series that were scaled to its actions.

    Observations end with the outcome a season ago, a forecast that anybody could make.

    Args:
        name: of the task, such as `"lead_time_inventory"`.
        instance: named parameters, as `ucsearch tasks` lists them; the task's defaults when None.
        length: steps of an episode.
        options: further keywords of `TaskEnv`.
    """
    return TaskEnv(**_parts(name, instance), length=length, **options)


def make_vector_env(
    name: str, *, num_envs: int = 1, instance: str | None = None, length: int = LENGTH, **options: Any
) -> TaskVectorEnv:
    """As `make_env`, many windows at once."""
    return TaskVectorEnv(**_parts(name, instance), num_envs=num_envs, length=length, **options)


def register_tasks(namespace: str = "") -> None:
    """Register every built-in task once, as `namespace` + `LeadTimeInventory-v0` and so on."""
    for title, name in IDS.items():
        id = f"{namespace}{title}-v0"
        if id not in gymnasium.registry:
            gymnasium.register(
                id=id,
                entry_point="ucsearch.lab.gym.registered:make_env",
                vector_entry_point="ucsearch.lab.gym.registered:make_vector_env",
                kwargs={"name": name},
            )


def register_plugin() -> None:
    """What Gymnasium calls when it looks for plugins; it adds the namespace itself."""
    if not all(f"ucsearch/{title}-v0" in gymnasium.registry for title in IDS):
        register_tasks()


def _parts(name: str, instance: str | None) -> dict[str, Any]:
    if name not in TASKS:
        raise InputError("name", repr(name), f"one of {', '.join(TASKS)}")
    kinds = TASKS[name].kind.instances()
    if instance is not None and instance not in kinds:
        raise InputError("instance", repr(instance), f"one of {', '.join(kinds)}")
    config = next(iter(kinds.values())) if instance is None else kinds[instance]
    fit = config.fit()
    outcomes = [np.maximum(as_outcomes(one.y, fit.outcome, fit.unit), fit.floor) for one in sample_demand().series]
    return {
        "task": config.task(),
        "start": config.state(**fit.start),
        "series": [y[SEASON:] for y in outcomes],
        "features": [y[:-SEASON, None] for y in outcomes],
    }
