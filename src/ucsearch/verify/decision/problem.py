"""One decision's problem in plain Python, from the recorded inputs and the task's own functions.

Nothing here is shared with the planner: `docs/reference/record.md` describes the arithmetic, and this is a second
reading of it. A node carries one state in additive modes and one per member in members mode.
"""

from __future__ import annotations

import copy
import inspect
import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ucsearch.verify.trust import is_genuine
from ucsearch.verify.verdict import describe, share

MEAN, SCORES, MEMBERS, CLOSED = 0, 1, 2, 3
VARIANCE, STD, DOWNSIDE, CVAR = range(4)
SPREADS = (0, 1, 2, 3)  # that a record may name
CACHED = 200_000  # scored nodes kept


# -------------------------------------------------------------------- answers of a task's functions

# A number, a yes or a no. Anything else is a fault, never a guess.


def as_float(value: Any) -> float:
    """A number of the task; text is none, although Python would read it as one, and neither is an array or what has an
    imaginary part, which NumPy would drop."""
    if type(value) is float:
        return value
    if isinstance(value, str | bytes | bytearray | complex) or _of_numpy(type(value), "ndarray", "complexfloating"):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def _of_numpy(kind: type, *names: str) -> bool:
    """Whether it is one of these classes of NumPy, which is not imported here: even an array of one number is none."""
    return any(base.__name__ in names and base.__module__ == "numpy" for base in kind.__mro__)


def yes_or_no(answer: Any) -> bool:
    """True or False, or the numbers 1 and 0; no other answer is one."""
    if isinstance(answer, int | float) or _of_numpy(type(answer), "bool", "bool_", "integer", "floating"):
        for truth in (False, True):
            if answer == truth:
                return truth
    raise ValueError(f"{type(answer).__name__} is neither True nor False")


def feasible_now(task: Any, state: Any, action: Any, params: Any) -> bool:
    """What the rules say of an action in the state of a record; `ValueError` where they say neither."""
    try:
        return yes_or_no(task.feasible(state, action, *((0,) if "feasible" in timed_rules(task) else ()), params))
    except SystemExit as error:
        raise ValueError(f"SystemExit: {error}") from None


def as_action(value: Any) -> Any:
    """A number of the task, or a tuple of them."""
    return tuple(as_float(x) + 0.0 for x in value) if isinstance(value, tuple) else as_float(value)


def fallback_now(task: Any, state: Any, params: Any, actions: Sequence[Any]) -> tuple[Any, bool]:
    """The task's fallback (NaN: none to rely on, whatever it raises, an exit included) and whether it may be sent."""
    try:
        fallback = as_action(task.fallback(state, params))
        if fallback in actions:
            return fallback, feasible_now(task, state, fallback, params)
    except BaseException as error:
        if isinstance(error, MemoryError) or is_genuine(error):
            raise
    return math.nan, False


def timed_rules(task: Any) -> frozenset[str]:
    """Which rules take the step index: they take one more argument by its place than they need."""
    needed = {"feasible": 3, "step": 4, "reward": 4}
    return frozenset(n for n, count in needed.items() if _placed(getattr(task, n)) > count)


def _placed(function: Any) -> int:
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in by_place for parameter in inspect.signature(function).parameters.values())


# -------------------------------------------------------------------- what verification may cost

WORK_A_NODE = 16  # calls of task functions, or as much work of our own, for every node of the budget
FREE_WORK = 200_000


class OutOfNodes(Exception):
    """The node budget is used up."""


class Meter:
    """States looked at, and the work done for them: nothing loops without paying here. Counts states down to nothing; a
    share of it counts on the whole as well. Work is counted on the whole only."""

    def __init__(self, nodes: int, whole: Meter | None = None) -> None:
        self.left, self.whole = nodes, whole
        self.work = FREE_WORK + WORK_A_NODE * nodes

    def spend(self, states: int) -> None:
        self.left -= states
        if self.left < 0:
            raise OutOfNodes
        if self.whole is not None:
            self.whole.spend(states)

    def toil(self, units: int) -> None:
        """So many calls of task functions, or as much work of our own."""
        self.work -= units
        if self.work < 0:
            raise OutOfNodes


