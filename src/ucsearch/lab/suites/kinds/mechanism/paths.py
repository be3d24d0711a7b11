"""What given plans earn: under a forecast (reward and uncertainty, in mean mode) and in reality.

Plans are rolled through the task step by step, apart from the search engines, so that either can be checked by the
other. B plans of d steps, J members.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.simulate import Simulator
from ucsearch.layout import Layout
from ucsearch.task import Task

__all__ = ["RolledPlans"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RolledPlans:
    """Action-index plans (B, d), each from its own state. A plan that meets a rule on its way is worth NaN."""

    def __init__(
        self, task: Task, layout: Layout, states: Floats, plans: Ints, actions: Floats | None, params: Floats | None
    ) -> None:
        self.task, self.layout = task, layout
        self.states, self.plans = np.asarray(states, np.float64), np.asarray(plans, np.int64)
        grid = task.action_array[None] if actions is None else actions
        given = task.params_row if params is None else params
        self.actions, self.params = (np.asarray(_rows(x, len(self.states))) for x in (grid, given))
        self._simulator = Simulator(task, layout, params=self.params, actions=self.actions)

    def realised(self, outcomes: Floats) -> Floats:
        """(B,) rewards along outcomes (B, >= d), the end's value included."""
        return self._roll(outcomes, None, None)[0]

    def foreseen(self, members: Floats, mean: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """(B,) reward at the mean outcome and (B,) sum of the standard deviations of the steps' rewards over members
        (B, J, >= d), both along the mean path (B, >= d)."""
        return self._roll(mean, members, weights)

    def _roll(self, outcomes: Floats, members: Floats | None, weights: Floats | None) -> tuple[Floats, Floats]:
        count, depth = self.plans.shape
        states = self.states
        total, spread = np.zeros(count), np.zeros(count)
        good = np.ones(count, np.bool_)
        every = np.arange(count)
        for h in range(depth):
            index = self.plans[:, h]
            good &= (index >= 0) & self._simulator.mask(states)[every, np.maximum(index, 0)]
            taken = np.where(good, index, -1)
            if members is not None and weights is not None:
                spread += self._spread(states, taken, members[:, :, h], weights)
            step = self._simulator.advance(states, taken, np.ascontiguousarray(outcomes[:, h, None]))
            total += step.rewards
            states = step.states
        total += self._end(states)
        return np.where(good, total, np.nan), np.where(good, spread, np.nan)

    def _spread(self, states: Floats, taken: Ints, values: Floats, weights: Floats) -> Floats:
        """(B,) standard deviation of one step's reward over members (B, J)."""
        size = values.shape[1]
        each = Simulator(
            self.task, self.layout, params=self.params.repeat(size, axis=0), actions=self.actions.repeat(size, axis=0)
        )
        rewards = each.advance(
            states.repeat(size, axis=0), taken.repeat(size), np.ascontiguousarray(values.reshape(-1, 1))
        ).rewards.reshape(values.shape)
        centre = (rewards * weights).sum(axis=1)
        out: Floats = np.sqrt((weights * (rewards - centre[:, None]) ** 2).sum(axis=1))
        return out

    def _end(self, states: Floats) -> Floats:
        terminal, params_layout = self.task.terminal, self.task.params_layout
        if terminal is None:
            return np.zeros(len(states))

        def value(row: Floats, own: Floats) -> float:
            params: Any = None if params_layout is None else params_layout.build(own.tolist())
            return float(terminal(self.layout.build(row.tolist()), params))

        return np.array([value(row, own) for row, own in zip(states, self.params, strict=True)])


def _rows(values: Floats, count: int) -> Floats:
    return np.broadcast_to(values, (count, values.shape[1])) if len(values) == 1 else values
