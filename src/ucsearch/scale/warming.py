"""Kernels of a job compiled ahead, in a folder that can be shipped to workers."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

from ucsearch.certificate.warm import warm
from ucsearch.errors import DataError
from ucsearch.pipeline.cases import Kinds, StateFile, state_columns
from ucsearch.pipeline.tables import open_table
from ucsearch.settings import Settings

__all__ = ["warm_kernels"]


def warm_kernels(settings: Settings, states: str | Path | None = None, to: str | Path | None = None) -> tuple[str, ...]:
    """Compile what `decide` with these settings needs: for every kind of series in `states`, or for the settings' own
    task. With `to`, into that folder; returns the names of what is ready there."""
    if to is not None:
        folder = Path(to).expanduser()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
        os.environ["UCSEARCH_CACHE_DIR"] = str(folder.absolute())
    if states is not None:
        cases = StateFile(open_table(states, settings.columns.decimal), settings).cases.values()
        found = {case.kind.number: (case.kind.task, case.state) for case in cases}
    else:
        kind = Kinds(settings).kind(settings.task, {})
        found = {0: (kind.task, _a_state(settings.task))}
    ready = []
    for number, (task, state) in sorted(found.items()):
        ready += [f"{task.name} {number}: {name}" for name in warm(task, settings.policy, state=state)]
    return tuple(ready)


def _a_state(config: Any) -> Any:
    """Any state of the task: kernels depend on its form alone."""
    wanted = state_columns(config).required
    return config.state(**{n: 0.0 for n in inspect.signature(config.state).parameters if n in wanted})