# -------------------------------------------------------------------- nodes and values


Key = tuple[int, Any]  # class of information and state; the class of every state past the end is -1
Moves = list[tuple[float, Key]]  # reward and what follows, for every point


class Value(NamedTuple):
    """Of a state, or of an action in it."""

    score: float
    mean: float  # expected return of the same policy
    gross: float  # what was added up, in absolute terms


class TooMany(Exception):
    """More transitions than the record's own budget allows."""


class Fault(Exception):
    """A task function raised, or returned what is not a finite number."""


def _fault(function: Any, error: BaseException) -> BaseException:
    """What foreign code raised, exits included; but memory and budget are ours, and so is a Ctrl-C."""
    if isinstance(error, MemoryError | OutOfNodes) or is_genuine(error):
        return error
    return Fault(f"{getattr(function, '__name__', 'a function')} raised {describe(error)}")


class Edge(NamedTuple):
    """A feasible action at a node."""

    action: int
    q: float
    u: float
    rewards: tuple[float, ...]  # (J,) in members mode
    states: tuple[Any, ...]


class PathNode(NamedTuple):
    """A path prefix, summed forward."""

    states: tuple[Any, ...]
    returns: tuple[float, ...]  # (J,) in members mode
    reward: float
    uncertainty: float
    score: float
    path: tuple[int, ...]
    togo: float = 0.0  # optimistic value to go; 0 without a bound
    gross: float = 0.0  # sum of the absolute rewards (members: of the largest member's at every step)


class View(NamedTuple):
    """What a three-argument `prepare` is given."""

    members: Any
    weights: Any
    risk: float
    spread: int


def mean_and_spread(
    values: Sequence[float], weights: Sequence[float], kind: int, share: float = 0.0
) -> tuple[float, float]:
    """Weighted mean and spread, in member order, shifted by the first value."""
    first, shift, total = values[0], 0.0, 0.0
    for w, x in zip(weights[1:], values[1:], strict=True):
        shift += w * (x - first)
    if kind == CVAR:
        return first + shift, max(0.0, first + shift - tail_mean(list(zip(values, weights, strict=True)), share))
    for w, x in zip(weights, values, strict=True):
        off = (x - first) - shift
        off = min(off, 0.0) if kind == DOWNSIDE else off
        total += w * off * off
    return first + shift, total if kind == VARIANCE else math.sqrt(total)


def tail_mean(parts: list[tuple[float, float]], share: float) -> float:
    """Mean of the worst share of (value, weight)."""
    ranked = sorted(parts)
    base, share_left, total = ranked[0][0], share, 0.0
    for n, (x, w) in enumerate(ranked):
        weight = share_left if n + 1 == len(ranked) else min(w, share_left)
        total, share_left = total + weight * (x - base), share_left - weight
    return base + total / share


def distinct(edges: Sequence[Edge]) -> list[Edge]:
    """Without those that have the same effect as a smaller action."""
    first: dict[Any, Edge] = {}
    for e in edges:
        first.setdefault(e[1:], e)
    return list(first.values())


def shape(value: Sequence[Any]) -> list[int]:
    """Lengths of the members of a named tuple, 0 for a number."""
    return [len(x) if isinstance(x, tuple) else 0 for x in value]


