"""Whether a few decisions are too much for the plain engine: a look at how many states a plan may pass through, or,
where members are planned on, a short try.

A few decisions are usually made while a kernel would compile. A limit that remembers (a ramp, a cycle budget) or a long
horizon can make a single one millions of edges, minutes for plain Python. Both engines give the same bytes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from ucsearch.engine.api import search_panel
from ucsearch.engine.status import Status
from ucsearch.pipeline.cases import Case
from ucsearch.policies import Exact, Policy
from ucsearch.settings import Settings
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["EDGES", "TRIED", "engine_after_a_try", "is_too_much"]

EDGES = 100_000  # (state, action) pairs over all steps: some seconds, since each is scored for every member
TRIED = 8_000  # nodes of trees over members, all series together: some five seconds, less than compiling takes
_LEAST = 200  # of one series
_OUTCOME = 0.0  # where states hang on outcomes this is only a guess


def is_too_much(case: Case, settings: Settings) -> bool:
    """Whether exact plans of this series pass through more than `EDGES` pairs of states and actions."""
    policy, sizes = settings.policy, settings.actions
    if not isinstance(policy, Exact) or policy.mode != "mean" or sizes.lots or sizes.multiples is not None:
        return False
    try:
        return _edges(case, policy.depth) > EDGES
    except Exception:  # rules that need more than a number, or fail: the search says so itself
        return False


def engine_after_a_try(
    task: Task, states: Any, trace: Trace, policy: Policy, params: Any, actions: Any
) -> Literal["compiled", "python"]:
    """For a few series: the plain engine where that is soon done, else kernels are compiled. How many nodes a tree over
    members has, only a try can tell."""
    if not isinstance(policy, Exact) or policy.mode != "members":
        return "python"
    short: Any = dataclasses.replace(policy, node_budget=min(policy.node_budget, max(_LEAST, TRIED // trace.windows)))
    try:
        found = search_panel(task, states, trace, short, params=params, actions=actions, engine="auto")
    except Exception:  # the search says itself what is wrong
        return "python"
    return "compiled" if (found.status == Status.NOT_PROVED).any() else "python"


def _edges(case: Case, depth: int) -> int:
    task, p = case.kind.task, case.params
    layer: set[Any] = {case.state}
    count = 0
    for h in range(depth):
        following: set[Any] = set()
        for s in layer:
            for a in task.actions:
                if task.feasible_at(s, a, h, p):
                    following.add(task.step_at(s, a, _OUTCOME, h, p))
                    count += 1
            if count > EDGES:
                return count
        layer = following
    return count
