"""Whether a few decisions are too much for the plain engine: a look at how many states a plan may pass through.

A few decisions are usually made while a kernel would compile. A limit that remembers (a ramp, a cycle budget) or a long
horizon can make a single one millions of edges, minutes for plain Python. Both engines give the same bytes.
"""

from __future__ import annotations

from typing import Any

from ucsearch.pipeline.cases import Case
from ucsearch.policies import Exact
from ucsearch.settings import Settings

__all__ = ["EDGES", "is_too_much"]

EDGES = 100_000  # (state, action) pairs over all steps: some seconds, since each is scored for every member
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
