"""Penalties for missed demand that bring the closed policy to a fill rate or a service level.

With a penalty p the value of the best policy is V(p), the largest of A - p M over all policies, where M is the expected
number of units (or periods) missed and A everything else. So M of the best policy is the slope of V: two searches with
penalties next to each other say how much is missed, and no policy has to be followed through its states. V is convex,
so that M never rises with p, and bisection finds the least penalty that reaches a target. What is missed before the
first order can arrive is taken off; no order changes it, and a plan that ends there has it as its slope.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Status
from ucsearch.errors import InputError
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case
from ucsearch.planner.settings import Settings
from ucsearch.policies import Exact
from ucsearch.trace import Trace

__all__ = ["Reached", "find_penalties"]

Floats = NDArray[np.float64]
CLOSE = 1.02  # ratio of the penalty that reaches a target to one that does not, at which the search ends
_STEP = 1e-4  # relative distance of the two penalties that a slope is taken between
_WIDER = 4.0  # by which penalties are raised until one reaches the target
_MOST = 1_000.0  # times what holding a unit and the margin of its sale cost together
_ROUNDS = 64  # of raising and halving; each ends long before


class Reached(NamedTuple):
    """Of each series."""

    value: Floats  # (W,) the penalty
    promised: Floats  # (W,) the share that the policy reaches with it, under its forecast
    below: Floats  # (W,) the share that the next lower step reaches
    met: NDArray[np.bool_]  # (W,) whether the target is reached below the cap


def find_penalties(
    cases: Sequence[Case], trace: Trace, settings: Settings, engine: Any = "auto", names: Sequence[str] = ()
) -> Reached:
    """The least penalties that reach the targets of series of one kind, each from where a normal order leaves it.

    Args:
        cases: the series, with the record of parameters of each; their states are not used.
        trace: their forecasts, as long as the policy is to be judged.
        settings: how orders are planned.
        engine: of the searches.
        names: what messages call the series; their numbers by default.

    Returns: penalties, what they promise, and what the next lower step promises.
    """
    job = _Search(cases, trace, settings, engine, names or [f"series {i}" for i in range(len(cases))])
    target, cap = job.target, job.cap
    high = np.minimum(job.first, cap)
    share = job.share(high)
    low, below = np.zeros(len(cases)), np.full(len(cases), np.nan)
    for _ in range(_ROUNDS):
        more = (share < target) & (high < cap)
        if not more.any():
            break
        low, below = np.where(more, high, low), np.where(more, share, below)
        high = np.where(more, np.minimum(_WIDER * high, cap), high)
        share = np.where(more, job.share(high), share)
    met = share >= target
    for _ in range(_ROUNDS):
        open_ = met & (high > CLOSE * low) & (high > job.least) & ~(share == below)
        if not open_.any():
            break
        middle = np.where(low > 0.0, np.sqrt(low * high), high / _WIDER)
        middle = np.where(open_, middle, high)
        middle_share = job.share(middle)
        up = open_ & (middle_share < target)
        down = open_ & (middle_share >= target)
        low, below = np.where(up, middle, low), np.where(up, middle_share, below)
        high, share = np.where(down, middle, high), np.where(down, middle_share, share)
    # What is expected to sell nothing reaches any target for nothing: it takes the usual penalty of the others.
    empty = high <= _WIDER * job.least
    if empty.any() and not empty.all():
        high = np.where(empty, np.median(high[~empty] / job.first[~empty]) * job.first, high)
    # Where orders tie at the lower end of the slope, its upper end settles which of them is placed.
    return Reached(high * (1.0 + _STEP), share, below, met)


class _Search:
    """Series of one kind under penalties that change."""

    def __init__(
        self, cases: Sequence[Case], trace: Trace, settings: Settings, engine: Any, names: Sequence[str]
    ) -> None:
        self.trace, self.settings, self.engine, self.names = trace, settings, engine, names
        self.kind = cases[0].kind
        config: Any = self.kind.config
        self.by_period = config.service_level is not None
        mean = np.maximum(trace.mean[:, :, 0], 0.0)
        usual = np.ceil(mean.mean(axis=1))
        self.cases = [
            case._replace(state=case.config.at_level(float(level)), config=dataclasses.replace(case.config))
            for case, level in zip(cases, usual.tolist(), strict=True)
        ]
        self.target = np.array([case.config.target for case in cases])
        holding = np.array([case.params.holding for case in cases])
        margin = np.array([max(case.params.price - case.params.unit_cost, 0.0) for case in cases])
        if not (holding + margin > 0.0).all():
            raise InputError("task.holding", 0.0, "more than 0, because a target is given", index=0)
        each = np.maximum(mean.mean(axis=1), 1.0) if self.by_period else np.ones(len(cases))
        self.cap = _MOST * (holding + margin) * each
        self.first = holding * self.target / (1.0 - self.target) * each
        self.least = 1e-3 * self.first
        depth = trace.horizon
        self.before = int(config.first_arrival)
        if depth <= self.before:
            raise InputError("forecast.steps", depth, f"more than {self.before}, when the first order arrives")
        span = depth - self.before
        self.asked = np.full(len(cases), float(span)) if self.by_period else mean[:, self.before :].sum(axis=1)
        self.policies = [dataclasses.replace(self.kind.policy, depth=d) for d in (depth, self.before) if d]
        if not isinstance(self.kind.policy, Exact):
            raise InputError("policy.name", type(self.kind.policy).__name__, "'exact', because a target is given")

    def share(self, penalty: Floats) -> Floats:
        """(W,) the share of demand, or of periods, that the best policy serves under these penalties."""
        name = self.kind.config.penalty
        cases = [
            case._replace(params=case.params._replace(**{name: value}))
            for case, value in zip(self.cases, (penalty * (1.0 + _STEP)).tolist(), strict=True)
        ]
        states, params, actions = panel_inputs(cases, self.trace, self.settings)
        law = self.kind.config.planned_trace(self.trace, params, self.kind.policy, self.settings.actions)
        lower = params._replace(**{name: penalty})
        missed = []
        for policy in self.policies:
            here, there = (
                search_panel(self.kind.task, states, law, policy, params=p, actions=actions, engine=self.engine)
                for p in (lower, params)
            )
            for plan in (here, there):
                self._check(plan)
            missed.append((here.score - there.score) / (penalty * _STEP))
        missed_after = missed[0] - (missed[1] if self.before else 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(self.asked > 0.0, 1.0 - missed_after / self.asked, 1.0)
        return np.asarray(share)

    def _check(self, plan: Any) -> None:
        """Refuse where closed loop ends without a policy: a share needs all of its states."""
        wrong = np.flatnonzero(plan.status != Status.PROVED.value)
        if not wrong.size:
            return
        at = int(wrong[0])
        if plan.status[at] == Status.NOT_PROVED.value:
            budget = f"{self.settings.proof.node_budget:,}"
            hint = "Or fewer states: a smaller [actions] lots or points, or [policy] depth."
            raise InputError("proof.node_budget", budget, f"more, for the states of {self.names[at]}", hint=hint)
        raise InputError("task", self.names[at], "rules under which every state allows an order, or none to be placed")
