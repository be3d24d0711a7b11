"""Policies as they stand in a walk: certified search, comparators, classics, learned ones, hindsight."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.walk import Choice, States
from ucsearch.certificate.api import Kind
from ucsearch.comparators import CEM, MPPI
from ucsearch.dispatch.api import decide_panel
from ucsearch.dispatch.decision import DecisionPanel
from ucsearch.dispatch.gate import Gate
from ucsearch.engine.api import search_panel
from ucsearch.engine.simulate import Simulator
from ucsearch.policies import Policy
from ucsearch.task import Task
from ucsearch.tasks.binding import Binding
from ucsearch.trace import Trace

__all__ = ["CLASSICS", "Certified", "Classic", "Learned", "RollingQuantile", "Searched"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FLAGS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "search_active", "uncertainty_active",
    "optimal", "unique", "robust",
)  # fmt: skip
_FIGURES = ("margin", "gap", "eps_a", "proxy_slack", "regret_bound")


class Searched:
    """A search policy or comparator without a certificate. Iterated samplers may start from their last plan."""

    def __init__(self, task: Task, policy: Policy, *, threads: int | None = None, warm: bool = True) -> None:
        self.task, self.policy, self.threads, self.warm = task, policy, threads, warm
        self._last: Any = None

    def __call__(self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None) -> Choice:
        policy = self.policy
        if self.warm and self._last is not None and isinstance(policy, CEM | MPPI):
            policy = policy.warmed(self._last, states.named, trace, actions)
        plan = search_panel(
            self.task,
            states.named,
            trace,
            policy,
            params=params,
            actions=actions,
            threads=self.threads,
            engine="compiled",
        )
        self._last = plan
        index = np.array(plan.outputs.out_i[:, 1], np.int64)
        none = np.zeros(len(plan), np.int64)
        return Choice(index, np.array(plan.expansions, np.int64), none, none)


class Certified:
    """The product itself: a searched action leaves with a certificate, otherwise the fallback does."""

    def __init__(
        self, task: Task, policy: Policy, *, kind: Kind, threads: int | None = None,
        keep: Callable[[int, DecisionPanel], None] | None = None,
    ) -> None:  # fmt: skip
        self.task, self.policy, self.kind, self.threads, self.keep = task, policy, kind, threads, keep
        self.gate = Gate(certificate=True)

    def __call__(self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None) -> Choice:
        panel = decide_panel(
            self.task, states.named, trace, self.policy, gate=self.gate, kind=self.kind, params=params, actions=actions,
            threads=self.threads, engine="compiled",
        )  # fmt: skip
        if self.keep is not None:
            self.keep(t, panel)
        certified, claims = panel.certified, panel.certified.claims
        table = np.broadcast_to(certified.plan.inputs.actions, (len(panel), certified.plan.inputs.actions.shape[1]))
        match = table == panel.action[:, None]
        fields = {name: np.asarray(getattr(claims, name), np.float64) for name in (*_FLAGS, *_FIGURES)}
        fields["released"] = (panel.outcome == "RELEASED").astype(np.float64)
        return Choice(
            np.where(match.any(axis=1), match.argmax(axis=1), -1).astype(np.int64),
            np.array(certified.plan.expansions, np.int64),
            np.array(certified.oracle_nodes - certified.activity_nodes, np.int64),
            np.array(certified.activity_nodes, np.int64),
            fields,
        )


# -------------------------------------------------------------------- inventory classics, driven by the same forecast


def _base_stock(position: Floats, level: Floats, safety: Floats, mean: Floats) -> Floats:
    """Order up to the critical quantile of demand over lead time and review period."""
    return level + safety - position


def _reorder(position: Floats, level: Floats, safety: Floats, mean: Floats) -> Floats:
    """(s, S): below the base-stock level, order up to it and half a period's demand more."""
    return np.where(position < level + safety, level + safety + 0.5 * mean - position, 0.0)


CLASSICS = {"base-stock": _base_stock, "s-S": _reorder}


class Classic:
    """Base-stock and (s, S) with levels from the forecast's quantile; the nearest allowed order is taken."""

    def __init__(self, binding: Binding, rule: Callable[[Floats, Floats, Floats, Floats], Floats]) -> None:
        self.binding, self.rule = binding, rule
        self.layout: Any = None

    def __call__(self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None) -> Choice:
        config = self.binding.config
        ratio = config.shortage / (config.shortage + config.holding)
        span = np.maximum(trace.members[:, :, : config.lead_time + 1, 0], 0.0)
        total = span.sum(axis=2)
        centre = total.mean(axis=1)
        safety = max(NormalDist().inv_cdf(ratio), 0.0) * total.std(axis=1)
        rows = states.rows
        position = rows[:, 0] + rows[:, 1 : 1 + max(1, config.lead_time)].sum(axis=1)
        wanted = np.maximum(self.rule(position, centre, safety, span[:, :, -1].mean(axis=1)), 0.0)
        return _nearest(self.binding, states, actions, params, wanted)


class RollingQuantile:
    """Order up to the critical quantile of what the last demands were, without any forecast."""

    def __init__(self, binding: Binding, totals: Floats) -> None:
        self.binding, self.totals = binding, totals  # (N, T) levels, made from values before each decision

    def __call__(self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None) -> Choice:
        lead = max(1, self.binding.config.lead_time)
        rows = states.rows
        position = rows[:, 0] + rows[:, 1 : 1 + lead].sum(axis=1)
        return _nearest(self.binding, states, actions, params, np.maximum(self.totals[:, t] - position, 0.0))


def _nearest(binding: Binding, states: States, actions: Floats | None, params: Floats | None, wanted: Floats) -> Choice:
    """The allowed order nearest to the one wanted, the smaller one on ties."""
    simulator = Simulator(binding.task, states.layout, params=params, actions=actions)
    allowed = simulator.mask(states.rows)
    table = np.broadcast_to(simulator.actions, allowed.shape)
    away = np.where(allowed & ~np.isnan(table), np.abs(table - wanted[:, None]), np.inf)
    index = np.where(allowed.any(axis=1), away.argmin(axis=1), -1).astype(np.int64)
    none = np.zeros(len(states.rows), np.int64)
    return Choice(index, none, none, none)


class Learned:
    """A trained policy: `choose(states, mask, features) -> index`, where features come from the forecast."""

    def __init__(
        self, task: Task, choose: Callable[[Floats, NDArray[np.bool_], Floats], Ints],
        features: Callable[[Trace], Floats],
    ) -> None:  # fmt: skip
        self.task, self.choose, self.features = task, choose, features

    def __call__(self, t: int, states: States, trace: Trace, actions: Floats | None, params: Floats | None) -> Choice:
        mask = Simulator(self.task, states.layout, params=params, actions=actions).mask(states.rows)
        none = np.zeros(len(states.rows), np.int64)
        index = np.asarray(self.choose(states.rows, mask, self.features(trace)), np.int64)
        return Choice(index, none, none, none)
