"""Kernels compiled before the first request: one decision with made-up numbers, written nowhere."""

from __future__ import annotations

import time
import warnings
from datetime import UTC, datetime
from typing import Any

from ucsearch.errors import UCSearchError, UncompilableWarning
from ucsearch.pipeline.cases import state_columns
from ucsearch.pipeline.decide import decided
from ucsearch.pipeline.direct import rows_work
from ucsearch.service.plans import Plan, Warmed

__all__ = ["sample_row", "warm"]

_MEMBERS = 4


def sample_row(plan: Plan) -> dict[str, Any]:
    """A series that the plan can decide: its task's own starting state, and a forecast that is long enough."""
    settings = plan.settings
    config = settings.task
    columns = state_columns(config)
    fit = config.fit()
    start = {k: list(v) if isinstance(v, tuple) else v for k, v in fit.start.items()}
    for name in columns.required:
        start.setdefault(name, [0.0] if name in columns.several else 0.0)
    steps = max(settings.policy.depth, int(getattr(config, "lead_time", 0)) + 1, settings.forecast.steps or 1)
    members = [[fit.unit * (1.0 + 0.1 * j + 0.01 * h) for h in range(steps)] for j in range(_MEMBERS)]
    now = datetime.now(UTC).isoformat()
    return {settings.columns.series: "warm-up", **start, "forecast": {"members": members, "issued": now}}


def warm(plan: Plan) -> Warmed:
    """Decide once, which loads or compiles the kernel. Tasks of other shapes (another lead time in a state) compile
    when they come."""
    if plan.settings.run.engine == "python":
        return Warmed("python", "decides without kernels, as its settings say")
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work = rows_work(plan.settings, [sample_row(plan)], datetime.now(UTC))
            for chunk in decided(work, plan.settings, range(len(work.chunks)), datetime.now(UTC)):
                for problem, _ in chunk.refused.values():  # nothing was searched, so nothing was compiled
                    return Warmed("python", f"its kernel could not be tried: {problem}")
        except UCSearchError as error:
            return Warmed("python", f"its kernel could not be tried: {error}")
    failed = [w for w in caught if issubclass(w.category, UncompilableWarning)]
    if failed:
        return Warmed("python", f"its kernel could not be compiled: {failed[0].message}")
    return Warmed("compiled", f"kernel ready after {time.perf_counter() - started:.1f} s")
