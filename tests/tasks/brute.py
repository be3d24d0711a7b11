"""Enumeration written from the definitions alone: no engine code, no bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.task import View


def spread_of(values: Sequence[float], kind: str) -> float:
    mean = sum(values) / len(values)
    off = [v - mean for v in values]
    if kind == "downside":
        off = [min(v, 0.0) for v in off]
    variance = sum(v * v for v in off) / len(values)
    return variance if kind == "variance" else math.sqrt(variance)


def edge(task: uc.Task, state: Any, a: float, members: Any, h: int, risk: float, kind: str, p: Any) -> float:
    """q - risk * u of one action at the mean outcome; members (J, H) or (J, H, F)."""
    mean = outcome(task, members.mean(axis=0)[h])
    rewards = [task.reward(state, a, outcome(task, y[h]), p) for y in members]
    return float(task.reward(state, a, mean, p) - risk * spread_of(rewards, kind))


def outcome(task: uc.Task, y: Any) -> Any:
    return float(y) if task.outcome is None else task.outcome(*(float(x) for x in y))


def to_go(
    task: uc.Task, state: Any, members: Any, h: int, risk: float, kind: str = "std", p: Any = None, actions: Any = None
) -> float:
    """Best sum of q - risk * u from `state` at step `h` to the end, terminal value included; -inf in a dead end."""
    p = task.params if p is None else p
    if h == members.shape[1]:
        return float(task.terminal(state, p)) if task.terminal is not None else 0.0
    best = -math.inf
    mean = outcome(task, members.mean(axis=0)[h])
    for a in task.actions if actions is None else actions:
        if task.feasible(state, a, p):
            after = task.step(state, a, mean, p)
            rest = to_go(task, after, members, h + 1, risk, kind, p, actions)
            if rest > -math.inf:
                best = max(best, edge(task, state, a, members, h, risk, kind, p) + rest)
    return best


def first_values(task: uc.Task, state: Any, members: Any, risk: float, kind: str = "std") -> dict[float, float]:
    """Exact value of every first action that has a completion."""
    p, found = task.params, {}
    mean = outcome(task, members.mean(axis=0)[0])
    for a in task.actions:
        if task.feasible(state, a, p):
            rest = to_go(task, task.step(state, a, mean, p), members, 1, risk, kind)
            if rest > -math.inf:
                found[a] = edge(task, state, a, members, 0, risk, kind, p) + rest
    return found


def reachable(
    task: uc.Task, state: Any, members: Any, rng: np.random.Generator, walks: int
) -> Iterator[tuple[Any, int]]:
    """States met on random feasible walks under random members, with their step."""
    for _ in range(walks):
        now = state
        yield now, 0
        for h in range(members.shape[1]):
            allowed = [a for a in task.actions if task.feasible(now, a, task.params)]
            if not allowed:
                break
            y = outcome(task, members[rng.integers(len(members)), h])
            now = task.step(now, allowed[rng.integers(len(allowed))], y, task.params)
            if h + 1 < members.shape[1]:
                yield now, h + 1


def table_of(task: uc.Task, members: Any, risk: float, kind: str = "std") -> Any:
    weights = np.full(len(members), 1.0 / len(members))
    view = View(members, weights, risk, ("variance", "std", "downside").index(kind))
    assert task.prepare is not None
    return task.prepare(members.mean(axis=0), task.params, view)


def check_bound(
    task: uc.Task, state: Any, members: Any, rng: np.random.Generator, risk: float, kind: str = "std"
) -> list[float]:
    """Assert that the bound is never below enumeration from states on random walks; returns the gaps."""
    table, gaps = table_of(task, members, risk, kind), []
    assert task.bound is not None
    for now, h in reachable(task, state, members, rng, 3):
        best = to_go(task, now, members, h, risk, kind)
        claimed = task.bound(now, h, table, task.params)
        assert claimed == task.bound(now, h, table, task.params)
        assert claimed >= best - 1e-11 * (1.0 + abs(best)), (now, h, claimed, best)
        if best > -math.inf:
            gaps.append(claimed - best)
    return gaps


def check_exact(
    task: uc.Task, state: Any, members: Any, risk: float, kind: Any = "std", engine: Any = "python"
) -> None:
    """Assert that exact search finds the enumerated optimum, or the dead end."""
    values = first_values(task, state, members, risk, kind)
    fields = None if task.outcome is None else len(task.outcome._fields)
    trace = uc.Trace.from_members(members, fields=fields)
    policy = uc.Exact(depth=members.shape[1], risk=risk, spread=kind)
    plan = uc.search(task, state, trace, policy, engine=engine)
    if not values:
        assert plan.status == uc.Status.DEAD_END
        return
    best = max(values.values())
    scale = 1e-9 * (1.0 + abs(best))
    assert plan.status == uc.Status.PROVED
    assert plan.action is not None
    assert abs(plan.score - best) <= scale, (plan.score, best)
    assert values[plan.action] >= best - scale


def check_fallback(task: uc.Task, state: Any) -> None:
    """Assert that the fallback is one of the actions and feasible whenever any action is."""
    a = task.fallback(state, task.params)
    assert a in task.actions
    if any(task.feasible(state, x, task.params) for x in task.actions):
        assert task.feasible(state, a, task.params)
