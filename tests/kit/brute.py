"""Every path of a small problem, by plain loops over the definitions of the specification.

Nothing of the search engines is used here: transitions and rewards come from the task, members and weights from the
trace, and all sums are written out again. Spreads are the textbook two-pass formulas, so results agree with the
engines up to rounding (`Enumeration.tau`), not to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Enumeration", "FullPath", "enumerate_paths", "replay", "spread_of"]


@dataclass(frozen=True)
class FullPath:
    """A feasible path of full depth; `actions` are indices."""

    actions: tuple[int, ...]
    score: float  # S = R - risk * U
    reward: float  # R
    uncertainty: float  # U


@dataclass(frozen=True)
class Enumeration:
    """All feasible paths, the first actions A that have one, and Q(a) for each of them."""

    paths: tuple[FullPath, ...]  # lexicographic order
    feasible: frozenset[int]  # allowed at the root
    alive: frozenset[int]  # A: allowed at the root and with a completion of full depth
    values: dict[int, float]  # Q(a) for every a in A
    same_as: dict[int, int]  # action -> the smallest action with the same effect at the root

    @property
    def best(self) -> float:
        """max Q; -inf when A is empty."""
        return max((p.score for p in self.paths), default=-math.inf)

    @property
    def tau(self) -> float:
        """Smaller differences are ties."""
        return 1e-9 * (1.0 + max((abs(p.score) for p in self.paths), default=0.0))

    @property
    def winner(self) -> FullPath:
        """Higher S, then lower U, then the smaller path: meaningful when the numbers are exact."""
        return min(self.paths, key=lambda p: (-p.score, p.uncertainty, p.actions))

    def optimal_firsts(self) -> set[int]:
        return {a for a, q in self.values.items() if q >= self.best - self.tau}

    def find(self, actions: Sequence[int]) -> FullPath | None:
        wanted = tuple(actions)
        return next((p for p in self.paths if p.actions == wanted), None)


def spread_of(values: Sequence[float], weights: Sequence[float], kind: str) -> tuple[float, float]:
    """Weighted mean and variance, standard deviation or downside semideviation (ddof 0)."""
    mean = math.fsum(w * x for w, x in zip(weights, values, strict=True))
    if kind == "downside":
        total = math.fsum(w * min(x - mean, 0.0) ** 2 for w, x in zip(weights, values, strict=True))
    else:
        total = math.fsum(w * (x - mean) ** 2 for w, x in zip(weights, values, strict=True))
    return mean, total if kind == "variance" else math.sqrt(total)


class _Problem:
    """One window's definitions, as loops."""

    def __init__(
        self, task: Any, trace: Any, mode: str, risk: float, spread: str | None, discount: float, depth: int,
        params: Any, actions: Sequence[float] | None,
    ) -> None:  # fmt: skip
        self.task, self.mode, self.risk, self.discount, self.depth = task, mode, risk, discount, depth
        self.spread = spread or ("downside" if mode == "members" else "std")
        self.p = task.params if params is None else params
        self.actions = list(task.actions if actions is None else actions)
        self.weights = [float(w) for w in trace.weights[0]]
        self.horizon = trace.mean.shape[1]
        self.members = [[self._outcome(y) for y in row] for row in trace.members[0].tolist()]
        # The mean is part of the trace: rules with jumps (a rounded demand) must see the same number everywhere.
        self.mean = [self._outcome(y) for y in trace.mean[0].tolist()]
        if mode == "scores":
            self.q, self.u = trace.q[0].tolist(), trace.u[0].tolist()

    def _outcome(self, row: list[float]) -> Any:
        if self.task.outcome is None:
            return row[0]
        return self.task.outcome(*(row if len(row) == len(self.task.outcome._fields) else row * self.task.fields))

    def rows(self) -> int:
        return len(self.members) if self.mode == "members" else 1

    def allowed(self, states: list[Any]) -> list[int]:
        """F: feasible for every member; NaN marks an unavailable action."""
        found = []
        for i, a in enumerate(self.actions):
            if not math.isnan(a) and all(self.task.feasible(s, a, self.p) for s in states):
                found.append(i)
        return found

    def edge(self, states: list[Any], i: int, h: int) -> tuple[float, float, list[float], list[Any]]:
        """q, u, the members' rewards and the next states."""
        a, p, task = self.actions[i], self.p, self.task
        if self.mode == "members":
            rewards = [float(task.reward(s, a, y[h], p)) for s, y in zip(states, self.members, strict=True)]
            q, u = spread_of(rewards, self.weights, self.spread)
            return q, u, rewards, [task.step(s, a, y[h], p) for s, y in zip(states, self.members, strict=True)]
        (state,) = states
        following = [task.step(state, a, self.mean[h], p)]
        if self.mode == "scores":
            return self.q[h][i], self.u[h][i], [], following
        over = [float(task.reward(state, a, y[h], p)) for y in self.members]
        _, u = spread_of(over, self.weights, self.spread)
        return float(task.reward(state, a, self.mean[h], p)), u, [], following

    def end(self, state: Any) -> float:
        return 0.0 if self.task.terminal is None else float(self.task.terminal(state, self.p))

    def may_end(self, state: Any) -> bool:
        return self.task.allowed_end is None or bool(self.task.allowed_end(state, self.p))

    def score_full(
        self, reward: float, uncertainty: float, returns: list[float], states: list[Any]
    ) -> tuple[float, float] | None:
        """R and U of a full path: terminal value added, or the best continuation followed to the trace's end."""
        if not self.task.continuations and not all(self.may_end(s) for s in states):
            return None
        if self.mode != "members":
            return reward + self.discount**self.depth * self.end(states[0]), uncertainty
        if self.task.continuations:
            return self._best_continuation(returns, states)
        last = self.discount**self.depth
        total = [r + last * self.end(s) for r, s in zip(returns, states, strict=True)]
        return spread_of(total, self.weights, self.spread)

    def _best_continuation(self, returns: list[float], states: list[Any]) -> tuple[float, float] | None:
        best: tuple[float, float] | None = None
        for item in self.task.continuations:
            for theta in item.grid or (None,):
                totals = self._follow(item.policy, theta, returns, states)
                if totals is None:
                    continue
                reward, uncertainty = spread_of(totals, self.weights, self.spread)
                if best is None or reward - self.risk * uncertainty > best[0] - self.risk * best[1]:
                    best = reward, uncertainty
        return best

    def _follow(self, policy: Any, theta: Any, returns: list[float], states: list[Any]) -> list[float] | None:
        totals = []
        for j, start in enumerate(states):
            state, total = start, returns[j]
            for h in range(self.depth, self.horizon):
                a = float(policy(state, h, self.p) if theta is None else policy(state, h, self.p, theta))
                if not self.task.feasible(state, a, self.p):
                    return None
                total += self.discount**h * float(self.task.reward(state, a, self.members[j][h], self.p))
                state = self.task.step(state, a, self.members[j][h], self.p)
            if not self.may_end(state):
                return None
            totals.append(total + self.discount**self.horizon * self.end(state))
        return totals


