"""Which searches prove a panel: exact values or bounds of every first action, at its risk, at risk 0, and under
certainty."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import search_again, search_panel
from ucsearch.engine.arrays import Col, Outputs
from ucsearch.engine.panel import PanelPlan
from ucsearch.engine.status import Status
from ucsearch.errors import InputError
from ucsearch.layout import own_rows
from ucsearch.options import Kind, Proof, Run
from ucsearch.policies import CertifiedBeam, ConstrainedBeam, Exact, Policy

__all__ = ["CLOSED", "Proofs", "Suffixes", "exact_of", "prove", "suffixes_of"]

Floats = NDArray[np.float64]
CLOSED = "closed_exact"  # the kind of a proof against every policy
_FEW_PLANS = 4_096  # common plans below which members mode is solved by enumeration
_NOT_PROVED = int(Status.NOT_PROVED)  # a plain number: with an enum NumPy takes several times as long


class Suffixes(NamedTuple):
    """Which proved suffixes a policy puts in beside what it retained."""

    protect: bool  # the exact suffix of every generated first action
    constrained: bool  # the reward-only optimum


class Proofs(NamedTuple):
    """The searches that a certificate rests on; where two would be the same, they are one object."""

    kind: str  # "oracle", "bound" or CLOSED
    plan: PanelPlan  # the searched panel
    proven: PanelPlan  # its exact values or bounds
    reward_only: PanelPlan  # the same at risk 0
    certain: PanelPlan  # and for the certainty-equivalent planner (members mode: the mean outcome)
    upper: Floats  # (W, m) bounds of `proven`, with the members bound where the search ran out of nodes
    reward_upper: Floats  # (W, m) of `reward_only`
    nodes: NDArray[np.int64]  # (W,) spent on the two members bounds
    reward_nodes: NDArray[np.int64]


def suffixes_of(policy: Policy) -> Suffixes:
    return Suffixes(isinstance(policy, CertifiedBeam) and policy.protect, isinstance(policy, ConstrainedBeam))


def prove(plan: PanelPlan, proof: Proof, run: Run, threads: int, stop: Callable[[], bool] | None) -> Proofs:
    """Run the searches that prove `plan`."""
    policy, put_in = plan.policy, any(suffixes_of(plan.policy))
    kind = _kind(proof.kind, plan, put_in)
    every = kind == "oracle"
    common: dict[str, Any] = dict(threads=run.threads, engine=run.engine, stop=stop)
    # In closed mode the search is its own proof: it has the value of every policy.
    exact = policy if kind == CLOSED else exact_of(policy, policy.risk, proof.node_budget, every)

    def searched_by(p: Policy) -> PanelPlan:
        if p == policy:  # an exact policy is its own proof
            return plan
        if isinstance(policy, Exact) and dataclasses.replace(policy, node_budget=proof.node_budget) == p:
            return _with_budget(plan, dataclasses.replace(policy, node_budget=proof.node_budget), common)
        # Paths without risk are needed only where they are put in.
        return search_again(plan, p, keep_paths=put_in or p == exact, **common)

    proven = searched_by(exact)
    reward_only = proven if policy.risk == 0.0 else searched_by(dataclasses.replace(exact, risk=0.0))
    certain = reward_only
    if policy.mode == "members":
        certain = searched_by(dataclasses.replace(exact, risk=0.0, mode="mean", spread=None))
    bounded = policy.mode == "members" and not every and not plan.task.continuations
    if stop is not None:
        _end(stop, plan, proven, reward_only, certain, bounded=bounded)
    upper, nodes = _upper(plan, proven, bounded, threads)
    found = (upper, nodes) if reward_only is proven else _upper(plan, reward_only, bounded, threads)
    return Proofs(kind, plan, proven, reward_only, certain, upper, found[0], nodes, found[1])


def exact_of(policy: Policy, risk: float, node_budget: int, every: bool) -> Exact:
    """The exact search that proves what this policy found; `every`: it solves every first action."""
    order = "auto" if policy.order == "score" else policy.order
    return _exact(
        policy.depth, risk, policy.discount, policy.mode, policy.spread, policy.tail, order, node_budget, every
    )


@lru_cache(maxsize=256, typed=True)
def _exact(
    depth: int, risk: float, discount: float, mode: Any, spread: Any, tail: float, order: Any, budget: int, every: bool
) -> Exact:
    """Checked once: most proofs of a plan are by the same policy."""
    return Exact(
        depth=depth, risk=risk, discount=discount, mode=mode, spread=spread, tail=tail, order=order, node_budget=budget,
        every_action=every,
    )  # fmt: skip


def _kind(kind: Kind, plan: PanelPlan, needs_oracle: bool) -> str:
    if plan.policy.mode == "closed":
        if kind != "auto":
            raise InputError("kind", repr(kind), "'auto' in closed mode, whose proof is the search itself")
        return CLOSED
    if kind != "auto":
        return kind
    if needs_oracle:
        return "oracle"
    settings, m = plan.settings, plan.outputs.flags.shape[1]
    if plan.policy.mode == "members":
        return "oracle" if m**settings.depth <= _FEW_PLANS else "bound"
    return "bound" if settings.use_bound or plan.policy.mode == "scores" else "oracle"


def _with_budget(plan: PanelPlan, exact: Exact, common: dict[str, Any]) -> PanelPlan:
    """An exact search under another budget of nodes: a window that stayed within both would be searched node by node in
    the same way, so its answer is taken; the others are searched."""
    least = min(exact.node_budget, plan.settings.node_budget)
    ended = ~np.isin(plan.status, (Status.TASK_ERROR, Status.OUT_OF_TIME, Status.NOT_PROVED))
    rest = np.flatnonzero(~(ended & (plan.expansions < least)))
    outputs = plan.outputs
    if rest.size:
        i = plan.inputs
        params = None if plan.task.params_layout is None else own_rows(i.params, rest)
        trace = plan.trace if plan.trace.windows == 1 else plan.trace.some(rest)
        again = search_panel(
            plan.task, i.states[rest], trace, exact, params=params, actions=own_rows(i.actions, rest), keep_paths=True,
            **common,
        )  # fmt: skip
        arrays: list[Any] = [np.array(array) for array in outputs]
        for array, fresh in zip(arrays, again.outputs, strict=True):
            array[rest] = fresh
        outputs = Outputs(*arrays)
    return dataclasses.replace(plan, policy=exact, outputs=outputs)


def _end(stop: Callable[[], bool], plan: PanelPlan, *proofs: PanelPlan, bounded: bool) -> None:
    """Blank every search of a window in which one was ended, or whose members bound is still to come when the time is
    over: half a certificate would be none."""
    late = np.any([p.status == Status.OUT_OF_TIME for p in (plan, *proofs)], axis=0)
    if bounded:
        unproved = np.any([p.status == Status.NOT_PROVED for p in proofs[:2]], axis=0)
        if unproved.any() and stop():
            late |= unproved
    late &= ~np.isin(plan.status, (Status.TASK_ERROR, Status.NO_STRUCTURE))
    for w in np.flatnonzero(late):
        for p in (plan, *proofs):
            p.outputs.blank(int(w), Status.OUT_OF_TIME)


def _upper(plan: PanelPlan, proof: PanelPlan, bounded: bool, threads: int) -> tuple[Floats, NDArray[np.int64]]:
    """Upper bounds per first action. A finished proof bounds all of them; in members mode the penalised bound helps
    where it ran out of nodes."""
    upper, nodes = np.asfortranarray(proof.outputs.table[:, :, Col.UPPER]), np.zeros(len(plan), np.int64)
    unproved = proof.status == _NOT_PROVED
    if bounded and unproved.any():
        from ucsearch.certificate.members.bound import members_bounds

        found = members_bounds(
            plan.task, plan.layout, proof.settings, plan.inputs.repeated(), plan.outputs.path,
            engine="python" if plan.engine == "python" else "auto", only=unproved, threads=threads,
        )  # fmt: skip
        # fmin ignores NaN: where only one of the two bounds is known, that one counts.
        upper = np.where(unproved[:, None], np.fmin(upper, found.upper), upper)
        nodes = np.where(unproved, found.nodes, 0)
    return upper, nodes
