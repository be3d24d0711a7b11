"""One window's problem in plain Python: scoring actions, moving states, adding up paths.

This engine is the specification. The kernels do the same operations in the same order, so that both give
the same bytes. A node carries one state in additive modes and one per member in members mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Settings
from ucsearch.rules.answers import as_allowed, as_float, as_number, failure
from ucsearch.spreads import NUMBERS, spread_of
from ucsearch.task import Task, View

__all__ = ["Candidate", "Node", "OutOfTime", "TaskFault", "Window", "mean_and_spread"]

Floats = NDArray[np.float64]

MEAN, SCORES, MEMBERS = MODES["mean"], MODES["scores"], MODES["members"]
VARIANCE = NUMBERS["variance"]
_ARITHMETIC = (ZeroDivisionError, OverflowError, ValueError)
_LONGEST = 200  # characters of a user's own message that are shown


class TaskFault(Exception):
    """A task function misbehaved at (step, action index); engines turn this into a status."""

    def __init__(self, kind: int, step: int, action: int, detail: str = "") -> None:
        super().__init__(detail or Fault.TEXT[kind])
        self.kind, self.step, self.action, self.detail = kind, step, action, detail


class OutOfTime(Exception):
    """The caller ends the search."""


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {_short(error, str)}"


def _short(value: Any, read: Any = repr) -> str:
    """A few words of what a user's code gave; its own repr may fail too."""
    try:
        text = str(read(value))
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def _truth(answer: Any, kind: int, step: int, action: int) -> bool:
    """The answer of a rule as True or False, or a fault."""
    if answer is True or answer is False:
        return answer
    try:
        return as_allowed(answer)
    except Exception:
        text = f"{Fault.ROLE[kind]} returned {_short(answer)}, expected True or False"
        raise TaskFault(kind, step, action, text) from None


class Node(NamedTuple):
    """A path prefix. `states` has one entry, or J in members mode."""

    states: tuple[Any, ...]
    returns: tuple[float, ...]  # (J,) discounted member returns so far; () in additive modes
    reward: float  # R
    uncertainty: float  # U
    score: float  # S = R - risk * U
    togo: float  # optimistic value to go; 0 without a bound
    path: tuple[int, ...]  # action indices
    continuation: int = -1  # the continuation that scored a full path; -1 without one
    gross: float = 0.0  # sum of the absolute rewards (members: of the largest member's at every step)


class Candidate(NamedTuple):
    """A feasible action at a node, scored."""

    action: int
    q: float
    u: float
    rank: float  # C(s, a), plus the optimistic value to go when ordered by bound
    states: tuple[Any, ...]
    rewards: tuple[float, ...]  # (J,) in members mode
    togo: float


def mean_and_spread(
    values: Sequence[float], weights: Sequence[float], kind: int, tail: float = 0.0
) -> tuple[float, float]:
    """Weighted mean and spread; shifted by the first value, so equal values have spread 0 exactly."""
    first = values[0]
    shift = 0.0
    for j in range(1, len(values)):
        shift += weights[j] * (values[j] - first)
    return first + shift, spread_of(kind).plain(values, weights, first, shift, tail)


