"""`warm`: compile before the first decision, not during it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ucsearch.certificate.members.graph import ALGORITHM
from ucsearch.certificate.proofs import exact_of
from ucsearch.engine.compiled.engine import find_kernel
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.policies import Policy, Settings, resolve
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["warm"]


def warm(
    task: Task, policy: Policy, *, state: Any = None, trace: Trace | None = None, certify: bool = True
) -> tuple[str, ...]:
    """Load or compile every kernel that `search` with this policy needs, and those of its proofs unless `certify` is
    False. Returns what is ready; a task that does not compile warns and is left out. Some seconds a kernel the
    first time on a machine; the logger "ucsearch" says when. `state` is needed where states hold tuples, `trace` where
    continuations reach past the searched steps."""
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    layout = _layout(task) if state is None else task.layout(state)
    trace = _trace(task, policy) if trace is None else trace
    ready = []
    for name, settings in _needed(task, policy, trace, certify).items():
        if find_kernel(task, layout, settings) is not None:
            ready.append(name)
    return tuple(ready)


def _needed(task: Task, policy: Policy, trace: Trace, certify: bool) -> dict[str, Settings]:
    m = task.action_array.size
    found = {"search": resolve(policy, task, trace, m)}
    if not certify:
        return found
    exact = exact_of(policy, policy.risk, 1, False)
    found["proof"] = resolve(exact, task, trace, m)
    if policy.mode == "members":
        certain = dataclasses.replace(exact, risk=0.0, mode="mean", spread=None)
        found["certain"] = resolve(certain, task, trace, m)
        if not task.continuations:
            found["bound"] = found["proof"]._replace(algorithm=ALGORITHM, use_bound=False, reach=policy.depth)
    return found


def _layout(task: Task) -> Layout:
    notes = getattr(task.state, "__annotations__", {})
    if any("tuple" in str(note).lower() for note in notes.values()):
        raise InputError("state", "nothing", f"a {task.state.__name__}, because its fields hold tuples")
    return Layout(task.state, (0,) * len(task.state._fields))


def _trace(task: Task, policy: Policy) -> Trace:
    if policy.mode == "scores":
        zero = np.zeros((policy.depth, task.action_array.size))
        return Trace.from_scores(zero, zero)
    return Trace.from_members(np.zeros((1, policy.depth, task.fields)), fields=task.fields)
