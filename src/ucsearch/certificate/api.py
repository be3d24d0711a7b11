"""`certify` and `certify_panel`: search, prove, and derive every claim."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ucsearch.certificate.certificate import Certificate, CertifiedPanel
from ucsearch.certificate.claims import derive
from ucsearch.certificate.evidence import gather
from ucsearch.certificate.proofs import prove
from ucsearch.engine.api import search_panel, thread_count
from ucsearch.engine.status import Status
from ucsearch.errors import InputError
from ucsearch.options import PROOF, RUN, Proof, Run, check_options
from ucsearch.policies import Policy
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["certify", "certify_panel"]


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
    """Search one window and say what is proved about its first action."""
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
