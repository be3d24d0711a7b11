"""Which limit of a task binds, and by how little it would have to change.

The task's own rules are asked with one limit changed at a time, nothing is reasoned about them here: a limit binds if
what is wanted becomes possible without it, and what it would have to be is found by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ucsearch.decision.decision import Decision, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.formatting import figure
from ucsearch.layout import own_row
from ucsearch.planner.recorded.problem import Asked, offered_array
from ucsearch.rules.answers import as_allowed, guarded
from ucsearch.task import Task
from ucsearch.tasks.base import Limit, config_of
from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.trace import Trace

__all__ = ["Binding", "Change", "action_words", "asked_of", "binding", "blocked_words", "is_blocked"]


_WIDE = 1024.0  # times the largest number around: as good as no limit, and still a number of the problem's size
_HALVINGS = 60
_EXACT = 1e-7  # of the size of the problem: where bisection stops
_NODES = 300  # states looked at before a plan counts as not found

Possible = Callable[[Any, Any], bool]  # (state, params)


class Change(NamedTuple):
    """A limit that binds alone."""

    name: str
    now: float
    needed: float  # NaN: not known


class Binding(NamedTuple):
    """What stands in the way: limits each of which would do, or, where none would, some that bind together."""

    alone: tuple[Change, ...]
    together: tuple[Change, ...]


def binding(task: Task, state: Any, params: Any, possible: Possible) -> Binding:
    """The limits between `state, params` and what is wanted, of those that the task names."""
    known = [x for x in config_of(task).limits() if x.field in (state if x.in_state else params)._fields]
    numbers = [_get(x, state, params) for x in known]
    size = _size(task, state, params)
    if possible(state, params):
        return Binding((), ())
    active = [
        (x, now)
        for x, now in zip(known, numbers, strict=True)
        if abs(now) < NO_LIMIT and (x.loosens > 0 or now > x.least)
    ]
    alone = []
    for limit, now in active:
        far = _far(limit, now, size)
        if possible(*_set(limit, far, state, params)):
            alone.append(Change(limit.name, now, _least(limit, now, far, size, state, params, possible)))
    if alone:
        return Binding(tuple(alone), ())
    free, loose = (state, params), list(active)
    for limit, now in active:
        free = _set(limit, _far(limit, now, size), *free)
    if not possible(*free):
        return Binding((), ())
    for limit, now in active:  # back to what they are, as far as nothing depends on it
        tighter = _set(limit, now, *free)
        if possible(*tighter):
            free, loose = tighter, [x for x in loose if x[0] is not limit]
    together = []
    for limit, now in loose:  # what the first needs with the others out of the way, then the next beside it, ...
        needed = _least(limit, now, _far(limit, now, size), size, *free, possible)
        free = _set(limit, needed, *free)
        together.append(Change(limit.name, now, needed))
    if not possible(*free):  # a rule that is not monotone: no figures then
        together = [change._replace(needed=math.nan) for change in together]
    return Binding((), tuple(together))


def action_words(task: Task, state: Any, params: Any, action: Any) -> str:
    """Why the rules do not allow `action`: "capacity 20 does not allow it; 24 would"; "" when no limit explains it."""
    found = binding(task, state, params, lambda s, p: _allowed(task, s, action, 0, p))
    return _words(found, "does not allow it", "do not allow it")


def blocked_words(asked: Asked) -> str:
    """Why nothing keeps the rules; "" when no limit explains it."""
    depth, trace = asked.policy.depth, asked.trace
    # To do little keeps most rules, so a plan is found soon that way, if there is one.
    actions = sorted((a for a in asked.offered if a == a), key=_size_of)
    task = asked.task
    if not any(_allowed(task, asked.state, a, 0, asked.params) for a in actions):
        what = "no action now"
    else:
        what = f"no plan of {depth} steps that keeps the rules"
    together = asked.policy.mode in ("members", "closed")

    def possible(state: Any, params: Any) -> bool:
        outcomes = _outcomes(task, trace, together)
        return bool(outcomes) and _completes(task, [state] * len(outcomes), params, outcomes, actions, depth)

    return _words(binding(task, asked.state, asked.params, possible), f"leaves {what}", f"leave {what}")


def is_blocked(decision: Decision) -> bool:
    """Whether limits could explain that nothing leaves, or no plan."""
    return decision.certificate is not None and (decision.outcome is Outcome.HOLD or decision.cause is Reason.DEAD_END)


def asked_of(decision: Decision) -> Asked:
    """What was asked, of a decision that was searched."""
    c = decision.certificate
    if c is None:
        raise ValueError("a refused forecast was not searched")
    plan, w = c.plan, c.plan.window
    layout, params = plan.task.params_layout, None
    if layout is not None:
        params = layout.build(own_row(plan.inputs.params, w).tolist())
    return Asked(
        plan.task, plan.layout.build(plan.inputs.states[w].tolist()), params,
        offered_array(plan.actions), plan.trace, plan.policy, decision.gate,
        decision.context.calibration, None, c.eps_m, c.node_budget,
    )  # fmt: skip


# -------------------------------------------------------------------- what is possible


def _allowed(task: Task, state: Any, action: Any, h: int, params: Any) -> bool:
    try:
        return as_allowed(guarded(task.feasible_at, state, action, h, params))
    except Exception:  # a rule that cannot answer allows nothing
        return False


def _outcomes(task: Task, trace: Trace, together: bool) -> list[list[Any]]:
    """Courses of outcomes that a plan must keep the rules under: the mean, or every member."""
    if trace.is_scores:
        return []
    paths = trace.members[0] if together else trace.mean[:1]
    made = []
    for path in paths.tolist():
        made.append([y[0] if task.outcome is None else task.outcome(*y) for y in path])
    return made


def _completes(
    task: Task, states: list[Any], params: Any, outcomes: list[list[Any]], actions: Sequence[Any], depth: int
) -> bool:
    """Whether some plan keeps the rules for all courses to the end; one that is not found soon counts as none."""
    left = _NODES

    def goes_on(states: list[Any], h: int) -> bool:
        nonlocal left
        if h == depth:
            return True
        for action in actions:
            left -= 1
            if left < 0:
                return False
            if not all(_allowed(task, s, action, h, params) for s in states):
                continue
            try:
                after = [task.step_at(s, action, y[h], h, params) for s, y in zip(states, outcomes, strict=True)]
            except Exception:  # as above
                continue
            if goes_on(after, h + 1):
                return True
        return False

    return goes_on(states, 0)


# -------------------------------------------------------------------- one limit


def _get(limit: Limit, state: Any, params: Any) -> float:
    return float(getattr(state if limit.in_state else params, limit.field))


def _set(limit: Limit, value: float, state: Any, params: Any) -> tuple[Any, Any]:
    if limit.in_state:
        return state._replace(**{limit.field: value}), params
    return state, params._replace(**{limit.field: value})


def _size(task: Task, state: Any, params: Any) -> float:
    """The largest number of the problem, limits that are none left out."""
    seen = [1e-9, *(_size_of(a) for a in task.actions)]
    for record in (state, params):
        for item in record:
            seen.extend(abs(float(x)) for x in (item if isinstance(item, tuple) else (item,)))
    return float(max(x for x in seen if x < NO_LIMIT))


def _size_of(action: Any) -> float:
    """The size of an action; of a tuple what it comes to."""
    return sum(map(abs, action)) if isinstance(action, tuple) else abs(float(action))


def _far(limit: Limit, now: float, size: float) -> float:
    if limit.loosens > 0:
        return now + _WIDE * size
    return max(limit.least, now - _WIDE * size)


def _least(limit: Limit, now: float, far: float, size: float, state: Any, params: Any, possible: Possible) -> float:
    """The value nearest to `now` that does, in as few digits as that takes."""
    bad, good = now, far
    for _ in range(_HALVINGS):
        if abs(good - bad) <= _EXACT * abs(good):
            break
        middle = 0.5 * (bad + good)
        if possible(*_set(limit, middle, state, params)):
            good = middle
        else:
            bad = middle
    if limit.whole:
        return float(math.ceil(good - 1e-6) if limit.loosens > 0 else math.floor(good + 1e-6))
    for digits in range(1, 13):
        step = 10.0 ** (math.floor(math.log10(abs(good))) + 1 - digits) if good else 1.0
        near = (math.ceil if limit.loosens > 0 else math.floor)(good / step - limit.loosens * 1e-6) * step
        value = float(f"{near:.12g}")
        if abs(value - good) <= 1e-6 * max(abs(good), 1e-9 * size) and possible(*_set(limit, value, state, params)):
            return value
    return good


def _words(found: Binding, one: str, several: str) -> str:
    if found.alone:
        return "; ".join(f"{c.name} {figure(c.now)} {one}, {figure(c.needed)} would" for c in found.alone)
    if found.together:
        now = " and ".join(f"{c.name} {figure(c.now)}" for c in found.together)
        needed = " and ".join(figure(c.needed) for c in found.together if math.isfinite(c.needed))
        return f"{now} together {several}" + (f", {needed} would" if needed else "")
    return ""
