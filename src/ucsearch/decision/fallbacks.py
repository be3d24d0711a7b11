"""The tasks' own fallbacks, checked. They are plain Python of the user's: asked where one is needed, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.certificate import CertifiedPanel
from ucsearch.engine.arrays import Col
from ucsearch.layout import own_rows
from ucsearch.rules.answers import as_allowed, as_number, guarded
from ucsearch.task import Task

__all__ = ["Fallbacks", "checked_fallback"]

_REWARD, _UNCERTAINTY = int(Col.STEP_REWARD), int(Col.STEP_UNCERTAINTY)


def checked_fallback(task: Task, state: Any, params: Any, available: Sequence[Any]) -> tuple[Any, bool]:
    """The fallback and whether it may be sent; a fallback that raises or is no action may not."""
    try:
        found = guarded(task.fallback, state, params)
        action = tuple(map(as_number, found)) if task.width else as_number(found)  # finite: `in` compares by value
        if action not in available:
            return math.nan, False
        return action, as_allowed(guarded(task.feasible_at, state, action, 0, params))
    except Exception:  # whatever user code raises here means the same: there is no fallback to rely on
        return math.nan, False


class Fallbacks:
    """Fallbacks of a panel. A window that is released asks for its own only when somebody looks."""

    def __init__(self, certified: CertifiedPanel) -> None:
        count = len(certified)
        self._certified = certified
        self._asked = np.zeros(count, bool)
        self._action, self._feasible = np.full(count, np.nan), np.zeros(count, bool)
        self._costs: dict[int, float] = {}  # as far as somebody announced that he will look

    def ask(self, windows: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Actions and whether they may be sent, (W,), certain where `windows` says so; None: everywhere."""
        rest = np.flatnonzero(~self._asked if windows is None else windows & ~self._asked)
        if rest.size:
            self._fill(rest)
        return self._action, self._feasible

    def _fill(self, rest: NDArray[np.int64]) -> None:
        plan = self._certified.plan
        for w in rest.tolist():
            action, self._feasible[w] = checked_fallback(plan.task, *plan.start(w))
            self._action[w] = action if action != action else plan.task.number_of(action)
        self._asked[rest] = True

    def prepare(self, windows: Sequence[int]) -> None:
        """Ask for all of these at once, for whoever looks at one after another."""
        chosen = np.asarray(windows, np.int64)
        rest = chosen[~self._asked[chosen]]
        if rest.size:
            self._fill(rest)
        self._costs.update(zip(chosen.tolist(), self._cost(chosen).tolist(), strict=True))

    def at(self, w: int) -> tuple[Any, bool, float]:
        """Action (NaN: none), whether it may be sent, and its cost, of one window."""
        if not self._asked[w]:
            self._fill(np.array([w]))
        cost = self._costs.get(w)
        if cost is None:
            cost = float(self._cost(np.array([w]))[0])
        return self._certified.plan.task.action_of(float(self._action[w])), bool(self._feasible[w]), cost

    def cost(self, windows: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Of those windows, or all: first step of the candidate against the one-step fallback, in risk-adjusted reward;
        NaN unknown."""
        self.ask(windows)
        return self._cost(np.arange(self._asked.size) if windows is None else np.flatnonzero(windows))

    def _cost(self, windows: NDArray[np.int64]) -> NDArray[np.float64]:
        plan = self._certified.plan
        table, rows = plan.outputs.table[windows], np.arange(windows.size)
        step = table[:, :, _REWARD] - plan.settings.risk * table[:, :, _UNCERTAINTY]
        grid = own_rows(plan.inputs.actions, windows)
        match = grid == self._action[windows, None]
        place = match.argmax(axis=1)  # the first one, where there is one
        of_fallback = np.where(match[rows, place], step[rows, place], np.nan)
        first = self._certified.released[windows]
        candidate = np.where(first >= 0, step[rows, np.maximum(first, 0)], np.nan)
        cost: NDArray[np.float64] = candidate - of_fallback
        return cost