def enumerate_paths(
    task: Any,
    state: Any,
    trace: Any,
    *,
    depth: int,
    mode: str = "mean",
    risk: float = 0.0,
    spread: str | None = None,
    discount: float = 1.0,
    params: Any = None,
    actions: Sequence[float] | None = None,
) -> Enumeration:
    """Every feasible path of `depth` actions from `state`, with forward sums."""
    problem = _Problem(task, trace, mode, risk, spread, discount, depth, params, actions)
    paths: list[FullPath] = []
    start = [state] * problem.rows()

    def walk(states: list[Any], path: tuple[int, ...], reward: float, uncertainty: float, returns: list[float]) -> None:
        h = len(path)
        if h == depth:
            end = problem.score_full(reward, uncertainty, returns, states)
            if end is not None:
                paths.append(FullPath(path, end[0] - risk * end[1], *end))
            return
        for i in problem.allowed(states):
            q, u, rewards, following = problem.edge(states, i, h)
            factor = discount**h
            added = [r + factor * x for r, x in zip(returns, rewards, strict=True)] if rewards else []
            walk(following, (*path, i), reward + factor * q, uncertainty + factor * u, added)

    walk(start, (), 0.0, 0.0, [0.0] * len(start))
    feasible = problem.allowed(start)
    effects = {i: problem.edge(start, i, 0) for i in feasible}
    same_as = {i: next(b for b in feasible if effects[b] == effects[i]) for i in feasible}
    values: dict[int, float] = {}
    for path in paths:
        first = path.actions[0]
        values[first] = max(values.get(first, -math.inf), path.score)
    return Enumeration(tuple(paths), frozenset(feasible), frozenset(values), values, same_as)


def replay(
    task: Any,
    state: Any,
    trace: Any,
    path: Sequence[float],
    *,
    mode: str = "mean",
    params: Any = None,
) -> bool:
    """Whether every action of `path` (values, not indices) is feasible where it is taken, for every member."""
    problem = _Problem(task, trace, mode, 0.0, None, 1.0, len(path), params, None)
    states = [state] * problem.rows()
    for h, a in enumerate(path):
        if not all(task.feasible(s, a, problem.p) for s in states):
            return False
        if mode == "members":
            states = [task.step(s, a, y[h], problem.p) for s, y in zip(states, problem.members, strict=True)]
        else:
            states = [task.step(states[0], a, problem.mean[h], problem.p)]
    return True
