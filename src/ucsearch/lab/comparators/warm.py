"""Warm starts: the previous plan, moved on by one step, as the centre of the next first distribution.

A panel's windows are told apart by their content (see streams.py), so a warm start survives splitting and reordering.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.plan import PanelPlan, Plan
from ucsearch.errors import InputError
from ucsearch.lab.comparators.streams import contents_of_rows, signed
from ucsearch.trace import Trace

__all__ = ["WarmStart"]


@dataclass(frozen=True)
class WarmStart:
    """Plans as action indices, -1 where there is no preference."""

    plans: tuple[tuple[int, ...], ...]  # one, or one per window
    contents: tuple[int, ...] = ()  # the windows they are for, by content; () when the one plan is for any window

    def __post_init__(self) -> None:
        expected = len(self.contents) if self.contents else 1
        if len(self.plans) != expected:
            raise InputError("warm.plans", f"{len(self.plans)} plans", f"{expected}")
        for i, plan in enumerate(self.plans):
            if any(isinstance(x, bool) or not isinstance(x, int) or x < -1 for x in plan):
                raise InputError("warm.plans", plan, "action indices, or -1 where there is no preference", index=i)

    @classmethod
    def after(
        cls, plan: Plan | PanelPlan, depth: int, states: Any = None, traces: Any = None,
        actions: NDArray[np.float64] | None = None,
    ) -> Self:  # fmt: skip
        """From the last decision. `states` and `traces` (one panel) are the next windows', and so are `actions` (W, m)
        where each window's grid moves: the plan's actions are then found again by value (panels only)."""
        if isinstance(plan, Plan):
            return cls((_shifted(plan.outputs.path[plan.window]),))
        if states is None or traces is None:
            raise InputError("states, traces", "nothing", "the next windows', to know which plan is for which")
        trace = traces if isinstance(traces, Trace) else Trace.from_members(traces)
        rows = plan.layout.rows(states, "states")
        for name, count in (("states", rows.shape[0]), ("traces", trace.windows)):
            if count != len(plan):
                raise InputError(name, f"{count} windows", f"{len(plan)}, as many as the previous plan has")
        contents = contents_of_rows(_content_rows(rows, trace, depth))
        paths = plan.outputs.path if actions is None else _nearest(plan.path, np.asarray(actions, np.float64))
        return cls(tuple(_shifted(path) for path in paths), tuple(int(c) for c in contents))

    def rows(self, depth: int, actions: int) -> tuple[tuple[tuple[int, ...], ...], bool]:
        """As the kernels read them: plans of `depth` steps, each after its window's content, sorted by it."""
        plans = []
        for i, plan in enumerate(self.plans):
            for x in plan:
                if x >= actions:
                    raise InputError("warm.plans", x, f"an action index below {actions}", index=i)
            plans.append((*plan[:depth], *(-1,) * (depth - len(plan))))
        if not self.contents:
            return tuple(plans), False
        keyed = {signed(c): p for c, p in zip(self.contents, plans, strict=True)}  # equal windows: one plan
        return tuple((c, *keyed[c]) for c in sorted(keyed)), True


def _content_rows(states: NDArray[np.float64], trace: Trace, depth: int) -> NDArray[np.float64]:
    """(W, n) numbers in the order in which a window's content is hashed."""
    windows = states.shape[0]
    scores = np.concatenate([trace.q[:, :depth], trace.u[:, :depth]], axis=2)
    return np.concatenate([states, trace.mean[:, :depth].reshape(windows, -1), scores.reshape(windows, -1)], axis=1)


def _nearest(values: NDArray[np.float64], actions: NDArray[np.float64]) -> NDArray[np.int32]:
    """(W, d) where each value stands in its window's new grid: the nearest action, the smaller one on ties."""
    if actions.ndim != 2 or actions.shape[0] != values.shape[0]:
        raise InputError("actions", f"shape {actions.shape}", f"shape ({values.shape[0]}, m), one row per window")
    away = np.abs(values[:, :, None] - actions[:, None, :])
    nearest = np.argmin(np.where(np.isnan(away), np.inf, away), axis=2)
    return np.where(np.isnan(values), -1, nearest).astype(np.int32)


def _shifted(path: NDArray[np.int32]) -> tuple[int, ...]:
    """The steps still ahead; what follows the old plan's end has no preference. () when there was no plan."""
    return tuple(int(x) for x in path[1:]) if path[0] >= 0 else ()
