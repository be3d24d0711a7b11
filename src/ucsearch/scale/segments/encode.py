"""Decisions of a panel, and refusals, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import Decision, DecisionPanel, Outcome
from ucsearch.decision.gate import Reason
from ucsearch.engine.arrays import Col, OutI
from ucsearch.errors import RecordError
from ucsearch.layout import every_row
from ucsearch.records.canonical import canonical
from ucsearch.scale.segments.rows import NUMBERS, Batch, normal
from ucsearch.scale.segments.shared import Keep
from ucsearch.task import Task
from ucsearch.trace import Trace
from ucsearch.trace.law import RATIO_STEPS

__all__ = ["BITS", "CLAIMS", "kept_steps", "panel_batch", "refusal_batch", "shortened"]

Floats = NDArray[np.float64]
CLAIMS = ("gap", "regret_bound", "exact_regret", "margin", "eps_a", "proxy_slack", "risk_gap", "tau")
BITS = (
    "passed", "optimal", "unique", "robust", "sole", "oracle_retained", "paper_pass", "search_pass", "risk_active",
    "search_active", "uncertainty_active", "cancellation",
)  # fmt: skip
_FALLBACK_FEASIBLE = len(BITS)  # number of its bit


def _metas(trace: Trace) -> list[str]:
    base = trace.meta()
    units = isinstance(trace.declared.unit, tuple)
    if len(trace.cutoff) <= 1 and len(trace.issued) <= 1 and not units:
        return [canonical(base).decode("utf-8")] * trace.windows
    out = []
    for w in range(trace.windows):
        times: dict[str, Any] = {
            n: [x[w]] if len(x := getattr(trace, n)) > 1 else list(x) for n in ("cutoff", "issued")
        }
        if units:
            times["law"] = trace.declared.of_window(w).written()
        out.append(canonical({**base, **times}).decode("utf-8"))
    return out


def _weights(trace: Trace) -> Floats:
    """(W or 1, J), or (1, 0) when all are equal."""
    weights = trace.weights
    return weights[:, :0] if weights.shape[0] == 1 and bool((weights == 1.0 / trace.size).all()) else weights


def kept_steps(trace: Trace, reach: int, keep: Keep) -> int:
    """Steps that are planned on, and kept unless `keep` is "reference". Unequal weights take part in the order of
    members, so nothing may go; of a law of independent steps its record says how members hang together over the first
    steps."""
    if trace.is_scores or trace.node is not None:
        raise RecordError("segments hold members without nodes; this trace is of another kind")
    if keep == "all" or _weights(trace).size:
        return trace.horizon
    return min(max(reach, *RATIO_STEPS) if trace.has_law else reach, trace.horizon)


def shortened(trace: Trace, steps: int) -> Trace:
    """The first steps of all windows: a prefix of members in canonical order is in canonical order."""
    if steps == trace.horizon:
        return trace
    arrays = []
    for array in (trace.members[:, :, :steps], trace.mean[:, :steps], trace.q[:, :steps], trace.u[:, :steps]):
        copied = np.ascontiguousarray(array)
        copied.flags.writeable = False
        arrays.append(copied)
    members, mean, q, u = arrays
    return Trace.trusted(
        members, trace.weights, mean, q, u, trace.panel, trace.coupling, trace.model, trace.cutoff, trace.issued,
        trace.notes, trace.declared, None,
    )  # fmt: skip


def task_text(task: Task, where: str, state_lengths: Sequence[int]) -> str:
    """The column `task`."""
    params = task.params_layout
    content = {
        "name": task.name,
        "version": task.version,
        "rules": task.source_hash,
        "object": where,
        "state_lengths": list(state_lengths),
        "params_lengths": [] if params is None else list(params.lengths),
    }
    return canonical(content).decode("utf-8")


def panel_batch(
    panel: DecisionPanel, series: Sequence[str], where: str, horizon: int, keep: Keep,
    sources: Sequence[str] | None = None,
) -> Batch:  # fmt: skip
    """Rows of a panel that was decided on `shortened` traces of so many steps."""
    certified = panel.certified
    if certified.plan.task.width:
        raise RecordError("rows of segments hold actions that are numbers; record decisions with tuples one by one")
    plan, e, claims = certified.plan, certified.evidence, certified.claims
    inputs, table, count = plan.inputs, plan.outputs.table, len(panel)
    steps = 0 if keep == "reference" else plan.trace.horizon
    members = plan.trace.members.transpose(0, 2, 1, 3)[:, :steps]
    shape = np.array([plan.trace.size, horizon, steps, members.shape[3]], np.int64)
    bits = np.zeros(count, np.int64)
    for k, name in enumerate(BITS):
        bits |= getattr(claims, name).astype(np.int64) << k
    bits |= panel.fallback_feasible.astype(np.int64) << _FALLBACK_FEASIBLE
    hold = panel.outcome == Outcome.HOLD.value
    cause = [c.value for c in panel.cause]
    gone = Reason.FALLBACK_INFEASIBLE.value
    rivals = [e.lower_reward, e.lower_uncertainty, e.upper, e.reward_lower, e.reward_upper]
    out_i = plan.outputs.out_i
    numbers: dict[str, NDArray[Any]] = {
        "action": normal(panel.action),
        "fallback": normal(np.stack([panel.fallback, panel.fallback_cost], axis=1)),
        "shape": np.tile(shape, (count, 1)),
        "state": normal(inputs.states),
        "params": normal(every_row(inputs.params, count)),
        "actions": normal(every_row(inputs.actions, count)),
        "members": normal(members.reshape(count, -1)),
        "weights": normal(every_row(_weights(plan.trace), count)),
        "claims": normal(np.stack([getattr(claims, n) for n in CLAIMS], axis=1)),
        "bits": bits,
        "rivals": normal(np.stack(rivals, axis=2).reshape(count, -1)),
        "first": normal(table[:, :, Col.STEP_REWARD : Col.GROSS].reshape(count, -1)),
        "paths": certified.paths.astype(np.int16).reshape(count, -1),
        "counters": np.stack(
            [
                certified.released,
                out_i[:, OutI.EXPANSIONS],
                out_i[:, OutI.ACTION_SCORES],
                out_i[:, OutI.SIMULATIONS],
                certified.oracle_nodes,
            ],
            axis=1,
        ).astype(np.int64),
    }
    text = task_text(plan.task, where, plan.layout.lengths)
    texts = {
        "series": list(series),
        "task": [text] * count,
        "outcome": panel.outcome.tolist(),
        "reason": [gone if h else c for h, c in zip(hold.tolist(), cause, strict=True)],
        "cause": cause,
        "meta": _metas(plan.trace),
        "detail": [panel.doubts.get(w, "") for w in range(count)] if panel.doubts else [""] * count,
        "source": [""] * count if sources is None else list(sources),
    }
    return Batch(texts, numbers)


def refusal_batch(decision: Decision, series: str, where: str, detail: str) -> Batch:
    """One row for a series whose forecast or state was refused; `detail` is the reason that `refuse` was given."""
    refused = decision.refused
    if refused is None:
        raise RecordError(f"series {series!r}: not a refusal")
    task, state, params = refused.task, refused.state, task_params(refused.task, refused.params)
    numbers: dict[str, NDArray[Any]] = {
        name: np.zeros((1, 0), kind.removesuffix("[]")) for name, kind in NUMBERS.items() if kind.endswith("[]")
    }
    lengths: Sequence[int] = ()
    if state is not None:
        layout = task.layout(state)
        lengths = layout.lengths
        numbers["state"] = normal([layout.flatten(state, "state")])
        numbers["params"] = normal([params])
    numbers["actions"] = normal([refused.actions]).reshape(1, -1)
    fallback = np.nan if decision.fallback_action is None else decision.fallback_action
    numbers["action"] = normal([np.nan if decision.action is None else decision.action])
    numbers["fallback"] = normal([[fallback, np.nan]])
    numbers["bits"] = np.array([int(decision.fallback_feasible) << _FALLBACK_FEASIBLE], np.int64)
    texts = {
        "series": [series],
        "task": [task_text(task, where, lengths)],
        "outcome": [decision.outcome.value],
        "reason": [decision.reason.value],
        "cause": [decision.cause.value],
        "meta": [""],
        "detail": [detail],
        "source": [""],
    }
    return Batch(texts, numbers)


def task_params(task: Task, params: Any) -> list[float]:
    layout = task.params_layout
    return [] if layout is None else list(layout.flatten(params, "params"))
