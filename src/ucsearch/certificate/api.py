"""`certify` and `certify_panel`: search, prove, and derive every claim. `warm` compiles for them ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ucsearch.certificate.certificate import Certificate, CertifiedPanel
from ucsearch.certificate.claims import derive
from ucsearch.certificate.proofs import exact_of, gather, prove
from ucsearch.engine.api import search_panel, thread_count
from ucsearch.engine.status import Status
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.policies import PROOF, RUN, Policy, Proof, Run, Settings, check_options, resolve
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["certify", "certify_panel", "warm"]


def certify(
    task: Task[State, Params],
    state: State,
    trace: Trace,
    policy: Policy,
    *,
    proof: Proof = PROOF,
    run: Run = RUN,
    params: Params | None = None,
    actions: ArrayLike | None = None,
) -> Certificate:
    """Search one window and say what is proved about its first action.

    Args:
        task: the rules.
        state: where the series stands, an instance of the task's `state`.
        trace: the frozen forecast of one window.
        policy: how to search.
        proof: what the proof may cost and assume.
        run: engine, threads, clock and progress.
        params: in place of the task's own `params`, such as one series' costs.
        actions: in place of the task's own: the grid of this series, ascending, in units of the task.
    """
    task.layout(state)
    if trace.panel and trace.windows != 1:
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
    """Certify W windows. Kind `oracle` solves every first action exactly; `bound` proves by admissible bounds; `auto`
    takes the bound where the task has one. `eps_m` is a claimed bound on a path's model-score error. `stop` as in
    `search_panel`: a window whose search or proof it ended is OUT_OF_TIME, and nothing is said of it."""
    check_options(proof, run)
    threads = thread_count(run.threads)
    plan = search_panel(
        task, states, traces, policy, params=params, actions=actions, threads=run.threads, engine=run.engine,
        progress=run.progress, keep_paths=True, stop=stop,
    )  # fmt: skip
    proofs = prove(plan, proof, run, threads, stop)
    found = gather(proofs)
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
        evidence=found.evidence,
        claims=derive(found.evidence, float(proof.eps_m)),
        route=found.route,
        released=np.where(ended, -1, found.evidence.selected),
        paths=found.paths,
        upper_paths=found.upper_paths,
        oracle_nodes=nodes + activity,
        activity_nodes=activity,
    )


def warm(
    task: Task, policy: Policy, *, state: Any = None, trace: Trace | None = None, certify: bool = True
) -> tuple[str, ...]:
    """Load or compile every kernel that `search` with this policy needs, and those of its proofs unless `certify` is
    False. Returns what is ready; a task that does not compile warns and is left out. Some seconds a kernel the
    first time on a machine; the logger "ucsearch" says when. `state` is needed where states hold tuples, `trace` where
    continuations reach past the searched steps."""
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
    found = {"search": resolve(policy, task, trace, m)}
    if not certify:
        return found
    exact = exact_of(policy, policy.risk, 1, False)
    found["proof"] = resolve(exact, task, trace, m)
    if policy.mode == "members":
        certain = dataclasses.replace(exact, risk=0.0, mode="mean", spread=None)
        found["certain"] = resolve(certain, task, trace, m)
        if not task.continuations:
            from ucsearch.certificate.members.graph import ALGORITHM

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
