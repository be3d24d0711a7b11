"""The plain rules along a given path: what it earns, and in how many members it keeps every rule.

Mean mode asks the rules at the mean outcome only: what holds there may be broken by members further along the path. In
members mode a path is feasible for all of them by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs, read_only
from ucsearch.engine.compiled import compile as kernels
from ucsearch.layout import Layout
from ucsearch.policies import MODES
from ucsearch.rules.answers import as_allowed, as_number
from ucsearch.task import Task

__all__ = ["Earned", "Path", "Replay", "kept_weights", "prepare"]

Floats = NDArray[np.float64]


class Path(NamedTuple):
    """A path in values that rules take."""

    state: Any  # it starts from
    actions: Sequence[float]  # (d,)
    outcomes: Sequence[Any]  # (d,) or more
    params: Any


class Earned(NamedTuple):
    """What a path earns."""

    reward: float  # discounted, the terminal value included
    size: float  # sum of the absolute values of its parts


class NotAllowed(Exception):
    """A rule does not allow the path."""


class Replay:
    """Walks paths by the plain rules of a task. A rule that raises, or answers something of another kind, allows
    nothing."""

    def __init__(self, task: Task, layout: Layout, discounts: Sequence[float] = (), ends: bool = True) -> None:
        self.task, self.layout, self.discounts = task, layout, discounts
        self.ends = ends  # whether the path goes to the end of the plan

    def keeps(self, path: Path) -> bool:
        """Whether every action is allowed when its turn comes, and the end of the path too. Rewards are not asked."""
        steps = self._steps(path)
        # The state after the last action is needed only where a rule speaks of the end.
        asked = steps if self._end_counts else islice(steps, len(path.actions))
        try:
            for _ in asked:
                pass
        except KeyboardInterrupt:
            raise
        except BaseException:
            return False
        return True

    def earns(
        self, path: Path, scores: Sequence[Sequence[float]] | None = None, at: Sequence[int] = ()
    ) -> Earned | None:
        """Rewards along the path, or the `scores` (H, m) of the actions with numbers `at`; None where it is not
        allowed or a rule fails."""
        reward_at, total, size, h = self.task.reward_at, 0.0, 0.0, 0
        try:
            for h, (state, a, y) in enumerate(self._steps(path)):
                if h == len(path.actions):
                    earned = (
                        0.0 if self.task.terminal is None or not self.ends else self.task.terminal(state, path.params)
                    )
                elif scores is None:
                    earned = reward_at(state, a, y, h, path.params)
                else:
                    earned = scores[h][at[h]]
                part = self.discounts[h] * as_number(earned)
                total += part
                size += abs(part)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
        return Earned(total, size)

    def weight(self, path: Path, members: Sequence[Sequence[Any]], weights: Sequence[float]) -> float:
        """Weight of the members, each with outcomes of its own, in which the path keeps every rule; NaN without
        members."""
        if not members:
            return math.nan
        kept = [self.keeps(path._replace(outcomes=outcomes)) for outcomes in members]
        if all(kept):
            return 1.0
        total = 0.0
        for own, weight in zip(kept, weights, strict=True):
            total += weight if own else 0.0
        return total

    @property
    def _end_counts(self) -> bool:
        return self.ends and self.task.allowed_end is not None

    def _steps(self, path: Path) -> Iterator[tuple[Any, float, Any]]:
        """State, action and outcome of every step, each before it is taken; then the state after the last."""
        feasible, step, coerced = self.task.feasible_at, self.task.bare_step_at, self.layout.coerced
        state, params = path.state, path.params
        for h, (a, y) in enumerate(zip(path.actions, path.outcomes)):  # noqa: B905 - outcomes may reach further
            allowed = feasible(state, a, h, params)
            if allowed is not True and not as_allowed(allowed):
                raise NotAllowed(h)
            yield state, a, y
            state = coerced(step(state, a, y, h, params))
        end = self.task.allowed_end
        if self.ends and end is not None and not as_allowed(end(state, params)):
            raise NotAllowed("the end")
        yield state, math.nan, None


# -------------------------------------------------------------------- many windows by a kernel

# For callers that prepared it, such as a service: nothing is compiled on the way. Only rules of this package are taken:
# a rule that divides by zero raises in plain Python and goes on when compiled, and which of the two a stranger's does
# for a member far from the mean, nobody has looked at.
_KIND = kernels.Kind("ucsearch.engine.kernels.keeping", MODES["mean"], False)


def prepare(task: Task, layout: Layout) -> bool:
    """Load or compile the kernel for states of this layout; False where there is none to be had."""
    if not _is_ours(task):
        return False
    known: dict[Layout, kernels.Kernel] = task.__dict__.setdefault("_keeping", {})
    if layout in known:
        return True

    def warm(kernel: Callable[..., None]) -> None:
        rows = np.zeros((0, layout.size))
        members = np.zeros((0, 1, 1, task.fields))
        _call(kernel, task, Inputs(rows, task.params_row, task.action_array[None], rows, members, np.ones((1, 1)),
                                   rows, rows), np.zeros((0, 1), np.int32))  # fmt: skip

    try:
        made = kernels.load(task, layout, _KIND, warm, f"rolling through members for task {task.name!r}")
    except Exception:  # numba raises many kinds; the plain functions are asked instead
        return False
    known[layout] = made
    return True


def kept_weights(task: Task, layout: Layout, inputs: Inputs, paths: NDArray[np.int32]) -> Floats | None:
    """(W,) weight of members for which `paths` (W, d; -1: none) keep every rule; None where no kernel is ready."""
    found = task.__dict__.get("_keeping", {}).get(layout)
    if found is None or not inputs.members.shape[1]:
        return None
    try:
        return _call(found.call, task, inputs, paths)
    except Exception:  # a rule raised for some member: the plain functions say what that means
        return None


def _call(kernel: Callable[..., None], task: Task, inputs: Inputs, paths: NDArray[np.int32]) -> Floats:
    rows = inputs.states
    if task.timed:
        rows = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    out = np.empty(len(rows))
    arrays = (rows[:, None, :], inputs.params, inputs.actions, inputs.members, inputs.weights, paths)
    kernel(*(read_only(x) for x in arrays), out)
    return out


def _is_ours(task: Task) -> bool:
    return all(str(getattr(f, "__module__", "")).startswith("ucsearch.") for f in (task.feasible, task.step))
