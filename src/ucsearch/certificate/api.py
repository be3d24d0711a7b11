"""`certify` and `certify_panel`: search, bound or solve exactly, search reward-only, and derive every claim."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.certificate.compute import Evidence, action_set, columns, derive
from ucsearch.certificate.panel import CertifiedPanel
from ucsearch.certificate.record import Certificate
from ucsearch.certificate.route import Route, choose
from ucsearch.certificate.tolerance import bound_size, path_size, share, tolerance
from ucsearch.effort import Kind, Proof, ProofWords, Run, RunWords, no_more, one_record
from ucsearch.engine.api import search_again, search_panel, thread_count
from ucsearch.engine.arrays import Col, OutI, Outputs
from ucsearch.engine.panel import PanelPlan
from ucsearch.engine.status import First, Status
from ucsearch.errors import InputError
from ucsearch.policies import CertifiedBeam, ConstrainedBeam, Exact, Policy
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["certify", "certify_panel"]

Floats = NDArray[np.float64]
CLOSED = "closed_exact"  # the kind of a proof against every policy
_FEW_PLANS = 4_096  # common plans below which members mode is solved by enumeration
_PATH = [int(c) for c in (Col.SCORE, Col.REWARD, Col.UNCERTAINTY, Col.GROSS)]  # what describes a path, in this order


_PROOF, _RUN = Proof(), Run()
# Plain numbers: with an enum NumPy takes several times as long.
_TASK_ERROR, _OUT_OF_TIME = int(Status.TASK_ERROR), int(Status.OUT_OF_TIME)
_NOT_PROVED, _PROVED = int(Status.NOT_PROVED), int(Status.PROVED)


class Words(ProofWords, RunWords, total=False):
    """Fields of `proof` and `run` as keywords."""


def certify(
    task: Task,
    state: Any,
    trace: Trace,
    policy: Policy,
    *,
    proof: Proof | None = None,
    run: Run | None = None,
    params: Any = None,
    actions: ArrayLike | None = None,
    **words: Unpack[Words],
) -> Certificate:
    """Search one window and say what is proved about its first action. Fields of `proof` and `run` are taken as
    keywords too."""
    task.layout(state)
    if trace.panel and trace.windows != 1:
        raise InputError("trace", f"{trace.windows} windows", "one window", hint="Use certify_panel.")
    asked, how = one_record("proof", proof, _PROOF, words), one_record("run", run, _RUN, words)
    no_more(words)
    panel = certify_panel(
        task, [state], trace, policy, proof=asked, run=dataclasses.replace(how, threads=1), params=params,
        actions=actions,
    )  # fmt: skip
    panel.plan.raise_for_errors()
    return panel[0]


def certify_panel(
    task: Task,
    states: Any,
    traces: Any,
    policy: Policy,
    *,
    proof: Proof | None = None,
    run: Run | None = None,
    params: Any = None,
    actions: ArrayLike | None = None,
    stop: Callable[[], bool] | None = None,
    **words: Unpack[Words],
) -> CertifiedPanel:
    """Certify W windows. Kind `oracle` solves every first action exactly; `bound` proves by admissible bounds; `auto`
    takes the bound where the task has one. `eps_m` is a claimed bound on a path's model-score error. `stop` as in
    `search_panel`: a window whose search or proof it ended is OUT_OF_TIME, and nothing is said of it."""
    asked, how = one_record("proof", proof, _PROOF, words), one_record("run", run, _RUN, words)
    no_more(words)
    eps_m, node_budget, threads = asked.eps_m, asked.node_budget, how.threads
    common: dict[str, Any] = dict(threads=threads, engine=how.engine, stop=stop)
    plan = search_panel(
        task, states, traces, policy, params=params, actions=actions, progress=how.progress, keep_paths=True, **common
    )
    protect = isinstance(policy, CertifiedBeam) and policy.protect
    constrained = isinstance(policy, ConstrainedBeam)
    chosen = _kind(asked.kind, plan, protect or constrained)
    every = chosen == "oracle"
    # In closed mode the search is its own proof: it has the value of every policy.
    exact = policy if chosen == CLOSED else exact_of(policy, policy.risk, node_budget, every)

    def searched_by(p: Policy) -> PanelPlan:
        # An exact policy is its own proof. Paths without risk are needed only where they are put in.
        keep = protect or constrained or p == exact
        if p == policy:
            return plan
        same = isinstance(policy, Exact) and dataclasses.replace(policy, node_budget=node_budget) == p
        if same and isinstance(p, Exact):
            return _with_budget(plan, p, common)
        return search_again(plan, p, keep_paths=keep, **common)

    proven = searched_by(exact)
    reward_only = proven if policy.risk == 0.0 else searched_by(dataclasses.replace(exact, risk=0.0))
    certain = reward_only
    if policy.mode == "members":
        certain = searched_by(dataclasses.replace(exact, risk=0.0, mode="mean", spread=None))
    if stop is not None:
        _end(stop, plan, proven, reward_only, certain, bounded=not every and not task.continuations)
    # At risk 0 the size of a path is its gross.
    reward_lower, reward_upper, reward_size = columns(reward_only.outputs.table, Col.SCORE, Col.UPPER, Col.GROSS)
    upper = reward_upper if proven is reward_only else columns(proven.outputs.table, Col.UPPER)[0]
    count = thread_count(threads)
    upper, extra_nodes = _upper(task, plan, proven, every, upper, count)
    reward_upper, more_nodes = _upper(task, plan, reward_only, every, reward_upper, count)
    flags = plan.outputs.flags | (proven.outputs.flags & First.DEAD)
    in_a = action_set(flags.astype(np.uint8, order="F")) & (upper != -np.inf)
    settings = plan.settings
    eps = share(settings.reach, _averaged(plan))
    certain_lower, certain_upper, certain_size = reward_lower, reward_upper, reward_size
    if certain is not reward_only:
        certain_lower, certain_upper, certain_size = columns(certain.outputs.table, Col.SCORE, Col.UPPER, Col.GROSS)
    if protect or constrained:
        values, paths = _put_in(plan, proven, in_a, protect, constrained, reward_only)
        selected = _select(values, in_a)
    else:
        values, selected = plan.outputs.table[:, :, _PATH], plan.outputs.out_i[:, OutI.FIRST]
        paths = plan.outputs.paths[:, : in_a.shape[1]]  # closed mode has more, which start with the same action
    score, reward, uncertainty, gross = columns(values, 0, 1, 2, 3)
    size = path_size(gross, uncertainty, settings, settings.risk)
    searched, searched_size = score, size
    if protect or constrained:
        searched, own_uncertainty, own_gross = columns(plan.outputs.table, Col.SCORE, Col.UNCERTAINTY, Col.GROSS)
        searched_size = path_size(own_gross, own_uncertainty, settings, settings.risk)
    by_path = (proven.outputs.flags & First.EXACT) != 0
    proof_uncertainty, proof_gross = columns(proven.outputs.table, Col.UNCERTAINTY, Col.GROSS)
    lower = np.where(in_a, score, np.nan)
    step_reward, step_uncertainty = columns(plan.outputs.table, Col.STEP_REWARD, Col.STEP_UNCERTAINTY)
    upper_size = np.where(
        by_path,
        path_size(proof_gross, proof_uncertainty, settings, settings.risk),
        bound_size(upper, step_reward - settings.risk * step_uncertainty),
    )
    upper, upper_size, sound = _reconciled(lower, size, upper, upper_size, eps[:, None])
    evidence = Evidence(
        actions=in_a,
        lower=lower,
        lower_reward=np.where(in_a, reward, np.nan),
        lower_uncertainty=np.where(in_a, uncertainty, np.nan),
        searched=searched,
        upper=upper,
        exact=np.logical_and.reduce(by_path | ~in_a, axis=1) & (proven.status == _PROVED) & sound,
        reward_lower=reward_lower,
        reward_upper=reward_upper,
        certain_lower=certain_lower,
        certain_upper=certain_upper,
        selected=selected,
        searched_selected=plan.outputs.out_i[:, OutI.FIRST],
        lower_size=size,
        searched_size=searched_size,
        upper_size=upper_size,
        reward_size=reward_size,
        certain_size=certain_size,
        share=eps,
    )
    route = None
    if isinstance(policy, ConstrainedBeam):
        route = _route(plan, policy, evidence, reward_only)
        evidence = evidence._replace(selected=route.released)
    nodes = extra_nodes if proven is plan else proven.expansions + extra_nodes
    activity = np.zeros(len(plan), np.int64)
    if reward_only is not proven:
        activity = activity + reward_only.expansions + more_nodes
    if certain is not reward_only:
        activity = activity + certain.expansions
    unreached, status = by_path & ~(evidence.lower >= evidence.upper), plan.status
    return CertifiedPanel(
        plan=plan,
        kind=chosen,
        eps_m=float(eps_m),
        node_budget=node_budget,
        evidence=evidence,
        claims=derive(evidence, float(eps_m)),
        route=route,
        released=np.where((status == _TASK_ERROR) | (status == _OUT_OF_TIME), -1, evidence.selected),
        paths=paths,
        upper_paths=np.where(unreached[:, :, None], proven.outputs.paths[:, : in_a.shape[1]], np.int32(-1)),
        oracle_nodes=nodes + activity,
        activity_nodes=activity,
    )


def _with_budget(plan: PanelPlan, exact: Exact, common: dict[str, Any]) -> PanelPlan:
    """An exact search under another budget of nodes: a window that stayed within both would be searched node by node in
    the same way, so its answer is taken; the others are searched."""
    least = min(exact.node_budget, plan.settings.node_budget)
    ended = ~np.isin(plan.status, (Status.TASK_ERROR, Status.OUT_OF_TIME, Status.NOT_PROVED))
    rest = np.flatnonzero(~(ended & (plan.expansions < least)))
    outputs = plan.outputs
    if rest.size:
        i = plan.inputs
        own = common | {"params": i.params if i.params.shape[0] == 1 else i.params[rest]}
        own["actions"] = i.actions if i.actions.shape[0] == 1 else i.actions[rest]
        if plan.task.params_layout is None:
            own["params"] = None
        again = search_panel(plan.task, i.states[rest], plan.trace.some(rest), exact, keep_paths=True, **own)
        arrays: list[Any] = [np.array(array) for array in outputs]
        for array, fresh in zip(arrays, again.outputs, strict=True):
            array[rest] = fresh
        outputs = Outputs(*arrays)
    return dataclasses.replace(plan, policy=exact, outputs=outputs)


def _end(stop: Callable[[], bool], plan: PanelPlan, *proofs: PanelPlan, bounded: bool) -> None:
    """Blank every search of a window in which one was ended, or whose members bound is still to come when the time is
    over: half a certificate would be none."""
    late = np.any([p.status == Status.OUT_OF_TIME for p in (plan, *proofs)], axis=0)
    if plan.policy.mode == "members" and bounded:
        unproved = np.any([p.status == Status.NOT_PROVED for p in proofs[:2]], axis=0)
        if unproved.any() and stop():
            late |= unproved
    late &= ~np.isin(plan.status, (Status.TASK_ERROR, Status.NO_STRUCTURE))
    for w in np.flatnonzero(late):
        for p in (plan, *proofs):
            p.outputs.blank(int(w), Status.OUT_OF_TIME)


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


def exact_of(policy: Policy, risk: float, node_budget: int, every: bool) -> Exact:
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


def _upper(
    task: Task, plan: PanelPlan, proof: PanelPlan, every: bool, upper: Floats, threads: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Upper bounds per first action, `upper` being the proof's. A finished proof bounds all of them; in members mode
    the penalised bound helps where it ran out of nodes."""
    nodes = np.zeros(len(plan), np.int64)
    if plan.policy.mode != "members" or every or task.continuations:
        return upper, nodes
    unproved = proof.status == _NOT_PROVED
    if unproved.any():
        from ucsearch.certificate.members_bound import members_bounds

        found = members_bounds(
            task, plan.layout, proof.settings, plan.inputs, plan.outputs.path,
            engine="python" if plan.engine == "python" else "auto", only=unproved, threads=threads,
        )  # fmt: skip
        # fmin ignores NaN: where only one of the two bounds is known, that one counts.
        upper = np.where(unproved[:, None], np.fmin(upper, found.upper), upper)
        nodes = np.where(unproved, found.nodes, 0)
    return upper, nodes


