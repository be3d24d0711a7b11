"""Policies as they stand in a walk: search, certified search, planning on a point forecast, learned ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.api import decide_panel
from ucsearch.decision.decision import DecisionPanel
from ucsearch.decision.gate import Calibration, Gate
from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import OutI
from ucsearch.errors import InputError
from ucsearch.lab.comparators import CEM, MPPI
from ucsearch.policies import PROOF, Policy, Proof, Run
from ucsearch.replay.classics.adaptive import fractile
from ucsearch.replay.walk import Choice, Seen
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["COMPILED", "FIGURES", "FLAGS", "Certified", "Deterministic", "Learned", "Searched", "point_forecast"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FLAGS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "search_active", "uncertainty_active",
    "optimal", "unique", "robust",
)  # fmt: skip
"""What a certificate says yes or no to, as a walk keeps it."""
FIGURES = ("margin", "gap", "eps_a", "proxy_slack", "regret_bound")


COMPILED = Run(engine="compiled")  # of a walk, which decides often


class Searched:
    """A search policy or comparator without a certificate. Iterated samplers start from their last plan unless `warm`
    is False; with `foresees` it plans on what will really happen, as a yardstick."""

    def __init__(
        self, task: Task, policy: Policy, how: Run | None = None, *, warm: bool = True, foresees: bool = False
    ) -> None:
        self.task, self.policy, self.how = task, policy, how or COMPILED
        self.warm, self.foresees = warm, foresees
        self._last: Any = None

    def __call__(self, seen: Seen) -> Choice:
        policy = self.policy
        if seen.t == 0:
            self._last = None
        if self.warm and self._last is not None and isinstance(policy, CEM | MPPI):
            policy = policy.warmed(self._last, seen.state, seen.trace, seen.actions)
        plan = search_panel(
            self.task, seen.state, seen.trace, policy, params=seen.params, actions=seen.actions,
            engine=self.how.engine, threads=self.how.threads,
        )  # fmt: skip
        plan.raise_for_errors()
        self._last = plan
        return Choice.at(seen, plan.outputs.out_i[:, OutI.FIRST], np.array(plan.expansions, np.int64))


class Certified:
    """The product itself: a searched action leaves with a certificate, otherwise the fallback does. `keep` is called
    with every decision's number and panel; `law` makes a law of the outcomes out of the forecast, for mode "closed"."""

    def __init__(
        self, task: Task, policy: Policy, *, proof: Proof = PROOF, how: Run | None = None,
        gate: Gate | None = None,
        keep: Callable[[int, DecisionPanel], None] | None = None, law: Callable[[Seen], Trace] | None = None,
        calibration: Calibration | None = None,
    ) -> None:  # fmt: skip
        self.task, self.policy, self.how, self.keep = task, policy, how or COMPILED, keep
        self.proof, self.calibration = proof, calibration
        self.law = law  # what makes a law of the outcomes out of the forecast, for mode "closed"
        self.gate = Gate(certificate=True) if gate is None else gate

    def __call__(self, seen: Seen) -> Choice:
        trace = seen.trace if self.law is None else self.law(seen)
        panel = decide_panel(
            self.task, seen.state, trace, self.policy, gate=self.gate, proof=self.proof, params=seen.params,
            actions=seen.actions, run=self.how, calibration=self.calibration,
        )  # fmt: skip
        if self.keep is not None:
            self.keep(seen.t, panel)
        certified, claims = panel.certified, panel.certified.claims
        fields = {name: np.asarray(getattr(claims, name), np.float64) for name in (*FLAGS, *FIGURES)}
        fields["released"] = (panel.outcome == "RELEASED").astype(np.float64)
        return Choice(
            np.array(panel.action, np.float64),
            np.array(certified.plan.expansions, np.int64),
            np.array(certified.oracle_nodes - certified.activity_nodes, np.int64),
            np.array(certified.activity_nodes, np.int64),
            fields,
        )


class Deterministic:
    """What most planners do: take one number per step from the forecast and plan as if it were certain. The number is
    the mean, or the members' fractile at `quantile` (one for all episodes, or one for each)."""

    def __init__(
        self, task: Task, policy: Policy, *, quantile: float | Sequence[float] | None = None, how: Run | None = None
    ) -> None:
        shares = () if quantile is None else quantile if isinstance(quantile, Sequence) else (quantile,)
        if not all(0.0 < share < 1.0 for share in shares):
            raise InputError("quantile", quantile, "a number between 0 and 1, or None for the mean")
        self.task, self.policy, self.quantile, self.how = task, policy, quantile, how or COMPILED

    def __call__(self, seen: Seen) -> Choice:
        plan = search_panel(
            self.task, seen.state, point_forecast(seen.trace, self.quantile), self.policy, params=seen.params,
            actions=seen.actions, engine=self.how.engine, threads=self.how.threads,
        )  # fmt: skip
        plan.raise_for_errors()
        return Choice.at(seen, plan.outputs.out_i[:, OutI.FIRST], np.array(plan.expansions, np.int64))


def point_forecast(trace: Trace, quantile: float | Sequence[float] | None = None) -> Trace:
    """A trace of one member: the mean of every step, or the members' fractile at `quantile` of every step and field."""
    if quantile is None:
        point = trace.mean
    else:
        count, _, horizon, fields = trace.members.shape
        weights = np.broadcast_to(trace.weights, trace.members.shape[:2])
        point = np.empty((count, horizon, fields))
        for w, h, f in np.ndindex(count, horizon, fields):
            share = quantile[w] if isinstance(quantile, Sequence) else quantile
            point[w, h, f] = fractile(trace.members[w, :, h, f], weights[w], share)
    return Trace.from_members(point[:, None, :, 0] if point.shape[-1] == 1 else point[:, None], model=trace.model)


class Learned:
    """A trained policy: `choose(states, mask, features) -> index`, where `features(trace)` come from the forecast."""

    def __init__(
        self, choose: Callable[[Floats, NDArray[np.bool_], Floats], Ints], features: Callable[[Trace], Floats]
    ) -> None:
        self.choose, self.features = choose, features

    def __call__(self, seen: Seen) -> Choice:
        some = seen.mask.any(axis=1)
        index = np.full(len(seen.rows), -1, np.int64)
        if some.any():
            features = self.features(seen.trace)
            index[some] = self.choose(seen.rows[some], seen.mask[some], features[some])
        return Choice.at(seen, index)
