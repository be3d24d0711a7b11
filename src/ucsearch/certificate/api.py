"""`certify` and `certify_panel`: search, prove, and derive every claim. `warm` compiles for them ahead.

Which searches prove a panel, and what they say about every first action, is put together for all windows at once: exact
values or bounds of every first action, at its risk, at risk 0, and under certainty. Arrays are (W, m) over first
actions unless said otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.certificate.certificate import Certificate, CertifiedPanel
from ucsearch.certificate.claims import BLOCK, Evidence, bound_size, derive, path_size, shares, tolerance
from ucsearch.certificate.route import Retained, Route, choose
from ucsearch.engine.api import search_again, search_panel, thread_count
from ucsearch.engine.arrays import Col, First, OutI, Outputs, Status
from ucsearch.engine.plan import PanelPlan
from ucsearch.errors import InputError
from ucsearch.layout import Layout, own_rows
from ucsearch.policies import (
    PROOF,
    RUN,
    CertifiedBeam,
    ConstrainedBeam,
    Exact,
    Policy,
    Proof,
    ProofKind,
    Run,
    Settings,
    check_options,
    resolve,
)
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = [
    "CLOSED", "Gathered", "Proofs", "Suffixes", "certify", "certify_panel", "exact_of", "gather", "prove",
    "suffixes_of", "warm",
]  # fmt: skip

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
CLOSED = "closed_exact"  # the kind of a proof against every policy
_FEW_PLANS = 4_096  # common plans below which members mode is solved by enumeration
_PATH = [int(c) for c in (Col.SCORE, Col.REWARD, Col.UNCERTAINTY, Col.GROSS)]  # what describes a path, in this order
# Plain numbers: with an enum NumPy takes several times as long.
_PROVED, _NOT_PROVED = int(Status.PROVED), int(Status.NOT_PROVED)


def certify(
    task: Task[State, Params],
    state: State,
    trace: Trace | ArrayLike,
    policy: Policy,
    *,
    proof: Proof = PROOF,
    run: Run = RUN,
    params: Params | None = None,
    actions: ArrayLike | None = None,
) -> Certificate:
    """Search one window and prove its first action. Nothing is released: `decide` does that.

    Args:
        task: the rules.
        state: where the series stands, an instance of the task's `state`.
        trace: the frozen forecast of one window, or an array (members, steps).
        policy: how to search.
        proof: what the proof may cost and assume.
        run: engine, threads, clock and progress.
        params: in place of the task's own `params`, such as one series' costs.
        actions: in place of the task's own: the grid of this series, ascending, in units of the task.

    Returns:
        A `Certificate`: the first action, what is proved about it, and what is known of every other first action.

    Raises:
        InputError: a wrong argument.
        TaskError: a rule failed in the search.
    """
    task.layout(state)
    if isinstance(trace, Trace) and trace.windows != 1:
        raise InputError("trace", f"{trace.windows} windows", "one window", hint="Use certify_panel.")
    check_options(proof, run)
    panel = certify_panel(
        task, [state], trace, policy, proof=proof, run=dataclasses.replace(run, threads=1), params=params,
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
    proof: Proof = PROOF,
    run: Run = RUN,
    params: Any = None,
    actions: ArrayLike | None = None,
    stop: Callable[[], bool] | None = None,
) -> CertifiedPanel:
    """Search W windows and prove the first action of each.

    Args:
        task: the rules.
        states: an array (W, numbers of a state), a sequence of states, or a state of arrays.
        traces: a `Trace` with W windows, or one that all share.
        policy: how to search.
        proof: its `kind` "oracle" solves every first action exactly, "bound" proves by admissible bounds, "auto" takes
            the bound where the task has one; `eps_m` is a claimed bound on the model error of a path's score.
        run: engine, threads, clock and progress.
        params: in place of the task's own `params`: one for all, or arrays with one value for each window.
        actions: in place of the task's own: one grid for all, or one for each window.
        stop: asked now and then whether to end, as in `search_panel`. A window whose search or proof it ended is
            OUT_OF_TIME, and nothing is claimed about it.

    Returns:
        A `CertifiedPanel`: arrays, and `panel[w]` for the certificate of one window.

    Raises:
        InputError: a wrong argument.
    """
    check_options(proof, run)
    threads = thread_count(run.threads)
    plan = search_panel(
        task, states, traces, policy, params=params, actions=actions, threads=run.threads, engine=run.engine,
        progress=run.progress, keep_paths=True, stop=stop,
    )  # fmt: skip
    proofs = prove(plan, proof, run, threads, stop)
    gathered = gather(proofs)
    proven, reward_only, certain = proofs.proven, proofs.reward_only, proofs.certain
    nodes = proofs.nodes if proven is plan else proven.expansions + proofs.nodes
    activity = np.zeros(len(plan), np.int64)
    if reward_only is not proven:
        activity = activity + reward_only.expansions + proofs.reward_nodes
    if certain is not reward_only:
        activity = activity + certain.expansions
    ended = np.isin(plan.status, (Status.TASK_ERROR, Status.OUT_OF_TIME))
    return CertifiedPanel(
        plan=plan,
        kind=proofs.kind,
        eps_m=float(proof.eps_m),
        node_budget=proof.node_budget,
        evidence=gathered.evidence,
        claims=derive(gathered.evidence, float(proof.eps_m)),
        route=gathered.route,
        released=np.where(ended, -1, gathered.evidence.selected),
        paths=gathered.paths,
        upper_paths=gathered.upper_paths,
        oracle_nodes=nodes + activity,
        activity_nodes=activity,
    )


# -------------------------------------------------------------------- which searches prove it


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
    reward_upper, reward_nodes = upper, nodes
    if reward_only is not proven:
        reward_upper, reward_nodes = _upper(plan, reward_only, bounded, threads)
    return Proofs(kind, plan, proven, reward_only, certain, upper, reward_upper, nodes, reward_nodes)


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


def _kind(kind: ProofKind, plan: PanelPlan, needs_oracle: bool) -> str:
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

        bounds = members_bounds(
            plan.task, plan.layout, proof.settings, plan.inputs.repeated(), plan.outputs.path,
            engine="python" if plan.engine == "python" else "auto", only=unproved, threads=threads,
        )  # fmt: skip
        # fmin ignores NaN: where only one of the two bounds is known, that one counts.
        upper = np.where(unproved[:, None], np.fmin(upper, bounds.upper), upper)
        nodes = np.where(unproved, bounds.nodes, 0)
    return upper, nodes


class Gathered(NamedTuple):
    """The evidence, and the paths behind it."""

    evidence: Evidence
    route: Route | None  # only for a constrained beam
    paths: NDArray[np.int32]  # (W, m, d) the retained path of each first action, -1 where none
    upper_paths: NDArray[np.int32]  # (W, m, d) the path whose score is the exact value, -1 where there is only a bound


def gather(proofs: Proofs) -> Gathered:
    """Lower and upper values of every first action, from the search and its proofs."""
    plan, proven = proofs.plan, proofs.proven
    settings, put_in = plan.settings, suffixes_of(plan.policy)
    flags = plan.outputs.flags | (proven.outputs.flags & First.DEAD)
    in_a = action_set(flags.astype(np.uint8, order="F")) & (proofs.upper != -np.inf)
    eps = np.resize(shares(settings, plan.inputs), len(plan))
    # At risk 0 the size of a path is its gross.
    reward_lower, reward_size = _columns(proofs.reward_only.outputs.table, Col.SCORE, Col.GROSS)
    certain_lower, certain_upper, certain_size = reward_lower, proofs.reward_upper, reward_size
    if proofs.certain is not proofs.reward_only:
        certain_lower, certain_upper, certain_size = _columns(
            proofs.certain.outputs.table, Col.SCORE, Col.UPPER, Col.GROSS
        )
    if any(put_in):
        values, paths = _with_suffixes(proofs, in_a, put_in)
        selected = _select(values, in_a)
    else:
        values, selected = plan.outputs.table[:, :, _PATH], plan.outputs.out_i[:, OutI.FIRST]
        paths = plan.outputs.paths[:, : in_a.shape[1]]  # closed mode has more, which start with the same action
    score, reward, uncertainty, gross = _columns(values, 0, 1, 2, 3)
    size = path_size(gross, uncertainty, settings, settings.risk)
    searched, searched_size = score, size
    if any(put_in):
        table = plan.outputs.table
        searched, searched_gross, searched_uncertainty = _columns(table, Col.SCORE, Col.GROSS, Col.UNCERTAINTY)
        searched_size = path_size(searched_gross, searched_uncertainty, settings, settings.risk)
    by_path = (proven.outputs.flags & First.EXACT) != 0
    proof_uncertainty, proof_gross = _columns(proven.outputs.table, Col.UNCERTAINTY, Col.GROSS)
    lower = np.where(in_a, score, np.nan)
    step_reward, step_uncertainty = _columns(plan.outputs.table, Col.STEP_REWARD, Col.STEP_UNCERTAINTY)
    upper_size = np.where(
        by_path,
        path_size(proof_gross, proof_uncertainty, settings, settings.risk),
        bound_size(proofs.upper, step_reward - settings.risk * step_uncertainty),
    )
    upper, upper_size, sound = _reconciled(lower, size, proofs.upper, upper_size, eps[:, None])
    evidence = Evidence(
        actions=in_a,
        lower=lower,
        lower_reward=np.where(in_a, reward, np.nan),
        lower_uncertainty=np.where(in_a, uncertainty, np.nan),
        searched=searched,
        upper=upper,
        exact=np.logical_and.reduce(by_path | ~in_a, axis=1) & (proven.status == _PROVED) & sound,
        reward_lower=reward_lower,
        reward_upper=proofs.reward_upper,
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
    if isinstance(plan.policy, ConstrainedBeam):
        route = _route(plan, plan.policy, evidence, proofs.reward_only)
        evidence = evidence._replace(selected=route.released)
    unreached = by_path & ~(evidence.lower >= evidence.upper)
    upper_paths = np.where(unreached[:, :, None], proven.outputs.paths[:, : in_a.shape[1]], np.int32(-1))
    return Gathered(evidence, route, paths, upper_paths)


def action_set(flags: NDArray[np.uint8]) -> Bools:
    """Feasible, standing for itself, and not proved dead."""
    which = First.FEASIBLE | First.DUPLICATE | First.DEAD
    return np.asarray((flags & which) == First.FEASIBLE)


def _columns(table: Floats, *which: int) -> tuple[Floats, ...]:
    """Columns of (W, m, n), each (W, m) with the windows of an action side by side in memory: that way a few actions
    are reduced at full speed."""
    windows, m, _ = table.shape
    out = np.empty((len(which), m, windows))
    for lo in range(0, windows, BLOCK):
        part = table[lo : lo + BLOCK].T
        for k, column in enumerate(which):
            out[k, :, lo : lo + BLOCK] = part[column]
    return tuple(values.T for values in out)


def _reconciled(
    lower: Floats, lower_size: Floats, upper: Floats, upper_size: Floats, eps: Floats
) -> tuple[Floats, Floats, Bools]:
    """Upper values are at least what a path reaches: a difference within tau is rounding; a larger one says that the
    bound is none, and it counts as unknown. Third, whether every upper value of the window was sound."""
    below = lower >= upper  # equal: the path that reaches it is known, and its size counts
    rounding = below & (lower - upper <= tolerance(eps, lower_size, upper_size))
    wrong = below & ~rounding
    upper = np.where(rounding, lower, np.where(wrong, np.nan, upper))
    return upper, np.where(rounding, lower_size, upper_size), ~np.logical_or.reduce(wrong, axis=1)


def _with_suffixes(proofs: Proofs, in_a: Bools, put_in: Suffixes) -> tuple[Floats, NDArray[np.int32]]:
    """(W, m, 4) score, reward, uncertainty, gross of each retained first action, with proved suffixes; and their paths.

    Kind oracle has the exact suffix of every first action; kind bound those its proof reached, the best one always.
    """
    plan, proof = proofs.plan, proofs.proven
    values = np.array(plan.outputs.table[:, :, _PATH])
    values[~in_a] = np.nan
    paths = np.array(plan.outputs.paths)
    chosen = np.zeros(in_a.shape, bool)
    if put_in.protect:
        chosen |= (plan.outputs.flags & First.GENERATED) != 0
    if put_in.constrained:
        first = proofs.reward_only.outputs.out_i[:, OutI.FIRST]
        rows = np.flatnonzero(first >= 0)
        chosen[rows, first[rows]] = True
    chosen &= in_a & ((proof.outputs.flags & First.RETAINED) != 0)
    # A tie keeps the searched path; otherwise the exact suffix is at least as good.
    chosen &= ~(values[:, :, _PATH.index(Col.SCORE)] >= proof.outputs.table[:, :, Col.SCORE])
    if chosen.any():
        values[chosen] = proof.outputs.table[chosen][:, _PATH]
        paths[chosen] = proof.outputs.paths[chosen]
    if put_in.constrained:  # a0 is always retained, if only by the path that makes it reward-only optimal
        figures = proofs.reward_only.outputs.table[rows, first[rows]][:, _PATH[1:]]
        score = figures[:, 0] - plan.settings.risk * figures[:, 1]
        better = in_a[rows, first[rows]] & ~(values[rows, first[rows], 0] >= score)
        rows, score, figures = rows[better], score[better], figures[better]
        values[rows, first[rows]] = np.column_stack([score, figures])
        paths[rows, first[rows]] = proofs.reward_only.outputs.path[rows]
    return values, paths


def _select(values: Floats, in_a: Bools) -> Ints:
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
    e = evidence
    paths = Retained(
        e.actions & ~np.isnan(e.lower), e.lower, e.lower_reward, e.lower_uncertainty, steps, e.lower_size, e.share
    )  # fmt: skip
    return choose(paths, e.selected, reward_only.outputs.out_i[:, OutI.FIRST], policy)


# -------------------------------------------------------------------- compiling ahead


def warm(
    task: Task, policy: Policy, *, state: Any = None, trace: Trace | None = None, certify: bool = True
) -> tuple[str, ...]:
    """Load or compile every kernel that a search needs, so that the first decision does not wait for it.

    A kernel takes some seconds the first time on a machine; the logger "ucsearch" says when. A task that does not
    compile warns and is left out.

    Args:
        task: the rules.
        policy: how to search.
        state: a state, needed where states hold tuples.
        trace: a forecast, needed where continuations reach past the searched steps.
        certify: also the kernels of the proofs.

    Returns:
        What is ready, by name.

    Raises:
        InputError: no task, or states hold tuples and no `state` is given.
    """
    from ucsearch.engine.compiled.engine import find_kernel

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
    settings = {"search": resolve(policy, task, trace, m)}
    if not certify:
        return settings
    exact = exact_of(policy, policy.risk, 1, False)
    settings["proof"] = resolve(exact, task, trace, m)
    if policy.mode == "members":
        certain = dataclasses.replace(exact, risk=0.0, mode="mean", spread=None)
        settings["certain"] = resolve(certain, task, trace, m)
        if not task.continuations:
            from ucsearch.certificate.members.graph import ALGORITHM

            settings["bound"] = settings["proof"]._replace(algorithm=ALGORITHM, use_bound=False, reach=policy.depth)
    return settings


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