@dataclass
class Window:
    """Everything one decision needs, as plain Python numbers."""

    task: Task
    settings: Settings
    layout: Layout
    params: Any
    actions: list[float]  # (m,), NaN where unavailable
    mean: list[Any]  # (H,) outcomes
    members: list[list[Any]]  # (J, H) outcomes
    weights: list[float]  # (J,)
    q: list[list[float]]  # (H, m)
    u: list[list[float]]
    mean_array: NDArray[np.float64]  # (H, F), for prepare
    member_array: NDArray[np.float64]  # (J, H, F), for prepare
    stop: Callable[[], bool] | None = None  # asked before every action of every node

    def __post_init__(self) -> None:
        s = self.settings
        self.depth, self.mode, self.risk = s.depth, s.mode, s.risk
        self.is_members = s.mode == MEMBERS
        self.discounts = s.discounts
        self.size = len(self.actions)
        self.available = [i for i, a in enumerate(self.actions) if a == a]
        self.expansions = 0
        self.action_scores = 0
        self.continues = self.is_members and len(self.task.continuations) > 0
        self.tables: list[Any] = []
        self.suffix: list[float] = []
        if s.use_bound:
            self._prepare()

    # ------------------------------------------------------------ task calls that may fail

    def call(self, function: Any, kind: int, step: int, action: int, *args: Any) -> Any:
        """Whatever a user's function raises is a fault of that step and action, in both engines."""
        try:
            return function(*args)  # `answers.guarded`, written out: most of a search's time is spent in calls
        except _ARITHMETIC as error:  # gives inf or NaN when compiled, so there is no more to say than that
            raise TaskFault(kind, step, action) from error
        except BaseException as error:
            raised = failure(error)
            raise TaskFault(kind, step, action, f"{Fault.ROLE[kind]} raised {_in_words(raised)}") from raised

    def number(self, function: Any, kind: int, step: int, action: int, *args: Any) -> float:
        """A finite number, or a fault."""
        value = self.call(function, kind, step, action, *args)
        if type(value) is float and isfinite(value):
            return value
        try:
            return as_number(value)
        except Exception:  # None, text, an array, an int beyond all floats, an object whose own code fails
            raise TaskFault(kind, step, action) from None

    def rewards(self, states: Sequence[Any], outcomes: Sequence[Any], action: int, step: int) -> list[float]:
        """Of one action, for each state and its outcome: in one go, because a search does little else."""
        args = (self.task, states, self.actions[action], outcomes, step, self.params)
        answers = self.call(_rewards, Fault.REWARD, step, action, *args)
        try:
            return [x if type(x) is float and isfinite(x) else as_number(x) for x in answers]
        except Exception:
            raise TaskFault(Fault.REWARD, step, action) from None

    def move(self, state: Any, action: int, outcome: Any, step: int) -> Any:
        """The next state: floats, checked, with 0.0 for -0.0."""
        return self.next_state(state, self.actions[action], outcome, step, action)

    def next_state(self, state: Any, a: float, outcome: Any, step: int, action: int, at: int | None = None) -> Any:
        """`at` is the step it happens in, where that is not the step to blame."""
        h = step if at is None else at
        new = self.call(self.task.bare_step_at, Fault.STATE, step, action, state, a, outcome, h, self.params)
        try:
            return self.layout.coerced(new)
        except Exception:  # not a tuple, not numbers, of another shape
            raise TaskFault(Fault.STATE, step, action) from None

    def _prepare(self) -> None:
        if self.mode == SCORES:
            self.suffix = [0.0] * (self.depth + 1)
            for h in range(self.depth - 1, -1, -1):
                best = -math.inf
                for i in self.available:
                    best = max(best, self.q[h][i] - self.risk * self.u[h][i])
                self.suffix[h] = self.suffix[h + 1] + best
            return
        if self.is_members:
            one = np.ones(1)
            for j in range(len(self.members)):
                alone = self._searched(self.member_array[j : j + 1])
                self.tables.append(self._table(alone[0], View(alone, one, 0.0, self.settings.spread)))
        else:
            outcomes, _, view = self.forecast()
            self.tables.append(self._table(outcomes, view))

    def forecast(self) -> tuple[Floats, Any, View]:
        """What `prepare` is told in mode "mean": the mean outcomes, parameters, and a view of the members."""
        members, weights = self._searched(self.member_array), np.array(self.weights)
        return self._searched(self.mean_array), self.params, View(members, weights, self.risk, self.settings.spread)

    def _searched(self, outcomes: Floats) -> Floats:
        """Those of the searched steps, (..., H, F); without the last axis where an outcome is one number."""
        reached = outcomes[..., : self.settings.reach, :]
        return np.ascontiguousarray(reached[..., 0] if self.task.outcome is None else reached)

    def _table(self, outcomes: Floats, view: View) -> Any:
        args = (outcomes, self.params, view) if self.task.risk_aware_bound else (outcomes, self.params)
        return self.call(self.task.prepare, Fault.BOUND, 0, 0, *args)

    # ------------------------------------------------------------ the automaton

    def allowed(self, states: tuple[Any, ...], action: int, step: int) -> bool:
        """Feasible for every row of the node."""
        if self.stop is not None and self.stop():
            raise OutOfTime
        a, rule, p = self.actions[action], self.task.feasible_at, self.params
        for s in states:
            answer = self.call(rule, Fault.RAISED, step, action, s, a, step, p)
            if answer is not True and not _truth(answer, Fault.RAISED, step, action):
                return False
        return True

    def _feasible(self, state: Any, a: float, step: int, action: int, at: int | None = None) -> bool:
        h = step if at is None else at
        return self._yes(self.task.feasible_at, Fault.RAISED, step, action, state, a, h, self.params)

    def _yes(self, rule: Any, kind: int, step: int, action: int, *args: Any) -> bool:
        return _truth(self.call(rule, kind, step, action, *args), kind, step, action)

    def ended(self, states: tuple[Any, ...], step: int, action: int) -> bool:
        """Whether the last step may lead here: every row of the node."""
        rule = self.task.allowed_end
        return rule is None or all(self._yes(rule, Fault.END, step, action, s, self.params) for s in states)

    def alive(self, states: tuple[Any, ...], step: int) -> bool:
        return any(self.allowed(states, i, step) for i in self.available)

    # ------------------------------------------------------------ scoring

    def root(self, state: Any) -> Node:
        rows = len(self.members) if self.is_members else 1
        returns = (0.0,) * rows if self.is_members else ()
        return Node((state,) * rows, returns, 0.0, 0.0, 0.0, 0.0, ())

    def score(self, node: Node, step: int) -> list[Candidate]:
        """Every feasible action at `node`, ascending, same-effect ones included (`is_same` tells them)."""
        out = []
        for i in self.available:
            if self.allowed(node.states, i, step):
                self.action_scores += 1
                out.append(self.score_one(node, i, step))
        return out

    def score_one(self, node: Node, i: int, h: int) -> Candidate:
        s = self.settings
        rewards: tuple[float, ...] = ()
        if self.mode == SCORES:
            q, u = self.q[h][i], self.u[h][i]
            states: tuple[Any, ...] = (self.move(node.states[0], i, self.mean[h], h),)
        elif self.mode == MEAN:
            state = node.states[0]
            outcomes = [self.mean[h], *(y[h] for y in self.members)]
            q, *edge = self.rewards([state] * len(outcomes), outcomes, i, h)
            _, u = mean_and_spread(edge, self.weights, s.spread, s.tail)
            states = (self.move(state, i, self.mean[h], h),)
        else:
            rewards = tuple(self.rewards(node.states, [y[h] for y in self.members], i, h))
            q, u = mean_and_spread(rewards, self.weights, s.spread, s.tail)
            states = tuple(self.move(x, i, y[h], h) for x, y in zip(node.states, self.members, strict=True))
        if not (isfinite(q) and isfinite(u)):
            raise TaskFault(Fault.VALUE, h, i)
        rank = q - s.prune_risk * u + s.info_bonus * u
        togo = 0.0
        if s.use_bound:
            togo = self._togo(states, h + 1, h, i)
            rank = rank + togo
        return Candidate(i, q, u, rank, states, rewards, togo)

    def _togo(self, states: tuple[Any, ...], at: int, step: int, action: int) -> float:
        """Optimistic value to go from step `at`; at the end it is the terminal value itself."""
        if self.mode == SCORES:
            return self.suffix[at]
        ends = at == self.depth and not self.continues
        if ends and self.task.terminal is None:
            return 0.0
        values = []
        for j, state in enumerate(states):
            if ends:
                values.append(self.terminal(state, step, action))
                continue
            found = self.call(self.task.bound, Fault.BOUND, step, action, state, at, self.tables[j], self.params)
            try:
                value = as_float(found)
            except Exception:
                raise TaskFault(Fault.BOUND, step, action) from None
            if value != value:
                raise TaskFault(Fault.BOUND, step, action)
            values.append(value)
        return mean_and_spread(values, self.weights, VARIANCE)[0] if self.is_members else values[0]

    def terminal(self, state: Any, step: int, action: int) -> float:
        if self.task.terminal is None:
            return 0.0
        return self.number(self.task.terminal, Fault.TERMINAL, step, action, state, self.params)

    def extend(self, node: Node, c: Candidate, step: int) -> Node | None:
        """The path one action longer, summed forward; None when it may not end there, or when no continuation can take
        it to the end."""
        factor = self.discounts[step]
        path = (*node.path, c.action)
        last = step + 1 == self.depth
        if last and not self.continues and not self.ended(c.states, step, c.action):
            return None
        if not self.is_members:
            reward = node.reward + factor * c.q
            uncertainty = node.uncertainty + factor * c.u
            gross = node.gross + abs(factor * c.q)
            if last and self.task.terminal is not None:
                end = self.discounts[self.depth] * self.terminal(c.states[0], step, c.action)
                reward, gross = reward + end, gross + abs(end)
            return self._checked(c, (), reward, uncertainty, gross, path, last, step, -1)
        earned = [factor * x for x in c.rewards]
        returns = tuple(r + x for r, x in zip(node.returns, earned, strict=True))
        gross = node.gross + max(map(abs, earned))
        if last and self.continues:
            return self._continued(c, returns, gross, path, step)
        if last and self.task.terminal is not None:
            ends = [self.discounts[self.depth] * self.terminal(x, step, c.action) for x in c.states]
            returns = tuple(r + x for r, x in zip(returns, ends, strict=True))
            gross = gross + max(map(abs, ends))
        reward, uncertainty = mean_and_spread(returns, self.weights, self.settings.spread, self.settings.tail)
        return self._checked(c, returns, reward, uncertainty, gross, path, last, step, -1)

    def _checked(
        self, c: Candidate, returns: tuple[float, ...], reward: float, uncertainty: float, gross: float,
        path: tuple[int, ...], last: bool, step: int, continuation: int,
    ) -> Node:  # fmt: skip
        score = reward - self.risk * uncertainty
        if not (isfinite(reward) and isfinite(uncertainty) and isfinite(score)):
            raise TaskFault(Fault.VALUE, step, c.action)
        return Node(c.states, returns, reward, uncertainty, score, 0.0 if last else c.togo, path, continuation, gross)

    def _continued(
        self, c: Candidate, returns: tuple[float, ...], gross: float, path: tuple[int, ...], step: int
    ) -> Node | None:
        """The best continuation over the same members: higher S, lower U, earlier in the list."""
        best: Node | None = None
        index = 0
        for item in self.task.followed:
            for theta in item.grid or (None,):
                followed = self._follow(item.policy, theta, c, returns, step)
                if followed is not None:
                    total, most = followed
                    reward, uncertainty = mean_and_spread(total, self.weights, self.settings.spread, self.settings.tail)
                    node = self._checked(c, total, reward, uncertainty, gross + most, path, True, step, index)
                    if best is None or (node.score, -node.uncertainty) > (best.score, -best.uncertainty):
                        best = node
                index += 1
        return best

    def _follow(
        self, policy: Any, theta: tuple[float, ...] | None, c: Candidate, returns: tuple[float, ...], step: int
    ) -> tuple[tuple[float, ...], float] | None:
        """Member returns when each follows the policy to the end, and the largest sum of absolute rewards that one met
        on the way; None as soon as one leaves the feasible set, or ends where it may not."""
        task, p, out = self.task, self.params, []
        most = 0.0
        for j, state in enumerate(c.states):
            total, own = returns[j], 0.0
            for h in range(self.depth, self.settings.reach):
                args = (state, h, p) if theta is None else (state, h, p, theta)
                a = self.number(policy, Fault.CONTINUATION, step, c.action, *args)
                if not self._feasible(state, a, step, c.action, h):
                    return None
                y = self.members[j][h]
                reward = self.number(task.reward_at, Fault.REWARD, step, c.action, state, a, y, h, p)
                earned = self.discounts[h] * reward
                total, own = total + earned, own + abs(earned)
                state = self.next_state(state, a, y, step, c.action, h)
            if not self.ended((state,), step, c.action):
                return None
            if task.terminal is not None:
                end = self.discounts[self.settings.reach] * self.terminal(state, step, c.action)
                total, own = total + end, own + abs(end)
            out.append(total)
            most = max(most, own)
        return tuple(out), most

    # ------------------------------------------------------------ comparisons

    def limit(self, node: Node) -> float:
        """An upper bound on any full path below `node` (members: U is not additive, so only R counts)."""
        if self.is_members and len(node.path) < self.depth:
            return node.reward + node.togo
        return node.score + node.togo

    def limit_of_candidate(self, node: Node, c: Candidate, step: int) -> float:
        """The same for a candidate that is not expanded."""
        factor = self.discounts[step]
        if not self.is_members:
            reward, uncertainty = node.reward + factor * c.q, node.uncertainty + factor * c.u
            return (reward - self.risk * uncertainty) + c.togo
        return (node.reward + factor * c.q) + c.togo


def _rewards(task: Task, states: Sequence[Any], a: float, outcomes: Sequence[Any], h: int, p: Any) -> list[Any]:
    reward = task.reward
    if "reward" in task.timed:
        return [reward(s, a, y, h, p) for s, y in zip(states, outcomes, strict=True)]
    return [reward(s, a, y, p) for s, y in zip(states, outcomes, strict=True)]


def is_same(a: Candidate, b: Candidate) -> bool:
    """Two actions with the same effect: equal score, uncertainty and next states."""
    return a.q == b.q and a.u == b.u and a.rewards == b.rewards and a.states == b.states
