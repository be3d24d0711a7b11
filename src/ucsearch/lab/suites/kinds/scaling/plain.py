"""Plain exact methods over a task's own functions: what a search is compared with, and counted against.

They share no code with the engines: mean mode, standard deviation as the spread, one outcome field, no discount.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.task import Task

__all__ = ["ExposureProblem", "PlanGraph", "enumerate_plans", "programme", "unfold"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExposureProblem:
    """One decision: the task, where it starts, what may be done, and the forecast."""

    task: Task
    start: Any
    actions: tuple[float, ...]
    members: Floats  # (J, d), equal weights
    risk: float

    @property
    def depth(self) -> int:
        return int(self.members.shape[1])

    def options(self, state: Any) -> list[float]:
        return [a for a in self.actions if self.task.feasible(state, a, self.task.params)]

    def edge(self, h: int, state: Any, action: float, mean: Sequence[float]) -> tuple[float, float]:
        """(q, u): the reward at the mean outcome and the standard deviation of the rewards over members."""
        task, params = self.task, self.task.params
        rewards = [task.reward(state, action, y, params) for y in self.columns[h]]
        centre = math.fsum(rewards) / len(rewards)
        spread = math.sqrt(math.fsum((r - centre) ** 2 for r in rewards) / len(rewards))
        return float(task.reward(state, action, mean[h], params)), spread

    @cached_property
    def columns(self) -> list[list[float]]:
        """(d, J) the members by step."""
        return [[float(y) for y in column] for column in self.members.T]

    @property
    def mean(self) -> list[float]:
        return [math.fsum(column) / len(column) for column in self.columns]


class PlanGraph(NamedTuple):
    """How large the problem is, without a walk through its plans."""

    states: int  # distinct states, step by step: what a dynamic programme keeps
    edges: int  # feasible actions in them: what it evaluates
    prefixes: int  # feasible beginnings of plans: what enumeration visits
    plans: int  # of full depth


def unfold(problem: ExposureProblem) -> PlanGraph:
    """Count by steps: how many beginnings lead to each distinct state."""
    mean, layer = problem.mean, {problem.start: 1}
    states = edges = prefixes = 0
    for h in range(problem.depth):
        following: dict[Any, int] = {}
        for state, ways in layer.items():
            for action in problem.options(state):
                edges += 1
                after = problem.task.step(state, action, mean[h], problem.task.params)
                following[after] = following.get(after, 0) + ways
        layer = following
        states += len(layer)
        prefixes += sum(layer.values())
    return PlanGraph(states, edges, prefixes, sum(layer.values()))


def enumerate_plans(problem: ExposureProblem) -> tuple[float, int]:
    """The best score of all plans, and how many beginnings were visited. No state is recognised again."""
    mean, depth, task = problem.mean, problem.depth, problem.task
    best, visited = -math.inf, 0
    stack = [(0, problem.start, 0.0, 0.0)]
    while stack:
        h, state, reward, spread = stack.pop()
        if h == depth:
            end = float(task.terminal(state, task.params)) if task.terminal is not None else 0.0
            best = max(best, reward + end - problem.risk * spread)
            continue
        for action in problem.options(state):
            visited += 1
            q, u = problem.edge(h, state, action, mean)
            stack.append((h + 1, task.step(state, action, mean[h], task.params), reward + q, spread + u))
    return best, visited


def programme(problem: ExposureProblem) -> float:
    """The best score by backward induction over distinct states, added up again forward along the plan it finds."""
    mean, task, params = problem.mean, problem.task, problem.task.params
    layers: list[dict[Any, None]] = [{problem.start: None}]
    for h in range(problem.depth):
        reached = (task.step(s, a, mean[h], params) for s in layers[h] for a in problem.options(s))
        layers.append(dict.fromkeys(reached))

    def closing(state: Any) -> float:
        return float(task.terminal(state, params)) if task.terminal is not None else 0.0

    value = {state: closing(state) for state in layers[-1]}
    choices: list[dict[Any, float]] = []
    for h in range(problem.depth - 1, -1, -1):
        here: dict[Any, float] = {}
        choice: dict[Any, float] = {}
        for state in layers[h]:
            for action in problem.options(state):
                after = value.get(task.step(state, action, mean[h], params))
                if after is None:
                    continue
                q, u = problem.edge(h, state, action, mean)
                total = q - problem.risk * u + after
                if state not in here or total > here[state]:
                    here[state], choice[state] = total, action
        value = here
        choices.append(choice)
    state, reward, spread = problem.start, 0.0, 0.0
    for h, choice in enumerate(reversed(choices)):
        q, u = problem.edge(h, state, choice[state], mean)
        reward, spread = reward + q, spread + u
        state = task.step(state, choice[state], mean[h], params)
    return reward + closing(state) - problem.risk * spread
