"""`check_task`: run it on your own task before you trust a plan. Many small checks, each naming the likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from ucsearch.certificate.claims import share
from ucsearch.errors import InputError, TaskError, UCSearchWarning, warn_user
from ucsearch.layout import Layout
from ucsearch.policies import Proof, Run, UCBeam
from ucsearch.rules.dialect import explain, findings
from ucsearch.spreads import NUMBERS
from ucsearch.task import Task, View

__all__ = ["TaskWarning", "check_task"]

_MAX_STATES = 400  # distinct states visited by the sampling
_DEPTH = 4
_BOUND_DEPTH = 3
_SUM_NODES = 2_000


class TaskWarning(UCSearchWarning):
    """Legal, but likely to surprise: the message names the function, the line and what to write instead."""


def check_task(
    task: Task,
    state: Any,
    outcomes: Iterable[Any],
    *,
    depth: int = _DEPTH,
    compiled: bool = False,
    closed: bool = False,
) -> None:
    """Check a task of your own: walk its feasible actions over sample outcomes and name the first broken promise.

    Warns where rules do not compile, where large rewards cancel, and where the fallback is not feasible.

    Args:
        task: the rules.
        state: where the walk begins.
        outcomes: numbers, or the task's outcome tuples; extreme ones find more.
        depth: steps of the walk.
        compiled: also compile the task and compare both engines on the same walk, bit for bit.
        closed: also warn of states that differ by rounding alone, because closed mode is cheap where states repeat.

    Raises:
        TaskError: a rule raises, changes its input, has two answers, or returns something else than it should.
        InputError: a wrong state or outcome.
    """
    layout = task.layout(state)
    state = layout.build(layout.flatten(state, "state"))  # as both engines see it
    samples = _outcomes(task, outcomes)
    walk = _Walk(task, layout, samples)
    walk.run(state, depth)
    if closed:
        walk.check_repeats()
    _check_fallback(task, walk.visited)
    _check_terminal(task, walk.visited)
    _check_end(task, walk.visited)
    if task.bound is not None:
        _check_bound(task, state, samples)
    for i, item in enumerate(task.continuations):
        _check_continuation(task, item, i, walk.visited)
    _check_sums(task, state, samples, depth)
    _check_dialect(task, layout)
    if compiled:
        _check_engines(task, state, samples, depth)
    if task.identity.refused:
        warn_user(f"task {task.name!r} cannot be recorded: {task.identity.refused}", TaskWarning)
    task.cache["checked"] = True


def _check_sums(task: Task, state: Any, samples: list[Any], depth: int) -> None:
    """Warn where what is added up along the best path is so much larger than its sum that digits are lost."""
    from ucsearch.certificate.api import certify
    from ucsearch.trace import Trace

    row = [samples[h % len(samples)] for h in range(depth)]
    array = np.array([[y if isinstance(y, tuple) else (y,) for y in row]], dtype=np.float64)
    trace = Trace.from_members(array, fields=task.fields)
    certificate = certify(
        task, state, trace, UCBeam(depth=depth, width=8), run=Run(engine="python"), proof=Proof(node_budget=_SUM_NODES)
    )
    if certificate.cancellation:
        chosen = next(r for r in certificate.rivals if r.index == certificate.action_index)
        warn_user(
            f"task {task.name!r}: the best plan scores {chosen.score:g}, but {chosen.size:g} is added up for it; large "
            "amounts that cancel (a sunk cost that is paid back) leave few digits to compare plans by: keep them out "
            "of the reward", TaskWarning,
        )  # fmt: skip


def _outcomes(task: Task, outcomes: Iterable[Any]) -> list[Any]:
    listed = list(outcomes)
    if not listed:
        raise InputError("outcomes", "an empty list", "at least one outcome, e.g. outcomes=[20.0, 80.0]")
    samples: list[Any] = []
    for i, y in enumerate(listed):
        values = y if isinstance(y, Sequence) and task.outcome is not None else (y,)
        numbers = []
        for value in values:
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise InputError("outcomes", repr(value), "a number", index=i) from None
            if not math.isfinite(number):
                raise InputError("outcomes", number, "a finite number", index=i)
            numbers.append(number + 0.0)
        if len(numbers) != task.fields:
            raise InputError("outcomes", f"{len(numbers)} values", f"{task.fields} fields", index=i)
        samples.append(numbers[0] if task.outcome is None else task.outcome(*numbers))
    return samples


def _check_dialect(task: Task, layout: Layout) -> None:
    outside = findings(task, layout)
    if outside:
        warn_user(explain(task, outside), TaskWarning)


class _Walk:
    """Breadth-first over feasible actions and sample outcomes, checking every call on the way."""

    def __init__(self, task: Task, layout: Layout, outcomes: list[Any]) -> None:
        self.task, self.layout, self.outcomes, self.p = task, layout, outcomes, task.params
        self.fixed = _is_fixed(task.params)
        self.visited: list[Any] = []

    def run(self, state: Any, depth: int) -> None:
        self._invariant(state, None, None)
        layer, states = [state], {state}
        self.visited = [state]
        for h in range(depth):
            following = []
            for s in layer:
                for a in self._feasible(s, h):
                    for y in self.outcomes:
                        new = self._edge(s, a, y, h)
                        if new not in states and len(states) < _MAX_STATES:
                            states.add(new)
                            following.append(new)
                            self.visited.append(new)
            layer = following

    def check_repeats(self) -> None:
        """States that differ by rounding alone are different states to closed mode: say so, and what to do."""
        near = {tuple(float(f"{x:.9e}") + 0.0 for x in self.layout.flatten(s, "state")) for s in self.visited}
        apart = len(self.visited) - len(near)
        if apart > 0:
            warn_user(
                f"task {self.task.name!r}: {apart} of {len(self.visited)} states differ by rounding alone; "
                "closed mode values each of them. Round inside step, to a step that floats hold exactly, for instance "
                "math.floor(x * 1024.0 + 0.5) / 1024.0", TaskWarning,
            )  # fmt: skip

    def _fail(self, reason: str, step: int | None, action: float | None) -> TaskError:
        return TaskError(reason, task=self.task.name, step=step, action=action)

    def _call(self, role: str, step: int, action: float | None, *args: Any) -> Any:
        function = getattr(self.task, role)
        fixed = self.fixed and all(a is self.p or _is_fixed(a) for a in args)
        before = "" if fixed else repr(args)
        try:
            first = function(*args)
            second = function(*args)
        except Exception as error:
            raise self._fail(f"{role} raised {type(error).__name__}: {error}", step, action) from error
        if not fixed and repr(args) != before:
            raise self._fail(f"{role} changed its input; build a new state instead", step, action)
        if not _same(first, second):
            raise self._fail(
                f"{role} is not deterministic: two calls with equal arguments gave {first!r} and {second!r}; "
                "randomness belongs in the trace", step, action,
            )  # fmt: skip
        return first

    def _when(self, role: str, step: int) -> tuple[int, ...]:
        return (step,) if role in self.task.timed else ()

    def _feasible(self, state: Any, step: int) -> list[float]:
        allowed = []
        for a in self.task.actions:
            answer = self._call("feasible", step, a, state, a, *self._when("feasible", step), self.p)
            if not isinstance(answer, bool | np.bool_):
                raise self._fail(f"feasible returned {answer!r}, expected True or False", step, a)
            if answer:
                allowed.append(a)
        return allowed

    def _edge(self, state: Any, a: float, y: Any, step: int) -> Any:
        reward = self._call("reward", step, a, state, a, y, *self._when("reward", step), self.p)
        if not _is_number(reward) or not math.isfinite(reward):
            raise self._fail(f"reward is {reward!r} for outcome {y!r}, expected a finite number", step, a)
        new = self._call("step", step, a, state, a, y, *self._when("step", step), self.p)
        if not isinstance(new, tuple) or len(new) != len(self.layout.lengths):
            raise self._fail(
                f"step returned {new!r}, expected a {self.task.state.__name__} with {len(self.layout.lengths)} fields",
                step, a,
            )  # fmt: skip
        for name, length, item in zip(self.task.state._fields, self.layout.lengths, new, strict=True):
            have = len(item) if isinstance(item, tuple) else 0
            if have != length:
                returned = f"a tuple of {have}" if have else repr(item)
                expected = f"a tuple of {length}" if length else "a float"
                raise self._fail(f"step returned {returned} in field {name!r}, expected {expected}", step, a)
        flat = [x for item in new for x in (item if isinstance(item, tuple) else (item,))]
        if not all(_is_number(x) and math.isfinite(x) for x in flat):
            raise self._fail(f"step returned {new!r} for outcome {y!r}, expected finite numbers", step, a)
        state = self.layout.build(self.layout.flatten(new, "state"))
        self._invariant(state, step, a)
        return state

    def _invariant(self, state: Any, step: int | None, action: float | None) -> None:
        if self.task.invariant is None or _guarded(self.task, "invariant", step, action, state, self.p):
            return
        if step is None:
            raise self._fail(f"the starting state {state!r} violates the invariant", None, None)
        raise self._fail(
            f"a feasible action leads into {state!r}, which the invariant forbids: feasible allows too much, or step "
            "goes wrong", step, action,
        )  # fmt: skip


def _check_fallback(task: Task, states: list[Any]) -> None:
    infeasible = None
    for state in states:
        try:
            action = task.fallback(state, task.params)
        except Exception as error:
            reason = f"fallback raised {type(error).__name__}: {error}"
            raise TaskError(reason, task=task.name) from error
        if action not in task.actions:
            raise TaskError(f"fallback returned {action!r}, expected one of {task.actions}", task=task.name)
        if infeasible is None and not task.feasible_at(state, action if task.width else float(action), 0, task.params):
            infeasible = (action, state)
    if infeasible is not None:
        warn_user(
            f"task {task.name!r}: fallback {infeasible[0]!r} is not feasible in {infeasible[1]!r}; a decision that "
            "falls back there is a HOLD", TaskWarning,
        )  # fmt: skip


def _check_terminal(task: Task, states: list[Any]) -> None:
    if task.terminal is None:
        return
    for state in states:
        value = _guarded(task, "terminal", None, None, state, task.params)
        if not _is_number(value) or not math.isfinite(value):
            raise TaskError(f"terminal is {value!r} in {state!r}, expected a finite number", task=task.name)


def _check_end(task: Task, states: list[Any]) -> None:
    if task.allowed_end is None:
        return
    for state in states:
        first, second = (_guarded(task, "allowed_end", None, None, state, task.params) for _ in range(2))
        if not isinstance(first, bool | np.bool_):
            raise TaskError(f"allowed_end returned {first!r} in {state!r}, expected True or False", task=task.name)
        if first != second:
            raise TaskError(f"allowed_end is not deterministic in {state!r}", task=task.name)


def _check_continuation(task: Task, item: Any, index: int, states: list[Any]) -> None:
    for theta in item.grid or (None,):
        for state in states[:50]:
            args = (state, 0, task.params) if theta is None else (state, 0, task.params, theta)
            action = _guarded(task, f"continuation {index}", None, None, *args, function=item.policy)
            if not _is_number(action) or not math.isfinite(action):
                raise TaskError(f"continuation {index} returned {action!r} in {state!r}", task=task.name)


def _check_bound(task: Task, start: Any, samples: list[Any]) -> None:
    """Compare the bound with the best that enumeration finds, at every state of a small tree."""
    depth = _BOUND_DEPTH
    path = [samples[h % len(samples)] for h in range(depth)]
    array = np.array([y if isinstance(y, tuple) else (y,) for y in path], dtype=np.float64)
    outcomes = array[:, 0] if task.outcome is None else array
    view = View(outcomes[None], np.ones(1), 0.0, 1)
    extra = (view,) if task.risk_aware_bound else ()
    table = _guarded(task, "prepare", None, None, outcomes, task.params, *extra)
    if not isinstance(table, np.ndarray) or table.dtype != np.float64:
        raise TaskError(f"prepare returned {type(table).__name__}, expected a float64 array", task=task.name)
    if task.by_step and task.risk_aware_bound:
        _check_by_step(task, outcomes)
    _check_fill(task, outcomes)
    p = task.params
    rest = None
    if task.by_rest:
        later = (View(outcomes[None, 1:], np.ones(1), 0.0, 1),) if task.risk_aware_bound else ()
        rest = _guarded(task, "prepare", None, None, outcomes[1:], p, *later)
    eps = share(depth, 1)

    def best(state: Any, h: int) -> tuple[float, float]:
        """Exact value to go, -inf without a complete path; and the most that a path adds up in absolute terms."""
        if h == depth:
            if task.allowed_end is not None and not task.allowed_end(state, p):
                return -math.inf, 0.0
            end = float(task.terminal(state, p)) if task.terminal is not None else 0.0
            return end, abs(end)
        value, added = -math.inf, 0.0
        for a in task.actions:
            if task.feasible_at(state, a, h, p):
                after, size = best(task.step_at(state, a, path[h], h, p), h + 1)
                if after > -math.inf:
                    reward = float(task.reward_at(state, a, path[h], h, p))
                    value, added = max(value, reward + after), max(added, abs(reward) + size)
        limit = float(_guarded(task, "bound", h, None, state, h, table, p, function=task.bound))
        if math.isnan(limit):
            raise TaskError(f"bound is NaN in {state!r}", task=task.name, step=h)
        if rest is not None and h > 0:
            other = float(_guarded(task, "bound", h, None, state, h - 1, rest, p, function=task.bound))
            if other != limit:
                raise TaskError(
                    f"bound is {limit!r} in {state!r}, and {other!r} of the same steps where they are the whole "
                    "forecast; by_rest says that they are all it looks at", task=task.name, step=h,
                )  # fmt: skip
        if not limit >= value - eps * max(added, abs(limit)) and value > -math.inf:
            raise TaskError(
                f"bound is not admissible: it promises at most {limit!r} in {state!r} but enumeration reaches "
                f"{value!r}; a bound must never be below the best value to go", task=task.name, step=h,
            )  # fmt: skip
        return value, added

    best(start, 0)


def _check_fill(task: Task, outcomes: Any) -> None:
    """Whether `prepare_into` gives the tables of `prepare`."""
    if task.prepare is None or task.prepare_into is None:
        return
    members = np.stack([np.roll(outcomes, k) for k in range(len(outcomes))])
    weights = np.full(len(members), 1.0 / len(members))
    for spread in task.bound_spreads:
        for risk in (0.0, 0.5):
            view = View(members, weights, risk, NUMBERS[spread])
            found = task.prepare_into.difference(task.prepare, outcomes, task.params, view)
            if found is not None:
                raise TaskError(found, task=task.name)


def _check_by_step(task: Task, outcomes: Any) -> None:
    """Whether the order of members within a step is nothing to `prepare`, as the task says."""
    members = np.stack([np.roll(outcomes, k, axis=0) for k in range(len(outcomes))])
    weights = np.full(len(members), 1.0 / len(members))
    tables = [
        _guarded(task, "prepare", None, None, outcomes, task.params, View(order, weights, 0.5, 1))
        for order in (members, members[::-1].copy(), np.sort(members, axis=0))
    ]
    if any(table.tobytes() != tables[0].tobytes() for table in tables):
        raise TaskError(
            "prepare gives another table when a step's members come in another order; by_step says that it does not",
            task=task.name,
        )


def _check_engines(task: Task, state: Any, samples: list[Any], depth: int) -> None:
    from ucsearch.engine.api import search
    from ucsearch.trace import Trace

    rows = [[samples[(h + j) % len(samples)] for h in range(depth)] for j in range(min(3, len(samples)))]
    array = np.array([[y if isinstance(y, tuple) else (y,) for y in row] for row in rows], dtype=np.float64)
    trace = Trace.from_members(array, fields=task.fields)
    policy = UCBeam(depth=depth, width=16, risk=0.25)
    plain = search(task, state, trace, policy, engine="python")
    fast = search(task, state, trace, policy, engine="compiled")
    if fast.engine != "compiled":
        return
    if plain.outputs.table.tobytes() != fast.outputs.table.tobytes():
        raise TaskError(
            "the compiled engine computes something else than the Python engine; see the warnings about operations "
            "on which they differ", task=task.name,
        )  # fmt: skip


def _guarded(task: Task, role: str, step: int | None, action: float | None, *args: Any, function: Any = None) -> Any:
    """Call a task's function; what it raises becomes a `TaskError` that names the role."""
    try:
        return (function or getattr(task, role))(*args)
    except Exception as error:
        reason = f"{role} raised {type(error).__name__}: {error}"
        raise TaskError(reason, task=task.name, step=step, action=action) from error


def _is_fixed(value: Any) -> bool:
    """Whether nobody can change it in place."""
    if isinstance(value, tuple):
        return all(map(_is_fixed, value))
    return isinstance(value, float | int | str | bytes | np.number | np.bool_ | NoneType)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)
