"""One random window of a template, with a trace: what the property tests draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ucsearch as uc
from tests.kit.brute import Enumeration, enumerate_paths
from tests.kit.templates import TEMPLATES

__all__ = ["Problem", "random_problem", "single"]


@dataclass(frozen=True)
class Problem:
    """A window small enough to enumerate."""

    task: uc.Task
    state: Any
    params: Any
    actions: np.ndarray | None  # (m,), NaN unavailable; None: all
    trace: uc.Trace
    mode: str

    def search(self, policy: Any, engine: Any = "python") -> uc.Plan:
        return uc.search(
            self.task, self.state, self.trace, policy, params=self.params, actions=self.actions, engine=engine
        )

    def enumerate(self, policy: Any) -> Enumeration:
        return enumerate_paths(
            self.task, self.state, self.trace, depth=policy.depth, mode=policy.mode, risk=policy.risk,
            spread=policy.spread, discount=policy.discount, params=self.params, actions=self.actions,
        )  # fmt: skip


def single(params: Any) -> Any:
    """Params of arrays with one window each, as params of numbers."""
    if params is None:
        return None
    return type(params)(*(tuple(x[0].tolist()) if np.ndim(x) == 2 else float(x[0]) for x in params))


def random_problem(
    rng: np.random.Generator, name: str, mode: str, *, horizon: int = 4, members: int = 4, gaps: bool = True
) -> Problem:
    """`gaps`: some actions are unavailable, in about a third of the draws."""
    template = TEMPLATES[name]
    task, m = template.task, len(template.task.actions)
    states, params = template.windows(rng, 1)
    actions = None
    if gaps and rng.integers(0, 3) == 0:
        actions = task.action_array.copy()
        actions[rng.random(m) < 0.3] = np.nan
    if mode == "scores":
        trace = uc.Trace.from_scores(
            np.round(rng.normal(0, 1, (horizon, m)), 1), np.round(rng.random((horizon, m)), 1),
            template.outcomes(rng, (horizon, template.fields)),
        )  # fmt: skip
    else:
        size = int(rng.integers(1, members + 1))
        shape = (size, horizon, template.fields) if template.fields > 1 else (size, horizon)
        weights = rng.random(size) + 0.1 if rng.integers(0, 2) else None
        trace = uc.Trace.from_members(
            template.outcomes(rng, shape),
            weights,
            fields=template.fields if template.fields > 1 else None,
            normalise=True,
        )
    return Problem(task, states[0], single(params), actions, trace, mode)