def _reconciled(
    lower: Floats, lower_size: Floats, upper: Floats, upper_size: Floats, eps: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Upper values are at least what a path reaches: a difference within tau is rounding; a larger one says that the
    bound is none, and it counts as unknown. Third, whether every upper value of the window was sound."""
    below = lower >= upper  # equal: the path that reaches it is known, and its size counts
    rounding = below & (lower - upper <= tolerance(eps, lower_size, upper_size))
    wrong = below & ~rounding
    upper = np.where(rounding, lower, np.where(wrong, np.nan, upper))
    return upper, np.where(rounding, lower_size, upper_size), ~np.logical_or.reduce(wrong, axis=1)


def _averaged(plan: PanelPlan) -> Floats:
    """(W,) how many members or points of the forecast are averaged at most; 1 where there are none."""
    if plan.policy.mode == "closed":
        points = np.diff(plan.inputs.u[:, 0], axis=1, prepend=0.0)
        most: Floats = np.maximum.reduce(points, axis=1, initial=1.0)
        return most
    count = 1 if plan.policy.mode == "scores" else max(1, plan.inputs.members.shape[1])
    return np.full(len(plan), float(count))


def _put_in(
    plan: PanelPlan, proof: PanelPlan, in_a: NDArray[np.bool_], protect: bool, constrained: bool, reward_only: PanelPlan
) -> tuple[Floats, NDArray[np.int32]]:
    """(W, m, 4) score, reward, uncertainty, gross of each retained first action, with proved suffixes; and their paths.

    Kind oracle has the exact suffix of every first action; kind bound those its proof reached, the best one always.
    """
    values = np.array(plan.outputs.table[:, :, _PATH])
    values[~in_a] = np.nan
    paths = np.array(plan.outputs.paths)
    put_in = np.zeros(in_a.shape, bool)
    if protect:
        put_in |= (plan.outputs.flags & First.GENERATED) != 0
    if constrained:
        first = reward_only.outputs.out_i[:, OutI.FIRST]
        rows = np.flatnonzero(first >= 0)
        put_in[rows, first[rows]] = True
    put_in &= in_a & ((proof.outputs.flags & First.RETAINED) != 0)
    # A tie keeps the searched path; otherwise the exact suffix is at least as good.
    put_in &= ~(values[:, :, _PATH.index(Col.SCORE)] >= proof.outputs.table[:, :, Col.SCORE])
    if put_in.any():
        values[put_in] = proof.outputs.table[put_in][:, _PATH]
        paths[put_in] = proof.outputs.paths[put_in]
    if constrained:  # a0 is always retained, if only by the path that makes it reward-only optimal
        own = reward_only.outputs.table[rows, first[rows]][:, _PATH[1:]]
        score = own[:, 0] - plan.settings.risk * own[:, 1]
        kept = in_a[rows, first[rows]] & ~(values[rows, first[rows], 0] >= score)
        rows, score, own = rows[kept], score[kept], own[kept]
        values[rows, first[rows]] = np.column_stack([score, own])
        paths[rows, first[rows]] = reward_only.outputs.path[rows]
    return values, paths


def _select(values: Floats, in_a: NDArray[np.bool_]) -> NDArray[np.int64]:
    """argmax of the retained score; ties: lower uncertainty, then the smaller action."""
    score = np.where(in_a & ~np.isnan(values[:, :, 0]), values[:, :, 0], -np.inf)
    top = np.maximum.reduce(score, axis=1, initial=-np.inf)
    tied = (score == top[:, None]) & np.isfinite(score)
    calm = np.where(tied, values[:, :, 2], np.inf)
    best = np.argmin(calm, axis=1)
    return np.where(np.logical_or.reduce(tied, axis=1), best, -1)


def _route(plan: PanelPlan, policy: ConstrainedBeam, evidence: Evidence, reward_only: PanelPlan) -> Route:
    table = plan.outputs.table
    steps = table[:, :, Col.STEP_REWARD] - policy.risk * table[:, :, Col.STEP_UNCERTAINTY]
    if policy.mode == "members":
        steps = np.full_like(steps, np.nan)
    return choose(
        retained=evidence.actions & ~np.isnan(evidence.lower),
        score=evidence.lower,
        reward=evidence.lower_reward,
        uncertainty=evidence.lower_uncertainty,
        step_score=steps,
        selected=evidence.selected,
        baseline=reward_only.outputs.out_i[:, OutI.FIRST],
        risk=policy.risk,
        near_equal=policy.near_equal,
        band=policy.band,
        utility_budget=policy.utility_budget,
        size=evidence.lower_size,
        eps=evidence.share,
    )