class RecordedProblem:
    """The inputs of one record. Task functions are called here and nowhere else."""

    def __init__(self, task: Any, settings: Any, state: Any, params: Any, actions: list[float], trace: Any) -> None:
        self.task, self.settings, self.state, self.params, self.actions = task, settings, state, params, actions
        self.members, self.weights, self.mean, self.q, self.u = trace  # (J, H), (J,), (H,), (H, m), (H, m)
        self.depth, self.reach, self.use_bound = settings["depth"], settings["reach"], settings["use_bound"]
        self.tail = float(settings.get("tail", 0.2))
        self.mode, self.spread, self.risk = settings["mode"], settings["spread"], float(settings["risk"])
        self.available = [i for i, a in enumerate(actions) if a == a]
        self.discounts = [1.0]
        for _ in range(self.reach):
            self.discounts.append(self.discounts[-1] * settings["discount"])
        self.meter = Meter(sys.maxsize)  # the caller's, where there is a budget
        self._timed = timed_rules(task)
        self._tables: list[Any] | None = None
        self._edges: dict[Any, tuple[Edge, ...]] = {}
        self.eps = share(self.reach, 1 if self.mode == SCORES else len(self.members))  # closed mode: of its law
        self._settle()

    def _settle(self) -> None:
        self.is_members = self.mode == MEMBERS
        self.continues = self.is_members and bool(self.task.continuations)
        # A bound speaks of undiscounted rewards.
        has = self.task.terminal is None if self.mode == SCORES else self.task.bound is not None
        self.has_bound = has and self.settings["discount"] == 1

    def at_risk(self, risk: float) -> RecordedProblem:
        """The same with another risk; edges do not depend on it."""
        other = copy.copy(self)
        other.risk, other._tables = risk, None
        return other

    def certain(self, member: int | None = None) -> RecordedProblem:
        """The problem of a planner without risk who is sure of the mean outcome, or of one member's."""
        other = self.at_risk(0.0)
        other.mode, other.reach, other._edges = MEAN, self.depth, {}
        if member is not None:
            other.mean, other.members, other.weights = self.members[member], [self.members[member]], self.weights[:1]
        other._settle()
        return other

    # ---------------------------------------------------------------- calls that may fail

    def call(self, function: Any, *args: Any) -> Any:
        self.meter.toil(1)
        try:
            return function(*args)
        except BaseException as error:
            raise _fault(function, error) from None

    def number(self, function: Any, *args: Any) -> float:
        self.meter.toil(1)
        try:
            value = as_float(function(*args))
        except BaseException as error:
            raise _fault(function, error) from None
        if not math.isfinite(value):
            raise Fault(f"{getattr(function, '__name__', function)} returned {value}")
        return value

    def move(self, state: Any, a: float, y: Any, h: int) -> Any:
        return self.call(self._floats, self.call(self.task.step, state, a, y, *self.when("step", h), self.params))

    def _floats(self, state: Any) -> Any:
        items = [tuple(as_float(v) + 0.0 for v in x) if isinstance(x, tuple) else as_float(x) + 0.0 for x in state]
        values = [v for x in items for v in (x if isinstance(x, tuple) else (x,))]
        if shape(items) != shape(self.state) or not all(map(math.isfinite, values)):
            raise ValueError(f"a state {state}")
        return self.task.state(*items)

    def end(self, state: Any) -> float:
        return 0.0 if self.task.terminal is None else self.number(self.task.terminal, state, self.params)

    def when(self, role: str, h: int) -> tuple[int, ...]:
        """The step index, for a rule that takes it."""
        return (h,) if role in self._timed else ()

    def allowed(self, states: tuple[Any, ...], i: int, h: int) -> bool:
        return all(self.may(s, self.actions[i], h) for s in states)

    def may(self, state: Any, a: float, h: int) -> bool:
        """Yes or no; NaN, None or a text is neither."""
        return self._yes("feasible", state, a, *self.when("feasible", h), self.params)

    def may_end(self, states: tuple[Any, ...]) -> bool:
        """Whether a plan may end in these states."""
        return self.task.allowed_end is None or all(self._yes("allowed_end", s, self.params) for s in states)

    def _yes(self, role: str, *args: Any) -> bool:
        answer = self.call(getattr(self.task, role), *args)
        try:
            return yes_or_no(answer)
        except MemoryError:
            raise
        except Exception:
            raise Fault(f"{role} gave neither True nor False") from None

    def alive(self, states: tuple[Any, ...], h: int) -> bool:
        return any(self.allowed(states, i, h) for i in self.available)

    # ---------------------------------------------------------------- edges and paths

    def root(self) -> PathNode:
        rows = len(self.members) if self.is_members else 1
        return PathNode((self.state,) * rows, (0.0,) * rows if self.is_members else (), 0.0, 0.0, 0.0, ())

    def edges(self, states: tuple[Any, ...], h: int) -> tuple[Edge, ...]:
        """Every feasible action at a node, ascending."""
        edges = self._edges.get((h, states))
        if edges is None:
            edges = tuple(self._edge(states, i, h) for i in self.available if self.allowed(states, i, h))
            if len(self._edges) >= CACHED:
                self._edges.clear()
            self._edges[h, states] = edges
        return edges

    def _edge(self, states: tuple[Any, ...], i: int, h: int) -> Edge:
        a, ys = self.actions[i], [y[h] for y in self.members]
        rewards: tuple[float, ...] = ()
        if self.is_members:
            rewards = tuple(self._reward(s, a, y, h) for s, y in zip(states, ys, strict=True))
            q, u = mean_and_spread(rewards, self.weights, self.spread, self.tail)
            following = tuple(self.move(s, a, y, h) for s, y in zip(states, ys, strict=True))
        else:
            (state,) = states
            if self.mode == SCORES:
                q, u = self.q[h][i], self.u[h][i]
            else:
                q = self._reward(state, a, self.mean[h], h)
                u = mean_and_spread([self._reward(state, a, y, h) for y in ys], self.weights, self.spread, self.tail)[1]
            following = (self.move(state, a, self.mean[h], h),)
        if not (math.isfinite(q) and math.isfinite(u)):
            raise Fault("a reward or its spread is not finite")
        return Edge(i, q, u, rewards, following)

    def _reward(self, state: Any, a: float, y: Any, h: int) -> float:
        return self.number(self.task.reward, state, a, y, *self.when("reward", h), self.params)

    def extend(self, node: PathNode, e: Edge, togo: float = 0.0) -> PathNode | None:
        """The path one action longer; None when it may not end there, or no continuation can take it to the end."""
        h = len(node.path)
        self.meter.toil(4 * len(node.states) + h // 64)  # some calls' worth of time; a path is copied
        factor, path, full = self.discounts[h], (*node.path, e.action), h + 1 == self.depth
        if full and not self.continues and not self.may_end(e.states):
            return None
        if self.is_members:
            returns = tuple(r + factor * x for r, x in zip(node.returns, e.rewards, strict=True))
            gross = node.gross + max(abs(factor * x) for x in e.rewards)
            if full:
                return self._best_end(e, returns, gross, path)
            return self._node(
                e, returns, *mean_and_spread(returns, self.weights, self.spread, self.tail), gross, path, togo
            )
        reward, gross = node.reward + factor * e.q, node.gross + abs(factor * e.q)
        if full and self.task.terminal is not None:
            end = self.discounts[self.depth] * self.end(e.states[0])
            reward, gross = reward + end, gross + abs(end)
        return self._node(e, (), reward, node.uncertainty + factor * e.u, gross, path, 0.0 if full else togo)

    def _node(
        self, e: Edge, returns: tuple[float, ...], reward: float, uncertainty: float, gross: float,
        path: tuple[int, ...], togo: float,
    ) -> PathNode:  # fmt: skip
        node = PathNode(e.states, returns, reward, uncertainty, reward - self.risk * uncertainty, path, togo, gross)
        if not math.isfinite(node.score):  # it is not, if one of the sums is not
            raise Fault("the sum along a path is not finite")
        return node

    def keeps(self, path: Sequence[int], member: Sequence[Any]) -> bool:
        """Whether one member, with its own outcomes, may follow the path; not, where a function fails on the way."""
        state = self.state
        try:
            for h, i in enumerate(path):
                if not self.may(state, self.actions[i], h):
                    return False
                if h + 1 < len(path) or self.task.allowed_end is not None:
                    state = self.move(state, self.actions[i], member[h], h)
            return self.may_end((state,))
        except Fault:
            return False

    def size(self, node: PathNode) -> float:
        """What was added up on a path, in absolute terms. In members mode the spread is taken of the returns, so that
        their rounding enters it again: by a factor, which for a variance is twice the deviation."""
        if not self.risk > 0.0:  # 0 times a sum beyond the largest float would be NaN, and NaN is no size
            return node.gross
        if not self.is_members:
            return node.gross + self.risk * node.uncertainty
        return node.gross * (1.0 + self.risk * self._times(node))

    def _times(self, node: PathNode) -> float:
        """How often the rounding of returns enters their spread."""
        if self.spread == VARIANCE:
            return 2.0 * math.sqrt(node.uncertainty)
        return {STD: 1.0, DOWNSIDE: 2.0}.get(self.spread, 1.0 + 1.0 / self.tail)

    def spread_size(self, node: PathNode) -> float:
        """What was added up for the spread of a path."""
        return node.uncertainty + node.gross * (self._times(node) if self.is_members else 1.0)

    def _best_end(self, e: Edge, returns: tuple[float, ...], gross: float, path: tuple[int, ...]) -> PathNode | None:
        """Members follow the best of the continuations to the end of the trace, where there are any."""
        best: PathNode | None = None
        ways = [(c.policy, theta) for c in self.task.continuations for theta in c.grid or (None,)]
        for policy, theta in ways or [(None, None)]:
            followed = self._follow(policy, theta, e.states, returns)
            if followed is not None:
                total, most = followed
                spread = mean_and_spread(total, self.weights, self.spread, self.tail)
                node = self._node(e, total, *spread, gross + most, path, 0.0)
                if best is None or (node.score, -node.uncertainty) > (best.score, -best.uncertainty):
                    best = node
        return best

    def _follow(
        self, policy: Any, theta: Any, states: Any, returns: tuple[float, ...]
    ) -> tuple[tuple[float, ...], float] | None:
        out, most = [], 0.0
        for state, total, member in zip(states, returns, self.members, strict=True):
            path_return = 0.0
            for h in range(self.depth, self.reach):
                a = self.number(policy, state, h, self.params, *(() if theta is None else (theta,)))
                if not self.may(state, a, h):
                    return None
                earned = self.discounts[h] * self._reward(state, a, member[h], h)
                total, path_return = total + earned, path_return + abs(earned)
                state = self.move(state, a, member[h], h)
            if not self.may_end((state,)):
                return None
            if self.task.terminal is not None:
                end = self.discounts[self.reach] * self.end(state)
                total, path_return = total + end, path_return + abs(end)
            out.append(total)
            most = max(most, path_return)
        return tuple(out), most

    # ---------------------------------------------------------------- the task's bound

    def togo(self, states: tuple[Any, ...], at: int) -> float:
        """Optimistic value to go from step `at` by the task's bound (scores: by the best score of every step)."""
        tables = self.tables()
        if self.mode == SCORES:
            return float(tables[at])
        if at == self.depth and not self.continues:
            values = [self.end(s) for s in states]
        else:
            self.meter.toil(2 * len(states) * (self.reach - at))  # a bound looks at the steps that are left
            pairs = zip(states, tables, strict=True)
            bound = self.task.bound
            values = [self.call(as_float, self.call(bound, s, at, table, self.params)) for s, table in pairs]
        if any(v != v for v in values):
            raise Fault("bound returned NaN")
        return mean_and_spread(values, self.weights, VARIANCE)[0] if self.is_members else values[0]

    def tables(self) -> list[Any]:
        if self._tables is None:
            self._tables = self._suffixes() if self.mode == SCORES else self._prepare()
        return self._tables

    def _suffixes(self) -> list[float]:
        suffix = [0.0]
        for h in range(self.depth - 1, -1, -1):
            best = max([self.q[h][i] - self.risk * self.u[h][i] for i in self.available], default=-math.inf)
            suffix.append(suffix[-1] + best)
        return suffix[::-1]

    def _prepare(self) -> list[Any]:
        import numpy as np  # the only use: `prepare` is handed arrays

        def table(outcomes: list[Any], members: list[Any], weights: list[float], risk: float) -> Any:
            self.meter.toil(self.reach * (1 + len(members)))
            array, view = np.array(outcomes[: self.reach], dtype=np.float64), []
            if self.task.risk_aware_bound:
                view = [View(np.array([m[: self.reach] for m in members]), np.array(weights), risk, self.spread)]
            return self.call(self.task.prepare, array, self.params, *view)

        if self.is_members:
            return [table(m, [m], [1.0], 0.0) for m in self.members]
        return [table(self.mean, self.members, self.weights, self.risk)]
